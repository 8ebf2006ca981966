"""Numbers are shown with the digits that their uncertainty allows."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reports.quantity import Quantity, p_value, plain, rounded


@pytest.mark.parametrize(
    ("value", "low", "high", "shown"),
    [
        (0.97423, 0.97012, 0.97834, "0.9742 [0.9701, 0.9783]"),
        (1234.5, 1100.0, 1369.0, "1,230 [1,100, 1,370]"),
        (2.0, -1.0, 5.0, "2.0 [−1.0, 5.0]"),
        (0.0, 0.0, 0.0, "0 [0, 0]"),
        (40.0, 11.8, 76.9, "40 [12, 77]"),
        (0.03, 0.0002, 0.0598, "0.0300 [0.0002, 0.0598]"),
        (0.03, -0.0002, 0.0602, "0.0300 [−0.0002, 0.0602]"),
        (1234.0, 3.0, 2465.0, "1,234 [3, 2,465]"),
        (2e-8, 1e-8, 3e-8, "2.0e−08 [1.0e−08, 3.0e−08]"),
    ],
)
def test_two_digits_of_the_half_width(value: float, low: float, high: float, shown: str) -> None:
    assert Quantity(value=value, low=low, high=high, statistic="s").number == shown


def test_units_stand_in_sentences_and_not_in_tables() -> None:
    quantity = Quantity(value=1.7, unit="s of training", statistic="s")
    assert (quantity.number, quantity.text) == ("1.7", "1.7 s of training")


def test_nothing_is_shown_as_zero_that_is_not() -> None:
    assert p_value(1e-9) == "< 0.001"
    assert Quantity(value=1e-9, unit="p", statistic="s").text == "p < 0.001"
    assert Quantity(value=3e-7, statistic="s").number == "3e−07"


def test_what_is_absent_has_a_word() -> None:
    assert Quantity(value=None, unit="updates", statistic="s", absent="not reached").text == "not reached"


def test_a_p_value_shows_on_which_side_of_the_line_it_is() -> None:
    assert [p_value(p) for p in (0.04996, 0.05, 0.05004, 0.0496)] == ["0.04996", "0.050", "0.05004", "0.0496"]


def test_one_minus_sign() -> None:
    """U+2212, with and without an interval."""
    assert (plain(-12.5), rounded(-12.5, 1), plain(-3.0), plain(-20000.4)) == ("−12.5", "−12.5", "−3", "−20,000")


def test_a_p_value_and_its_floor_have_the_same_digits() -> None:
    """Sign flips of n pairs cannot go below 2 / 2^n."""
    shown = [p_value(2 / 2**n) for n in range(1, 12)]
    assert shown == ["1.00", "0.50", "0.25", "0.125", "0.063", "0.031", "0.016", "0.008", "0.004", "0.002", "< 0.001"]
    floors = [Quantity(value=2 / 2**n, statistic="smallest possible p").number for n in range(1, 12)]
    assert floors == shown


@given(st.floats(0, 1), st.floats(0, 1))
def test_no_p_value_is_shown_below_a_smaller_one(a: float, b: float) -> None:
    low, high = (float(p_value(p).replace("< 0.001", "0")) for p in sorted((a, b)))
    assert low <= high
