"""The answer: a verdict for each claim of each task, with its uncertainty, on every clock; and what it holds for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from experiments.store.queries import flatten
from reports.clocks import Reading, agree, readings, step_names, stopped, text, unequal
from reports.comparison import Pair, Ruling
from reports.document import Block, Heading, Paragraph, Parts, Term, Verdict
from reports.judged import TaskFacts, recorded
from reports.sections import claims, numbers
from reports.sections.timed import median
from reports.table import Cell, StudyTable

Word = Literal["better", "worse", "no difference shown", "depends on the clock", "cannot be told"]
_WORDS: dict[Ruling, Word] = {
    "better": "better",
    "worse": "worse",
    "not shown": "no difference shown",
    "cannot reach": "cannot be told",
    "too few seeds": "cannot be told",
    "no spread": "cannot be told",
}

#: A subject, its verdict, the sentence of it, and what that rests on.
Claim = tuple[str, Word, Parts, list[Parts]]


def answer(study: StudyTable) -> list[Block]:
    blocks: list[Block] = [Heading(level=2, text="Answer", anchor="answer")]
    cut, strict = False, False
    for task in study.tasks.values():
        read = readings(study, task.name)
        cut = cut or any(reading.budget is not None for reading in read)
        strict = strict or any(reading.strict for reading in read)
        blocks += verdicts(study, task)
    if cut:
        said = (
            "Where arms spent different amounts, they are compared by their validation value where the cheapest arm "
            "ended (the median of its runs), linear between evaluations. An arm that is cut there had not come to the "
            "end of its schedule; given that budget from the start it might have done better."
        )
        if strict:
            many = step_names(r for cell in study.cells.values() for r in cell.finals)[1]
            said += (
                f" {many.capitalize()} and gradient evaluations of runs that may have ended before their budget are "
                "cut where the first of them ended, not at a median."
            )
        blocks.append(Paragraph(parts=(said,)))
    blocks.append(Paragraph(parts=_scope(study)))
    return blocks


def verdicts(study: StudyTable, task: TaskFacts) -> list[Block]:
    """One for each claim on a task: what the leader is better than, and what it is not shown to be better than. One in
    all where nothing can be ruled, or the clocks disagree. Each is a sentence, with what it holds for; under it what it
    rests on, a paragraph a point, and under the last what belongs to all."""
    read = readings(study, task.name)
    unruled = _unruled(study, task, read)
    blocks: list[Block] = []
    holds: Parts = (f" {_tried(study, task)}",) if any(cell.ended for cell in study.of(task.name)) else ()
    for subject, word, said, points in unruled or _claims(task, read):
        blocks += [Verdict(subject=subject, verdict=word, parts=(*said, *holds)), *map(_point, points)]
    after = [*([] if unruled else claims.same_on(task, read)), *_absent(study, task), *_elsewhere(study, task)]
    return [*blocks, *map(_point, after)]


def _point(parts: Parts) -> Paragraph:
    """A sentence of its own, whatever it was in."""
    last = parts[-1]
    return Paragraph(parts=(*parts[:-1], last.rstrip()) if isinstance(last, str) else parts)


def _unruled(study: StudyTable, task: TaskFacts, read: list[Reading]) -> list[Claim]:
    """Why there is no verdict on a task; [] where there is one."""
    first, cells = read[0], study.of(task.name)
    parts: Parts = ()
    if not any(cell.ended for cell in cells):
        parts = ("No final run has an outcome yet, so there is nothing to compare.",)
    elif stopped(cells):
        parts = _to_target(study, cells)
    elif first.lacking:
        why = "It is not known that arms had equal budgets" if unequal(cells) else "Arms had different budgets"
        parts = (f"{why}, and per {first.one} it cannot be told: {first.lacking}.",)
    elif len(first.ranking) < 2:
        parts = claims.alone(task, first)
    elif all(pair.ruling == "too few seeds" for pair in first.pairs):
        parts = claims.too_few(first)
    elif not agree(read):
        said: Parts = ("No single answer: ", *claims.by_clock(read), ".")
        return [(task.name, "depends on the clock", said, claims.each_clock(task, read))]
    return [(task.name, "cannot be told", parts, [])] if parts else []


def _claims(task: TaskFacts, read: list[Reading]) -> list[Claim]:
    """What the leader is shown to be, arms of one verdict together."""
    first, groups = read[0], dict[Word, list[Pair]]()
    for pair in claims.led(first):
        groups.setdefault(_WORDS[pair.ruling], []).append(pair)
    found: list[Claim] = []
    for word in sorted(groups, key=list(_WORDS.values()).index):
        group = groups[word]
        points: list[Parts] = []
        if word != "better":
            said = claims.not_won(first, group, word, "better" in groups)
            points = claims.open_ones(task, first, group)
        elif len(group) > 1:
            said = (*claims.won(group), ".")
            points = claims.margins(task, first, group)
        else:
            said = (*claims.won(group), *claims.margin(task, first, group[0]))
        opening = () if found else claims.cut_first(task, first)
        found.append((_subject(task, group), word, (*opening, *said), points))
    return found


def _subject(task: TaskFacts, group: Sequence[Pair]) -> str:
    others = [pair.second for pair in group]
    told = others[0] if len(others) == 1 else f"{', '.join(others[:-1])} and {others[-1]}"
    return f"{group[0].first} against {told}, on {task.name}"


def _tried(study: StudyTable, task: TaskFacts) -> str:
    """What a task's verdicts hold for: "Tried: mlp, 200 updates, 5 seeds an arm."."""
    cells = [cell for cell in study.of(task.name) if cell.finals]
    runs = [r for cell in cells for r in cell.finals]
    models = dict.fromkeys(str(flatten(r.config).get("model.name", "")) for r in runs)
    budgets = dict.fromkeys("budget not stated" if (given := text(r)) == "not stated" else given for r in runs)
    sizes = sorted({r.file.facts["parameters"] for r in runs if r.file.facts.get("parameters")})
    weights = [f"{sizes[0]:,}{f' to {sizes[-1]:,}' if len(sizes) > 1 else ''} parameters"] if sizes else []
    seeds = sorted({len(cell.by_seed) for cell in cells})
    many = " to ".join(str(n) for n in dict.fromkeys((seeds[0], seeds[-1])))
    told = [word for word in (*models, *weights, *budgets) if word]
    return f"Tried: {', '.join((*told, f'{many} seeds an arm' if many != '1' else 'one seed an arm'))}."


def _scope(study: StudyTable) -> Parts:
    """What all verdicts rest on."""
    untested = [task.name for task in study.tasks.values() if task.split == "validation"]
    where = f" on {', '.join(untested)}" if len(untested) < len(study.tasks) else ""
    by = f"No test split was read by every arm{where}: arms are compared by validation there. " if untested else ""
    if untested and not any(name.startswith("test/") for r in study.runs for name in r.final):
        by = f"No test split was read{where}: arms are compared by validation. "
    return (
        f"{by}These verdicts hold for what was tried, not for other tasks, sizes or budgets. A p-value speaks of new "
        "seeds, and has Holm's correction for all comparisons of its task, on every clock.",
    )


def _to_target(study: StudyTable, cells: list[Cell]) -> Parts:
    """Median times where runs stopped at their target: described, not ruled."""
    said = "Runs were told to stop at their target, so what they ended with does not compare; see the times to target"
    told: list[Parts] = [
        (Term(term=cell.arm), " ", median(study, cell, "updates"))
        for cell in cells
        if cell.outcomes().n and cell.task.target is not None
    ]
    return (said, " (medians: ", *numbers.joined(told), ").") if told else (f"{said}.",)


def _absent(study: StudyTable, task: TaskFacts) -> list[Parts]:
    """The arms that the sentences before cannot speak of, and why. Nothing where no arm has final runs."""
    if not any(cell.finals for cell in study.of(task.name)):
        return []
    found: list[Parts] = []
    for arm in study.arms:
        cell = study.cells.get((task.name, arm))
        if cell is None:
            found.append((Term(term=arm), " has no runs on this task."))
        elif not cell.finals:
            found.append((Term(term=arm), " was tuned but has no final runs."))
        elif not cell.ended and any(map(cell.lacks, cell.completed)):
            found.append((Term(term=arm), f" has no outcome to compare: its runs logged no {task.outcome}."))
        elif not cell.ended:
            how = ", ".join(f"{n} {status}" for status, n in cell.status("final").items())
            found.append((Term(term=arm), f" has no outcome: its final runs did not end ({how})."))
    return found


def _elsewhere(study: StudyTable, task: TaskFacts) -> list[Parts]:
    """What of a comparison is between runs of our runner and runs of other loops."""
    cells = [cell for cell in study.of(task.name) if cell.ended]
    theirs = [cell.arm for cell in cells if any(map(recorded, cell.ended))]
    if not theirs or len(theirs) == len(cells):
        return []
    one = len(theirs) == 1
    said = f" {'was' if one else 'were'} recorded from {'another loop' if one else 'other loops'}: nothing shows that "
    return [(*numbers.names(theirs), f"{said}{'it' if one else 'they'} had the data, budget and tuning of the rest.")]
