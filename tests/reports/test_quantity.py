"""Numbers are shown with the digits that their uncertainty allows."""

import pytest

from reports.quantity import Quantity, p_value


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
