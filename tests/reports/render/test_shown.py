"""What every format shows text as."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reports.document import Column, Table
from reports.quantity import Quantity
from reports.render.shown import longest_words, measured, shares, tone, visible


@given(st.text())
def test_nothing_stays_that_cannot_be_seen(text: str) -> None:
    seen = visible(text)
    assert all(char in "\n\t\u200c\u200d" or unicodedata.category(char)[0] != "C" for char in seen)
    assert visible(seen) == seen


@given(st.text(st.characters(categories=("L", "N", "P", "S", "Zs"))))
def test_what_can_be_seen_stays_as_it_is(text: str) -> None:
    assert visible(text) == text


@pytest.mark.parametrize(
    ("text", "seen"),
    [("a\x00b", "a␀b"), ("\x1b[31m", "␛[31m"), ("a\u202egnp.exe", "a⟨U+202E⟩gnp.exe"), ("a\u200bb", "a⟨U+200B⟩b"),
     ("a\r\nb\rc", "a\nb␍c"), ("\ud800", "⟨U+D800⟩"), ("a\x7f\x85", "a␡⟨U+0085⟩")],
)  # fmt: skip
def test_what_would_hide_or_turn_text_is_shown(text: str, seen: str) -> None:
    assert visible(text) == seen


@pytest.mark.parametrize(
    ("word", "expected"),
    [("better", "good"), ("shown", "good"), ("worse", "bad"), ("shown in part", "mixed"),
     ("depends on the clock", "mixed"), ("not shown", "open"), ("no difference shown", "open"),
     ("not better", "open"), ("cannot be told", "open"),
     ("equivalent", "open"), ("", "open")],
)  # fmt: skip
def test_a_verdict_is_never_greener_than_its_words(word: str, expected: str) -> None:
    assert tone(word) == expected


@given(st.lists(st.tuples(st.text(max_size=400), st.text(max_size=400), st.booleans()), min_size=1, max_size=12))
def test_shares_of_a_width(columns: list[tuple[str, str, bool]]) -> None:
    found = measured([[head, cell] for head, cell, _ in columns], [number for _, _, number in columns])
    assert sum(found) == pytest.approx(1)
    assert min(found) > 0.02 / len(columns)


def test_a_number_gets_room_to_stand_on_one_line() -> None:
    number = Quantity(value=0.97, low=0.96, high=0.98, statistic="value")
    table = Table(
        caption=(), columns=(Column(head="a"), Column(head="b", number=True)), rows=(((("x " * 200),), (number,)),)
    )
    first, second = shares(table)
    assert second * 120 > len(number.number)
    assert first > second


def test_no_word_is_broken_for_the_sake_of_a_sentence() -> None:
    """A column of long numbers with words beside them gave its neighbours' letters away: "ada mw"."""
    heads = ["Arm", "Reached of runs", "Mean to the horizon", "p", "Fell short"]
    cells = ["adamw", "2 of 3", "91.67", "0.90 (cannot reach significance with n = 3)", "0.003771"]
    columns, numbers = [[head, cell] for head, cell in zip(heads, cells)], [False, True, True, True, True]
    found = measured(columns, numbers)
    assert all(share * 112 >= least for share, least in zip(found, longest_words(columns, numbers)))
    assert found[3] == max(found), "what is left goes to whoever says most"
