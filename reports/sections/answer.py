"""The answer: a verdict for each task, with its uncertainty, on every clock; and what it holds for."""

from __future__ import annotations

import math
from typing import Literal

from experiments.store.queries import flatten
from reports.clocks import NAMES, SAME, Reading, agree, everybody, opposed, readings, stopped, text, unequal
from reports.comparison import ALPHA, MINIMUM_SEEDS, Pair
from reports.document import Block, Heading, Paragraph, Part, Parts, Term, Verdict
from reports.judged import TaskFacts, recorded
from reports.sections import numbers
from reports.table import Cell, StudyTable

#: So many pairs are spelt out in a verdict, nearest rank first; the table of pairs has them all.
_SPELT = 3

Word = Literal["shown", "shown in part", "not shown", "depends on the clock", "cannot be told"]


def answer(study: StudyTable) -> list[Block]:
    blocks: list[Block] = [Heading(level=2, text="Answer", anchor="answer")]
    cut, strict = False, False
    for task in study.tasks.values():
        read = readings(study, task.name)
        cut = cut or any(reading.budget is not None for reading in read)
        strict = strict or any(reading.strict for reading in read)
        blocks.append(_verdict(study, task, read))
    if cut:
        said = (
            "Where arms spent different amounts, they are compared by their validation value where the cheapest arm "
            "ended (the median of its runs), linear between evaluations. An arm that is cut there had not come to the "
            "end of its schedule; given that budget from the start it might have done better."
        )
        if strict:
            said += (
                " Updates and gradient evaluations of runs that may have ended before their budget are cut where the "
                "first of them ended, not at a median."
            )
        blocks.append(Paragraph(parts=(said,)))
    blocks.append(Paragraph(parts=_scope(study)))
    return blocks


def _scope(study: StudyTable) -> Parts:
    """What the verdicts hold for: the tasks, models, budgets and seeds that were tried."""
    told = []
    for task in study.tasks.values():
        runs = [r for cell in study.of(task.name) for r in cell.finals or cell.tunes]
        models = dict.fromkeys(str(flatten(r.config).get("model.name", "")) for r in runs)
        budgets = dict.fromkeys("budget not stated" if (given := text(r)) == "not stated" else given for r in runs)
        told.append(f"{task.name} ({', '.join(word for word in (*models, *budgets) if word)})")
    untested = [task.name for task in study.tasks.values() if task.split == "validation"]
    where = f" on {', '.join(untested)}" if len(untested) < len(study.tasks) else ""
    by = f"No test split was read by every arm{where}: arms are compared by validation there. " if untested else ""
    if untested and not any(name.startswith("test/") for r in study.runs for name in r.final):
        by = f"No test split was read{where}: arms are compared by validation. "
    return (
        f"{by}These verdicts hold for what was tried: {'; '.join(told)}. A p-value speaks of new seeds, and Holm's "
        "correction of all comparisons of a task, on every clock.",
    )


def _verdict(study: StudyTable, task: TaskFacts, read: list[Reading]) -> Verdict:
    verdict, parts = _found(study, task, read)
    absent = (*_absent(study, task), *_elsewhere(study, task))
    ended = isinstance(parts[-1], str) and parts[-1].endswith(" ")
    gap = (" ",) if absent and not ended else ()
    return Verdict(subject=task.name, verdict=verdict, parts=(*parts, *gap, *absent))


def _found(study: StudyTable, task: TaskFacts, read: list[Reading]) -> tuple[Word, Parts]:
    first, cells = read[0], study.of(task.name)
    if not any(cell.ended for cell in cells):
        return "cannot be told", ("No final run has an outcome yet, so there is nothing to compare.",)
    if stopped(cells):
        return "cannot be told", _to_target(study, cells)
    if first.lacking:
        why = "It is not known that arms had equal budgets" if unequal(cells) else "Arms had different budgets"
        return "cannot be told", (f"{why}, and per {NAMES[first.clock][0]} it cannot be told: {first.lacking}.",)
    if len(first.ranking) < 2:
        return "cannot be told", _alone(task, first)
    if all(pair.ruling == "too few seeds" for pair in first.pairs):
        return "cannot be told", _too_few(task, first)
    if not agree(read):
        return "depends on the clock", _each_clock(task, read)
    return _word(first), (*_cut(first), *_sentence(task, first), *_same_on(task, read))


def _cut(first: Reading) -> Parts:
    """Where the first clock compares arms, if not at their ends."""
    if first.budget is None:
        return ()
    return (f"Budgets were not equal. Per {NAMES[first.clock][0]}, compared at ", _budget(first), ": ")


def _to_target(study: StudyTable, cells: list[Cell]) -> Parts:
    """Median times where runs stopped at their target: described, not ruled."""
    said = "Runs were told to stop at their target, so what they ended with does not compare; see the times to target"
    told: list[Parts] = []
    for cell in cells:
        outcomes = cell.outcomes()
        if outcomes.n and cell.task.target is not None:
            median = numbers.time_to_target(cell, study.times_to_target(cell, outcomes, "updates"), "updates", outcomes)
            told.append((Term(term=cell.arm), " ", median))
    return (said, " (medians: ", *numbers.joined(told), ")." if told else ".") if told else (f"{said}.",)


def _absent(study: StudyTable, task: TaskFacts) -> Parts:
    """The arms that the sentences before cannot speak of, and why. Nothing where no arm has final runs."""
    if not any(cell.finals for cell in study.of(task.name)):
        return ()
    parts: list[Part] = []
    for arm in study.arms:
        cell = study.cells.get((task.name, arm))
        if cell is None:
            parts += [Term(term=arm), " has no runs on this task. "]
        elif not cell.finals:
            parts += [Term(term=arm), " was tuned but has no final runs. "]
        elif not cell.ended and any(map(cell.lacks, cell.completed)):
            parts += [Term(term=arm), f" has no outcome to compare: its runs logged no {task.outcome}. "]
        elif not cell.ended:
            how = ", ".join(f"{n} {status}" for status, n in cell.status("final").items())
            parts += [Term(term=arm), f" has no outcome: its final runs did not end ({how}). "]
    return tuple(parts)


def _elsewhere(study: StudyTable, task: TaskFacts) -> Parts:
    """What of a comparison is between runs of our runner and runs of other loops."""
    cells = [cell for cell in study.of(task.name) if cell.ended]
    theirs = [cell.arm for cell in cells if any(map(recorded, cell.ended))]
    if not theirs or len(theirs) == len(cells):
        return ()
    one = len(theirs) == 1
    said = f" {'was' if one else 'were'} recorded from {'another loop' if one else 'other loops'}: nothing shows that "
    return (*numbers.names(theirs), f"{said}{'it' if one else 'they'} had the data, budget and tuning of the rest.")


def _word(reading: Reading) -> Word:
    best = reading.ranking[0]
    mine = [pair.seen_from(best) for pair in reading.pairs if best in (pair.first, pair.second)]
    shown = [pair.ruling == "better" for pair in mine]
    return "shown" if all(shown) else "shown in part" if any(shown) else "not shown"


def _sentence(task: TaskFacts, reading: Reading) -> Parts:
    """What one clock shows of the arm that leads on it."""
    best = reading.ranking[0]
    mine = [
        p.seen_from(best)
        for other in reading.ranking[1:]
        for p in reading.pairs
        if {p.first, p.second} == {best, other}
    ]
    wins = [pair for pair in mine if pair.ruling == "better"]
    rest = [pair for pair in mine if pair.ruling != "better"]
    parts: list[Part] = []
    if wins:
        parts += [Term(term=best), " is better than ", *numbers.names(pair.second for pair in wins), ": "]
        measured = next((pair for pair in wins if pair.estimate is not None), None)
        parts += numbers.joined([_margin(task, reading, pair, pair is measured) for pair in wins[:_SPELT]], last="; ")
        parts.append(_further(wins))
    else:
        parts += ["No arm is shown to be best. ", Term(term=best), " leads, but "]
    if rest:
        opening = "Against " if wins else "against "
        for index, pair in enumerate(rest[:_SPELT]):
            parts += [opening if index == 0 else "; against ", Term(term=pair.second), " ", *_open(task, reading, pair)]
        parts.append(_further(rest))
    return tuple(parts)


def _further(pairs: list[Pair]) -> str:
    """The end of a sentence that spells out some of the pairs."""
    more = len(pairs) - _SPELT
    return f"; {more} more in the table of pairs. " if more > 0 else ". "


def _margin(task: TaskFacts, reading: Reading, pair: Pair, first: bool) -> Parts:
    """By how much the pair's first is better."""
    metric = _metric(task, reading)
    if pair.estimate is None:
        return (*_by_rank(pair, metric, reading), ", ", numbers.p_value(pair, metric))
    what = f"{_words(task, reading)} is {_way(task)} by " if first else "by "
    against: Parts = () if first and len(reading.pairs) == 1 else (" against ", Term(term=pair.second))
    return (
        what,
        numbers.difference(pair, metric, task.metric_unit),
        *against,
        f" ({_how(pair)}, ",
        numbers.p_value(pair, metric),
        ")",
    )


def _open(task: TaskFacts, reading: Reading, pair: Pair) -> Parts:
    """Why nothing is shown of a pair."""
    metric = _metric(task, reading)
    if pair.ruling == "too few seeds":
        return (f"no test is made with fewer than {MINIMUM_SEEDS} seeds",)
    if pair.ruling == "no spread":
        return ("the differences have no spread at all, so no interval can be given",)
    if pair.ruling == "cannot reach":
        assert pair.exact is not None
        floor = numbers.value(pair.exact.floor, "", "smallest possible p", pair.runs, test=pair.test)
        return (
            f"the test cannot reach significance with n = {pair.n} (its smallest possible p is ",
            floor,
            f", among {pair.comparisons} comparisons): " if pair.comparisons > 1 else "): ",
            *_by_rank(pair, metric, reading),
        )
    if pair.ruling == "worse":
        return (
            "it is worse",
            *(
                ()
                if pair.estimate is None
                else (" by ", numbers.difference(pair.seen_from(pair.second), metric, task.metric_unit))
            ),
        )
    if pair.estimate is None:
        return (
            "no difference is shown: ",
            *_by_rank(pair, metric, reading),
            ", ",
            numbers.p_value(pair, metric),
        )
    said: Parts = (
        f"no difference is shown: {_words(task, reading)} is {_way(task)} by ",
        numbers.difference(pair, metric, task.metric_unit),
        f" ({_how(pair)}, ",
        numbers.p_value(pair, metric),
        ")",
    )
    if pair.p <= ALPHA:
        return (*said, f", which is not enough among {pair.comparisons} comparisons")
    return said


def _by_rank(pair: Pair, metric: str, reading: Reading) -> Parts:
    sizes = {arm: reading.outcomes[arm].n for arm in (pair.first, pair.second)}
    told = [
        f"{n} of {sizes[arm]} runs of {arm} diverged" for arm, n in zip((pair.first, pair.second), pair.diverged) if n
    ]
    return (
        f"{' and '.join(told)}; with those as the worst, the chance that a run of ",
        Term(term=pair.first),
        " is the better one is ",
        numbers.chance(pair, metric),
    )


def _how(pair: Pair) -> str:
    interval = "95 % t interval"
    if pair.test != "paired t":
        return f"{interval}, at least {pair.n} seeds each, not paired"
    left = f", {pair.unmatched} runs of other seeds left out" if pair.unmatched else ""
    return f"{interval}, {pair.n} seeds paired{left}"


def _same_on(task: TaskFacts, read: list[Reading]) -> Parts:
    """How the other clocks bear out what the first one shows."""
    first = read[0]
    parts: list[Part] = []
    same = [r for r in read[1:] if not r.lacking and r.budget is None]
    if same and first.budget is None:
        clocks = " and ".join(NAMES[r.clock][1] for r in same)
        parts.append(f"{everybody(first)} used the same {clocks}, to within {100 * SAME:g} %. ")
    for reading in (r for r in read[1:] if not r.lacking and r.budget is not None):
        parts += [f"Per {NAMES[reading.clock][0]}, compared at ", _budget(reading), *_borne_out(task, first, reading)]
    parts += [part for r in read[1:] if r.lacking for part in _lacking(r)]
    return tuple(parts)


def _borne_out(task: TaskFacts, first: Reading, reading: Reading) -> Parts:
    """What a cut says of the arm that leads at the end."""
    best = first.ranking[0]
    ends, cut = _of(first, best), _of(reading, best)
    if reading.ranking[:1] == first.ranking[:1] and ends == cut:
        return (", the same is found. ",)
    if opposed(first, reading, by_split=True):
        said = ", the opposite is found; validation says so at the end too, so the split is the cause, not the clock: "
        return (said, *_sentence(task, reading))
    lost = [not cut.get(other) for other, ruling in ends.items() if ruling]
    told = ", this is not shown: " if lost and all(lost) else ", not all of this is shown: " if any(lost) else ": "
    return (told, *_sentence(task, reading))


def _of(reading: Reading, arm: str) -> dict[str, str]:
    """What a reading shows of `arm` against each other arm: better, worse or ""."""
    mine = [pair.seen_from(arm) for pair in reading.pairs if arm in (pair.first, pair.second)]
    return {pair.second: pair.ruling if pair.shown else "" for pair in mine}


def _each_clock(task: TaskFacts, read: list[Reading]) -> Parts:
    """One sentence a clock; clocks on which arms spent the same share it."""
    parts: list[Part] = ["No single answer. "]
    ends = [r for r in read if not r.lacking and r.budget is None]
    if ends:
        parts += [f"Per {' and per '.join(NAMES[r.clock][0] for r in ends)}: ", *_sentence(task, ends[0])]
    for reading in read:
        if reading.lacking:
            parts += _lacking(reading)
        elif reading.budget is not None:
            parts += [f"Per {NAMES[reading.clock][0]}, compared at ", _budget(reading), ": ", *_sentence(task, reading)]
    return tuple(parts)


def _lacking(reading: Reading) -> Parts:
    return (f"Per {NAMES[reading.clock][0]} it cannot be told: {reading.lacking}. ",)


def _budget(reading: Reading) -> Part:
    runs = tuple(run for outcomes in reading.outcomes.values() for run in outcomes.run_ids)
    statistic = "smallest total of a run" if reading.strict else "smallest median total"
    return numbers.value(reading.budget or math.nan, NAMES[reading.clock][1], statistic, runs, clock=reading.clock)


def _alone(task: TaskFacts, reading: Reading) -> Parts:
    arm = reading.ranking[0]
    outcomes = reading.outcomes[arm]
    if outcomes.diverged:
        said = f" alone has outcomes, with nothing to compare it with; {outcomes.diverged} of {outcomes.n} diverged."
        return (Term(term=arm), said)
    mean = numbers.mean(outcomes, _metric(task, reading), task.metric_unit, interval=outcomes.n >= MINIMUM_SEEDS)
    return (
        Term(term=arm),
        f" alone has outcomes, so there is nothing to compare it with. Its {task.split} {task.words} is ",
        mean,
        f" over {outcomes.n} {'seed' if outcomes.n == 1 else 'seeds'}.",
    )


def _too_few(task: TaskFacts, reading: Reading) -> Parts:
    n = min(pair.n for pair in reading.pairs)
    return (
        f"Not shown: {n} {'seed' if n == 1 else 'seeds'} of an arm allow no interval and no test; ",
        f"run at least {MINIMUM_SEEDS}. So far ",
        Term(term=reading.ranking[0]),
        " leads.",
    )


def _way(task: TaskFacts) -> str:
    return "higher" if task.mode == "max" else "lower"


def _metric(task: TaskFacts, reading: Reading) -> str:
    return task.outcome if reading.budget is None else task.validation


def _words(task: TaskFacts, reading: Reading) -> str:
    return f"{task.split if reading.budget is None else 'validation'} {task.words}"
