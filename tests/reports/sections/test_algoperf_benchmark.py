"""The report of an imported benchmark: what it says of a small one whose score is known by hand."""

from __future__ import annotations

import pytest

from algos.finding import InputError
from experiments.store.sources.algoperf import AlgoPerfSource
from experiments.store.sources.algoperf_targets import Target, Targets
from reports import table
from reports.benchmarked import benchmarked, is_benchmark
from reports.document import Block, Document, Findings, Heading, Paragraph, Picture, Table, Term, quantities
from reports.quantity import Quantity
from reports.render import html
from reports.sections.benchmark import benchmark, summary
from reports.sections.drawn import Drawn

TARGETS = Targets(
    version="0.9",
    base=("cv", "lm"),
    held_out=("lm_tanh",),
    workloads={name: Target("accuracy", "max", 0.5, 100, 1000.0) for name in ("cv", "lm", "lm_tanh", "gnn")},
)
#: Submission -> workload -> seconds to the target in each of three studies; None: never.
FAST = {"cv": (100, 110, 120), "lm": (200, 200, 200), "lm_tanh": (50, 50, 50)}
SLOW = {"cv": (220, 220, 220), "lm": (300, None, None), "lm_tanh": (60, 60, 60)}
LATE = {"cv": (500, 500, 500), "lm": (220, 220, 220), "lm_tanh": (210, 210, 210)}


@pytest.fixture
def study(tmp_path):
    """Writes logs of (submission -> workload -> times), of one trial a study, and reads them as a study's table."""

    def make(submissions, ruleset="external", framework="jax"):
        for name, workloads in submissions.items():
            for workload, times in workloads.items():
                for number, seconds in enumerate(times):
                    place = tmp_path / "logs" / name / f"study_{number}" / f"{workload}_{framework}" / "trial_1"
                    place.mkdir(parents=True)
                    last, end = (0.6, seconds) if seconds else (0.4, 1000)
                    rows = f"1,1,0.1,0.1\n{end},50,{last},{last}\n"
                    head = "score,global_step,validation/accuracy,test/accuracy\n"
                    (place / "eval_measurements.csv").write_text(head + rows)
        source = AlgoPerfSource(tmp_path / "logs", ruleset, TARGETS, study="b")
        return table.read(source, "b")

    return make


def document(study) -> tuple[Document, dict[str, bytes]]:
    pieces = benchmark(study)
    blocks = [piece.picture if isinstance(piece, Drawn) else piece for piece in pieces]
    files = {n: data for piece in pieces if isinstance(piece, Drawn) for n, data in piece.drawing.files().items()}
    return Document(title="b", summary=summary(study), study="b", made_by="test", blocks=tuple(blocks)), files


def words(block: Block) -> str:
    """All text of a block, as it is read."""

    def said(parts) -> str:
        return "".join(
            part if isinstance(part, str) else part.term if isinstance(part, Term) else part.text for part in parts
        )

    if isinstance(block, Heading):
        return block.text
    if isinstance(block, Paragraph):
        return said(block.parts)
    if isinstance(block, Picture):
        return said(block.caption) + block.alt
    if isinstance(block, Findings):
        return " ".join(map(str, block.findings))
    if isinstance(block, Table):
        return " | ".join(
            said(cell) for row in (*block.rows, *block.notes) for cell in (row if row in block.rows else [row])
        )
    return ""


def rows(found: Document, caption: str) -> dict[str, list[str]]:
    """A table's rows by their first cell."""
    block = next(b for b in found.blocks if isinstance(b, Table) and caption in "".join(map(str, b.caption)))
    told = [["".join(words(Paragraph(parts=cell)) for cell in [cell]) for cell in row] for row in block.rows]
    return {row[0]: row[1:] for row in told}


def test_scores_times_and_reasons_of_a_small_benchmark(study):
    """fast: 1 on both. slow: cv at twice fast's 110 s, lm missed in two of three studies: (4 - 2)/3/2. late: cv more
    than four times 110 s, and lm_tanh more than four times 50 s, which takes lm away: 0."""
    found, _ = document(study({"fast": FAST, "slow": SLOW, "late": LATE}))
    scores = rows(found, "The score of each submission")
    assert {name: row[0] for name, row in scores.items()} == {"fast": "1", "slow": "0.3359", "late": "0"}
    assert scores["slow"][2] == "0.3333"  # exactly; by trapezoids half a cell of 1/33 more: (2 + 1/66)/6
    assert list(scores) == ["fast", "slow", "late"]
    times = rows(found, "on the workloads that are scored")
    assert times == {"fast": ["1", "1"], "slow": ["2", "-"], "late": ["4.545", "1.1"]}
    assert rows(found, "held-out variants") == {"fast": ["1"], "slow": ["1.2"], "late": ["4.2"]}
    missed = next(b for b in found.blocks if isinstance(b, Table) and "scores nothing" in str(b.caption))
    reasons = [[words(Paragraph(parts=cell)) for cell in row] for row in missed.rows]
    assert reasons == [
        ["slow", "lm", "target reached in 1 of 3 studies"],
        ["late", "cv", "4.545 times the fastest, which is too late"],
        ["late", "lm", "reached, but on the held-out variant lm_tanh: 4.2 times the fastest, which is too late"],
    ]
    lead = next(words(b) for b in found.blocks if isinstance(b, Paragraph) and "highest" in words(b))
    assert lead == "fast scores highest, 1; next is slow with 0.3359."
    assert found.summary == "AlgoPerf v0.9: fast scores highest, 1"


def test_who_leads_by_which_studies(study):
    """b is ahead where study 0 alone is scored, a in the others and in all: studies of one, as two are an even
    number."""
    a, b = {"cv": (200, 100, 100), "lm": (100, 100, 100)}, {"cv": (100, 150, 150), "lm": (100, 100, 100)}
    both = {"lm_tanh": (50, 50, 50)}
    found, _ = document(study({"a": a | both, "b": b | both}))
    told = " ".join(map(words, found.blocks))
    assert "Scored on any 1 of the 3 studies, a leads in 2 of the 3 choices, b in 1." in told
    assert "order-rests-on-few-studies" in found.to_json()
    assert "a and b" in told


def test_equal_scores_are_told_as_equal(study):
    """a and b took the same times everywhere, c twice as long: no order of names makes a leader."""
    slow = {"cv": (200, 220, 240), "lm": (400, 400, 400), "lm_tanh": (100, 100, 100)}
    found, _ = document(study({"a": FAST, "b": FAST, "c": slow}))
    told = [words(b) for b in found.blocks if isinstance(b, Paragraph)]
    assert found.summary == "AlgoPerf v0.9: a and b share the highest score, 1"
    assert any(line.startswith("a and b share the highest score, 1; next is c with 0.67") for line in told)
    few = "Scored on any 1 of the 3 studies, a leads or shares the lead in 3 of the 3 choices, b in 3."
    assert few in told


def test_a_choice_of_studies_in_which_nobody_scores_is_led_by_none(study):
    """Nobody reaches cv in study 2, nor lm in any; b is the only one in studies 0 and 1."""
    a = {"cv": (None, None, None), "lm": (None, None, None), "lm_tanh": (50, 50, 50)}
    b = {"cv": (100, 100, None), "lm": (None, None, None), "lm_tanh": (50, 50, 50)}
    told = " ".join(map(words, document(study({"a": a, "b": b}))[0].blocks))
    assert "b leads in 2 of the 3 choices." in told


def test_a_trial_in_fewer_evaluations_that_was_slower_is_told(study, tmp_path):
    found = study({"a": FAST})
    place = tmp_path / "logs/a/study_0/cv_jax/trial_2"
    place.mkdir()
    head = "score,global_step,validation/accuracy,test/accuracy\n"
    (place / "eval_measurements.csv").write_text(head + "1,1,0,0\n2,2,0,0\n90,3,0.6,0.6\n")
    found = table.read(AlgoPerfSource(tmp_path / "logs", "external", TARGETS, study="b"), "b")
    told = " ".join(map(words, document(found)[0].blocks))
    assert "In 1 cases the trial that met the target in the fewest evaluations was not the fastest" in told
    assert "not 5 trials in every study" in told


def test_the_reference_is_the_baseline(study):
    """fast/baseline: cv 110/220, lm 200/1001 (missed: the budget and a second); geometric mean by hand."""
    found, _ = document(study({"fast": FAST, "baseline": SLOW}))
    row = rows(found, "The score of each submission")
    assert row["baseline"][-1] == "1 (itself)"
    expected = (110 / 220 * 200 / 1001) ** 0.5
    ratio = next(
        q for b in found.blocks for q in quantities(b) if q.statistic == "algoperf.time_ratio" and q.value is not None
    )
    assert ratio.value == pytest.approx(expected)
    assert len(ratio.runs) == 2 * 2 * 3


def test_workloads_without_logs_and_of_other_kinds(study):
    found, _ = document(study({"a": {**FAST, "gnn": (10, 10, 10)}, "b": {"cv": (100, 100, 100)}}))
    told = " ".join(map(words, found.blocks))
    assert "3 more are of workloads that do not count: gnn." in told
    assert "no logs of b (lm, lm_tanh)" in told
    assert rows(found, "scored")["b"] == ["1", "no logs"]


def test_nobody_reaches_anything(study):
    never = dict.fromkeys(("cv", "lm", "lm_tanh"), (None, None, None))
    found, files = document(study({"a": never, "b": never}))
    assert "none reached a target" in " ".join(map(words, found.blocks))
    assert found.summary == "AlgoPerf v0.9: no submission scores above 0: none reached a target that counts"
    assert "highest" not in found.summary
    assert files["performance-profile.csv"].startswith(b"submission,")


def test_every_number_rests_on_runs_and_none_is_doubled(study):
    found, _ = document(study({"fast": FAST, "slow": SLOW, "baseline": LATE}))
    numbers: list[Quantity] = list(found.quantities())
    assert numbers
    assert all(number.runs for number in numbers)
    known: dict[tuple[object, ...], float | None] = {}
    for number in numbers:
        key = number.statistic, tuple(sorted((k, str(v)) for k, v in number.arguments.items()))
        assert known.setdefault(key, number.value) == number.value, key


@pytest.mark.parametrize("name", ["<script>alert(1)<", r"\input{etc", "a_b%&$#", "提交", "x" * 200])
def test_names_are_shown_as_they_are(study, name):
    found, files = document(study({name: FAST, "other": SLOW}))
    page = html.render(found, {n.removesuffix(".svg"): data for n, data in files.items() if n.endswith(".svg")})
    assert "<script>" not in page
    assert name in rows(found, "The score of each submission")
    assert Document.from_json(found.to_json()) == found


def test_the_same_study_gives_the_same_files(study):
    made = study({"fast": FAST, "slow": SLOW})
    first, second = document(made), document(made)
    assert first[0].to_json() == second[0].to_json()
    assert first[1] == second[1]


def test_other_studies_are_no_benchmark(study):
    import dataclasses

    made = study({"a": FAST})
    assert is_benchmark(made)
    plain = tuple(
        dataclasses.replace(run, file=dataclasses.replace(run.file, facts={"task": run.task})) for run in made.runs
    )
    other = dataclasses.replace(made, runs=(*made.runs[1:], plain[0]))
    assert not is_benchmark(other)
    assert benchmark(other) == []
    assert summary(other) == ""


def test_two_rulesets_in_one_study_are_refused(study):
    import dataclasses

    made = study({"a": FAST})
    facts = made.runs[0].file.facts
    changed = {**facts, "algoperf": {**facts["algoperf"], "ruleset": "self"}}
    run = dataclasses.replace(made.runs[0], file=dataclasses.replace(made.runs[0].file, facts=changed))
    with pytest.raises(InputError, match="different AlgoPerf benchmarks"):
        benchmarked(dataclasses.replace(made, runs=(run, *made.runs[1:])))


def test_a_target_met_after_the_time_that_was_allowed_is_told(study):
    """1,000 s were allowed on each workload."""
    found, _ = document(study({"a": {**FAST, "cv": (1200, 1200, 1200)}}))
    told = " ".join(map(words, found.blocks))
    assert "3 of the trials met their target after the time they were allowed: a (cv)" in told
    assert rows(found, "The score of each submission")["a"][0] == "1"


def test_all_who_were_first_on_a_workload_are_named(study):
    found, _ = document(study({"fast": FAST, "twin": FAST, "slow": SLOW}))
    assert rows(found, "who was first there")["cv"][-2:] == ["fast and twin", "110 s"]
