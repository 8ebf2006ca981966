"""The statistics that claims name, by hand, from runs whose values are planted."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from algos.finding import InputError
from experiments.store.sources import Series
from reports.clocks import readings
from reports.table import StudyTable, read
from reports.verifying.numbers import Named, number, ruling

STUDY = "sgd-or-adam"
Plant = Callable[[dict[str, Sequence[float]]], StudyTable]


@pytest.fixture
def planted(made: Callable[..., Any]) -> Plant:
    """A study of one task whose final runs come to the values given, arm by arm, in order of seed; inf: it diverged."""

    def plant(values: dict[str, Sequence[float]]) -> StudyTable:
        source = made({arm: {"level": 0.9} for arm in values}, seeds=len(next(iter(values.values()))), trials=0)
        for arm, told in values.items():
            for record, value in zip(source.of(arm=arm, phase="final"), told):
                if math.isinf(value):
                    source.diverge(record)
                else:
                    source.with_final(record, test__accuracy=value)
        return read(source, STUDY)

    return plant


@pytest.fixture
def timed(made: Callable[..., Any]) -> Plant:
    """A study whose runs reach their target (0.9) at the updates given; inf: never."""

    def plant(values: dict[str, Sequence[float]]) -> StudyTable:
        source = made({arm: {"level": 0.95} for arm in values}, seeds=len(next(iter(values.values()))), trials=0)
        for arm, told in values.items():
            for record, at in zip(source.of(arm=arm, phase="final"), told):
                updates = (10, 20, 30, 40, 50, 60, 70, 80)
                points = tuple(0.9 if update >= at else 0.1 for update in updates)
                key = (record.run_id, "val/accuracy")
                source.points[key] = Series(record.run_id, "val/accuracy", updates, points, updates)
        return read(source, STUDY)

    return plant


def test_the_mean_has_the_t_interval_of_the_seeds(planted: Plant) -> None:
    """0.1, 0.2, 0.3: t with 2 degrees of freedom is 4.3027, so 0.2 ± 4.3027 * 0.1 / sqrt(3) = 0.2 ± 0.24841."""
    found = number(planted({"a": [0.1, 0.2, 0.3], "b": [0.1, 0.1, 0.1]}), Named("mean", arm="a"))
    assert found.quantity.value == pytest.approx(0.2)
    assert found.quantity.low == pytest.approx(0.2 - 0.24841, abs=1e-5)
    assert found.n == 3


def test_a_difference_is_paired_by_seed(planted: Plant) -> None:
    """Differences 0.1, 0.2, 0.3 whatever the seeds themselves add: 0.2 ± 0.24841 again."""
    found = number(planted({"a": [0.2, 0.6, 0.4], "b": [0.1, 0.4, 0.1]}), Named("difference", arm="a", than="b"))
    assert (found.quantity.value, found.quantity.high) == pytest.approx((0.2, 0.44841), abs=1e-5)
    assert found.n == 3


def test_a_difference_is_positive_where_the_arm_is_better(planted: Plant) -> None:
    study = planted({"a": [0.1, 0.2, 0.3], "b": [0.3, 0.5, 0.7]})
    assert number(study, Named("difference", arm="a", than="b")).quantity.value == pytest.approx(-0.3)
    assert number(study, Named("difference", arm="b", than="a")).quantity.value == pytest.approx(0.3)


def test_the_probability_of_beating_counts_ties_half(planted: Plant) -> None:
    """0.2, 0.3 against 0.1, 0.3: of four pairs two are won, one is tied: (2 + 1/2) / 4."""
    found = number(planted({"a": [0.2, 0.3], "b": [0.1, 0.3]}), Named("probability_better", arm="a", than="b"))
    assert found.quantity.value == 0.625
    assert (found.quantity.low, found.quantity.high) == (None, None)  # too few seeds for an interval


def test_what_diverged_is_beaten_by_all_that_did_not(planted: Plant) -> None:
    study = planted({"a": [0.1, 0.2, 0.3], "b": [0.9, math.inf, math.inf]})
    assert number(study, Named("probability_better", arm="a", than="b")).quantity.value == pytest.approx(2 / 3)


def test_no_mean_is_formed_of_runs_that_diverged(planted: Plant) -> None:
    study = planted({"a": [0.1, 0.2, math.inf], "b": [0.1, 0.2, 0.3]})
    for named in (Named("mean", arm="a"), Named("difference", arm="a", than="b")):
        found = number(study, named).quantity
        assert found.value is None
        assert found.absent == "no mean: 1 of 3 runs of a diverged"


def test_the_share_that_diverged(planted: Plant) -> None:
    found = number(
        planted({"a": [0.1, 0.2, math.inf, math.inf], "b": [0.1, 0.2, 0.3, 0.4]}), Named("share_diverged", arm="a")
    )
    assert found.quantity.value == 0.5


def test_the_time_ratio_is_the_geometric_mean_of_pairs(timed: Plant) -> None:
    """20/40, 40/80 and 30/60 are all a half; 10/40 and 40/40 have the geometric mean of one half, too."""
    study = timed({"a": [20, 40, 30], "b": [40, 80, 60]})
    named = Named("time_ratio", arm="a", than="b")
    assert number(study, named).quantity.value == pytest.approx(0.5)
    turned = Named("time_ratio", arm="b", than="a")
    assert number(study, turned).quantity.value == pytest.approx(2)
    other = timed({"a": [10, 40], "b": [40, 40]})
    assert number(other, named).quantity.value == pytest.approx(0.5)


def test_a_ratio_of_survivors_is_not_formed(timed: Plant) -> None:
    study = timed({"a": [20, 40, math.inf], "b": [40, 80, 60]})
    found = number(study, Named("time_ratio", arm="a", than="b")).quantity
    assert found.value is None
    assert found.absent == "1 of 3 runs of a never reached the target"


def test_the_median_time_counts_those_that_never_reached(timed: Plant) -> None:
    study = timed({"a": [10, 20, 30, math.inf, math.inf], "b": [10, math.inf, math.inf, math.inf, math.inf]})
    assert number(study, Named("median_time", arm="a")).quantity.value == 30
    never = number(study, Named("median_time", arm="b")).quantity
    assert never.absent == "fewer than half reached it (1 of 5)"


@pytest.mark.parametrize(
    ("named", "said", "place"),
    [
        (Named("time_rato", arm="a", than="b"), "did you mean 'time_ratio'", "number"),
        (Named("mean", arm="aa"), "did you mean 'a'", "arm"),
        (Named("mean", task="digit", arm="a"), "did you mean 'digits'", "task"),
        (Named("difference", arm="a", than="bb"), "did you mean 'b'", "than"),
        (Named("difference", arm="a"), "compares two arms", "than"),
        (Named("mean", arm="a", than="b"), "is of one arm", "than"),
        (Named("mean"), "no arm is named", "arm"),
        (Named("median_time", arm="a", clock="update"), "did you mean 'updates'", "clock"),
        (Named("difference", arm="a", than="b", clock="second"), "did you mean 'seconds'", "clock"),
        (Named("mean", arm="a", clock="seconds"), "leave `clock:` out", "clock"),
        (Named("probability_better", arm="a", than="b", clock="updates"), "leave `clock:` out", "clock"),
    ],
)
def test_a_name_that_there_is_not_is_refused_with_the_closest(
    planted: Plant, named: Named, said: str, place: str
) -> None:
    with pytest.raises(InputError) as refused:
        number(planted({"a": [0.1, 0.2, 0.3], "b": [0.1, 0.2, 0.3]}), named)
    assert said in str(refused.value)
    assert refused.value.finding.place == place


def test_of_several_tasks_one_must_be_named(two: Any) -> None:
    with pytest.raises(InputError, match="add `task:`"):
        number(read(two, STUDY), Named("mean", arm="adam"))
    assert number(read(two, STUDY), Named("mean", task="cora", arm="adam")).n == 6


def test_a_ruling_is_the_reports(planted: Plant) -> None:
    clear = planted({"a": [0.9, 0.91, 0.92, 0.93, 0.94], "b": [0.5, 0.52, 0.51, 0.53, 0.54]})
    assert ruling(clear, "", "a", "b")[0] == "better"
    assert ruling(clear, "", "b", "a")[0] == "worse"
    even = planted({"a": [0.9, 0.8, 0.85, 0.95, 0.7], "b": [0.8, 0.9, 0.95, 0.85, 0.75]})
    assert ruling(even, "", "a", "b")[0] == "not shown"


def test_a_verdict_rests_on_all_arms_that_are_ruled_with_it(planted: Plant) -> None:
    study = planted({arm: [0.1, 0.2, 0.3] for arm in "abc"})
    runs = ruling(study, "", "a", "b")[1].quantity.runs
    assert len(runs) == 9


def with_curves(source: Any, arm: str, updates: Sequence[int], values: Sequence[float], speed: float = 0.01) -> None:
    """Gives an arm's final runs these evaluations, a little higher the later the seed, the same for each metric."""
    at = tuple(updates)
    for record in source.of(arm=arm, phase="final"):
        more = 1e-4 * record.labels.seed * (-1) ** (record.labels.seed + len(arm))
        told = {
            "val/accuracy": [value + more for value in values],
            "time/train_s": [update * speed for update in at],
            "count/gradients": list(at),
        }
        for name, line in told.items():
            source.points[record.run_id, name] = Series(record.run_id, name, at, tuple(map(float, line)), at)


def test_a_difference_is_where_the_report_compares_the_arms(made: Callable[..., Any]) -> None:
    """SGD ends after 400 updates with 0.90, where Adam, which ends after 800 with 0.96, has 0.91."""
    source = made({"sgd": {"level": 0.90}, "adam": {"level": 0.96}}, trials=0)
    source.with_config(source.of(arm="adam", phase="final"), budget={"updates": 800})
    with_curves(source, "sgd", (200, 400), (0.8, 0.90))
    with_curves(source, "adam", (200, 400, 600, 800), (0.8, 0.91, 0.95, 0.96))
    study = read(source, STUDY)
    found = number(study, Named("difference", arm="adam", than="sgd"))
    (pair,) = readings(study, "digits")[0].pairs
    seen = pair.seen_from("adam")
    assert found.quantity.value == pytest.approx(0.01, abs=1e-3)
    assert seen.estimate is not None
    assert (found.quantity.value, found.quantity.low, found.p) == (
        seen.estimate.value,
        seen.estimate.low,
        seen.adjusted,
    )
    assert found.at == "compared at 400 updates, by validation"


def test_a_difference_is_on_the_clock_that_is_named(made: Callable[..., Any]) -> None:
    """Both have 400 updates; Adam takes twice as long for each, so that SGD's 4 seconds are 200 of its updates."""
    source = made({"sgd": {"level": 0.90}, "adam": {"level": 0.96}}, trials=0, noise=1e-4)
    with_curves(source, "sgd", (100, 200, 300, 400), (0.7, 0.8, 0.85, 0.90), speed=0.01)
    with_curves(source, "adam", (100, 200, 300, 400), (0.8, 0.87, 0.95, 0.96), speed=0.02)
    study = read(source, STUDY)
    own = number(study, Named("difference", arm="adam", than="sgd"))
    assert own.quantity.value == pytest.approx(0.06, abs=1e-3)
    assert own.at == ""
    timed = number(study, Named("difference", arm="adam", than="sgd", clock="seconds"))
    assert timed.quantity.value == pytest.approx(-0.03, abs=1e-3)
    assert timed.at == "compared at 4 seconds of training, by validation"
    assert str(Named("difference", arm="adam", than="sgd", clock="seconds")).endswith("per second of training")


def test_a_ruling_depends_on_the_clock_where_another_unseats_the_leader(made: Callable[..., Any]) -> None:
    """A is better at the end; in the time that the cheaper B took, B leads by too little to be shown."""
    from reports.clocks import agree

    source = made({"A": {"level": 0.95}, "B": {"level": 0.93}}, trials=0, noise=1e-4)
    wave = {seed: 0.004 * (-1) ** seed for seed in range(1, 7)}
    for arm, values, speed in (("A", (0.8, 0.85, 0.928, 0.95), 0.0133), ("B", (0.8, 0.85, 0.9, 0.929), 0.01)):
        with_curves(source, arm, (100, 200, 300, 400), values, speed)
        for record in source.of(arm=arm, phase="final"):
            line = source.points[record.run_id, "val/accuracy"]
            moved = tuple(value + (wave[record.labels.seed] if arm == "A" else 0.0) for value in line.values)
            source.points[record.run_id, "val/accuracy"] = dataclasses.replace(line, values=moved)
    study = read(source, STUDY)
    assert not agree(readings(study, "digits"))
    assert ruling(study, "", "A", "B")[0] == "depends on the clock"
    assert ruling(study, "", "A", "B", "updates")[0] == "better"
    assert ruling(study, "", "A", "B", "seconds")[0] == "not shown"


@pytest.mark.parametrize("seeds", [1, 2])
def test_too_few_seeds_are_no_difference(planted: Plant, seeds: int) -> None:
    study = planted({"a": [0.2, 0.25][:seeds], "b": [0.1, 0.11][:seeds]})
    found = number(study, Named("difference", arm="a", than="b"))
    assert (found.quantity.value, found.p) == (None, None)
    assert found.quantity.absent == "no difference is formed of fewer than 3 seeds"


def test_two_seeds_are_no_interval(planted: Plant, timed: Plant) -> None:
    study = planted({"a": [0.2, 0.25], "b": [0.1, 0.11]})
    mean = number(study, Named("mean", arm="a")).quantity
    assert (mean.value, mean.low, mean.high) == (pytest.approx(0.225), None, None)
    ratio = number(timed({"a": [10, 40], "b": [40, 60]}), Named("time_ratio", arm="a", than="b")).quantity
    assert (ratio.low, ratio.high) == (None, None)
    assert number(study, Named("share_diverged", arm="a")).quantity.high is not None  # Wilson's is good at any n


def test_one_run_is_no_interval(planted: Plant) -> None:
    study = planted({"a": [0.1], "b": [0.2]})
    found = number(study, Named("mean", arm="a"))
    assert (found.quantity.value, found.quantity.low) == (0.1, None)
    assert dataclasses.asdict(found)["n"] == 1


def test_differences_that_are_all_the_same_are_no_test(planted: Plant) -> None:
    """0.3 - 0.2, 0.9 - 0.8 and 0.7 - 0.6 differ by what rounding leaves of them, which is no noise to test against."""
    found = number(planted({"a": [0.3, 0.9, 0.7], "b": [0.2, 0.8, 0.6]}), Named("difference", arm="a", than="b"))
    assert found.quantity.value == pytest.approx(0.1)
    assert (found.p, found.quantity.low, found.quantity.high) == (None, None, None)
    assert ruling(planted({"a": [0.3, 0.9, 0.7], "b": [0.2, 0.8, 0.6]}), "", "a", "b")[0] == "no spread"
