"""The question: what was asked, of which arms and tasks, and by which protocol."""

from __future__ import annotations

from typing import Any

from reports.clocks import text
from reports.document import Block, Column, Heading, Paragraph, Part, Parts, Table, Term
from reports.sections import numbers
from reports.table import StudyTable

#: Kinds of entries, as a reader wants them ordered.
_KINDS = ("optimizer", "wrappers", "schedule", "loss", "model", "precision", "compression")


def question(study: StudyTable, asked: str) -> list[Block]:
    blocks: list[Block] = [Heading(level=2, text="Question", anchor="question")]
    blocks.append(Paragraph(parts=(asked,) if asked else _implied(study), role="lead"))
    blocks.append(Paragraph(parts=_protocol(study)))
    blocks += [_tasks(study), _arms(study)]
    return blocks


def _implied(study: StudyTable) -> Parts:
    tasks = numbers.joined([(task.name,) for task in study.tasks.values()])
    if len(study.arms) == 1:
        return ("How well does ", Term(term=study.arms[0]), " do on ", *tasks, "?")
    return ("Which of ", *numbers.names(study.arms), " is best on ", *tasks, " at one budget?")


def _protocol(study: StudyTable) -> Parts:
    """What was done, from the runs themselves."""
    finals = [r for cell in study.cells.values() for r in cell.finals]
    tunes = [r for cell in study.cells.values() for r in cell.tunes]
    sampler = " or ".join(dict.fromkeys(s for cell in study.cells.values() if (s := cell.told.get("sampler"))))
    parts: list[Part] = []
    if tunes:
        parts += [
            "Each arm was tuned on each task by validation: ",
            numbers.count(tunes, "tuning runs"),
            " tuning runs in all",
        ]
        parts.append(f", drawn by the {sampler} sampler. " if sampler else ". ")
    else:
        parts.append("Nothing was tuned. ")
    if finals:
        seeds = sorted({r.labels.seed for r in finals})
        parts += [
            "What is reported comes from ",
            numbers.count(finals, "final runs"),
            f" final runs on {_seeds(seeds)}",
        ]
        parts.append(
            ", which tuning did not use. " if tunes and not {r.labels.seed for r in tunes} & set(seeds) else ". "
        )
    return tuple(parts)


def _seeds(seeds: list[int]) -> str:
    if len(seeds) > 2 and seeds == list(range(seeds[0], seeds[-1] + 1)):
        return f"seeds {seeds[0]} to {seeds[-1]}"
    return f"{'seed' if len(seeds) == 1 else 'seeds'} {', '.join(map(str, seeds))}"


def _tasks(study: StudyTable) -> Table:
    """What each task is, as its runs say."""
    rows: list[tuple[Parts, ...]] = []
    splits = list(dict.fromkeys(split for task in study.tasks.values() for split in task.sizes))
    for task in study.tasks.values():
        budgets = {text(r) for cell in study.of(task.name) for r in cell.finals or cell.tunes}
        sizes = [(f"{task.sizes[split]:,}" if split in task.sizes else "-",) for split in splits]
        rows.append(((Term(term=task.name),), (task.title,), (" or ".join(sorted(budgets)),), *sizes, (task.unit,)))
    return Table(
        caption=("The tasks.",) if len(rows) > 1 else ("The task.",),
        columns=(
            Column(head="Task"),
            Column(head="What it is"),
            Column(head="Budget of a run"),
            *(Column(head=split.capitalize(), number=True) for split in splits),
            Column(head="Unit"),
        ),
        rows=tuple(rows),
    )


def _arms(study: StudyTable) -> Table:
    """What each arm is made of, as its runs say. Kinds that are the same in all arms of all tasks are left to the
    note."""
    made = {arm: _entries(study, arm) for arm in study.arms}
    kinds = [kind for kind in _KINDS if any(kind in told for told in made.values())]
    differ = [kind for kind in kinds if len({told.get(kind, "none") for told in made.values()}) > 1]
    same = [kind for kind in kinds if kind not in differ]
    shared = "; ".join(f"{kind} {made[study.arms[0]].get(kind, 'none')}" for kind in same)
    return Table(
        caption=("The arms: what differs between them.",) if len(study.arms) > 1 else ("The arm.",),
        columns=(Column(head="Arm"), *(Column(head=kind.capitalize()) for kind in differ)),
        rows=tuple(((Term(term=arm),), *((made[arm].get(kind, "none"),) for kind in differ)) for arm in study.arms),
        notes=((f"The same in all: {shared}.",),) if shared else (),
    )


def _entries(study: StudyTable, arm: str) -> dict[str, str]:
    """Kind -> the entries' names, over all tasks (a task may have its own model)."""
    found: dict[str, dict[str, None]] = {}
    for cell in study.cells.values():
        runs = cell.finals or cell.tunes
        entries: dict[str, Any] = dict(runs[-1].file.facts.get("entries") or {}) if cell.arm == arm and runs else {}
        together: dict[str, list[str]] = {}
        for key, entry in entries.items():
            together.setdefault(key.split(".")[0], []).append(str(entry.get("name", key)))
        for kind, chosen in together.items():
            found.setdefault(kind, {})[" + ".join(chosen)] = None
    return {kind: ", ".join(chosen) for kind, chosen in found.items()}
