"""Times to target: between evaluations, censored at the budget, and how near the misses were."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from reports.document import Parts, Table, Term
from reports.quantity import Quantity
from reports.sections.targets import targets
from reports.sections.timed import times
from reports.summary import summarise
from reports.table import read
from reports.verifying.numbers import Named, number

NAME = "sgd-or-adam"


def words(parts: Parts) -> str:
    return "".join(p if isinstance(p, str) else p.term if isinstance(p, Term) else p.text for p in parts)


def table(memory: Any) -> tuple[list[str], list[dict[str, str]]]:
    (found,) = [piece for piece in targets(read(memory, NAME)) if isinstance(piece, Table)]
    heads = [f"{column.head} {column.unit}".strip() for column in found.columns]
    return [words(note) for note in found.notes], [dict(zip(heads, map(words, row))) for row in found.rows]


def curve(memory: Any, arm: str, values: list[float], seed: int | None = None) -> None:
    """Evaluations at 20, 40, ..., 400 updates."""
    for record in memory.of(arm=arm, phase="final"):
        if seed in (None, record.labels.seed):
            key = (record.run_id, "val/accuracy")
            memory.points[key] = dataclasses.replace(memory.points[key], values=tuple(values))


def late(at: int) -> list[float]:
    """Below the target of 0.9 by 0.1 up to an evaluation, above it by 0.1 from there on."""
    return [0.8 if index < at else 1.0 for index in range(20)]


def test_a_crossing_lies_between_the_evaluations_that_show_it(made: Any) -> None:
    """0.8 at 200 and 1.0 at 220 updates: 0.9 on the line is at 210."""
    memory = made(seeds=3)
    curve(memory, "sgd", late(10))
    curve(memory, "adam", late(5))
    _, (first, second) = table(memory)
    assert (first["Arm"], second["Arm"]) == ("adam", "sgd")
    assert second["Median updates [between evaluations]"] == "210 [200, 220]"
    assert first["Median updates [between evaluations]"] == "110 [100, 120]"
    assert second["Median seconds [between evaluations]"] == "2.10 [2.00, 2.20]"
    assert second["Mean to the horizon updates"] == "210"
    assert second["Slower by a factor of in updates, than the first row [95 %]"].startswith("1.909")
    assert second["Slower by a factor of in seconds, than the first row [95 %]"].startswith("1.909")


def test_what_never_reaches_is_later_than_all_and_how_near_it_came_is_said(made: Any) -> None:
    """Reached at 210 by one, never by two: the mean to 400 is (210 + 400 + 400) / 3 = 336.7."""
    memory = made(seeds=3)
    curve(memory, "sgd", [0.88] * 20)
    curve(memory, "sgd", late(10), seed=1)
    _, rows = table(memory)
    (row,) = [row for row in rows if row["Arm"] == "sgd"]
    assert row["Reached of runs that ended"] == "1 of 3"
    assert row["Median updates [between evaluations]"] == "not reached by half"
    assert row["Mean to the horizon updates"] == "336.7"
    assert row["Fell short by median of those that missed"] == "0.02"


def test_a_diverged_run_never_reaches_however_early_it_met_the_target(made: Any) -> None:
    memory = made(seeds=3)
    memory.diverge(memory.of(arm="adam", phase="final")[0])
    study = read(memory, NAME)
    found = times(study, study.cells["digits", "adam"], "updates")
    assert found is not None
    assert found.reached.tolist() == [False, True, True]
    assert found.high[0] == float("inf")


def test_gradients_stand_where_they_are_not_updates(made: Any) -> None:
    _, rows = table(made(seeds=3))
    assert not any("gradient" in head for head in rows[0])
    _, rows = table(made({"a": {"level": 0.93}, "sam": {"level": 0.94, "gradients": 2}}, seeds=3))
    assert any("gradient" in head for head in rows[0])


def test_what_was_not_recorded_is_said(made: Any) -> None:
    memory = made(seeds=3)
    lost = memory.of(arm="adam", phase="final")[0].run_id
    memory.points = {key: series for key, series in memory.points.items() if key[0] != lost}
    _, rows = table(memory)
    (row,) = [row for row in rows if row["Arm"] == "adam"]
    assert row["Reached of runs that ended"] == "not recorded"


def test_a_task_without_target_has_no_section(made: Any, digits: Any) -> None:
    assert targets(read(made(tasks={"digits": {**digits, "target": None}}), NAME)) == []


def test_log_rank_of_a_known_case(made: Any) -> None:
    """statistics.json, logrank: a reaches at 10, 12, 15, 20, 22, b at 18, 25, 30 and twice never by 40. Its p of 0.0127
    is the large sample's; of the 252 splits of these runs 6 are as far apart: 0.0238."""
    memory = made({"a": {"level": 0.93}, "b": {"level": 0.93}}, seeds=5)
    reach = {"a": [10, 12, 15, 20, 22], "b": [18, 25, 30, 99, 99]}
    at = tuple(range(1, 41))
    for record in memory.of(phase="final"):
        when = reach[record.labels.arm][record.labels.seed - 1]
        values = {
            "val/accuracy": tuple(0.9 if x >= when else 0.5 for x in at),
            "time/train_s": at,
            "count/gradients": at,
        }
        for metric, series in values.items():
            key = (record.run_id, metric)
            memory.points[key] = dataclasses.replace(memory.points[key], updates=at, values=series, at=at)
    _, rows = table(memory)
    assert rows[1]["Arm"] == "b"
    assert rows[1]["p log-rank by updates, against the first row"] == "p = 0.024"
    assert rows[1]["Mean to the horizon updates"] == f"{(18 + 25 + 30 + 40 + 40) / 5:g}"


def test_three_seeds_cannot_reach_significance(made: Any) -> None:
    """Of 20 splits, 2 are the farthest apart: p = 0.1 at best."""
    memory = made(seeds=3)
    curve(memory, "sgd", late(10))
    curve(memory, "adam", late(5))
    _, (_, second) = table(memory)
    assert second["p log-rank by updates, against the first row"] == "p = 0.10 (cannot reach significance with n = 3)"


@pytest.mark.parametrize("seeds", [1, 2])
def test_too_few_seeds_have_no_test(made: Any, seeds: int) -> None:
    _, rows = table(made(seeds=seeds))
    assert {row["p log-rank by updates, against the first row"] for row in rows} == {"-"}


def reaching(memory: Any, when: dict[str, list[int]], every: dict[str, int], end: int = 400) -> None:
    """Runs that come to the target at these updates (seed by seed), seen at evaluations so far apart. They come to it
    exactly, so that the line between two evaluations meets it at the later one."""
    for record in memory.of(phase="final"):
        arm = record.labels.arm
        at = tuple(range(every[arm], end + 1, every[arm]))
        first = when[arm][record.labels.seed - 1]
        values = {"val/accuracy": tuple(0.9 if x >= first else 0.5 for x in at), "time/train_s": at}
        for metric, series in {**values, "count/gradients": at}.items():
            key = (record.run_id, metric)
            memory.points[key] = dataclasses.replace(memory.points[key], updates=at, values=series, at=at)


SAME = [105, 115, 125, 135, 145, 155]


def test_an_arm_is_not_faster_for_being_evaluated_more_often(made: Any) -> None:
    """Both reach at the same updates; seen every 10 those are 110 to 160, seen every 100 all are 200."""
    memory = made({"fine": {"level": 0.95}, "coarse": {"level": 0.95}}, seeds=6)
    reaching(memory, {"fine": SAME, "coarse": SAME}, {"fine": 10, "coarse": 100})
    notes, rows = table(memory)
    assert {row["Mean to the horizon updates"] for row in rows} == {"200"}
    assert rows[0]["Median updates [between evaluations]"] == rows[1]["Median updates [between evaluations]"]
    assert rows[1]["p log-rank by updates, against the first row"].startswith("p = 1.00")
    assert rows[1]["Slower by a factor of in updates, than the first row [95 %]"] == "1"
    assert any("only the 4 that they have in common count" in note for note in notes)


def test_evaluations_that_hardly_meet_compare_nothing(made: Any) -> None:
    memory = made({"a": {"level": 0.95}, "b": {"level": 0.95}}, seeds=6)
    reaching(memory, {"a": SAME, "b": SAME}, {"a": 19, "b": 20})
    notes, rows = table(memory)
    for head in ("Mean to the horizon updates", "p log-rank by updates, against the first row"):
        assert {row[head] for row in rows} == {"-"}
    assert any("too few in common" in note for note in notes)


def test_a_longer_watched_arm_keeps_what_it_reached_after_the_other_ended(made: Any) -> None:
    memory = made({"a": {"level": 0.95}, "b": {"level": 0.95}}, seeds=3)
    reaching(memory, {"a": [100] * 3, "b": [600] * 3}, {"a": 20, "b": 20}, end=400)
    longer = made({"a": {"level": 0.95}, "b": {"level": 0.95}}, seeds=3)
    reaching(longer, {"a": [100] * 3, "b": [600] * 3}, {"a": 20, "b": 20}, end=800)
    kept = {r.run_id for r in memory.of(arm="b", phase="final")}
    memory.points = {key: (longer if key[0] in kept else memory).points[key] for key in memory.points}
    notes, rows = table(memory)
    assert [row["Reached of runs that ended"] for row in rows] == ["3 of 3", "3 of 3"]
    assert not any("evaluated at different updates" in note for note in notes)


def test_the_fastest_is_chosen_by_the_runs_so_all_pairs_are_one_family(made: Any) -> None:
    """Three arms of 5 that lie wholly apart: of 252 splits 2 are as far, 0.0079; among three pairs 0.024. Over the two
    that are shown alone it would be 0.016."""
    memory = made({name: {"level": 0.95} for name in "abc"}, seeds=5)
    when = {name: [at + 3 * i for i in range(1, 6)] for name, at in (("a", 0), ("b", 100), ("c", 200))}
    reaching(memory, when, dict.fromkeys("abc", 1))
    notes, rows = table(memory)
    assert [row["p log-rank by updates, against the first row"] for row in rows] == ["-", "p = 0.024", "p = 0.024"]
    assert any("all 3 pairs of arms" in note for note in notes)


def test_what_holm_forbids_is_not_called_a_plain_p(made: Any) -> None:
    """0.029 is the least that 4 runs against 4 can give: significant alone, not among three of which none is."""
    memory = made({name: {"level": 0.95} for name in "abc"}, seeds=4)
    when = {"a": [100, 110, 120, 130], "b": [105, 115, 125, 135], "c": [103, 113, 123, 133]}
    reaching(memory, when, dict.fromkeys("abc", 1))
    _, rows = table(memory)
    assert all(
        "(cannot reach significance with n = 4)" in row["p log-rank by updates, against the first row"]
        for row in rows[1:]
    )


def test_two_shared_seeds_have_no_interval_of_the_ratio(made: Any) -> None:
    memory = made({"a": {"level": 0.95}, "b": {"level": 0.95}}, seeds=6)
    reaching(memory, {"a": SAME, "b": [x + 40 + i for i, x in enumerate(SAME)]}, {"a": 1, "b": 1})
    drop = {"a": (5, 6), "b": (1, 2)}
    memory.records = [r for r in memory.records if r.labels.phase != "final" or r.labels.seed not in drop[r.labels.arm]]
    _, rows = table(memory)
    assert "[" not in rows[1]["Slower by a factor of in updates, than the first row [95 %]"]
    assert rows[1]["Slower by a factor of in updates, than the first row [95 %]"] != "-"


def test_an_arm_with_too_few_runs_is_not_what_others_are_held_against(made: Any) -> None:
    memory = made({name: {"level": 0.95} for name in "abc"}, seeds=6)
    reaching(memory, {"a": [50] * 6, "b": SAME, "c": [x + 100 for x in SAME]}, dict.fromkeys("abc", 1))
    memory.records = [
        r for r in memory.records if (r.labels.arm, r.labels.phase) != ("a", "final") or r.labels.seed == 1
    ]
    _, rows = table(memory)
    assert [row["Arm"] for row in rows] == ["b", "c", "a"]
    assert rows[1]["p log-rank by updates, against the first row"] == "p = 0.002"


def test_where_nobody_reaches_none_is_called_the_fastest(made: Any) -> None:
    memory = made(seeds=3)
    curve(memory, "sgd", [0.85] * 20)
    curve(memory, "adam", [0.88] * 20)
    (found,) = [piece for piece in targets(read(memory, NAME)) if isinstance(piece, Table)]
    assert words(found.caption).endswith("first came to 0.9, which none did; the nearest first.")
    assert [words(row[0]) for row in found.rows] == ["adam", "sgd"]


def test_who_is_faster_in_seconds_is_told_beside_who_is_by_updates(made: Any) -> None:
    """adam takes half of the updates, and three times as long for one."""
    memory = made({"sgd": {"level": 0.93}, "adam": {"level": 0.96, "speed": 0.03}}, seeds=5)
    for seed in range(1, 6):
        curve(memory, "sgd", late(9 + seed), seed)
        curve(memory, "adam", late(4 + seed // 2), seed)
    notes, (first, second) = table(memory)
    assert (first["Arm"], second["Arm"]) == ("adam", "sgd")
    seconds = second["Slower by a factor of in seconds, than the first row [95 %]"]
    updates = second["Slower by a factor of in updates, than the first row [95 %]"]
    assert float(updates.split()[0]) == pytest.approx(3 * float(seconds.split()[0]), rel=0.02)
    assert float(seconds.split()[0]) < 1
    assert "[" in seconds
    assert "Per second of training the order is another: sgd and adam. A factor below 1 is faster." in notes


def test_seconds_that_do_not_compare_have_no_factor(made: Any) -> None:
    memory = made({"sgd": {"level": 0.93, "speed": 0.001}, "adam": {"level": 0.96}}, seeds=3)
    notes, rows = table(memory)
    assert {row["Slower by a factor of in seconds, than the first row [95 %]"] for row in rows} == {"-"}
    assert any(note.startswith("No factors are given in seconds: runs trained for less than") for note in notes)


@pytest.mark.parametrize("every", [{"a": 20, "b": 20}, {"a": 10, "b": 100}])
def test_one_time_to_target_wherever_it_is_told(made: Any, every: dict[str, int]) -> None:
    """In the report, in the study's table and in what verify computes: also where evaluations had to be left out."""
    memory = made({"a": {"level": 0.95}, "b": {"level": 0.95}}, seeds=6)
    reaching(memory, {"a": SAME, "b": [x + 60 + 9 * i for i, x in enumerate(SAME)]}, every)
    for record in memory.of(phase="final"):  # between evaluations, not at one
        key = (record.run_id, "val/accuracy")
        memory.points[key] = dataclasses.replace(
            memory.points[key], values=tuple(v + 0.07 if v >= 0.9 else v for v in memory.points[key].values)
        )
    study = read(memory, NAME)
    summed = {row["arm"]: row for row in summarise(memory, NAME)}
    (found,) = [piece for piece in targets(study) if isinstance(piece, Table)]
    quantities = [part for row in found.rows for cell in row for part in cell if isinstance(part, Quantity)]
    for clock in ("updates", "seconds"):
        for arm in "ab":
            (told,) = [q.value for q in quantities if q.statistic == "survival.crossing"
                       and (q.arguments["arm"], q.arguments["clock"]) == (arm, clock)]  # fmt: skip
            assert told == summed[arm][f"target_{clock}"]
            assert told == number(study, Named("median_time", arm=arm, clock=clock)).quantity.value
    ratio = next(q for q in quantities if q.statistic == "survival.time_ratio" and q.arguments["clock"] == "updates")
    named = Named("time_ratio", arm=str(ratio.arguments["arm"]), than=str(ratio.arguments["over"]), clock="updates")
    assert ratio.value == number(study, named).quantity.value
