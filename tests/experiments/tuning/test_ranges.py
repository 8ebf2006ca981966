"""Positions, edges and widening of ranges, in the range's own measure."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.tuning.ranges import Options, Range, parse_dimension, parse_range


def test_positions_are_in_the_ranges_own_measure() -> None:
    assert Range(1e-4, 1.0, log=True).at(0.25) == pytest.approx(1e-3)
    assert Range(1e-4, 1.0, log=True).position(1e-2) == pytest.approx(0.5)
    assert Range(0.8, 1.0).at(0.25) == pytest.approx(0.85)


@settings(deadline=None)
@given(st.floats(0, 1), st.floats(1e-8, 1e3), st.floats(1.01, 1e6), st.booleans())
def test_a_value_is_inside_and_near_its_position(position: float, low: float, factor: float, log: bool) -> None:
    space = Range(low, low * factor, log=log)
    value = space.at(position)
    assert space.low <= value <= space.high
    assert space.position(value) == pytest.approx(position, abs=2e-3)


@settings(deadline=None)
@given(st.integers(-50, 50), st.integers(1, 60), st.booleans())
def test_whole_numbers_share_the_positions_equally(low: int, width: int, log: bool) -> None:
    if log and low < 1:
        low = 1
    space = Range(low, low + width, log=log, whole=True)
    drawn = [space.at((i + 0.5) / 2000) for i in range(2000)]
    assert set(drawn) <= set(range(low, low + width + 1))
    assert drawn[0] == low
    assert drawn[-1] == low + width
    if not log:
        counts = [drawn.count(value) for value in range(low, low + width + 1)]
        assert max(counts) - min(counts) <= 2


def test_values_are_short_enough_to_copy() -> None:
    assert all(len(f"{Range(1e-4, 1e-1, log=True).at(i / 97):.10g}") <= 9 for i in range(98))


def test_the_outer_tenth_is_the_edge() -> None:
    space = Range(1e-4, 1e-1, log=True)  # three decades: the outer tenth is 0.3 of a decade
    assert space.edge(1.9e-4) == "low"
    assert space.edge(2.1e-4) == ""
    assert space.edge(4.9e-2) == ""
    assert space.edge(5.1e-2) == "high"


def test_a_range_moves_a_decade_past_its_edge() -> None:
    high = Range(1e-4, 1e-1, log=True).past("high", 0.09)
    assert high is not None
    assert (high.low, high.high) == pytest.approx((10**-1.3, 1.0), rel=1e-3)
    low = Range(1e-4, 1e-1, log=True).past("low", 1e-4)
    assert low is not None
    assert (low.low, low.high) == pytest.approx((1e-5, 10**-3.7), rel=1e-3)
    linear = Range(0.0, 1.0).past("high", 0.95)
    assert linear is not None
    assert (linear.low, linear.high) == pytest.approx((0.9, 2.0))


def test_what_a_widened_range_starts_at() -> None:
    """At the value where that is further in than the outer tenth: nothing between it and the edge is left out."""
    moved = Range(0.0, 1.0).past("high", 0.6)
    assert moved is not None
    assert (moved.low, moved.high) == (0.6, 2.0)


def test_a_range_goes_no_further_than_it_is_allowed() -> None:
    moved = Range(0.8, 0.98).past("high", 0.9, highest=0.99)
    assert moved is not None
    assert moved.high == 0.99
    assert Range(0.8, 0.99).past("high", 0.9, highest=0.99) is None
    assert Range(1, 4, whole=True).past("low", 1, lowest=1) is None
    assert Options((1, 2)).past("high", 1) is None


def test_texts() -> None:
    assert parse_range("1e-4:1e-1:log") == Range(1e-4, 1e-1, log=True)
    assert parse_range("8:64:int:log") == Range(8, 64, log=True, whole=True)
    assert parse_range("run:17") is None
    assert parse_range("cuda:1") is None
    assert parse_dimension("0.8,0.9,cosine") == Options((0.8, 0.9, "cosine"))
    assert parse_dimension("0.8") is None


@settings(deadline=None)
@given(st.floats(1e-9, 1e9), st.floats(1.001, 1e6), st.booleans())
def test_a_printed_range_reads_back(low: float, factor: float, log: bool) -> None:
    space = Range(low, low * factor, log=log)
    assert parse_range(str(space)) == space
    whole = Range(math.floor(low), math.floor(low) + 7, whole=True)
    assert parse_range(str(whole)) == whole
