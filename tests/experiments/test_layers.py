"""Layers come to one form and lie over each other as DESIGN's table of overrides says."""

from __future__ import annotations

from typing import Any

import pytest

from algos.finding import InputError
from experiments.layers import lay, leaves, searched, tidy, typed, without_ranges
from experiments.tuning.ranges import Options, Range


@pytest.mark.parametrize(
    ("data", "tidied"),
    [
        ({"optimizer": "muon"}, {"optimizer": {"name": "muon"}}),
        ({"optimizer.lr": 1, "optimizer": "muon"}, {"optimizer": {"name": "muon", "lr": 1}}),
        ({"budget.updates": 3}, {"budget": {"updates": 3}}),
        ({"wrappers": ["a", {"name": "b", "x": 1}]}, {"wrappers": [{"name": "a"}, {"name": "b", "x": 1}]}),
        ({"wrappers": {"name": "b", "x": 1}}, {"wrappers": [{"name": "b", "x": 1}]}),
        ({"wrappers.b.x": 1}, {"wrappers": {"b": {"x": 1}}}),
        ({"wrappers": None}, {"wrappers": []}),
        ({"optimizer": {"betas": [0.9, 0.95]}}, {"optimizer": {"betas": (0.9, 0.95)}}),
    ],
)
def test_every_way_of_writing_comes_to_one_form(data: dict[str, Any], tidied: dict[str, Any]) -> None:
    assert tidy(data) == tidied
    assert tidy(tidied) == tidied


def test_a_budget_and_a_list_are_replaced_whole() -> None:
    assert lay({"budget": {"updates": 3}}, {"budget": {"epochs": 1}}) == {"budget": {"epochs": 1}}
    assert lay({"wrappers": [{"name": "a"}]}, {"wrappers": [{"name": "b"}]}) == {"wrappers": [{"name": "b"}]}


def test_one_of_a_list_is_changed_by_name() -> None:
    below = {"wrappers": [{"name": "a", "x": 1, "y": 2}, {"name": "b"}]}
    assert lay(below, {"wrappers": {"a": {"x": 3}}}) == {"wrappers": [{"name": "a", "x": 3, "y": 2}, {"name": "b"}]}
    with pytest.raises(InputError, match=r"give wrappers=a\+b\+c too"):
        lay(below, {"wrappers": {"c": {"x": 3}}})


def test_trainer_words_add_up() -> None:
    assert lay({"trainer": {"a": 1}}, {"trainer": {"b": 2}}) == {"trainer": {"a": 1, "b": 2}}


def test_layers_below_are_not_changed() -> None:
    below = {"optimizer": {"name": "a", "x": 1}, "wrappers": [{"name": "w", "x": 1}]}
    lay(below, {"optimizer": {"x": 2}, "wrappers": {"w": {"x": 2}}})
    assert below == {"optimizer": {"name": "a", "x": 1}, "wrappers": [{"name": "w", "x": 1}]}


def test_ranges_are_found_at_their_place_and_left_out() -> None:
    layer = tidy(typed({"optimizer": {"name": "a", "lr": "1:2"}, "wrappers": [{"name": "w", "rho": "0.1:0.2:log"}]}))
    assert searched(layer) == {"optimizer.lr": Range(1, 2), "wrappers.w.rho": Range(0.1, 0.2, log=True)}
    assert without_ranges(layer) == {"optimizer": {"name": "a"}, "wrappers": [{"name": "w"}]}


def test_texts_of_a_file_are_read() -> None:
    assert typed({"a": "none", "b": "1,2", "c": "x,y", "d": ["none"], "e": "run:17"}) == {
        "a": None, "b": typed("1,2"), "c": Options(("x", "y")), "d": [None], "e": "run:17",
    }  # fmt: skip
    assert [place for place, _ in leaves({"a": {"b": typed("1,2")}})] == ["a.b"]


@pytest.mark.parametrize(
    "data", [{"optimizer": [1]}, {"optimizer": {"lr": {"x": 1}}}, {"wrappers": 3}, {"wrappers": [{}]}]
)
def test_what_has_no_form_is_refused(data: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        tidy(data)
