"""Tuning: what was tried for each arm, what won, and how near the edge of its range."""

from __future__ import annotations

from reports import tuning as told
from reports.document import Column, Heading, Parts, Quantity, Table, Term
from reports.sections import numbers
from reports.sections.best_of_n import expected_best
from reports.sections.drawn import Piece
from reports.sections.slices import slices
from reports.table import StudyTable


def tuning(study: StudyTable) -> list[Piece]:
    found = tuned(study)
    if not any(found.values()):
        return []
    everyone = [one for arms in found.values() for one in arms]
    pieces: list[Piece] = [Heading(level=2, text="Tuning", anchor="tuning"), _table(everyone)]
    pieces += expected_best(found)
    for index, (name, arms) in enumerate(found.items(), start=1):
        for number, hyper in enumerate(dict.fromkeys(one.hypers[0] for one in arms if one.hypers)):
            those = [one for one in arms if one.hypers and one.hypers[0] == hyper]
            pieces.append(slices(study, study.tasks[name], those, hyper, f"{index}-{number}" if number else f"{index}"))
    return pieces


def tuned(study: StudyTable) -> dict[str, list[told.Tuning]]:
    """Task -> what tuning did for each arm that was tuned."""
    if ("tuned", "") not in study.kept:
        study.kept["tuned", ""] = {
            name: [one for cell in study.of(name) if (one := told.tuning(cell)) is not None] for name in study.tasks
        }
    found: dict[str, list[told.Tuning]] = study.kept["tuned", ""]
    return found


def _table(arms: list[told.Tuning]) -> Table:
    several = any(len(one.objectives) > 1 for one in arms)
    return Table(
        caption=(f"What tuning chose{', by validation' if told.by_validation(one.cell for one in arms) else ''}.",),
        columns=(
            Column(head="Task"),
            Column(head="Arm"),
            Column(head="Trials", number=True),
            Column(head="Diverged", number=True),
            Column(head="Chosen"),
            Column(head="Searched"),
            Column(head="Objective", unit="of the chosen trial", number=True),
            *([Column(head="Its other objectives")] if several else []),
        ),
        rows=tuple(_row(one, several) for one in arms),
        notes=tuple(_notes(arms)),
    )


def _notes(arms: list[told.Tuning]) -> list[Parts]:
    """How trials were drawn and judged, where that is not the plain way."""
    notes: list[Parts] = []
    for objectives in {tuple(one.objectives.items()): None for one in arms if one.objectives}:
        listed = ", ".join(f"{metric} ({mode})" for metric, mode in objectives)
        several = ": the first decides, among the trials that no other beats in all of them" if objectives[1:] else ""
        notes.append((f"Objectives: {listed}{several}.",))
    for warm in dict.fromkeys(one.warm_start for one in arms if one.warm_start):
        said = " were the sampler's history from the start. Their cost is not counted here, and none of them could win."
        notes.append(("Warm start: the trials of study ", Term(term=warm), said))
    return notes


def _row(one: told.Tuning, several: bool) -> tuple[Parts, ...]:
    where = numbers.of_cell(one.cell)
    ranges = [", then ".join(map(_range, spans)) for spans in one.spans.values()]
    if len(ranges) > 1 or one.options:
        ranges = [f"{hyper} {text}" for hyper, text in zip(one.spans, ranges)]
    ranges += [f"{place} among options" for place in one.options]
    diverged = [r for r in one.trials if r.status == "diverged"]
    score: Parts = ("none",)
    if one.winner is not None and (objective := one.objective(one.winner)) is not None:
        score = (_measured(one, one.metric, objective),)
    others: list[Parts] = []
    for metric in list(one.objectives)[1:] if one.winner is not None else []:
        value = one.measured(one.winner, metric)  # type: ignore[arg-type]
        others.append((f"{metric} ", _measured(one, metric, value) if value is not None else "not logged"))
    return (
        (one.cell.task.name,),
        (Term(term=one.cell.arm),),
        (numbers.count(one.trials, "tuning runs", **where),),
        (numbers.count(diverged, "tuning runs that diverged", **where) if diverged else "0",),
        _chosen(one),
        ("; ".join(ranges) or "not recorded",),
        score,
        *((numbers.joined(others, last="; ") or ("-",),) if several else ()),
    )


def _measured(one: told.Tuning, metric: str, value: float) -> Quantity:
    assert one.winner is not None
    unit = one.cell.task.metric_unit if metric == told.OWN else ""
    where = numbers.of_cell(one.cell)
    return numbers.value(value, unit, "value", (one.winner.run_id,), metric=metric, **where, of="the chosen trial")


def _chosen(one: told.Tuning) -> Parts:
    """The winner's numbers, those at an edge marked, and its options."""
    if one.winner is None:
        return ("-",)
    why = f" ({arbitrary})" if (arbitrary := _arbitrary(one)) else ""
    found: list[Parts] = []
    for hyper in one.hypers:
        value = one.value(one.winner, hyper)
        if value is None:
            continue  # searched only where another option is chosen
        shown = numbers.value(value, "", "value", (one.winner.run_id,), config=hyper, **numbers.of_cell(one.cell))
        edge = one.edge(hyper)
        found.append((f"{hyper.partition(' when ')[0]}\u00a0", shown, f" ({edge} edge)" if edge else ""))
    for place in one.options:
        if text := one.option(one.winner, place):
            found.append((f"{place}\u00a0", Term(term=text)))
    chosen: Parts = tuple(part for index, parts in enumerate(found) for part in (("; ",) if index else ()) + parts)
    return (*(chosen or ("-",)), why) if why else chosen or ("-",)


def _arbitrary(one: told.Tuning) -> str:
    """Why no objective stands behind the choice; "" where one does."""
    if one.scored():
        return ""
    diverged = all(record.status == "diverged" for record in one.trials)
    return f"an arbitrary choice: {'all trials diverged' if diverged else 'no trial has an objective'}"


def _range(span: told.Span) -> str:
    return f"{span.low:g} to {span.high:g}" + (" (log)" if span.log else "")
