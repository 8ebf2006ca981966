"""Draws are stable and fair, grids are whole, and an optimum at an edge moves the range."""

from __future__ import annotations

import itertools
import statistics

import pytest

from experiments.config import resolve
from experiments.tuning.drawing import Axis, Space, declared, draw, edges, joined, space_of, value_at, widened
from experiments.tuning.ranges import Options, Range

LR = Axis("optimizer.lr", Range(1e-4, 1e-1, log=True))
DECAY = Axis("optimizer.weight_decay", Range(0.0, 1.0))
SPACE = Space((LR, DECAY))
TRIED = [{"optimizer.lr": rate, "optimizer.weight_decay": decay} for rate, decay in ((5e-4, 0.2), (2e-2, 0.8))]


def test_a_draw_is_the_same_for_ever() -> None:
    """Stored studies rest on it: computed by hand from sha256("1\\x1fdigits\\x1foptimizer.lr\\x1f0")."""
    import hashlib

    number = int(hashlib.sha256(b"1\x1fdigits\x1foptimizer.lr\x1f0").hexdigest()[:14], 16) / 16**14
    drawn = draw(Space((LR,)), "random", 1, "digits", 0, 9)["optimizer.lr"]
    assert drawn == pytest.approx(1e-4 * 1000**number, rel=1e-3)


@pytest.mark.parametrize("sampler", ["random", "qmc"])
def test_arms_that_share_a_setting_get_the_same_positions(sampler: str) -> None:
    wider = Axis("optimizer.lr", Range(1e-6, 1.0, log=True))
    for number in range(5):
        one = draw(SPACE, sampler, 1, "digits", number, 9)["optimizer.lr"]
        other = draw(Space((wider,)), sampler, 1, "digits", number, 9)["optimizer.lr"]
        assert LR.dimension.position(one) == pytest.approx(wider.dimension.position(other), abs=2e-3)  # type: ignore


@pytest.mark.parametrize("sampler", ["random", "qmc"])
def test_draws_differ_between_trials_tasks_seeds_and_settings(sampler: str) -> None:
    ways = itertools.product((1, 2), ("digits", "cora"), range(20))
    drawn = [draw(SPACE, sampler, seed, task, number, 20) for seed, task, number in ways]
    positions = {LR.dimension.position(d["optimizer.lr"]) for d in drawn}  # type: ignore
    assert len(positions) == len(drawn)
    gaps = [abs(LR.dimension.position(d["optimizer.lr"]) - d["optimizer.weight_decay"]) for d in drawn]  # type: ignore
    assert statistics.mean(gaps) > 0.2  # 1/3 for independent ones, 0 for equal ones


def test_qmc_leaves_no_gap_that_random_would() -> None:
    """The largest gap of n points of frac(s + k*sqrt(2)) is below 2.5/n (three-gap theorem; sqrt(2) = [1; 2, ...])."""
    for trials in (3, 6, 12, 40):
        drawn = [draw(Space((DECAY,)), "qmc", 1, "digits", k, trials)["optimizer.weight_decay"] for k in range(trials)]
        ordered = sorted(drawn)
        gaps = [b - a for a, b in itertools.pairwise([*ordered, ordered[0] + 1])]
        assert max(gaps) < 2.5 / trials


def test_random_draws_are_uniform() -> None:
    drawn = [draw(Space((DECAY,)), "random", 1, "digits", k, 4000)["optimizer.weight_decay"] for k in range(4000)]
    assert statistics.mean(drawn) == pytest.approx(0.5, abs=4 * (1 / 12) ** 0.5 / 4000**0.5)
    assert statistics.variance(drawn) == pytest.approx(1 / 12, rel=0.1)


def test_a_grid_is_a_grid() -> None:
    drawn = [draw(SPACE, "grid", 1, "digits", number, 9) for number in range(9)]
    rates = sorted({point["optimizer.lr"] for point in drawn})
    assert rates == pytest.approx([1e-4, 10**-2.5, 1e-1], rel=1e-3)
    assert sorted({point["optimizer.weight_decay"] for point in drawn}) == [0.0, 0.5, 1.0]
    assert len({tuple(point.values()) for point in drawn}) == 9


def test_a_grid_takes_each_option_once_and_fills_up_at_random() -> None:
    space = Space((Axis("a", Options((1, 2, 3))), Axis("b", Range(1, 2, whole=True))))
    drawn = [draw(space, "grid", 1, "digits", number, 7) for number in range(7)]
    assert {(point["a"], point["b"]) for point in drawn[:6]} == set(itertools.product((1, 2, 3), (1, 2)))
    assert drawn[6]["a"] in (1, 2, 3)


def test_an_optimum_inside_moves_nothing() -> None:
    assert widened(SPACE, {"optimizer.lr": 1e-2, "optimizer.weight_decay": 0.5}, TRIED) == (SPACE, "")


def test_the_outermost_trial_is_at_an_edge_wherever_it_stands() -> None:
    """Nothing was tried beyond it, so nothing shows that the optimum is not there."""
    best = {"optimizer.lr": 5e-2, "optimizer.weight_decay": 0.5}
    assert edges(SPACE, {**best, "optimizer.lr": 4e-2}, [*TRIED, best]) == {}
    assert edges(SPACE, {**best, "optimizer.lr": 4e-2}, TRIED) == {"optimizer.lr": "high"}
    assert edges(SPACE, best, [best]) == {}


def test_an_optimum_at_an_edge_moves_that_axis_only() -> None:
    moved, why = widened(SPACE, {"optimizer.lr": 1.2e-4, "optimizer.weight_decay": 0.5}, TRIED)
    assert moved.axes[0].dimension.low == pytest.approx(1e-5)  # type: ignore[union-attr]
    assert moved.axes[1] == DECAY
    assert "the best optimizer.lr, 0.00012, stood at the low edge of 0.0001:0.1:log" in why
    assert joined(SPACE, moved).dimensions["optimizer.lr"] == Range(1e-5, 1e-1, log=True)
    further = [*TRIED, {"optimizer.lr": 2e-5, "optimizer.weight_decay": 0.5}]
    assert edges(joined(SPACE, moved), {"optimizer.lr": 1.2e-4, "optimizer.weight_decay": 0.5}, further) == {}


def test_what_cannot_be_widened_is_said() -> None:
    space = Space((Axis("optimizer.momentum", Range(0.5, 0.9), 0.0, 0.9),))
    moved, why = widened(space, {"optimizer.momentum": 0.89}, [])
    assert moved == space
    assert "it can go no further" in why


def test_the_declaration_bounds_how_far_a_range_goes() -> None:
    config = resolve({"task": "digits", "optimizer": "adamw", "wrappers": "sam"})
    rate, batch = space_of(config, {"batch_size": Range(8, 64, whole=True), "optimizer.lr": LR.dimension}).axes
    assert (rate.place, batch.place) == ("optimizer.lr", "batch_size")
    assert rate.lowest > 0
    assert batch.lowest == 1
    assert declared(config, "wrappers.sam.rho") is not None
    assert declared(config, "batch_size") is None
    assert value_at(config.to_json(), "optimizer.lr") == config.optimizer.hyper["lr"]
