"""The answer names every arm, and says of each clock what it shows."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Sequence
from typing import Any

from reports.document import Block, Paragraph, Parts, Picture, Table, Term, Verdict
from reports.report import build
from reports.sections.answer import answer
from reports.table import read

NAME = "sgd-or-adam"
THREE = {"a": {"level": 0.93}, "b": {"level": 0.96}, "c": {"level": 0.94}}


def words(parts: Parts) -> str:
    return "".join(p if isinstance(p, str) else p.term if isinstance(p, Term) else p.text for p in parts)


def under(blocks: Sequence[Block], verdict: Verdict) -> str:
    """A verdict and the paragraphs under it, as text."""
    points = itertools.takewhile(lambda block: isinstance(block, Paragraph), blocks[blocks.index(verdict) + 1 :])
    return " ".join(words(block.parts) for block in (verdict, *points) if isinstance(block, (Verdict, Paragraph)))


def said(memory: Any) -> tuple[str, str]:
    blocks = answer(read(memory, NAME))
    (verdict,) = [block for block in blocks if isinstance(block, Verdict)]
    return verdict.verdict, under(blocks, verdict)


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
    sgd, adam = map(float, re.findall(r"(?:sgd|adam) ([\d.]+) updates", text))
    assert (100 < sgd < 120, 80 < adam < 100) == (True, True)
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
        ends = (0.93 + 0.02 * (record.labels.seed % 2),) * 19 + (0.94 + 0.001 * record.labels.seed,)
        memory.points[key] = dataclasses.replace(memory.points[key], values=ends)
    verdict, text = said(memory)
    assert verdict == "depends on the clock"
    assert (
        "No single answer: per update and per gradient evaluation slow is better than sgd; per second of training no "
        "difference is shown." in text
    )
    assert "leads" not in text.split("Tried:")[0]


def test_what_seconds_show_and_the_end_does_not_is_no_plain_no_difference(made: Any) -> None:
    """At the end the two differ by chance alone; where the cheap one ended the dear one is far behind."""
    memory = dear_and_late(made)
    faster = memory.of(arm="dear", phase="final")[0]
    key = (faster.run_id, "time/train_s")
    memory.points[key] = dataclasses.replace(memory.points[key], values=tuple(v / 2 for v in memory.points[key].values))
    verdict, text = said(memory)
    assert verdict == "depends on the clock"
    opening = text.split("Tried:")[0]
    assert "per update and per gradient evaluation no difference is shown; per second of training cheap is better" in (
        opening
    )
    assert "but the same update took very different times (15 to 30 ms for dear)" in opening
    assert "leads" not in opening


def dear_and_late(made: Any) -> Any:
    memory = made({"cheap": {"level": 0.93}, "dear": {"level": 0.9301, "speed": 0.03}}, noise=0.004)
    for record in memory.of(arm="dear", phase="final"):
        twin = next(r for r in memory.of(arm="cheap", phase="final") if r.labels.seed == record.labels.seed)
        memory.with_final(
            record, test__accuracy=twin.final["test/accuracy"] + (0.002 if record.labels.seed % 2 else -0.001)
        )
        key = (record.run_id, "val/accuracy")
        values = tuple(v * (0.5 if index < 15 else 1) for index, v in enumerate(memory.points[key].values))
        memory.points[key] = dataclasses.replace(memory.points[key], values=values)
    return memory


def test_a_verdict_of_a_budget_in_seconds_has_what_speaks_against_it_beside_it(made: Any) -> None:
    memory = made({"sgd": {"level": 0.93, "speed": 0.001}, "adam": {"level": 0.96, "speed": 0.001}})
    memory.with_config(memory.records, budget={"seconds": 0.4})
    verdict, text = said(memory)
    assert verdict == "better"
    assert "This may be the machine's doing: runs trained for less than about a second" in text
    summary = next(words(b.parts) for b in build(read(memory, NAME)).document.blocks if isinstance(b, Paragraph))
    assert "This may be the machine's doing" in summary


def test_arms_whose_runs_all_diverged_did_not_use_the_same(clean: Any) -> None:
    for record in clean.of(arm="sgd", phase="final"):
        clean.diverge(record)
    assert "used the same" not in said(clean)[1]
    report = " ".join(
        words(n) for b in build(read(clean, NAME)).document.blocks if isinstance(b, Table) for n in b.notes
    )
    assert "used the same" not in report


def test_of_arms_with_a_diverged_run_only_those_that_completed_used_the_same(clean: Any) -> None:
    clean.diverge(clean.of(arm="sgd", phase="final")[0])
    told = "All runs that completed used the same gradient evaluations and seconds of training, to within 5 % by the "
    assert f"{told}medians of the arms; what diverged used less." in said(clean)[1]


def test_the_same_is_found_only_where_the_same_arm_leads(made: Any) -> None:
    memory = made({"a": {"level": 0.93}, "b": {"level": 0.9301, "speed": 0.02}}, noise=0.01, seeds=5)
    for record in memory.of(arm="b", phase="final"):
        memory.with_final(record, test__accuracy=record.final["test/accuracy"] + 0.004)
    verdict, text = said(memory)
    assert verdict == "no difference shown"
    assert "b leads, but no difference is shown against a" in text
    assert "no arm is shown to be best (a leads, which may be chance). Against b no difference is shown" in text
    assert "the same is found" not in text


def test_a_contradiction_of_the_splits_is_laid_to_them(made: Any) -> None:
    memory = made({"sgd": {"level": 0.93}, "slow": {"level": 0.99, "speed": 0.011}})
    for record in memory.of(arm="slow", phase="final"):
        memory.with_final(record, test__accuracy=record.final["test/accuracy"] - 0.09)
    verdict, text = said(memory)
    assert verdict == "better"
    assert "Validation shows the same at the end of training, where the test split shows otherwise" in text


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
    blocks = answer(read(memory, NAME))
    found = [block for block in blocks if isinstance(block, Verdict)]
    assert [(v.subject, v.verdict) for v in found] == [
        ("b against c, on digits", "better"),
        ("b against a, on digits", "cannot be told"),
    ]
    assert "fewer than 3 seeds (it has 1, though so far its run looks better)" in under(blocks, found[1])


def test_a_difference_too_small_to_count_seeds_for_reads_as_a_sentence(made: Any) -> None:
    memory = made(noise=0.01, seeds=6)
    for record in memory.of(phase="final"):
        wave = (1, -1, 1, -1, 1, -1)[record.labels.seed - 1] * (0.01 if record.labels.arm == "sgd" else -0.01)
        memory.with_final(record, test__accuracy=0.9 + wave + 1e-5 * (record.labels.arm == "adam"))
    assert "were it truly that large, over 1,000 more seeds would show it" in said(memory)[1]


def test_no_name_is_said_twice_of_one_arm_that_is_beaten(made: Any) -> None:
    memory = made({"hot_sgd": {"level": 0.93}, "adam": {"level": 0.96, "speed": 0.02}, "slow": {"level": 0.9601}})
    for point in [words(b.parts) for b in build(read(memory, NAME)).document.blocks if isinstance(b, Paragraph)]:
        for part in point.replace(";", ".").split(". "):
            assert part.count("hot_sgd") <= 1, point


def test_a_verdict_is_short_and_what_it_rests_on_stands_under_it(made: Any) -> None:
    memory = made({f"arm{i}": {"level": 0.90 + 0.01 * i} for i in range(5)})
    blocks = answer(read(memory, NAME))
    (verdict,) = [block for block in blocks if isinstance(block, Verdict)]
    assert words(verdict.parts).startswith("arm4 is better than arm3, arm2, arm1 and arm0. Tried: ")
    points = [words(block.parts) for block in blocks[2:] if isinstance(block, Paragraph)]
    assert points[0].startswith("Over arm3: test accuracy is higher by 0.0")
    assert points[3] == "1 more stands in the table of pairs."
    assert not any(point.endswith(" ") for point in points)


def test_arms_of_one_mean_are_level_and_none_leads(made: Any) -> None:
    memory = made({"a": {"level": 0.9}, "b": {"level": 0.9}}, seeds=4)
    for record in memory.of(phase="final"):
        step = record.labels.seed if record.labels.arm == "a" else 5 - record.labels.seed
        memory.with_final(record, test__accuracy=0.5 + 0.125 * step / 4)
    verdict, text = said(memory)
    assert verdict == "no difference shown"
    assert text.startswith("No arm is shown to be best: a and b are level. ")
    assert "Against b: test accuracy is the same on average, off by 0" in text
    assert "were it truly" not in text


def test_arms_of_the_same_values_are_said_to_be(made: Any) -> None:
    memory = made({"a": {"level": 0.9}, "b": {"level": 0.9}}, seeds=4)
    for record in memory.of(phase="final"):
        memory.with_final(record, test__accuracy=0.9 + 0.01 * record.labels.seed)
    verdict, text = said(memory)
    assert verdict == "cannot be told"
    assert "a and b are level" in text
    assert "nothing differs: their values are the same, seed by seed" in text


def test_a_lead_by_ranks_against_the_odds_says_so(made: Any) -> None:
    """b is better on three seeds of five and diverged on two: signed ranks 4.5 + 4.5 for a, 1 + 2 + 3 for b; of 25
    pairs of runs a is the better in 10."""
    memory = made({"a": {"level": 0.9}, "b": {"level": 0.9}}, seeds=5)
    for record in memory.of(phase="final"):
        memory.with_final(
            record, test__accuracy=(0.9 if record.labels.arm == "a" else 0.95) + 0.001 * record.labels.seed
        )
    for record in memory.of(arm="b", phase="final")[:2]:
        memory.diverge(record)
    text = said(memory)[1]
    assert "with those as the worst, a is ahead by signed ranks, though the chance that a run of a is the" in text


def test_an_arm_level_with_the_winner_is_told(made: Any) -> None:
    memory = made({"a": {"level": 0.9}, "b": {"level": 0.9}, "c": {"level": 0.7}}, seeds=4)
    for record in memory.of(phase="final"):
        if record.labels.arm != "c":
            memory.with_final(record, test__accuracy=0.9 + 0.01 * record.labels.seed)
    found = [words(block.parts) for block in answer(read(memory, NAME)) if isinstance(block, Verdict)]
    assert found[0].startswith("a is better than c: ")
    assert found[1].startswith("a and b are level. Tried: ")
