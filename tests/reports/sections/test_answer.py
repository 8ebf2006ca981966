"""The answer names every arm, and says of each clock what it shows."""

from __future__ import annotations

import dataclasses
from typing import Any

from reports.document import Paragraph, Parts, Picture, Table, Term, Verdict
from reports.report import build
from reports.sections.answer import answer
from reports.table import read

NAME = "sgd-or-adam"
THREE = {"a": {"level": 0.93}, "b": {"level": 0.96}, "c": {"level": 0.94}}


def words(parts: Parts) -> str:
    return "".join(p if isinstance(p, str) else p.term if isinstance(p, Term) else p.text for p in parts)


def said(memory: Any) -> tuple[str, str]:
    (verdict,) = [block for block in answer(read(memory, NAME)) if isinstance(block, Verdict)]
    return verdict.verdict, words(verdict.parts)


def tables(memory: Any, caption: str) -> list[list[str]]:
    found = [block for block in build(read(memory, NAME)).document.blocks if isinstance(block, Table)]
    return [[words(cell) for cell in row] for table in found if caption in words(table.caption) for row in table.rows]


def crash(memory: Any, arm: str) -> None:
    memory.change(memory.of(arm=arm, phase="final"), lambda r: dataclasses.replace(r, status="crashed", final={}))


def test_runs_that_stopped_at_their_target_are_told_by_time_and_not_ruled(clean: Any) -> None:
    clean.with_config(clean.of(phase="final"), stop="target")
    clean.change(clean.of(phase="final"), lambda r: dataclasses.replace(r, final={"objective": 0.91}))
    verdict, text = said(clean)
    assert verdict == "cannot be told"
    assert "medians: sgd 120 updates and adam 100 updates" in text
    assert tables(clean, "every pair") == []
    assert {row[1] for row in tables(clean, "final runs")} == {"not compared: stopped at target"}


def test_an_arm_whose_runs_all_crashed_is_named(made: Any) -> None:
    two, three = made(), made(THREE)
    crash(two, "sgd")
    crash(three, "c")
    assert "adam alone has outcomes" in said(two)[1]
    assert "sgd has no outcome: its final runs did not end (6 crashed)" in said(two)[1]
    assert "c has no outcome" in said(three)[1]


def test_an_arm_without_final_runs_is_named(made: Any) -> None:
    memory = made(THREE)
    memory.records = [r for r in memory.records if (r.labels.arm, r.labels.phase) != ("c", "final")]
    assert "c was tuned but has no final runs." in said(memory)[1]


def test_a_run_without_curve_does_not_make_the_outcomes_vanish(clean: Any) -> None:
    """Budgets differ, so that updates must be read; one run cannot be."""
    clean.with_config(clean.of(arm="adam"), budget={"updates": 500})
    lost = clean.of(arm="adam", phase="final")[0].run_id
    clean.points = {key: series for key, series in clean.points.items() if key[0] != lost}
    verdict, text = said(clean)
    assert verdict == "cannot be told"
    assert "per update it cannot be told: it was not recorded by every run" in text
    (row,) = [row for row in tables(clean, "first came to") if row[0] == "adam"]
    assert row[1:4] == ["not recorded"] * 3


def test_what_the_end_shows_and_seconds_do_not_is_said(made: Any) -> None:
    memory = made({"sgd": {"level": 0.93}, "slow": {"level": 0.94, "speed": 0.011}})
    for record in memory.of(arm="slow", phase="final"):
        key = (record.run_id, "val/accuracy")
        memory.points[key] = dataclasses.replace(
            memory.points[key], values=(0.93 + 0.02 * (record.labels.seed % 2),) * 20
        )
    verdict, text = said(memory)
    assert verdict == "better"
    assert "Per second of training, compared at 4 seconds of training, this is not shown: " in text


def test_the_same_is_found_only_where_the_same_arm_leads(made: Any) -> None:
    memory = made({"a": {"level": 0.93}, "b": {"level": 0.9301, "speed": 0.02}}, noise=0.01, seeds=5)
    for record in memory.of(arm="b", phase="final"):
        memory.with_final(record, test__accuracy=record.final["test/accuracy"] + 0.004)
    verdict, text = said(memory)
    assert verdict == "no difference shown"
    assert "b leads, but against a" in text
    assert "a leads, but against b" in text
    assert "the same is found" not in text


def test_a_contradiction_of_the_splits_is_laid_to_them(made: Any) -> None:
    memory = made({"sgd": {"level": 0.93}, "slow": {"level": 0.99, "speed": 0.011}})
    for record in memory.of(arm="slow", phase="final"):
        memory.with_final(record, test__accuracy=record.final["test/accuracy"] - 0.09)
    verdict, text = said(memory)
    assert verdict == "better"
    assert "so the split is the cause, not the clock" in text


def test_a_test_value_that_is_no_number_is_a_divergence_everywhere(clean: Any) -> None:
    clean.with_final(clean.of(arm="adam", phase="final")[0], test__accuracy=float("nan"))
    assert "1 of 6 runs of adam diverged" in said(clean)[1]
    (row,) = [row for row in tables(clean, "final runs") if row[0] == "adam"]
    assert row[1] == "no mean: 1 of 6 diverged"
    assert row[3].startswith("1 of 6, 17 [")
    (row,) = [row for row in tables(clean, "by how it ended") if row[1:3] == ["adam", "final"]]
    assert row[4:7] == ["6", "5", "1"]


def test_only_runs_that_ended_are_in_the_share_that_diverged(clean: Any) -> None:
    runs = clean.of(arm="adam", phase="final")
    for record in runs[:2]:
        clean.diverge(record)
    clean.change(runs[3:], lambda r: dataclasses.replace(r, status="running", final={}))
    (row,) = [row for row in tables(clean, "final runs") if row[0] == "adam"]
    assert row[3].startswith("2 of 3, 67 [")


def test_values_without_spread_have_no_interval_in_the_table(made: Any) -> None:
    memory = made(seeds=5)
    for record in memory.of(phase="final"):
        memory.with_final(record, test__accuracy={"sgd": 0.5, "adam": 0.75}[record.labels.arm])
    assert [row[1] for row in tables(memory, "final runs")] == ["0.75", "0.5"]
    assert tables(memory, "every pair")[0][2] == "0.25"


def test_the_arms_table_lists_every_key_that_differs(clean: Any) -> None:
    assert tables(clean, "The arms") == [["sgd", "sgd"], ["adam", "adam"]]
    clean.with_config(clean.of(arm="adam"), batch_size=512, model={"name": "mlp", "width": 4096})
    assert tables(clean, "The arms") == [["sgd", "sgd", "none", "none"], ["adam", "adam", "mlp, width 4096", "512"]]


def test_what_every_arm_tuned_is_no_difference_between_them(clean: Any) -> None:
    for arm, lr in (("sgd", 0.1), ("adam", 0.01)):
        clean.with_config(clean.of(arm=arm, phase="final"), optimizer={"name": "sgd", "lr": lr})
        clean.with_config(clean.of(arm=arm, phase="tune"), optimizer={"name": "sgd", "lr": lr})
    assert tables(clean, "The arms") == [["sgd", "sgd"], ["adam", "sgd"]]


def test_each_arm_was_tuned_only_where_it_was(clean: Any) -> None:
    def told() -> str:
        blocks = build(read(clean, NAME)).document.blocks
        return " ".join(words(block.parts) for block in blocks if isinstance(block, Paragraph))

    assert "Each arm was tuned on each task" in told()
    clean.records = [r for r in clean.records if (r.labels.arm, r.labels.phase) != ("sgd", "tune")]
    assert "Each arm was tuned" not in told()
    assert "tuned by validation, but for sgd" in told()


def test_runs_that_a_mean_curve_lacks_are_counted(clean: Any) -> None:
    lost = clean.of(arm="adam", phase="final")[0]
    clean.diverge(lost)
    clean.points = {key: series for key, series in clean.points.items() if key[0] != lost.run_id}
    captions = [words(b.caption) for b in build(read(clean, NAME)).document.blocks if isinstance(b, Picture)]
    assert sum("in no mean: 1 of the runs that ended" in caption for caption in captions) == 2


def test_figures_have_names_of_their_own_however_long_the_task(made: Any, digits: Any) -> None:
    memory = made({"a": {"level": 0.93}, "b": {"level": 0.96}}, tasks={"t" * 80: digits})
    for record in memory.of(arm="b"):
        told = {**record.file.facts["study"], "space": {"wrappers.rho": "1e-4:1.0:log"}}
        memory.with_file([record], facts={**record.file.facts, "study": told})
    memory.with_config(memory.of(arm="b"), wrappers={"rho": 0.05})
    names = [drawing.name for drawing in build(read(memory, NAME)).drawings]
    assert len(names) == len(set(names)) == 5


def test_an_arm_with_one_lucky_seed_does_not_hide_the_rest(made: Any) -> None:
    memory = made({"a": {"level": 0.97}, "b": {"level": 0.96}, "c": {"level": 0.90}}, seeds=6)
    memory.records = [
        r for r in memory.records if (r.labels.arm, r.labels.phase) != ("a", "final") or r.labels.seed == 1
    ]
    found = [block for block in answer(read(memory, NAME)) if isinstance(block, Verdict)]
    assert [(v.subject, v.verdict) for v in found] == [
        ("b against c, on digits", "better"),
        ("b against a, on digits", "cannot be told"),
    ]
    assert "fewer than 3 seeds (it has 1, though so far its run looks better)" in words(found[1].parts)


def test_a_difference_too_small_to_count_seeds_for_reads_as_a_sentence(made: Any) -> None:
    memory = made(noise=0.01, seeds=6)
    for record in memory.of(phase="final"):
        wave = (1, -1, 1, -1, 1, -1)[record.labels.seed - 1] * (0.01 if record.labels.arm == "sgd" else -0.01)
        memory.with_final(record, test__accuracy=0.9 + wave + 1e-5 * (record.labels.arm == "adam"))
    assert "it needs over 1,000 more seeds" in said(memory)[1]
