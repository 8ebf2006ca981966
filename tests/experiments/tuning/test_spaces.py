"""Conditional axes: there exactly where their condition holds, in an order in which that can be known."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from algos.finding import InputError
from experiments.tuning.drawing import draw, edges, joined, params_of, unbracketed, widened
from experiments.tuning.ranges import Options, Range
from experiments.tuning.spaces import Axis, Given, Space, check_once, in_order

MUON = Given("optimizer", ("muon",))
SPACE = Space(
    in_order(
        [
            Axis("optimizer.lr", Range(1e-4, 1e-1, log=True)),
            Axis("optimizer.momentum", Range(0.8, 0.99), 0.0, 0.999, given=MUON),
            Axis("optimizer.nesterov", Options((True, False)), given=MUON),
            Axis("optimizer.steps", Range(3, 7, whole=True), given=Given("optimizer.nesterov", ("true",))),
            Axis("optimizer", Options(("adamw", "muon", "sgd"))),
        ]
    )
)


def test_axes_stand_after_what_they_depend_on() -> None:
    places = [axis.place for axis in SPACE.axes]
    assert places[0] == "optimizer.lr"
    assert places.index("optimizer") < places.index("optimizer.momentum")
    assert places.index("optimizer.nesterov") < places.index("optimizer.steps")


def test_active_axes_follow_the_options() -> None:
    def places(**params: Any) -> list[str]:
        return [axis.place.rpartition(".")[2] for axis in SPACE.active({f"optimizer{k}": v for k, v in params.items()})]

    assert places(**{"": "adamw"}) == ["lr", "optimizer"]
    assert places(**{"": "muon", ".nesterov": False}) == ["lr", "optimizer", "momentum", "nesterov"]
    assert places(**{"": "muon", ".nesterov": True}) == ["lr", "optimizer", "momentum", "nesterov", "steps"]


@settings(deadline=None)
@given(st.sampled_from(["random", "qmc", "grid"]), st.integers(0, 500), st.integers(1, 40), st.integers(0, 99))
def test_a_draw_has_exactly_the_axes_that_hold(sampler: str, seed: int, trials: int, number: int) -> None:
    drawn = draw(SPACE, sampler, seed, "digits", number, trials)
    expected = {"optimizer.lr", "optimizer"}
    if drawn["optimizer"] == "muon":
        expected |= {"optimizer.momentum", "optimizer.nesterov"}
        if drawn["optimizer.nesterov"] is True:
            expected |= {"optimizer.steps"}
    assert set(drawn) == expected
    assert [axis.place for axis in SPACE.active(drawn)] == list(drawn)


@pytest.mark.parametrize("sampler", ["random", "qmc"])
def test_arms_that_share_a_setting_get_the_same_draw_whatever_conditions_they_have(sampler: str) -> None:
    alone = Space((SPACE.axes[0],))
    for number in range(20):
        rate = draw(alone, sampler, 1, "digits", number, 20)["optimizer.lr"]
        assert draw(SPACE, sampler, 1, "digits", number, 20)["optimizer.lr"] == rate


def test_only_trials_with_the_setting_tell_where_its_edge_is() -> None:
    def trial(rate: float, optimizer: str, momentum: float | None = None) -> dict[str, Any]:
        muon = {"optimizer.momentum": momentum, "optimizer.nesterov": False} if momentum else {}
        return {"optimizer.lr": rate, "optimizer": optimizer, **muon}

    best = trial(1e-2, "muon", 0.9)
    tried = [trial(1e-3, "adamw"), trial(5e-2, "adamw"), best, trial(1e-2, "muon", 0.85)]
    assert edges(SPACE, best, tried) == {"optimizer.momentum": "high"}
    assert edges(SPACE, tried[0], tried) == {"optimizer.lr": "low"}
    moved, why = widened(SPACE, best, tried)
    by_place = {axis.place: axis for axis in moved.axes}
    assert by_place["optimizer.momentum"].dimension.low == 0.9  # type: ignore[union-attr]
    assert by_place["optimizer.momentum"].given == MUON
    assert "of the trials in 0.8:0.99 none had a higher optimizer.momentum than the best, 0.9" in why
    assert "optimizer.momentum when optimizer=muon" in joined(SPACE, moved).to_json()
    assert unbracketed(SPACE, tried[0], tried).startswith("of the trials in 0.0001:0.1:log none had a lower")


def test_two_ranges_of_one_setting_under_conditions_that_exclude_each_other() -> None:
    slow = Axis("optimizer.lr", Range(1e-4, 1e-2, log=True), given=Given("optimizer", ("adamw",)))
    fast = Axis("optimizer.lr", Range(0.1, 1.0), given=Given("optimizer", ("sgd",)))
    which = Axis("optimizer", Options(("adamw", "sgd")))
    check_once([which, slow, fast], "arms.a")
    space = Space(in_order([which, slow, fast]))
    assert {space.name(axis) for axis in space.axes} == {
        "optimizer",
        "optimizer.lr when optimizer=adamw",
        "optimizer.lr when optimizer=sgd",
    }
    for number in range(30):
        drawn = draw(space, "random", 1, "digits", number, 30)
        assert (drawn["optimizer.lr"] >= 0.1) == (drawn["optimizer"] == "sgd")
    with pytest.raises(InputError, match=r"arms\.a: optimizer\.lr is searched twice where both hold"):
        check_once([which, slow, Axis("optimizer.lr", Range(0.1, 1.0))], "arms.a")


def test_a_condition_on_itself_is_refused() -> None:
    with pytest.raises(InputError, match="a when b=x depends on itself"):
        in_order(
            [
                Axis("a", Options(("x", "y")), given=Given("b", ("x",))),
                Axis("b", Options(("x", "y")), given=Given("a", ("x",))),
            ]
        )


def test_corners_have_both_ends_of_everything_under_every_option() -> None:
    corners = SPACE.corners()
    for axis in SPACE.axes:
        values = [point[axis.place] for point in corners if axis.place in point]
        if isinstance(axis.dimension, Options):
            assert set(values) == set(axis.dimension.values)
        else:
            assert {min(values), max(values)} == {axis.dimension.low, axis.dimension.high}
    assert all([axis.place for axis in SPACE.active(point)] == list(point) for point in corners)
    assert all(set(point) <= {"optimizer", "optimizer.nesterov"} for point in SPACE.choices())
    assert Space((SPACE.axes[0],)).choices() == [{}]


def test_settings_are_read_back_from_a_config_as_the_options_that_they_were() -> None:
    options = Options(("adamw", {"name": "muon", "momentum": 0.9}, "muon"))
    wrappers = Options((None, "sam", "cautious+sam", ({"name": "sam", "rho": 0.2},)))
    space = Space((Axis("optimizer", options), Axis("wrappers", wrappers), Axis("betas", Options(((0.9, 0.95), None)))))
    config = {"optimizer": {"name": "muon", "momentum": 0.9, "lr": 0.02}, "wrappers": [], "betas": [0.9, 0.95]}
    assert params_of(space, config, {}) == {
        "optimizer": {"name": "muon", "momentum": 0.9},
        "wrappers": None,
        "betas": (0.9, 0.95),
    }
    other = {**config, "optimizer": {"name": "muon", "momentum": 0.8}, "wrappers": [{"name": "sam", "rho": 0.05}]}
    assert params_of(space, other, {})["optimizer"] == "muon"
    assert params_of(space, other, {})["wrappers"] == "sam"
    both = {**config, "wrappers": [{"name": "cautious"}, {"name": "sam", "rho": 0.2}]}
    assert params_of(space, both, {})["wrappers"] == "cautious+sam"
    assert params_of(space, {**both, "wrappers": [{"name": "sam", "rho": 0.2}]}, {})["wrappers"] == (
        {"name": "sam", "rho": 0.2},
    )
    told = {"optimizer": "muon", "wrappers": "sam", "betas": [0.9, 0.95]}  # as JSON has them
    assert params_of(space, config, told) == {"optimizer": "muon", "wrappers": "sam", "betas": (0.9, 0.95)}
