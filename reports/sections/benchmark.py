"""The benchmark: what a study imported from AlgoPerf's logs comes to, by the benchmark's own score.

Such a study is no comparison of arms by their final runs, so its report has this in place of verdicts: trials stop at
their target, so what they ended with does not compare; what does is the time they took.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np

from reports.benchmarked import Benchmark, benchmarked, is_benchmark
from reports.document import Column, Heading, Paragraph, Part, Parts, Picture, Table, Term
from reports.figures.drawing import Drawing
from reports.figures.legend import height, legend
from reports.figures.profiles import Steps, profiles
from reports.figures.style import COLUMN, labels, marks
from reports.quantity import Quantity
from reports.sections import numbers
from reports.sections.benchmark_limits import is_official, limits
from reports.sections.benchmark_workloads import workloads
from reports.sections.drawn import Drawn, Piece, full_names
from reports.statistics import algoperf
from reports.table import StudyTable

_RULESETS = {"external": "external tuning", "self": "self-tuning"}


def benchmark(study: StudyTable, question: str = "") -> list[Piece]:
    """The sections of a study whose runs were imported from AlgoPerf; [] for any other. question: in place of the one
    that the benchmark asks."""
    if not is_benchmark(study):
        return []
    bench = benchmarked(study)
    asked = question or study.question
    return [
        Heading(level=2, text="Question", anchor="question"),
        Paragraph(parts=(asked,) if asked else (f"Who trains to the targets of AlgoPerf v{bench.version} soonest?",),
                  role="lead"),
        Paragraph(parts=_what(bench)),
        Heading(level=2, text="Score", anchor="score"),
        *_leads(bench),
        _table(bench),
        _picture(bench),
        Paragraph(parts=(_RULE,)),
        *workloads(study, bench),
        *limits(bench),
    ]  # fmt: skip


def summary(study: StudyTable) -> str:
    """A line for lists and previews; "" for a study that is no benchmark."""
    if not is_benchmark(study):
        return ""
    bench = benchmarked(study)
    if not bench.scores.submissions:
        return ""
    leaders = _leaders(bench.ranking, [_of(bench, bench.scores.official, name) for name in bench.ranking])
    if not leaders:
        return f"AlgoPerf v{bench.version}: {_NONE}"
    named = ", ".join(leaders[:-1]) + (" and " if leaders[1:] else "") + leaders[-1]
    return f"AlgoPerf v{bench.version}: {named} {_highest(leaders)}, {_score(bench, leaders[0]).text}"


_NONE = "no submission scores above 0: none reached a target that counts"

_RULE = (
    "The score is the area under the performance profile up to four times the fastest time, of at most 1. A "
    "submission's time on a workload is the median over its studies; of a study that trial counts which met the target "
    "in the fewest evaluations. A time of more than four times the fastest counts as not reached, and so does one on a "
    "workload whose held-out variant was not reached. The official rule takes the area by trapezoids over 100 points; "
    "beside it stands the exact area, and what it would be if the trial of shortest time counted."
)


def _what(bench: Benchmark) -> Parts:
    """What was imported."""
    found = bench.scores.submissions
    studies = bench.studies
    several = "study" if len(studies) == 1 else "studies"
    count = numbers.count(bench.runs, "trials of scored workloads and variants")
    more: Parts = ()
    if bench.others:
        tasks = sorted({record.labels.task for record in bench.others})
        told = numbers.count(bench.others, "trials of workloads that do not count")
        more = (" ", told, " more are of workloads that do not count: ", *numbers.names(tasks), ".")
    return (
        f"AlgoPerf v{bench.version}, ruleset of {_RULESETS.get(bench.ruleset, bench.ruleset)}: ",
        count,
        f" trials of {len(found)} submission{'' if len(found) == 1 else 's'} in {len(studies)} {several}, on "
        f"{len(bench.base)} workloads and {len(bench.held_out)} held-out variants of them. All were imported from the "
        "benchmark's logs, and none was run again.",
        *more,
    )


def _leads(bench: Benchmark) -> list[Piece]:
    """Who leads, and whether that rests on one study."""
    ranking = bench.ranking
    if not ranking:
        return [Paragraph(parts=("There are no logs of any workload that counts.",), role="lead")]
    leaders = _leaders(ranking, [_of(bench, bench.scores.official, name) for name in ranking])
    if not leaders:
        return [Paragraph(parts=(f"{_NONE[0].upper()}{_NONE[1:]}.",), role="lead")]
    parts: list[Part] = [*numbers.names(leaders), f" {_highest(leaders)}, ", _score(bench, leaders[0])]
    if len(ranking) > len(leaders):
        rest = ranking[len(leaders) :]
        after = _leaders(rest, [_of(bench, bench.scores.official, name) for name in rest]) or rest
        are = "is" if len(after) == 1 else "are"
        parts += [f"; next {are} ", *numbers.names(after), " with ", _score(bench, after[0])]
    return [Paragraph(parts=(*parts, "."), role="lead"), *_steady(bench, leaders[0])]


def _leaders(names: Sequence[str], scores: Sequence[float]) -> list[str]:
    """Who has the highest score: several where it is the same but for rounding, none where it is 0."""
    most = max(scores)
    return [name for name, score in zip(names, scores) if most > 0 and math.isclose(score, most, rel_tol=1e-9)]


def _highest(leaders: Sequence[str]) -> str:
    return "scores highest" if len(leaders) == 1 else "share the highest score"


def _steady(bench: Benchmark, first: str) -> list[Piece]:
    """Whether fewer studies would have told the same. A choice that several lead counts for each."""
    names, choices = bench.scores.submissions, bench.scores.choices
    if len(choices) < 2 or len(names) < 2:
        return []
    leading = [_leaders(names, row.tolist()) for row in bench.scores.by_few]
    leaders = Counter(name for leading_one in leading for name in leading_one)
    shared = any(len(leading_one) > 1 for leading_one in leading)
    few = f"{len(choices[0])} of the {len(bench.studies)} studies"
    mine = numbers.value(leaders[first], "", "algoperf.by_few", bench.counting(), arm=first, of="choices it leads in")
    leads = " leads or shares the lead in " if shared else " leads in "
    parts: list[Part] = [f"Scored on any {few}, ", Term(term=first), leads, mine]
    parts.append(f" of the {len(choices)} choices")
    others: list[Parts] = [
        (Term(term=name), " in ", numbers.value(count, "", "algoperf.by_few", bench.counting(), arm=name,
                                                of="choices it leads in"))
        for name, count in leaders.most_common()
        if name != first
    ]  # fmt: skip
    return [Paragraph(parts=(*parts, *((", ", *numbers.joined(others)) if others else ()), "."))]


def _table(bench: Benchmark) -> Table:
    scores, reference = bench.scores, bench.reference
    several = len(scores.choices) > 1
    few = f"Any {len(scores.choices[0])} of {len(bench.studies)} studies" if several else ""
    counted = np.isfinite(scores.ratios).sum(axis=1)
    columns = [
        Column(head="Submission"),
        Column(head="Official score", number=True)
        if is_official(bench)
        else Column(head="Score", unit="by the official rule, of these", number=True),
        *([Column(head=few, unit="least to most", number=True)] if several else []),
        Column(head="Exact area", number=True),
        Column(head="Shortest trial, exact area", number=True),
        Column(head="Workloads that count", unit=f"of {len(bench.base)}", number=True),
        *([Column(head=f"Time to {reference}'s", unit="ratio [95 % t interval]", number=True)] if reference else []),
    ]
    rows: list[tuple[Parts, ...]] = []
    ids = bench.counting()
    for name in bench.ranking:
        row = scores.submissions.index(name)
        low, high = (float(f(scores.by_few[:, row])) for f in (np.min, np.max))
        some = (_value(low, "least of few", name, ids), " to ", _value(high, "most of few", name, ids))
        rows.append(
            (
                (Term(term=name),),
                (_score(bench, name),),
                *((some,) if several else ()),
                (_value(float(scores.exact[row]), "exact", name, ids),),
                (_value(float(scores.corrected[row]), "shortest", name, bench.fastest),),
                (_value(float(counted[row]), "counted", name, ids),),
                *((_speedup(bench, name),) if reference else ()),
            )
        )
    return Table(caption=("The score of each submission.",), columns=tuple(columns), rows=tuple(rows),
                 notes=tuple(_notes(bench)))  # fmt: skip


def _speedup(bench: Benchmark, name: str) -> Parts:
    """The geometric mean of times over the reference's, as the benchmark tells it."""
    if name == bench.reference:
        return ("1 (itself)",)
    found = _ratio(bench, name, all_workloads=_budgeted(bench))
    runs = tuple(run for arm in (name, bench.reference) for work in bench.base for run in bench.counting(arm, work))
    how = "algoperf.time_ratio"
    return (numbers.estimated(found, "", how, runs, absent="none in common", arm=name, than=bench.reference),)


def _ratio(bench: Benchmark, name: str, *, all_workloads: bool) -> algoperf.Estimate | None:
    times = bench.scores.times
    budgets = [bench.budgets.get(workload, math.nan) for workload in bench.base] if all_workloads else None
    return algoperf.time_ratio(times.row(name, bench.base), times.row(bench.reference, bench.base), budgets)


def _budgeted(bench: Benchmark) -> bool:
    """Whether it is known how long each workload may train."""
    return all(workload in bench.budgets for workload in bench.base)


def _notes(bench: Benchmark) -> list[Parts]:
    notes = [_slower(bench)]
    if bench.reference and _budgeted(bench):
        notes.append(
            (
                "Time to ",
                Term(term=bench.reference),
                "'s: geometric mean over the workloads; a target that was not reached counts as its whole budget and a "
                "second, so that a workload that both missed counts as equal, and one without logs is left out. The "
                "interval speaks of other workloads like these. Below 1 is faster.",
            )
        )
    elif bench.reference:
        notes.append(
            (
                "Time to ",
                Term(term=bench.reference),
                "'s: geometric mean over the workloads whose target both reached. The interval speaks of other "
                "workloads like these. Below 1 is faster.",
            )
        )
    return [note for note in notes if note]


def _slower(bench: Benchmark) -> Parts:
    """What it changes that a study's trial is chosen by evaluations and not by time."""
    scores = bench.scores
    fastest = set(bench.fastest)
    differ = [r for r in bench.runs if r.labels.phase == "final" and r.reached and r.run_id not in fastest]
    if not differ:
        return ("In every study the trial that met the target in the fewest evaluations was also the fastest.",)
    change = scores.corrected - scores.exact
    most = int(np.abs(change).argmax())
    name, runs = scores.submissions[most], bench.fastest
    told: Parts = ("; no score changes by that.",)
    if change[most]:
        moved = _value(float(change[most]), "change", name, runs)
        told = ("; the score that changes most by that is that of ", Term(term=name), ", by ", moved, ".")
    count = numbers.count(differ, "trials that counted and were not the fastest of their study")
    return (
        "In ",
        count,
        " cases the trial that met the target in the fewest evaluations was not the fastest of its study",
        *told,
    )


def _of(bench: Benchmark, values: algoperf.Array, name: str) -> float:
    return float(values[bench.scores.submissions.index(name)])


def _score(bench: Benchmark, name: str) -> Quantity:
    return _value(_of(bench, bench.scores.official, name), "official", name, bench.counting())


def _value(number: float, rule: str, name: str, runs: Sequence[str]) -> Quantity:
    return numbers.value(number, "", "algoperf.scores", runs, arm=name, rule=rule)


def _picture(bench: Benchmark) -> Drawn:
    names, scores = bench.ranking, bench.scores
    looks, shown = marks(names), labels(names)
    finite = scores.ratios[np.isfinite(scores.ratios) & (scores.ratios <= algoperf.LIMIT)]
    at = np.unique(np.concatenate([[1.0], finite, [algoperf.LIMIT]]))
    shares = dict(zip(scores.submissions, algoperf.profile(scores.ratios, at)))
    width = 2 * COLUMN

    def draw(figure: object) -> None:
        axis = figure.add_subplot()  # type: ignore[attr-defined]
        profiles(
            axis,
            [Steps(name, looks[name], at, shares[name]) for name in names],
            x="time to target, as a multiple of the fastest",
            y=f"share of the {len(bench.base)} workloads",
            log=False,
        )
        legend(axis)

    drawing = Drawing(
        name="performance-profile",
        size=(width, 2.9 + height([shown[name] for name in names], width)),
        draw=draw,
        header=("submission", "multiple_of_fastest", "share_of_workloads"),
        rows=tuple((name, float(x), float(y)) for name in names for x, y in zip(at, shares[name])),
    )
    told = "; ".join(
        f"{name} is fastest on {_share(shares[name][0])}, in the end {_share(shares[name][-1])}" for name in names
    )
    return Drawn(
        Picture(
            name=drawing.name,
            title="Performance profile",
            caption=(
                "Performance profile: the share of workloads whose target a submission reached within so many times "
                "the fastest submission's time. The score is the area under it.",
                *full_names(names),
            ),
            alt=f"Share of workloads by multiple of the fastest time. {told}.",
            runs=bench.counting(),
        ),
        drawing,
    )


def _share(value: float) -> str:
    return f"{100 * value:.3g} %"
