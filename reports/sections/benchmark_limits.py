"""What limits a benchmark's answer: how trials ended, what is missing in the logs, who cannot be told apart."""

from __future__ import annotations

import itertools
from collections import Counter

from algos.finding import Finding
from reports.benchmarked import Benchmark, facts
from reports.document import Column, Findings, Heading, Parts, Table, Term
from reports.sections import numbers
from reports.sections.drawn import Piece
from reports.threats.found import caution, listed, note

#: The trials of a study that the external ruleset allows, and the studies that it asks for.
_TRIALS, _STUDIES = 5, 3
#: The submissions that the official scores of a version and ruleset were computed among: logs of
#: mlcommons/submissions_algorithms; one's own stand beside them.
_FIELDS = {
    ("0.5", "external"): (
        "amos", "baseline", "caspr_adaptive", "cyclic_lr", "generalized_adam", "lawa_ema", "lawa_queue", "nadamp",
        "schedule_free_adamw", "schedule_free_prodigy", "shampoo_submission",
    ),
}  # fmt: skip
#: More names than this are counted.
_NAMED = 4


def limits(bench: Benchmark) -> list[Piece]:
    return [
        Heading(level=2, text="How the trials ended", anchor="ends"),
        _ended(bench),
        Heading(level=2, text="Threats to validity", anchor="threats"),
        Findings(findings=tuple(_threats(bench)), empty="Nothing was found in the logs that could change the answer."),
    ]


def _ended(bench: Benchmark) -> Table:
    rows: list[tuple[Parts, ...]] = []
    for name in bench.ranking:
        runs = bench.of(name)
        reached = [r for r in runs if r.reached]
        kinds = {
            "reached the target": reached,
            "used the budget": [r for r in runs if r.status == "completed" and not r.reached],
            "diverged": [r for r in runs if r.status == "diverged"],
            "logs that end early": [r for r in runs if r.status == "crashed"],
        }
        counted = ((numbers.count(found, f"{name}: {kind}"),) if found else ("0",) for kind, found in kinds.items())
        rows.append(((Term(term=name),), (numbers.count(runs, f"{name}: trials"),), *counted))
    heads = ("Trials", "Reached their target", "Used their budget", "Diverged", "Log ends early")
    return Table(
        caption=("How the trials of scored workloads and variants ended, as far as their logs tell.",),
        columns=(Column(head="Submission"), *(Column(head=head, number=True) for head in heads)),
        rows=tuple(rows),
        notes=(
            (
                "Diverged: a validation value is not a number at the end. Log ends early: short of the target and of "
                "the budget of time and steps; the logs do not say why.",
            ),
        ),
    )


def _threats(bench: Benchmark) -> list[Finding]:
    return [each for check in (_part, _close, _uneven, _left_out, _early, _over, _frameworks) for each in check(bench)]


def _part(bench: Benchmark) -> list[Finding]:
    """Times count against the fastest of those that are scored: without some of the field, no score is the official."""
    field = _FIELDS.get((bench.version, bench.ruleset), ())
    missing = [name for name in field if name not in bench.scores.submissions]
    if not missing:
        return []
    said = (
        f"scored among {len(bench.scores.submissions)} submissions, without {len(missing)} of the {len(field)} of "
        f"v{bench.version} ({listed(missing)}): a score depends on who else is scored, and these are not the official"
    )
    return [caution("part-of-the-field", said, "import the logs of all of them to have the official scores")]


def is_official(bench: Benchmark) -> bool:
    """Whether scores were computed among those submissions that the official ones were computed among, no fewer and no
    more, so that they can be called that."""
    return bench.scores.submissions == tuple(sorted(_FIELDS.get((bench.version, bench.ruleset), ()))) != ()


def _close(bench: Benchmark) -> list[Finding]:
    """Neighbours in the ranking that change places when only some of the studies are scored."""
    scores, ranking = bench.scores, bench.ranking
    places = {name: scores.submissions.index(name) for name in ranking}
    swapped = [
        f"{better} and {worse}"
        for better, worse in itertools.pairwise(ranking)
        if (scores.by_few[:, places[worse]] > scores.by_few[:, places[better]]).any()
    ]
    if not swapped:
        return []
    few = f"{len(scores.choices[0])} of the {len(bench.studies)} studies"
    said = f"neighbours in the ranking that change places on some {few}: {'; '.join(swapped)}"
    return [caution("order-rests-on-few-studies", said, "read them as equal, or have more studies")]


def _uneven(bench: Benchmark) -> list[Finding]:
    """Submissions that had other numbers of trials or studies than the rules ask for."""
    trials = Counter((r.labels.arm, r.labels.task, r.labels.seed) for r in bench.runs)
    studies = Counter((arm, task) for arm, task, _ in trials)
    asked = _TRIALS if bench.ruleset == "external" else 1
    other = {(arm, task) for (arm, task, _), n in trials.items() if n != asked}
    few = {key for key, n in studies.items() if n < _STUDIES}
    absent = {(arm, task) for arm in bench.scores.submissions for task in bench.workloads if (arm, task) not in studies}
    found = []
    if other:
        said = f"not {asked} trial{'s' if asked > 1 else ''} in every study: {_cells(other)}"
        found.append(caution("uneven-trials", said, "more trials find a faster one by chance; fewer are a handicap"))
    if few:
        found.append(caution("few-studies", f"fewer than {_STUDIES} studies: {_cells(few)}", "add the missing studies"))
    if absent:
        cure = "a workload without logs counts as not reached, and so does the base of such a variant"
        found.append(caution("no-logs", f"no logs of {_cells(absent)}", cure))
    return found


def _left_out(bench: Benchmark) -> list[Finding]:
    told = {r.labels.arm: facts(r).get("left_out") or [] for r in bench.runs}
    cure = "move into SUBMISSION/study_N/WORKLOAD/trial_M what belongs to the benchmark, and import again"
    return [note("stray-log", said, cure, arm) for arm, found in told.items() for said in found]


def _early(bench: Benchmark) -> list[Finding]:
    """Workloads on which all of a submission's logs end early: that tells of the system, not of the algorithm."""
    early = [
        (name, workload)
        for name in bench.ranking
        for workload in bench.workloads
        if (runs := bench.of(name, workload)) and all(r.status == "crashed" for r in runs)
    ]
    if not early:
        return []
    said = f"every log ends early: {_cells(set(early))}"
    return [
        caution("logs-end-early", said, "find out why they stopped: memory, a bug and an early surrender look alike")
    ]


def _over(bench: Benchmark) -> list[Finding]:
    """Trials that met their target after the time they were allowed: the official score counts them."""
    over = [r for r in bench.runs if r.reached and r.reached["train_s"] > (facts(r).get("budget_s") or float("inf"))]
    if not over:
        return []
    cells = {(r.labels.arm, r.labels.task) for r in over}
    said = f"{len(over)} of the trials met their target after the time they were allowed: {_cells(cells)}"
    return [note("over-budget", said, "the official score counts them, and so does this one")]


def _frameworks(bench: Benchmark) -> list[Finding]:
    used: dict[str, set[str]] = {}
    for record in bench.runs:
        if told := str(record.config.get("framework") or ""):
            used.setdefault(told, set()).add(record.labels.arm)
    if len(used) < 2:
        return []
    told = "; ".join(f"{listed(sorted(arms))} in {name}" for name, arms in sorted(used.items()))
    cure = "a ratio of times between frameworks is also one of their implementations"
    return [note("two-frameworks", f"not all ran in one framework: {told}", cure)]


def _cells(cells: set[tuple[str, str]]) -> str:
    """Submissions with their workloads, in words."""
    by: dict[str, list[str]] = {}
    for arm, task in sorted(cells):
        by.setdefault(arm, []).append(task)
    told = [f"{arm} ({', '.join(t) if len(t) <= _NAMED else f'{len(t)} workloads'})" for arm, t in by.items()]
    return ", ".join(told)
