"""The workloads of a benchmark: each submission's time to each target beside the fastest, and what was not reached."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from reports.benchmarked import Benchmark
from reports.document import Column, Heading, Paragraph, Parts, Table, Term
from reports.judged import TaskFacts
from reports.sections import numbers
from reports.sections.drawn import Piece
from reports.statistics import algoperf
from reports.table import StudyTable


def workloads(study: StudyTable, bench: Benchmark) -> list[Piece]:
    pieces: list[Piece] = [Heading(level=2, text="Time to target", anchor="workloads")]
    pieces.append(_targets(study, bench))
    for names, caption in ((bench.base, "the workloads that are scored"), (bench.held_out, "their held-out variants")):
        if names:
            pieces.append(_table(bench, names, caption))
    return [*pieces, *_missed(bench)]


def _targets(study: StudyTable, bench: Benchmark) -> Table:
    """What each workload is and asks for, and the fastest on it."""
    rows: list[tuple[Parts, ...]] = []
    for name in bench.workloads:
        task = study.tasks.get(name)
        budget = f"{bench.budgets[name]:,.0f}" if name in bench.budgets else "not known"
        asks = _asks(task) if task else "no logs"
        title = (task.title,) if task else ("-",)
        rows.append(((Term(term=name),), title, (asks,), (budget,), *_fastest(bench, name)))
    return Table(
        caption=("The workloads, their targets in validation, and who was first there.",),
        columns=(
            Column(head="Workload"),
            Column(head="What it is"),
            Column(head="Target"),
            Column(head="Longest training", unit="s", number=True),
            Column(head="Fastest"),
            Column(head="Its time", unit="s, median over studies", number=True),
        ),
        rows=tuple(rows),
    )


def _asks(task: TaskFacts) -> str:
    words = "WER" if task.metric == "wer" else task.words.upper() if task.metric in ("ssim", "bleu") else task.words
    return f"{words} {'≥' if task.mode == 'max' else '≤'} {task.target:g}"


def _fastest(bench: Benchmark, workload: str) -> tuple[Parts, Parts]:
    """Who was first, all of them where several were, and when."""
    times = {name: bench.scores.times.of(name, workload) for name in bench.scores.submissions}
    least = min((time for time in times.values() if math.isfinite(time)), default=math.inf)
    if not math.isfinite(least):
        return ("none",), ("-",)
    first = [name for name, time in times.items() if time == least]
    runs = tuple(run for name in first for run in bench.counting(name, workload))
    time = numbers.value(least, "s", "algoperf.medians", runs, arm=" and ".join(first), task=workload)
    return numbers.names(first), (time,)


def _table(bench: Benchmark, names: Sequence[str], what: str) -> Table:
    """Times as multiples of the fastest."""
    rows = tuple(
        ((Term(term=submission),), *(_multiple(bench, submission, workload) for workload in names))
        for submission in bench.ranking
    )
    return Table(
        caption=(f"Time to target as a multiple of the fastest, on {what}.",),
        columns=(Column(head="Submission"), *(Column(head=name.replace("_", " "), number=True) for name in names)),
        rows=rows,
        notes=(
            (
                "The median over studies, an unreached target being later than all others; “-”: not reached in the "
                "median study.",
            ),
        ),
    )


def _multiple(bench: Benchmark, submission: str, workload: str) -> Parts:
    times = bench.scores.times
    mine = times.of(submission, workload)
    if math.isnan(mine):
        return ("no logs",)
    column = times.seconds[:, times.workloads.index(workload)]
    reached = column[np.isfinite(column)]
    runs = bench.counting(submission, workload)
    ratio = mine / float(reached.min()) if len(reached) else math.inf
    return (numbers.value(ratio, "", "algoperf.ratios", runs, absent="-", arm=submission, task=workload),)


def _missed(bench: Benchmark) -> list[Piece]:
    """Each workload that does not count for a submission, and why."""
    rows: list[tuple[Parts, ...]] = []
    for submission in bench.ranking:
        for workload in bench.base:
            why = _why(bench, submission, workload)
            if why:
                rows.append(((Term(term=submission),), (Term(term=workload),), why))
    heading = Heading(level=3, text="What does not count", anchor="missed")
    if not rows:
        return [heading, Paragraph(parts=("Every submission reached every target in time.",))]
    columns = (Column(head="Submission"), Column(head="Workload"), Column(head="Why"))
    return [
        heading,
        Table(caption=("Workloads on which a submission scores nothing.",), columns=columns, rows=tuple(rows)),
    ]


def _why(bench: Benchmark, submission: str, workload: str) -> Parts:
    row, column = bench.scores.submissions.index(submission), bench.base.index(workload)
    if math.isfinite(bench.scores.ratios[row, column]):
        return ()
    own = _short(bench, submission, workload)
    if own:
        return own
    for variant in bench.held_out:
        if algoperf.of_variant(variant, bench.base) == workload and (short := _short(bench, submission, variant)):
            return ("reached, but on the held-out variant ", Term(term=variant), ": ", *short)
    return ("not counted",)


def _short(bench: Benchmark, submission: str, workload: str) -> Parts:
    """Why a time is none: no logs, not reached, too late; () where it stands."""
    times = bench.scores.times
    mine = times.of(submission, workload)
    runs = bench.of(submission, workload)
    if math.isnan(mine):
        return ("no logs",)
    if math.isinf(mine):
        studies = {record.labels.seed for record in runs}
        met = {record.labels.seed for record in runs if record.reached}
        ids = tuple(record.run_id for record in runs)
        where = {"arm": submission, "task": workload, "of": "studies that reached the target"}
        count = numbers.value(float(len(met)), "", "count", ids, **where)
        return ("target reached in ", count, f" of {len(studies)} studies", *_ends(bench, submission, workload))
    column = times.seconds[:, times.workloads.index(workload)]
    best = float(np.nanmin(column))
    if mine > algoperf.LIMIT * best:
        ids = bench.counting(submission, workload)
        return (numbers.value(mine / best, "", "algoperf.ratios", ids, arm=submission, task=workload),
                " times the fastest, which is too late")  # fmt: skip
    return ()


def _ends(bench: Benchmark, submission: str, workload: str) -> Parts:
    """How the trials ended that did not get there: told where their logs end early, or training diverged."""
    runs = bench.of(submission, workload)
    told: list[Parts] = []
    for status, words in (("crashed", "end early"), ("diverged", "diverged")):
        found = [record for record in runs if record.status == status]
        if found:
            about = f"trials of {submission} on {workload} that {words}"
            told.append((numbers.count(found, about), f" of {len(runs)} logs {words}" if status == "crashed"
                         else f" of {len(runs)} {words}"))  # fmt: skip
    return ("; ", *numbers.joined(told)) if told else ()
