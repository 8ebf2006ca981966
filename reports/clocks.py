"""Clocks: the same comparison per update, per gradient evaluation and per second of training.

A clock on which all arms spent the same compares the final test metric. On any other, the arms are compared where the
cheapest arm typically ended: by the validation metric there, read from the curves. Such a cut is unkind to an arm whose
schedule would have been shorter, had it been given this budget; the report says so where it cuts. What validation at
the end shows already is due to the split, not to the clock. All rulings of a task are one family.

Clocks disagree where one shows of its leader what another does not show, or shows the other way round: what merely
leads is no finding. Where seconds cannot be compared (see `seconds`) they show nothing, so they disagree with nothing.

A budget is what runs used, not what they were given, where something else ended them: a callback, or a loop that is not
ours. What such runs are compared at is where the first of them ended, so that none had more."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from experiments.store.schema import RunRecord
from reports import seconds
from reports.comparison import Pair, order, ruled, tested
from reports.judged import recorded, steps, stops_at_target
from reports.statistics.curves import best_so_far, value_at
from reports.table import Cell, Outcomes, StudyTable

#: Clock -> what one of it is called, and many. Those in READ are recorded at every evaluation and can be cut.
NAMES = {
    "updates": ("update", "updates"),
    "gradients": ("gradient evaluation", "gradient evaluations"),
    "seconds": ("second of training", "seconds of training"),
    "epochs": ("epoch", "epochs"),
    "examples": ("example", "examples"),
}
READ = ("updates", "gradients", "seconds")
#: What the steps of runs are -> what one is called, and many. Of foreign runs it may not be known.
STEPS = {"updates": NAMES["updates"], "epochs": NAMES["epochs"], "": ("step", "steps")}
#: Clock -> the metric that says at the end how much a run used of it.
COUNTS = {"updates": "count/updates", "gradients": "count/gradients", "seconds": "time/train_s"}
#: Arms whose median costs are the same to within this are compared by what they ended with.
SAME = 0.05


@dataclass(frozen=True)
class Reading:
    """One task on one clock. budget: where the arms are compared; None: at their ends, by the test metric. spent: the
    median total of each arm. pairs and ranking (best first) are empty where nothing can be compared; `lacking` then
    says why. validation: of each pair of a cut, what validation shows at the end. strict: the budget is that of the run
    that used least, not of the cheapest arm's median. steps: what an update of these runs is (a key of STEPS). doubts:
    why what is shown may be due to the machine."""

    clock: str
    budget: float | None
    spent: Mapping[str, float]
    outcomes: Mapping[str, Outcomes]
    pairs: tuple[Pair, ...]
    ranking: tuple[str, ...]
    lacking: str = ""
    validation: Mapping[tuple[str, str], str] = field(default_factory=dict)
    strict: bool = False
    steps: str = "updates"
    doubts: tuple[str, ...] = ()

    @property
    def one(self) -> str:
        """What one of its clock is called."""
        return (STEPS[self.steps] if self.clock == "updates" else NAMES[self.clock])[0]

    @property
    def many(self) -> str:
        return (STEPS[self.steps] if self.clock == "updates" else NAMES[self.clock])[1]

    @property
    def beaten(self) -> tuple[str, ...]:
        """The arms that the leader is shown to be better than, by rank."""
        best = self.ranking[:1]
        pairs = [pair.seen_from(arm) for arm in best for pair in self.pairs if arm in (pair.first, pair.second)]
        wins = {pair.second for pair in pairs if pair.ruling == "better"}
        return tuple(arm for arm in self.ranking if arm in wins)

    @property
    def equal(self) -> bool:
        """Whether all arms spent the same, as far as is known: they may have been given the same and ended early."""
        known = [value for value in self.spent.values() if not math.isnan(value)]
        return self.budget is None and (not known or max(known) <= min(known) * (1 + SAME))

    @property
    def rulings(self) -> dict[tuple[str, str], str]:
        """(first, second) -> better, worse or "" where nothing is shown."""
        return _rulings(self.pairs)


def readings(study: StudyTable, task: str) -> list[Reading]:
    """The task on every clock, ruled together. The first is the study's own: the unit of its budget, if that is the
    same for all arms."""
    if ("readings", task) not in study.kept:
        study.kept["readings", task] = _readings(study, task)
    return list(study.kept["readings", task])


def _readings(study: StudyTable, task: str) -> list[Reading]:
    cells = [cell for cell in study.of(task) if cell.finals]
    own = _own(cells)
    first = own or READ[0]
    if stopped(cells):
        return [Reading(first, None, {}, {}, (), (), lacking="runs were told to stop at their target")]
    clocks = (first, *(name for name in READ if name != first))
    found = [_reading(study, cells, clock, ended_equal=clock == own) for clock in clocks]
    ends = next((reading.pairs for reading in found if reading.budget is None and reading.pairs), ())
    cuts = [pair for reading in found if reading.budget is not None for pair in reading.pairs]
    family = ruled([*ends, *cuts])
    rulings, rest = tuple(family[: len(ends)]), iter(family[len(ends) :])
    return [
        replace(reading, pairs=(rulings if reading.budget is None else tuple(next(rest) for _ in reading.pairs)))
        if reading.pairs
        else reading
        for reading in found
    ]


def stopped(cells: Iterable[Cell]) -> bool:
    """Whether final runs were told to stop at their target: what they ended with then does not compare."""
    return any(stops_at_target(record) for cell in cells for record in cell.finals)


def stopped_early(record: RunRecord) -> str:
    """Why something of the user's ended a run before its budget; "" where nothing did."""
    events = (event for event in record.events if event.get("name") == "stopped_early")
    return next((str(event.get("reason") or "a callback") for event in events), "")


def unequal(cells: Iterable[Cell]) -> bool:
    """Whether some of the runs did not end because their budget was used up, or may not have."""
    return any(recorded(r) or stopped_early(r) for cell in cells for r in cell.completed)


def everybody(reading: Reading) -> str:
    """Who is known to have used the same: all arms, those that have outcomes, or of them the runs that completed. ""
    where fewer than two arms have such runs."""
    if sum(not math.isnan(value) for value in reading.spent.values()) < 2:
        return ""
    if any(outcomes.diverged for outcomes in reading.outcomes.values()):
        return "All runs that completed"
    return "All arms" if all(outcomes.n for outcomes in reading.outcomes.values()) else "All arms with outcomes"


def agree(read: list[Reading]) -> bool:
    """Whether all clocks on which something can be told show what any shows of its leader, but for what the split
    explains."""
    return not any(opposed(a, b) for a, b in itertools.combinations(read, 2))


def opposed(a: Reading, b: Reading, by_split: bool = False) -> list[tuple[str, str]]:
    """Pairs of which one shows, of its leader, what the other does not show, or shows the other way round. by_split:
    those that validation at the end explains, else those that it does not."""
    mine, other = a.rulings, b.rulings
    differ = [pair for pair in mine if pair in other and mine[pair] != other[pair]]
    told = [pair for pair in differ if any(r.rulings[pair] and r.ranking[0] in pair for r in (a, b))]
    return [pair for pair in told if _by_split(a, b, pair) == by_split]


def _by_split(a: Reading, b: Reading, pair: tuple[str, str]) -> bool:
    """Whether one is by test, the other by validation, and validation shows the same at the end as at the cut."""
    if (a.budget is None) == (b.budget is None):
        return False
    cut = a if a.budget is not None else b
    return cut.validation.get(pair, "") == cut.rulings[pair]


def _rulings(pairs: Iterable[Pair]) -> dict[tuple[str, str], str]:
    return {(pair.first, pair.second): pair.ruling if pair.shown else "" for pair in pairs}


def step_names(records: Iterable[RunRecord]) -> tuple[str, str]:
    """What one step of runs is called, and many: ("update", "updates") unless they say otherwise."""
    units = {steps(record) for record in records} or {"updates"}
    return STEPS[next(iter(units)) if len(units) == 1 else ""]


def _own(cells: list[Cell]) -> str:
    """The unit of the budget that all arms were given and used, or "" where budgets differ."""
    if unequal(cells):
        return ""
    given = {tuple(sorted(budget(record).items())) for cell in cells for record in cell.finals}
    return next(iter(given))[0][0] if len(given) == 1 and len(next(iter(given))) == 1 else ""


def budget(record: RunRecord) -> dict[str, float]:
    """The budget a run was given: {unit: amount}. What a recorded run's config says otherwise is no budget."""
    given = record.config.get("budget")
    found = given if isinstance(given, Mapping) else {}
    return {unit: amount for unit, amount in found.items() if unit in NAMES and isinstance(amount, (int, float))}


def text(record: RunRecord) -> str:
    """The budget in words: "2,000 updates"."""
    return ", ".join(f"{amount:,g} {unit}" for unit, amount in budget(record).items()) or "not stated"


def used(study: StudyTable, record: RunRecord, clock: str) -> float:
    """How much of a clock a run had used at its end; nan where it does not say."""
    if clock not in READ:
        return math.nan
    if (counted := record.last.get(COUNTS[clock])) is not None:
        return counted
    curve = study.curves.get(record.run_id)
    return float(curve.along(clock)[-1]) if curve is not None and len(curve.updates) else math.nan


def _reading(study: StudyTable, cells: list[Cell], clock: str, ended_equal: bool) -> Reading:
    totals = {cell.arm: [used(study, record, clock) for record in _completed(cell)] for cell in cells}
    spent = {arm: float(np.median(values)) if values else math.nan for arm, values in totals.items()}
    strict = clock != "seconds" and unequal(cells)
    costs = [value for values in totals.values() for value in values] if strict else _known(spent, totals)
    sign = cells[0].task.sign if cells else 1.0
    units = {steps(record) for cell in cells for record in cell.finals}
    bare = Reading(clock, None, spent, {}, (), (), steps=next(iter(units)) if len(units) == 1 else "")
    if not ended_equal and (why := _lacking(study, cells, clock, costs, units)):
        return replace(bare, lacking=why)
    if clock == "seconds" and (ended_equal or max(costs) > min(costs) * (1 + SAME)):
        bare = replace(bare, doubts=_doubts(study, cells, ended_equal))
    if ended_equal or max(costs) <= min(costs) * (1 + SAME):
        outcomes = {cell.arm: cell.outcomes() for cell in cells}
        pairs = tested(outcomes, sign)
        return replace(bare, outcomes=outcomes, pairs=tuple(pairs), ranking=tuple(order(outcomes, pairs)))
    cut = min(costs)
    outcomes = {cell.arm: _cut(study, cell, clock, cut) for cell in cells}
    if any(np.isnan(o.values).any() for o in outcomes.values()):
        lacking = f"the {'first run' if strict else 'cheapest arm'} ended before another was first evaluated"
        return replace(bare, budget=cut, lacking=lacking)
    pairs = tested(outcomes, sign)
    return replace(
        bare,
        budget=cut,
        outcomes=outcomes,
        pairs=tuple(pairs),
        ranking=tuple(order(outcomes, pairs)),
        validation=_rulings(ruled(tested({cell.arm: _cut(study, cell, clock, math.inf) for cell in cells}, sign))),
        strict=strict,
    )


def _lacking(study: StudyTable, cells: list[Cell], clock: str, costs: Sequence[float], units: set[str]) -> str:
    """Why nothing can be told on a clock that is not the study's own; "" where it can."""
    if not costs or any(math.isnan(value) for value in costs):
        return "it was not recorded by every run"
    if clock == "updates" and {"updates", "epochs"} <= units:
        return "a step is an epoch in some runs and an update in others"
    return seconds.incomparable(cells, paces(study, cells)) if clock == "seconds" else ""


def _doubts(study: StudyTable, cells: list[Cell], own: bool) -> tuple[str, ...]:
    """What may be the machine's doing of what is shown per second. own: seconds are the study's budget, and are
    compared whatever there is against them."""
    spent = paces(study, cells)
    why = seconds.incomparable(cells, spent) if own else ""
    return (*((why,) if why else ()), *seconds.doubts(cells, spent))


def paces(study: StudyTable, cells: Iterable[Cell]) -> dict[str, list[tuple[float, float]]]:
    """Arm -> (updates, seconds of training) of each run that completed and tells both."""
    found = {cell.arm: [(used(study, r, "updates"), used(study, r, "seconds")) for r in _completed(cell)]
             for cell in cells}  # fmt: skip
    return {arm: [pair for pair in runs if not any(map(math.isnan, pair))] for arm, runs in found.items()}


def _known(spent: Mapping[str, float], totals: Mapping[str, list[float]]) -> list[float]:
    return [value for arm, value in spent.items() if totals[arm]]


def _completed(cell: Cell) -> list[RunRecord]:
    return [record for record in cell.ended if record.status == "completed"]


def _cut(study: StudyTable, cell: Cell, clock: str, budget: float) -> Outcomes:
    """The arm's outcomes by the validation metric at the budget, or where a run ended before it. Diverged runs stay
    the worst, wherever they diverged."""
    ends = cell.outcomes()
    values = ends.values.copy()
    for place, run_id in enumerate(ends.run_ids):
        if math.isfinite(values[place]):
            values[place] = value_by(study, cell, run_id, clock, budget)
    return Outcomes(ends.seeds, values, ends.run_ids, ends.missing)


def value_by(study: StudyTable, cell: Cell, run_id: str, clock: str, budget: float) -> float:
    """The validation value by which a final run would have been judged at a budget; at its end where that was before.
    nan without a curve."""
    curve = study.curves.get(run_id)
    if curve is None:
        return math.nan
    record = next(r for r in cell.finals if r.run_id == run_id)
    selected = not recorded(record) and record.config.get("select") == "best"
    y = best_so_far(curve.values, cell.task.mode) if selected else curve.values
    x = curve.along(clock)
    return float(y[-1]) if budget >= x[-1] else value_at(x, y, budget)
