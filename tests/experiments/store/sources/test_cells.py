"""What a cell of a table says: numbers to their last digit, times in one unit, words as they are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.store.sources.cells import milliseconds, plain


@pytest.mark.parametrize("number", [0, -1, 2**53 + 1, 2**63, 2**64 - 1, 10**30])
def test_a_whole_number_keeps_every_digit(number):
    assert plain(str(number)) == number
    assert type(plain(str(number))) is int


@given(st.floats())
def test_a_number_survives_being_written(number):
    assert plain(repr(number)) == (number if number - number == 0 else repr(number))


@given(st.datetimes())
def test_a_date_without_a_zone_is_utc(at):
    from datetime import UTC

    assert milliseconds(at.isoformat()) == round(at.replace(tzinfo=UTC).timestamp() * 1000)
