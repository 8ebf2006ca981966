"""Overall: several tasks taken together. Tasks are what is sampled here: a verdict over tasks speaks of new ones."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from reports.clocks import stopped
from reports.comparison import ALPHA
from reports.document import Column, Heading, Paragraph, Part, Parts, Picture, Table, Term
from reports.figures.drawing import Drawing
from reports.judged import Array, TaskFacts
from reports.sections import numbers
from reports.sections.drawn import Drawn, Piece, full_names
from reports.statistics import aggregates, friedman, profiles
from reports.table import Cell, StudyTable

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Several:
    """The tasks on which the same arms all have outcomes. runs: arm -> the outcomes of its runs on each task, signed so
    that more is better, diverged -inf. middle: (tasks, arms), what ranks are taken of. scores: arm -> (runs, tasks) on
    one scale, or None where the tasks have none. scale: what that is."""

    tasks: tuple[TaskFacts, ...]
    arms: tuple[str, ...]
    run_ids: Mapping[str, tuple[str, ...]]
    runs: Mapping[str, list[Array]]
    middle: Array
    scores: Mapping[str, Array] | None
    scale: str


def several(study: StudyTable) -> Several | None:
    """None where fewer than two tasks have outcomes of the same two arms or more."""
    if ("several", "") not in study.kept:
        study.kept["several", ""] = _several(study)
    found: Several | None = study.kept["several", ""]
    return found


def _several(study: StudyTable) -> Several | None:
    able: dict[str, dict[str, Cell]] = {}
    for name in study.tasks:
        cells = {cell.arm: cell for cell in study.of(name) if cell.ended}
        if len(cells) > 1 and not stopped(cells.values()):
            able[name] = cells
    arms = tuple(arm for arm in study.arms if all(arm in cells for cells in able.values()))
    if len(able) < 2 or len(arms) < 2:
        return None
    tasks = tuple(study.tasks[name] for name in able)
    runs = {arm: [task.sign * able[task.name][arm].outcomes().values for task in tasks] for arm in arms}
    ids = {arm: tuple(i for task in tasks for i in able[task.name][arm].outcomes().run_ids) for arm in arms}
    scores, scale = _scaled(tasks, runs)
    return Several(tasks, arms, ids, runs, _middle(runs, len(tasks)), scores, scale)


def _middle(runs: Mapping[str, list[Array]], tasks: int) -> Array:
    """Means over seeds; on a task where any run of any arm diverged, medians, with that as the worst."""
    rows = []
    for place in range(tasks):
        whole = all(np.isfinite(values[place]).all() for values in runs.values())
        rows.append([float(np.mean(v[place])) if whole else _median(v[place]) for v in runs.values()])
    return np.array(rows, float)


def _median(values: Array) -> float:
    """The lower of two middle values, which is -inf where half diverged."""
    return float(np.sort(values)[(len(values) - 1) // 2])


def _scaled(tasks: Sequence[TaskFacts], runs: Mapping[str, list[Array]]) -> tuple[dict[str, Array] | None, str]:
    """Scores on one scale: 0 what a diverged run is worth, 1 the target."""
    if not all(t.target is not None and math.isfinite(t.worst) and t.target != t.worst for t in tasks):
        return None, ""
    scores = {}
    for arm, of_tasks in runs.items():
        rows = max(len(values) for values in of_tasks)
        matrix = np.full((rows, len(tasks)), math.nan)
        for place, (task, values) in enumerate(zip(tasks, of_tasks)):
            assert task.target is not None
            raw = np.where(np.isneginf(values), task.sign * task.worst, values)
            low, high = task.sign * task.worst, task.sign * task.target
            matrix[: len(values), place] = np.maximum((raw - low) / (high - low), 0.0)
        scores[arm] = matrix
    return scores, "0 is what a diverged run is worth on its task, 1 the task's target"


def overall(study: StudyTable) -> list[Piece]:
    """Nothing where there are fewer than two tasks."""
    found = several(study)
    if found is None:
        return []
    ranks = friedman.mean_ranks(found.middle, "max")
    order = [int(i) for i in np.argsort(ranks, kind="stable")]
    pieces: list[Piece] = [
        Heading(level=2, text="Over all tasks", anchor="overall"),
        Paragraph(parts=overall_sentence(study)),
        _table(found, ranks, order),
    ]
    return [*pieces, *_pictures(study, found, ranks)]


def overall_sentence(study: StudyTable) -> Parts:
    """What the tasks together show; () where there are too few."""
    found = several(study)
    if found is None:
        return ()
    n, k = found.middle.shape
    ranks = friedman.mean_ranks(found.middle, "max")
    best = int(np.argmin(ranks))
    ids = tuple(i for arm in found.arms for i in found.run_ids[arm])
    where = {"tasks": ", ".join(t.name for t in found.tasks), "arms": ", ".join(found.arms)}
    parts: list[Part] = [f"Over {n} tasks ", Term(term=found.arms[best]), " has the best mean rank, "]
    parts.append(_rank(found, best, float(ranks[best])))
    pairs = friedman.holm_pairs(_comparable(found), "max")
    if k > 2:
        test = friedman.friedman(found.middle, "max")
        shown = numbers.tested(test, "friedman.friedman", ids, **where)
        if not test.reachable(ALPHA):
            parts += [f"; the test of all arms cannot reach significance with {n} tasks (", shown, ")"]
        else:
            parts += [
                "; that all arms rank alike ",
                "is refuted" if test.p <= ALPHA else "is not refuted",
                " (Friedman, ",
            ]
            parts += [shown, ")"]
        if test.p > ALPHA:
            return (*parts, ". No arm is shown to be best over tasks.")
    beaten = [found.arms[i] for i in range(k) if i != best and pairs[best, i] <= ALPHA]
    if beaten:
        return (*parts, ". It is better than ", *numbers.names(beaten), " over tasks (signed ranks, after Holm).")
    floor = 2.0 / 2.0**n * (k * (k - 1) / 2)
    why = f": signed ranks over {n} tasks cannot reach significance" if floor > ALPHA else ""
    return (*parts, f". No arm is shown to be best over tasks{why}.")


def _comparable(found: Several) -> Array:
    """Differences between arms are compared across tasks, so each task's are taken in its own units of scale."""
    if found.scores is not None:
        return np.array(
            [[_task_score(found, arm, place) for arm in found.arms] for place in range(len(found.tasks))], float
        )
    spread = [float(np.ptp(row[np.isfinite(row)])) if np.isfinite(row).any() else 0.0 for row in found.middle]
    return found.middle / np.array([s if s > 0 else 1.0 for s in spread])[:, None]


def _task_score(found: Several, arm: str, place: int) -> float:
    assert found.scores is not None
    return float(np.nanmean(found.scores[arm][:, place]))


def _rank(found: Several, index: int, rank: float) -> Part:
    where = {"tasks": ", ".join(t.name for t in found.tasks), "among": ", ".join(found.arms)}
    arm = found.arms[index]
    return numbers.value(rank, "", "friedman.mean_ranks", found.run_ids[arm], arm=arm, **where)


def _table(found: Several, ranks: Array, order: Sequence[int]) -> Table:
    best = order[0]
    pairs = friedman.holm_pairs(_comparable(found), "max")
    tasks = ", ".join(t.name for t in found.tasks)
    rows: list[tuple[Parts, ...]] = []
    for index in order:
        arm, top = found.arms[index], found.arms[best]
        cells: list[Parts] = [(Term(term=arm),), (_rank(found, index, float(ranks[index])),)]
        if found.scores is not None:
            middle = aggregates.iqm_interval(found.scores[arm])
            cells.append(
                (numbers.estimated(middle, "", "aggregates.iqm_interval", found.run_ids[arm], arm=arm, tasks=tasks),)
            )
        if index == best:
            cells += [("-",), ("-",)]
        else:
            both = (*found.run_ids[arm], *found.run_ids[top])
            where: dict[str, Any] = {"better": top, "than": arm, "tasks": tasks}
            better = aggregates.probability_of_improvement(found.runs[top], found.runs[arm])
            cells.append((numbers.estimated(better, "", "aggregates.probability_of_improvement", both, **where),))
            among = ", ".join(found.arms)
            shown = numbers.value(float(pairs[best, index]), "p", "friedman.holm_pairs", both, **where, among=among)
            cells.append((shown,))
        rows.append(tuple(cells))
    notes: list[Parts] = [
        ("Ranks are of means over seeds (of medians on a task where a run diverged); 1 is the best.",)
    ]
    if found.scores is not None:
        notes.append(
            (
                f"Interquartile mean: of the middle half of all runs of all tasks, where {found.scale}. No "
                "interval is given for too few runs and tasks to cover 95 %.",
            )
        )
    else:
        notes.append(("No interquartile mean: the tasks have no scale in common (a target and a worst value each).",))
    return Table(
        caption=(f"{len(found.tasks)} tasks together, best mean rank first.",),
        columns=(
            Column(head="Arm"),
            Column(head="Mean rank", number=True),
            *([Column(head="Interquartile mean", unit="[95 %, where given]", number=True)] if found.scores else []),
            Column(head="P(first row is better)", unit="over runs and tasks [95 %, where given]", number=True),
            Column(head="p", unit="signed ranks over tasks, after Holm", number=True),
        ),
        rows=tuple(rows),
        notes=tuple(notes),
    )


def _pictures(study: StudyTable, found: Several, ranks: Array) -> list[Piece]:
    pieces: list[Piece] = []
    if len(found.arms) > 2:
        pieces.append(_critical_difference(found, ranks))
    if found.scores is not None:
        pieces.append(_profile(study, found, found.scores))
    return pieces


def _critical_difference(found: Several, ranks: Array) -> Drawn:
    from reports.figures.critical_difference import critical_difference
    from reports.figures.style import COLUMN

    (n, k), among = found.middle.shape, friedman.holm_pairs(_comparable(found), "max")
    groups = friedman.cliques_by_p(ranks, among)
    said = f"mean rank over {n} tasks"

    def draw(figure: Figure) -> None:
        critical_difference(figure.add_subplot(), found.arms, ranks.tolist(), groups, math.nan, said)

    drawing = Drawing(
        name="overall-ranks",
        size=(COLUMN, 1.3 + 0.2 * k),
        draw=draw,
        header=("arm", "mean_rank"),
        rows=tuple((arm, float(rank)) for arm, rank in zip(found.arms, ranks)),
    )
    told = "; ".join(f"{arm} {rank:.2f}" for arm, rank in zip(found.arms, ranks))
    caption: Parts = (
        f"Mean ranks over {n} tasks; a bar joins what is not shown to differ (signed ranks, after Holm).",
        *full_names(list(found.arms)),
    )
    runs = tuple(i for arm in found.arms for i in found.run_ids[arm])
    return Drawn(
        Picture(name=drawing.name, title="Mean ranks", caption=caption, alt=f"Mean ranks: {told}.", runs=runs), drawing
    )


def _profile(study: StudyTable, found: Several, scores: Mapping[str, Array]) -> Drawn:
    from reports.figures.profiles import Steps
    from reports.figures.profiles import profiles as draw_profiles
    from reports.figures.style import COLUMN, marks

    everything = np.concatenate([matrix[~np.isnan(matrix)] for matrix in scores.values()])
    low, high = float(everything.min()), float(everything.max())
    margin = 0.05 * (high - low) or 0.05
    thresholds = np.linspace(low - margin, high + margin, 101)
    looks, lines = marks(study.arms), {}
    for arm in found.arms:
        profile = profiles.performance_profile(scores[arm], thresholds)
        lines[arm] = Steps(arm, looks[arm], profile.thresholds, profile.share, profile.low, profile.high)

    def draw(figure: Figure) -> None:
        draw_profiles(figure.add_subplot(), list(lines.values()), x="score", y="share of runs above it", log=False)
        figure.legend(loc="outside upper left", ncols=2)

    drawing = Drawing(
        name="overall-profile",
        size=(COLUMN, 2.5 + 0.16 * (len(found.arms) // 2)),
        draw=draw,
        header=("arm", "score", "share", "low", "high"),
        rows=tuple(
            (arm, float(x), float(y), *(float(b) if math.isfinite(b) else None for b in ends))
            for arm, line in lines.items()
            if line.low is not None and line.high is not None
            for x, y, *ends in zip(line.x, line.share, line.low, line.high)
        ),
    )
    caption: Parts = (
        f"Share of runs that score above a value, tasks weighing the same; bands: 95 % at each point. {found.scale}.",
        *full_names(list(found.arms)),
    )
    told = "; ".join(f"{arm}: {float(np.nanmean(scores[arm] >= 1.0)):.0%} of runs at 1 or above" for arm in found.arms)
    runs = tuple(i for arm in found.arms for i in found.run_ids[arm])
    picture = Picture(name=drawing.name, title="Performance profile", caption=caption, alt=f"{told}.", runs=runs)
    return Drawn(picture, drawing)
