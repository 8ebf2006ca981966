"""Overall: several tasks taken together. Tasks are what is sampled here: a verdict over tasks speaks of new ones."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from reports.clocks import stopped
from reports.comparison import ALPHA, reachable
from reports.document import Column, Heading, Paragraph, Part, Parts, Picture, Table, Term
from reports.figures.drawing import Drawing
from reports.judged import Array
from reports.sections import numbers
from reports.sections.drawn import Drawn, Piece, full_names
from reports.several import Several, comparisons, several
from reports.statistics import aggregates, friedman, profiles
from reports.statistics.result import PValue
from reports.statistics.signs import signed_rank
from reports.table import StudyTable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: More names than this are counted.
_NAMED = 4


def _left_out(study: StudyTable) -> Parts:
    """The arms and the tasks of which nothing is said over all tasks, each with why: sentences after another one."""
    able, parts = comparisons(study), []
    for arm in study.arms:
        lacks = [name for name, cells in able.items() if arm not in cells]
        if lacks:
            parts += [" ", Term(term=arm), " is left out: it has no outcome on ", *_some(lacks), "."]
    apart: dict[str, list[str]] = {}
    for name in study.tasks:
        if name not in able:
            told = stopped(study.of(name))
            why = "runs were told to stop at their target" if told else "fewer than two arms have outcomes"
            apart.setdefault(why, []).append(name)
    for why, tasks in apart.items():
        one = len(tasks) == 1
        said = f" {'is' if one else 'are'} left out: {why} {'there' if one else 'on each'}."
        parts += [f" The task{'' if one else 's'} ", *_some(tasks), said]
    return tuple(parts)


def _some(names: Sequence[str]) -> Parts:
    """Names in a sentence; of many, the first."""
    if len(names) <= _NAMED:
        return numbers.names(names)
    return numbers.joined([*((Term(term=name),) for name in names[:_NAMED]), (f"{len(names) - _NAMED} more",)])


def overall(study: StudyTable) -> list[Piece]:
    """Nothing where there are fewer than two tasks."""
    said = overall_sentence(study)
    if not said:
        return []
    pieces: list[Piece] = [Heading(level=2, text="Over all tasks", anchor="overall"), Paragraph(parts=said)]
    found = several(study)
    if found is None:
        return pieces
    ranks = friedman.mean_ranks(found.middle, "max")
    order = [int(i) for i in np.argsort(ranks, kind="stable")]
    return [*pieces, _table(found, ranks, order), *_pictures(study, found, ranks)]


def overall_sentence(study: StudyTable) -> Parts:
    """What the tasks together show, and of whom they do not speak; () where there are too few."""
    found, able = several(study), len(comparisons(study))
    if found is not None:
        return (*_shown(found), *_left_out(study))
    if able < 2:
        return ()
    return (f"Over {able} tasks nothing is shown: fewer than two arms have outcomes on all of them.", *_left_out(study))


def _shown(found: Several) -> Parts:
    n, k = found.middle.shape
    ranks = friedman.mean_ranks(found.middle, "max")
    tops = [int(i) for i in np.flatnonzero(np.isclose(ranks, ranks.min(), rtol=0, atol=1e-9))]
    ids = tuple(i for arm in found.arms for i in found.run_ids[arm])
    where = {"tasks": ", ".join(t.name for t in found.tasks), "arms": ", ".join(found.arms)}
    has = " has the best mean rank, " if len(tops) == 1 else " share the best mean rank, "
    parts: list[Part] = [f"Over {n} tasks ", *numbers.names(found.arms[i] for i in tops), has]
    parts.append(_rank(found, tops[0], float(ranks[tops[0]])))
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
    told = [_beside(found, top, alone=len(tops) == 1) for top in tops]
    if any(told):
        return (*parts, ".", *(part for each in told for part in each))
    why = (
        ""
        if any(_able_to_show(found, top) for top in tops)
        else f": signed ranks over {n} tasks cannot reach significance"
    )
    return (*parts, f". No arm is shown to be best over tasks{why}.")


def _beside(found: Several, top: int, *, alone: bool) -> Parts:
    """What signed ranks show of an arm of the best mean rank: they weigh by how much an arm leads, and so may oppose
    the mean rank, which counts places. () where they show nothing."""
    p, leads = friedman.holm_pairs(found.comparable(), "max"), _leads(found, top)
    differ = [i for i in range(len(found.arms)) if i != top and p[top, i] <= ALPHA]
    beaten = [found.arms[i] for i in differ if leads[i] > 0]
    ahead = [found.arms[i] for i in differ if leads[i] < 0]
    parts: list[Part] = []
    if beaten:
        subject: Parts = ("It",) if alone else (Term(term=found.arms[top]),)
        parts += [" ", *subject, " is better than ", *numbers.names(beaten), " over tasks (signed ranks, after Holm)."]
    if ahead:
        parts += [" Signed ranks oppose the mean rank: by them, after Holm, ", *numbers.names(ahead)]
        parts += [f" {'is' if len(ahead) == 1 else 'are'} better than ", Term(term=found.arms[top]), ", as"]
        parts += [" they weigh by how much an arm leads on a task. No arm is shown to be best over tasks."]
    return tuple(parts)


def _leads(found: Several, top: int) -> list[float]:
    """The signed-rank statistic of an arm against each: positive where it favours that arm."""
    measure = found.comparable().T
    return [_signed(measure[top], other).statistic for other in measure]


def _signed(mine: Array, other: Array) -> PValue:
    return signed_rank(np.subtract(mine, other, out=np.zeros_like(other), where=mine != other))


def _able_to_show(found: Several, top: int) -> bool:
    """Whether signed ranks could have shown that an arm differs from another, with the ties that there are and the
    p-values of all other pairs as they are."""
    measure = found.comparable().T
    tests = {pair: _signed(*measure[list(pair)]) for pair in itertools.combinations(range(len(measure)), 2)}
    return any(
        reachable(test.floor, [other.p for each, other in tests.items() if each != pair])
        for pair, test in tests.items()
        if top in pair
    )


def _rank(found: Several, index: int, rank: float) -> Part:
    where = {"tasks": ", ".join(t.name for t in found.tasks), "among": ", ".join(found.arms)}
    arm = found.arms[index]
    return numbers.value(rank, "", "friedman.mean_ranks", found.run_ids[arm], arm=arm, **where)


def _table(found: Several, ranks: Array, order: Sequence[int]) -> Table:
    best = order[0]
    pairs, leads = friedman.holm_pairs(found.comparable(), "max"), _leads(found, best)
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
            opposed = pairs[best, index] <= ALPHA and leads[index] < 0
            cells.append((shown, ", the first row is worse") if opposed else (shown,))
        rows.append(tuple(cells))
    notes: list[Parts] = [
        (
            "Ranks are of means over seeds (of medians on a task where a run diverged); 1 is the best. p: of the same "
            "means or medians, their differences in each task's own unit.",
        )
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

    (n, k), among = found.middle.shape, friedman.holm_pairs(found.comparable(), "max")
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
