"""A grid has each of its points exactly once, and no axis that does not hold multiplies it."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.tuning import grid
from experiments.tuning.drawing import draw
from experiments.tuning.ranges import Options, Range
from experiments.tuning.spaces import Axis, Given, Space, in_order

OPTIMIZER = Axis("optimizer", Options(("adamw", "muon")))
MOMENTUM = Axis("optimizer.momentum", Range(0.8, 1.0), given=Given("optimizer", ("muon",)))


def drawn(space: Space, trials: int) -> list[tuple[tuple[str, object], ...]]:
    return [tuple(draw(space, "grid", 1, "digits", number, trials).items()) for number in range(trials)]


def test_an_axis_that_does_not_hold_multiplies_nothing() -> None:
    """adamw once and muon with three momenta: four points in all, not six."""
    space = Space((OPTIMIZER, MOMENTUM))
    points = drawn(space, 4)
    assert points == [
        (("optimizer", "adamw"),),
        (("optimizer", "muon"), ("optimizer.momentum", 0.8)),
        (("optimizer", "muon"), ("optimizer.momentum", 0.9)),
        (("optimizer", "muon"), ("optimizer.momentum", 1.0)),
    ]


def test_conditions_multiply_with_what_is_always_there() -> None:
    """Two batch sizes times (adamw, or muon with two momenta) are 2 * (1 + 2) = 6 points."""
    space = Space((Axis("batch_size", Options((32, 64))), OPTIMIZER, MOMENTUM))
    expected = {
        (("batch_size", size), *rest)
        for size, rest in itertools.product(
            (32, 64),
            (
                (("optimizer", "adamw"),),
                (("optimizer", "muon"), ("optimizer.momentum", 0.8)),
                (("optimizer", "muon"), ("optimizer.momentum", 1.0)),
            ),
        )
    }
    points = drawn(space, 6)
    assert len(points) == 6
    assert set(points) == expected


def test_conditions_on_conditions() -> None:
    """a: adamw. m: nesterov off, or on with steps 3 or 4. So 1 + 1 + 2 = 4 points."""
    space = Space(
        in_order(
            [
                OPTIMIZER,
                Axis("optimizer.nesterov", Options((False, True)), given=Given("optimizer", ("muon",))),
                Axis("optimizer.steps", Range(3, 4, whole=True), given=Given("optimizer.nesterov", ("true",))),
            ]
        )
    )
    assert [tuple(value for _, value in point) for point in drawn(space, 4)] == [
        ("adamw",),
        ("muon", False),
        ("muon", True, 3),
        ("muon", True, 4),
    ]


def test_what_is_left_of_the_trials_is_drawn_at_random() -> None:
    space = Space((OPTIMIZER, Axis("batch_size", Options((32, 64)))))
    points = drawn(space, 6)
    assert len(set(points[:4])) == 4
    assert set(points[4:]) <= set(points[:4])


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 60), st.integers(2, 4), st.integers(0, 3), st.booleans())
def test_every_point_stands_there_exactly_once(trials: int, options: int, whole: int, deep: bool) -> None:
    axes = [Axis("o", Options(tuple(range(options)))), Axis("lr", Range(1e-3, 1.0, log=True))]
    axes.append(Axis("w", Range(0, whole + 1, whole=True), given=Given("o", ("0",))))
    axes.append(Axis("x", Options(("a", "b")), given=Given("o", ("0", "1"))))
    if deep:
        axes.append(Axis("y", Range(0.0, 1.0), given=Given("x", ("b",))))
    space = Space(in_order(axes))
    counts = grid.points(space, trials)
    size = grid.size(space, counts)
    points = [tuple(grid.point(space, counts, number).items()) for number in range(size)]
    assert 1 <= size <= trials
    assert len(set(points)) == size
    for point in points:
        assert [axis.place for axis in space.active(dict(point))] == [place for place, _ in point]


def test_without_conditions_the_first_axis_changes_fastest() -> None:
    """Stored studies rest on it."""
    space = Space((Axis("a", Options((1, 2))), Axis("b", Options((1, 2, 3)))))
    counts = grid.points(space, 6)
    assert counts == [2, 3]
    points = [tuple(grid.point(space, counts, number).values()) for number in range(6)]
    assert points == [(1, 1), (2, 1), (1, 2), (2, 2), (1, 3), (2, 3)]


@pytest.mark.parametrize("trials", [1, 2, 3, 7, 12])
def test_a_grid_without_conditions_is_as_large_as_it_may_be(trials: int) -> None:
    space = Space((Axis("a", Range(0, 1)), Axis("b", Range(0, 1))))
    one, two = grid.points(space, trials)
    assert one * two <= trials < (one + 1) * (two + 1)
