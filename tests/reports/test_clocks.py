"""One study on three clocks: who wins can depend on the clock, and then there is no headline."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from reports.clocks import agree, opposed, readings
from reports.statistics.curves import value_at
from reports.table import read

NAME = "sgd-or-adam"


def test_equal_costs_compare_the_test_metric_on_every_clock(clean: Any) -> None:
    found = readings(read(clean, NAME), "digits")
    assert [reading.clock for reading in found] == ["updates", "gradients", "seconds"]
    assert all(reading.budget is None and reading.ranking == ("adam", "sgd") for reading in found)
    assert agree(found)


def test_sam_is_better_per_update_and_worse_per_gradient(made: Any) -> None:
    """Two gradients and twice the time an update, for a gain that half of its curve does not show."""
    memory = made({"sgd": {"level": 0.93}, "sam": {"level": 0.935, "gradients": 2, "speed": 0.02}}, noise=0.0005)
    slow_down(memory, "sam", 0.4)
    updates, gradients, seconds = readings(read(memory, NAME), "digits")
    assert updates.budget is None
    assert updates.ranking[0] == "sam"
    assert updates.pairs[0].shown
    assert gradients.budget == 400
    assert gradients.ranking[0] == "sgd"
    assert gradients.pairs[0].shown
    assert seconds.budget == pytest.approx(4.0)
    assert not agree([updates, gradients, seconds])


def test_the_cut_reads_validation_where_the_cheapest_run_ended(made: Any) -> None:
    memory = made({"sgd": {"level": 0.93}, "slow": {"level": 0.95, "speed": 0.03}})
    study = read(memory, NAME)
    seconds = readings(study, "digits")[2]
    run = seconds.outcomes["slow"].run_ids[0]
    curve = study.curves[run]
    assert seconds.budget == pytest.approx(4.0)
    assert seconds.outcomes["slow"].values[0] == value_at(curve.updates, curve.values, 4.0 / 0.03)


def test_best_validation_is_read_as_the_best_so_far(made: Any) -> None:
    memory = made({"sgd": {"level": 0.93}, "slow": {"level": 0.95, "speed": 0.02}})
    run = memory.of(arm="slow", phase="final")[0].run_id
    spike(memory, run, at=3, value=0.999)
    last = readings(read(memory, NAME), "digits")[2].outcomes["slow"].values[0]
    memory.with_config(memory.of(phase="final"), select="best")
    best = readings(read(memory, NAME), "digits")[2].outcomes["slow"].values[0]
    assert best == 0.999 > last


def test_diverged_runs_stay_worst_on_a_cut(made: Any) -> None:
    memory = made({"sgd": {"level": 0.93}, "slow": {"level": 0.99, "speed": 0.02}})
    memory.diverge(memory.of(arm="slow", phase="final")[0])
    assert readings(read(memory, NAME), "digits")[2].outcomes["slow"].diverged == 1


def test_a_clock_that_was_not_recorded_is_said_to_be_lacking(clean: Any) -> None:
    clean.points = {key: series for key, series in clean.points.items() if key[1] != "time/train_s"}
    found = readings(read(clean, NAME), "digits")
    assert [bool(reading.lacking) for reading in found] == [False, False, True]
    assert agree(found)


def test_budget_in_epochs_compares_what_runs_ended_with(made: Any) -> None:
    """Arms of other batch sizes make other numbers of updates of one budget: that is the study's own clock."""
    memory = made()
    memory.with_config(memory.records, budget={"epochs": 3})
    assert readings(read(memory, NAME), "digits")[0].clock == "epochs"
    assert readings(read(memory, NAME), "digits")[0].budget is None


def faster(memory: Any, record: Any, factor: float) -> None:
    key = (record.run_id, "time/train_s")
    series = memory.points[key]
    memory.points[key] = dataclasses.replace(series, values=tuple(value / factor for value in series.values))


def test_one_fast_run_does_not_move_the_cut(made: Any) -> None:
    memory = made({"sgd": {"level": 0.93}, "slow": {"level": 0.96, "speed": 0.02}})
    faster(memory, memory.of(arm="sgd", phase="final")[0], 15)
    assert readings(read(memory, NAME), "digits")[2].budget == pytest.approx(4.0)


def test_jitter_of_a_few_percent_is_no_other_cost(made: Any) -> None:
    memory = made({"a": {"level": 0.93}, "b": {"level": 0.96, "speed": 0.0104}})
    assert readings(read(memory, NAME), "digits")[2].budget is None
    dearer = made({"a": {"level": 0.93}, "b": {"level": 0.96, "speed": 0.0106}})
    assert readings(read(dearer, NAME), "digits")[2].budget == pytest.approx(4.0)


def test_all_rulings_of_a_task_are_one_family(made: Any) -> None:
    """Three pairs at the end, on one clock; three more at the cut of each of two others."""
    arms = {"a": {"level": 0.93}, "b": {"level": 0.94}, "sam": {"level": 0.95, "gradients": 2, "speed": 0.02}}
    found = readings(read(made(arms), NAME), "digits")
    assert {pair.comparisons for reading in found for pair in reading.pairs} == {9}
    equal = readings(read(made({"a": {"level": 0.93}, "b": {"level": 0.94}}), NAME), "digits")
    assert {pair.comparisons for reading in equal for pair in reading.pairs} == {1}


def test_what_one_clock_shows_and_another_does_not_is_a_disagreement(made: Any) -> None:
    """Test and validation have slow ahead at the end; where sgd ended validation shows nothing."""
    memory = made({"sgd": {"level": 0.93}, "slow": {"level": 0.94, "speed": 0.011}})
    for record in memory.of(arm="slow", phase="final"):
        key = (record.run_id, "val/accuracy")
        early = 0.93 + 0.02 * (record.labels.seed % 2)
        ends = (early,) * 19 + (0.94 + 0.001 * record.labels.seed,)
        memory.points[key] = dataclasses.replace(memory.points[key], values=ends)
    updates, _, seconds = found = readings(read(memory, NAME), "digits")
    assert updates.pairs[0].shown
    assert not seconds.pairs[0].shown
    assert not agree(found)


def test_a_mere_lead_is_no_disagreement(made: Any) -> None:
    """Nothing is shown on any clock, whoever is first on each."""
    memory = made({"a": {"level": 0.93}, "b": {"level": 0.9301, "speed": 0.02}}, noise=0.01, seeds=5)
    for record in memory.of(arm="b", phase="final"):
        memory.with_final(record, test__accuracy=record.final["test/accuracy"] + 0.004)
    updates, _, seconds = found = readings(read(memory, NAME), "digits")
    assert (updates.ranking[0], seconds.ranking[0]) == ("b", "a")
    assert agree(found)


def test_what_a_clock_shows_of_others_than_its_leader_is_no_disagreement(made: Any) -> None:
    """b leads and nothing is shown of it; on the other clock a leads, and b is shown to be better than c."""
    (updates, *_) = readings(read(made({arm: {"level": 0.93} for arm in "abc"}, noise=0.01), NAME), "digits")

    def ruled(leader: str, shown: dict[tuple[str, str], str]) -> Any:
        rest = tuple(arm for arm in updates.ranking if arm != leader)
        pairs = tuple(
            dataclasses.replace(pair, ruling=shown.get((pair.first, pair.second), "not shown"))
            for pair in updates.pairs
        )
        return dataclasses.replace(updates, ranking=(leader, *rest), pairs=pairs)

    first, second = next(pair for pair in updates.rulings if "a" not in pair)
    bc = {(first, second): "better" if first == "b" else "worse"}
    assert agree([ruled("b", {}), ruled("a", bc)])
    assert not agree([ruled("b", {}), ruled("b", bc)])
    assert not agree([ruled("b", bc), ruled("a", {})])


def test_what_validation_never_shows_is_no_disagreement_of_clocks(made: Any) -> None:
    """Test shows slow ahead; validation shows nothing where sgd ended, nor at the end."""
    memory = made({"sgd": {"level": 0.93}, "slow": {"level": 0.94, "speed": 0.011}})
    for record in memory.of(arm="slow", phase="final"):
        key = (record.run_id, "val/accuracy")
        ends = 0.93 + 0.02 * (record.labels.seed % 2)
        memory.points[key] = dataclasses.replace(memory.points[key], values=(ends,) * 20)
    found = readings(read(memory, NAME), "digits")
    assert found[0].pairs[0].shown
    assert opposed(found[0], found[2], by_split=True) == [("sgd", "slow")]
    assert agree(found)


@pytest.mark.parametrize("arm", ["sgd", "adam"])
def test_short_runs_show_nothing_per_second(made: Any, arm: str) -> None:
    """400 updates of 2 ms are 0.8 s."""
    told = {"sgd": {"level": 0.93}, "adam": {"level": 0.96}}
    found = readings(read(made({**told, arm: {**told[arm], "speed": 0.002}}), NAME), "digits")
    assert found[2].lacking.startswith(f"runs trained for less than about a second ({arm} for 0.8 s)")
    assert agree(found)


def test_imported_seconds_do_not_compare_with_ours(clean: Any) -> None:
    for each in clean.of(arm="adam"):
        clean.with_file([each], facts={**each.file.facts, "recorded": "imported", "source": {"kind": "csv"}})
    assert readings(read(clean, NAME), "digits")[2].lacking.startswith("runs of adam were made elsewhere")


@pytest.mark.parametrize(("key", "words"), [("name", "devices"), ("threads", "numbers of threads")])
def test_seconds_of_unlike_machines_do_not_compare(clean: Any, key: str, words: str) -> None:
    for each in clean.of(arm="adam"):
        told = {**each.file.provenance, "device": {**each.file.provenance["device"], key: "other"}}
        clean.with_file([each], provenance=told)
    assert readings(read(clean, NAME), "digits")[2].lacking.startswith(f"arms were trained on different {words}")


def test_seconds_of_one_mixture_of_machines_compare(clean: Any) -> None:
    """Both arms ran one seed elsewhere: by pairs the machines are alike."""
    for each in clean.of(phase="final", seed=3):
        told = {**each.file.provenance, "device": {**each.file.provenance["device"], "name": "other"}}
        clean.with_file([each], provenance=told)
    assert not readings(read(clean, NAME), "digits")[2].lacking


def test_what_makes_seconds_doubtful_is_told(made: Any) -> None:
    memory = made({"sgd": {"level": 0.93}, "slow": {"level": 0.96, "speed": 0.02}})
    assert readings(read(memory, NAME), "digits")[2].doubts == ()
    faster(memory, memory.of(arm="slow", phase="final")[0], 2)
    for each in memory.of(arm="sgd", phase="final"):
        memory.with_file([each], facts={**each.file.facts, "population": {"size": 4}})
    assert readings(read(memory, NAME), "digits")[2].doubts == (
        "the same update took very different times (10 to 20 ms for slow)",
        "runs of sgd trained together as a population, and each is told its share of one clock",
    )


def test_a_budget_in_seconds_is_compared_whatever_there_is_against_it(made: Any) -> None:
    memory = made({"sgd": {"level": 0.93, "speed": 0.001}, "adam": {"level": 0.96, "speed": 0.001}})
    memory.with_config(memory.records, budget={"seconds": 0.4})
    (first, *_) = readings(read(memory, NAME), "digits")
    assert (first.clock, first.lacking) == ("seconds", "")
    assert first.pairs[0].shown
    assert first.doubts[0].startswith("runs trained for less than about a second (sgd for 0.4 s and adam for 0.4 s)")


def test_a_population_of_one_has_its_own_clock(clean: Any) -> None:
    for each in clean.of(arm="adam"):
        clean.with_file([each], facts={**each.file.facts, "population": {"size": 1}})
    for each in clean.of(arm="sgd", phase="final"):
        faster(clean, each, 2)
    assert readings(read(clean, NAME), "digits")[2].doubts == ()


def imported(memory: Any, records: Any, **source: str) -> None:
    for each in records:
        facts = {**each.file.facts, "recorded": "imported", "source": {"kind": "csv", **source}}
        memory.with_file([each], facts=facts)


@pytest.mark.parametrize(
    ("told", "words"), [({"steps": "epochs"}, ("epoch", "epochs")), ({}, ("step", "steps")),
                        ({"steps": "updates"}, ("update", "updates"))],
)  # fmt: skip
def test_imported_steps_are_called_what_they_are(clean: Any, told: dict[str, str], words: tuple[str, str]) -> None:
    imported(clean, clean.records, **told)
    (first, *_) = readings(read(clean, NAME), "digits")
    assert (first.one, first.many) == words


def test_epochs_are_not_compared_with_updates(clean: Any) -> None:
    imported(clean, clean.of(arm="adam"), steps="epochs")
    imported(clean, clean.of(arm="sgd"), steps="updates")
    assert readings(read(clean, NAME), "digits")[0].lacking.startswith("a step is an epoch in some runs")


def test_a_contradiction_of_the_splits_is_not_one_of_the_clocks(made: Any) -> None:
    """Validation has slow ahead all along, test has it behind: the clock changes nothing."""
    memory = made({"sgd": {"level": 0.93}, "slow": {"level": 0.99, "speed": 0.011}})
    for record in memory.of(arm="slow", phase="final"):
        memory.with_final(record, test__accuracy=record.final["test/accuracy"] - 0.09)
    updates, _, seconds = found = readings(read(memory, NAME), "digits")
    assert (updates.pairs[0].ruling, seconds.pairs[0].ruling) == ("better", "worse")
    assert opposed(updates, seconds) == []
    assert opposed(updates, seconds, by_split=True) == [("sgd", "slow")]
    assert agree(found)


def slow_down(memory: Any, arm: str, factor: float) -> None:
    """The arm's curves reach their level later: at each evaluation but the last four, `factor` of the way."""
    for record in memory.of(arm=arm, phase="final"):
        key = (record.run_id, "val/accuracy")
        series = memory.points[key]
        values = tuple(v * (factor if i < len(series.values) - 4 else 1) for i, v in enumerate(series.values))
        memory.points[key] = dataclasses.replace(series, values=values)


def spike(memory: Any, run: str, at: int, value: float) -> None:
    series = memory.points[run, "val/accuracy"]
    values = tuple(value if i == at else v for i, v in enumerate(series.values))
    memory.points[run, "val/accuracy"] = dataclasses.replace(series, values=values)
