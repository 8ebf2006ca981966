"""Threats in the protocol: tuning that was not equal, ranges too narrow, budgets and configs that differ."""

from __future__ import annotations

from collections.abc import Iterable

from algos.finding import Finding
from experiments.store.queries import flatten
from experiments.store.schema import RunRecord
from reports.arms import is_recorded
from reports.clocks import stopped_early, text
from reports.judged import stops_at_target
from reports.table import Cell, StudyTable
from reports.threats.found import caution, counted, listed, note
from reports.tuning import tuning

#: Config keys in which the final runs of one arm may differ.
_FREE = {"seed"}
#: Updates that one budget came to, the same to within this.
_SAME_UPDATES = 0.01


def optimum_at_edge(study: StudyTable) -> list[Finding]:
    found = []
    for cell in study.cells.values():
        told = tuning(cell)
        for hyper in told.hypers if told and told.winner else ():
            value = told.value(told.winner, hyper)  # type: ignore[union-attr, arg-type]
            if edge := told.edge(hyper):  # type: ignore[union-attr]
                said = f"the best {hyper} of {cell.arm}, {value:g}, is at the {edge} edge of its range"
                found.append(
                    caution(
                        "optimum-at-edge",
                        said,
                        "its best may lie outside: widen the range and tune it again",
                        cell.task.name,
                    )
                )
            elif side := told.unbracketed(hyper):  # type: ignore[union-attr]
                said = f"the best {hyper} of {cell.arm}, {value:g}, is the {side}est one tried"
                found.append(
                    note(
                        "optimum-not-bracketed",
                        said,
                        "nothing shows that it gets worse beyond: add trials",
                        cell.task.name,
                    )
                )
    return found


def winner_not_best(study: StudyTable) -> list[Finding]:
    found = []
    for cell in study.cells.values():
        told = tuning(cell)
        if told and told.best and cell.finals and told.winner is not told.best:
            said = f"the final runs of {cell.arm} do not have the values of its best trial ({told.best.run_id})"
            found.append(
                caution(
                    "winner-not-best", said, "run the final seeds again with the best trial's values", cell.task.name
                )
            )
    return found


def unequal_tuning(study: StudyTable) -> list[Finding]:
    """Arms of a task that had different numbers of trials, or trials of different budgets."""
    found = []
    for task in study.tasks.values():
        cells = [cell for cell in study.of(task.name) if cell.tunes or (cell.finals and not is_recorded(cell))]
        counts = {cell.arm: _ran(cell.tunes) for cell in cells}
        if len(set(counts.values())) > 1:
            said = (
                "arms were tuned with different numbers of trials ("
                + ", ".join(f"{arm}: {n}" for arm, n in counts.items())
                + ")"
            )
            found.append(
                caution(
                    "unequal-tuning", said, "give every arm the same trials: more trials find better values", task.name
                )
            )
        budgets = {cell.arm: _budgets(cell.tunes) for cell in cells if cell.tunes}
        if len(set(budgets.values())) > 1:
            said = "tuning runs of different arms had different budgets (" + _told(budgets) + ")"
            found.append(caution("unequal-tuning-budgets", said, "give every trial the same budget", task.name))
    return found


def unequal_budgets(study: StudyTable) -> list[Finding]:
    """Final runs that were given, or used, different budgets on one task."""
    found = []
    for task in study.tasks.values():
        cells = [cell for cell in study.of(task.name) if cell.finals and not is_recorded(cell)]
        given = {cell.arm: _budgets(cell.finals) for cell in cells}
        used = {cell.arm: _used(study, cell) for cell in cells}
        spent = [value for values in used.values() for value in values]
        if len(set(given.values())) > 1 or any(" and " in text for text in given.values()):
            said = "final runs had different budgets (" + _told(given) + ")"
            found.append(caution("unequal-budgets", said, "run every arm with one budget", task.name))
        elif spent and "updates" in next(iter(given.values())) and max(spent) > min(spent) * (1 + _SAME_UPDATES):
            said = f"completed final runs made {min(spent):,.0f} to {max(spent):,.0f} updates of one budget"
            found.append(caution("unequal-budgets", said, "see why some ended early", task.name))
    return found


def mixed_configs(study: StudyTable) -> list[Finding]:
    """Final runs of one arm on one task that differ in more than their seed."""
    found = []
    for cell in study.cells.values():
        configs = [{k: v for k, v in flatten(r.config).items() if k not in _FREE} for r in cell.by_seed.values()]
        differ = sorted(
            {key for config in configs for key in config if any(config.get(key) != other.get(key) for other in configs)}
        )
        if differ:
            said = f"final runs of {cell.arm} differ in {listed(differ[:4])}{' and more' if len(differ) > 4 else ''}"
            found.append(
                caution(
                    "mixed-configs", said, "an arm is one definition: start a study under a new name", cell.task.name
                )
            )
    return found


def tuned_on_final_seeds(study: StudyTable) -> list[Finding]:
    found = []
    for cell in study.cells.values():
        both = sorted({r.labels.seed for r in cell.tunes} & {r.labels.seed for r in cell.finals})
        if both:
            said = f"{cell.arm} was tuned on seeds that its final runs use too ({', '.join(map(str, both[:8]))})"
            found.append(
                caution(
                    "tuned-on-final-seeds", said, "tune on other seeds: a lucky seed would count twice", cell.task.name
                )
            )
    return found


def warm_started(study: StudyTable) -> list[Finding]:
    """Tuning that began from another study's trials, which nobody counts."""
    arms = [told for cell in study.cells.values() if (told := tuning(cell)) is not None]
    names = dict.fromkeys(one.warm_start for one in arms if one.warm_start)
    return [
        note("warm-start", f"tuning began with the trials of study {name} as its history", "count their cost too")
        for name in names
    ]


def pruned(study: StudyTable) -> list[Finding]:
    counts = {
        f"{cell.arm} on {cell.task.name}": cell.status("tune")["pruned"] + cell.status("final")["pruned"]
        for cell in study.cells.values()
    }
    cut = {name: n for name, n in counts.items() if n}
    if not cut:
        return []
    said = counted(sum(cut.values()), "run", "were pruned")
    said += f" ({', '.join(f'{name}: {n}' for name, n in cut.items())})"
    return [
        caution("pruned-runs", said, "budgets are unequal then, and early order is not final order while rates decay")
    ]


def _ran(records: Iterable[RunRecord]) -> int:
    """Trials that told the tuner something."""
    return sum(record.status in ("completed", "diverged", "pruned") for record in records)


def _budgets(records: Iterable[RunRecord]) -> str:
    return " and ".join(sorted({text(record) for record in records}))


def _used(study: StudyTable, cell: Cell) -> list[float]:
    return [
        float(study.curves[r.run_id].updates[-1])
        for r in cell.completed
        if r.run_id in study.curves and not stops_at_target(r) and not stopped_early(r)
    ]


def _told(texts: dict[str, str]) -> str:
    return "; ".join(f"{arm}: {text}" for arm, text in texts.items())
