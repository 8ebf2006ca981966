"""Importance of hyperparameters: it finds the one that decides, on the scale searched; and how wide is good."""

import logging

import numpy as np
import optuna
import pytest
from hypothesis import given
from hypothesis import strategies as st

from algos.finding import InputError
from reports.statistics.importance import by_chance, importance, sensitivity
from reports.tuning import Span

RANGES = {"lr": Span(1e-5, 1e-1, True), "momentum": Span(0.8, 0.99)}


def bowl(n: int, seed: int = 0) -> list[tuple[dict[str, float], float]]:
    """Random search: a loss that is quadratic in the decades of lr and does not know momentum."""
    rng = np.random.default_rng(seed)
    lr, momentum = 10 ** rng.uniform(-5, -1, n), rng.uniform(0.8, 0.99, n)
    return [({"lr": a, "momentum": b}, float((np.log10(a) + 3) ** 2)) for a, b in zip(lr, momentum)]


@pytest.mark.parametrize("method", ["fanova", "pedanova"])
def test_the_hyperparameter_that_decides_comes_first(method) -> None:
    shares = importance(bowl(60), "min", RANGES, method)
    assert list(shares) == ["lr", "momentum"]
    assert shares["lr"] > 0.75
    assert shares["momentum"] < 0.2
    assert sum(shares.values()) <= 1 + 1e-9


def test_main_effects_of_a_sum_are_its_variances() -> None:
    """y = 2a + b on equal ranges: 4/5 and 1/5 of the variance."""
    rng = np.random.default_rng(0)
    drawn = rng.uniform(0, 1, (150, 2))
    shares = importance([({"a": a, "b": b}, 2 * a + b) for a, b in drawn], "max")
    assert shares["a"] == pytest.approx(0.8, abs=0.05)
    assert shares["b"] == pytest.approx(0.2, abs=0.05)


def test_a_log_range_is_weighed_by_its_decades() -> None:
    """The value depends on the decades of lr below 1e-2 only and, less, on momentum. On a linear scale, as Optuna has
    it even for log ranges, those decades are a tenth of the range and momentum would decide."""
    rng = np.random.default_rng(1)
    lr, momentum = 10 ** rng.uniform(-5, -1, 80), rng.uniform(0.8, 0.99, 80)
    trials = [({"lr": a, "momentum": b}, float(np.minimum(np.log10(a), -2) + 6 * b)) for a, b in zip(lr, momentum)]
    assert next(iter(importance(trials, "max", RANGES))) == "lr"
    assert next(iter(importance(trials, "max"))) == "momentum"


@pytest.mark.parametrize("method", ["fanova", "pedanova"])
def test_maximising_mirrors_minimising(method) -> None:
    trials = bowl(40)
    mirrored = [(params, -value) for params, value in trials]
    assert importance(mirrored, "max", RANGES, method) == pytest.approx(importance(trials, "min", RANGES, method))


def test_same_seed_same_shares_whatever_the_global_seed() -> None:
    seen = []
    for state in (1, 2):
        np.random.seed(state)
        seen.append(importance(bowl(30), "min", RANGES, seed=5))
    assert seen[0] == seen[1]


def test_options_count_and_what_never_varied_does_not() -> None:
    rng = np.random.default_rng(0)
    trials = [
        ({"name": str(rng.choice(["adamw", "<script>", "sgd"])), "nesterov": bool(rng.integers(2)), "fixed": 1}, 0.0)
        for _ in range(40)
    ]
    trials = [(params, float(params["name"] == "<script>")) for params, _ in trials]
    shares = importance(trials, "max")
    assert list(shares) == ["name", "nesterov"]
    assert shares["name"] > 0.9


@pytest.mark.parametrize("method", ["fanova", "pedanova"])
def test_diverged_trials_count_as_the_worst_finite(method) -> None:
    trials = bowl(40)
    worst = max(value for params, value in trials if params["lr"] <= 3e-2)
    diverged = [(params, np.inf if params["lr"] > 3e-2 else value) for params, value in trials]
    replaced = [(params, worst if params["lr"] > 3e-2 else value) for params, value in trials]
    assert importance(diverged, "min", RANGES, method) == importance(replaced, "min", RANGES, method)


@pytest.mark.parametrize("method", ["fanova", "pedanova"])
def test_where_all_values_are_one_nothing_matters(method) -> None:
    assert importance([(params, 1.0) for params, _ in bowl(20)], "min", RANGES, method) == {"lr": 0.0, "momentum": 0.0}
    assert importance([(params, np.inf) for params, _ in bowl(20)], "min", RANGES, method) == {
        "lr": 0.0,
        "momentum": 0.0,
    }


def test_too_few_trials_are_refused() -> None:
    with pytest.raises(InputError, match="9 trials are too few") as caught:
        importance(bowl(9), "min", RANGES)
    assert caught.value.finding.rule == "too-few-trials"
    assert importance(bowl(10), "min", RANGES)


@pytest.mark.slow
def test_noise_stays_below_what_chance_gives_and_an_effect_does_not() -> None:
    rng = np.random.default_rng(3)
    trials = [(params, value + 0.1 * rng.normal()) for params, value in bowl(30)]
    shares, chance = importance(trials, "min", RANGES), by_chance(trials, "min", RANGES)
    assert shares["lr"] > chance["lr"]
    assert shares["momentum"] < chance["momentum"]


def test_optuna_neither_prints_nor_changes_how_much_it_says(caplog) -> None:
    optuna.logging.enable_propagation()
    try:
        with caplog.at_level(logging.DEBUG):
            before = optuna.logging.get_verbosity()
            importance(bowl(10), "min", RANGES)
            assert optuna.logging.get_verbosity() == before
        assert not caplog.records
    finally:
        optuna.logging.disable_propagation()


def test_how_wide_a_good_learning_rate_is() -> None:
    """Loss (decades from 1e-3)^2, within 0.25: half a decade to either side, as far as it was tried."""
    lr = 10 ** np.linspace(-5, -1, 81)
    found = sensitivity(lr, (np.log10(lr) + 3) ** 2, "min", 0.25, log=True)
    assert found.width == pytest.approx(1.0)
    assert found.best == pytest.approx(1e-3)
    assert (found.good, found.inside) == (21, 21)
    assert (found.open_low, found.open_high) == (False, False)


def test_a_range_that_reaches_the_edge_is_open_there() -> None:
    found = sensitivity([1.0, 2.0, 3.0], [0.9, 0.95, 0.5], "max", 0.1)
    assert (found.low, found.high, found.width) == (1.0, 2.0, 1.0)
    assert (found.open_low, found.open_high) == (True, False)


def test_bad_trials_between_good_ones_are_counted() -> None:
    found = sensitivity([1.0, 2.0, 3.0, 4.0], [0.1, np.inf, 0.1, 5.0], "min", 0.0)
    assert (found.low, found.high, found.good, found.inside) == (1.0, 3.0, 2, 3)


@given(st.lists(st.tuples(st.floats(1e-6, 1), st.integers(0, 9)), min_size=1, max_size=20), st.integers(0, 5))
def test_more_tolerance_is_never_narrower(trials: list[tuple[float, int]], tolerance: int) -> None:
    x, y = zip(*trials)
    strict, loose = sensitivity(x, y, "min", tolerance, log=True), sensitivity(x, y, "min", tolerance + 1, log=True)
    assert loose.width >= strict.width >= 0
    assert loose.low <= strict.low <= strict.best <= strict.high <= loose.high
    assert 1 <= strict.good <= strict.inside <= len(trials)
