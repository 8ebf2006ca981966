"""What limits a benchmark's answer: scores of a part of the field are not the official ones."""

from __future__ import annotations

from pathlib import Path

from experiments.store.sources.algoperf import AlgoPerfSource
from experiments.store.sources.algoperf_targets import V05
from reports import table
from reports.benchmarked import Benchmark, benchmarked
from reports.document import Findings
from reports.sections.benchmark_limits import is_official, limits

FIELD = (
    "amos", "baseline", "caspr_adaptive", "cyclic_lr", "generalized_adam", "lawa_ema", "lawa_queue", "nadamp",
    "schedule_free_adamw", "schedule_free_prodigy", "shampoo_submission",
)  # fmt: skip


def imported(folder: Path, names: tuple[str, ...], ruleset: str = "external") -> Benchmark:
    """A benchmark of one trial a submission."""
    for name in names:
        place = folder / name / "study_0" / "ogbg_jax" / "trial_1"
        place.mkdir(parents=True)
        (place / "eval_measurements.csv").write_text(
            "score,global_step,validation/mean_average_precision,test/mean_average_precision\n9,5,0.9,0.9\n"
        )
    return benchmarked(table.read(AlgoPerfSource(folder, ruleset, V05, study="b"), "b"))


def part(folder: Path, names: tuple[str, ...], ruleset: str = "external") -> str:
    """What is said of the field; "" where nothing is."""
    bench = imported(folder, names, ruleset)
    found = next(block for block in limits(bench) if isinstance(block, Findings))
    return "".join(str(each) for each in found.findings if each.rule == "part-of-the-field")


def test_the_missing_submissions_are_named(tmp_path: Path) -> None:
    said = part(tmp_path, ("nadamp", "amos", "mine"))
    assert "scored among 3 submissions, without 9 of the 11 of v0.5 (baseline, caspr_adaptive, cyclic_lr, " in said
    assert "and these are not the official" in said


def test_the_whole_field_and_another_ruleset_are_not_cautioned(tmp_path: Path) -> None:
    assert part(tmp_path / "all", (*FIELD, "mine")) == ""
    assert part(tmp_path / "self", ("mine", "other"), "self") == ""


def test_scores_are_official_among_the_whole_field_alone(tmp_path: Path) -> None:
    assert is_official(imported(tmp_path / "all", FIELD))
    assert not is_official(imported(tmp_path / "more", (*FIELD, "mine")))
    assert not is_official(imported(tmp_path / "part", FIELD[1:]))
    assert not is_official(imported(tmp_path / "self", FIELD, "self"))
