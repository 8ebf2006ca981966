"""The grammar of overrides: every row of its table, its errors, and reading back what is printed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given as drawn
from hypothesis import settings as searching
from hypothesis import strategies as st

from algos.finding import InputError
from experiments.overrides import Overrides, given, parse
from experiments.scalars import parse_value, print_value, split_values
from experiments.tuning.ranges import Range

numbers = st.integers(-(10**12), 10**12) | st.floats(allow_nan=False)
scalars = st.none() | st.booleans() | numbers | st.text() | st.lists(numbers, min_size=2, max_size=4).map(tuple)
ranges = st.builds(
    lambda low, width, log: Range(low, low + width, log=log),
    st.floats(1e-6, 1e3), st.floats(1e-3, 1e3), st.booleans(),
)  # fmt: skip
keys = st.sampled_from(
    ["seed", "optimizer.lr", "optimizer.betas", "budget.updates", "init", "wrappers.sam.rho", "task"]
)


def test_the_table() -> None:
    assert parse(["optimizer=muon", "optimizer.lr=0.02", "budget.updates=2000"]).expand() == [
        {"optimizer": {"name": "muon", "lr": 0.02}, "budget": {"updates": 2000}}
    ]
    assert parse(["optimizer=adamw,muon", "seed=1,2"]).expand() == [
        {"optimizer": {"name": name}, "seed": seed} for name in ("adamw", "muon") for seed in (1, 2)
    ]
    spaces = parse(["optimizer.lr=1e-4:1e-1:log", "model.width=32:256:int", "optimizer.momentum=0.8:0.99"]).layer()
    assert spaces["optimizer"] == {"lr": Range(1e-4, 1e-1, log=True), "momentum": Range(0.8, 0.99)}
    assert spaces["model"] == {"width": Range(32, 256, whole=True)}
    assert parse(["wrappers.sam.rho=0.05", "wrappers=cautious+sam", "optimizer.betas=0.9/0.95"]).expand() == [
        {"wrappers": [{"name": "cautious"}, {"name": "sam", "rho": 0.05}], "optimizer": {"betas": (0.9, 0.95)}}
    ]
    for text in ("run:17", "run:17@best", "weights.safetensors"):
        assert parse([f"init={text}"]).expand() == [{"init": text}]
    assert parse(["trainer.num_sanity_val_steps=0", "device=npu", "precision=bf16"]).expand() == [
        {"trainer": {"num_sanity_val_steps": 0}, "device": "npu", "precision": {"name": "bf16"}}
    ]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-4", 1e-4), ("1E4", 1e4), ("3", 3), ("-3", -3), ("+.5", 0.5), ("2.", 2.0), ("true", True), ("false", False),
        ("none", None), ("inf", float("inf")), ("0.9/0.95", (0.9, 0.95)), ("1/2/3", (1, 2, 3)), ("a/b", "a/b"),
        ("cuda:1", "cuda:1"), ("True", "True"), ('"1e-4"', "1e-4"), ("1-sqrt", "1-sqrt"), ("", ""), ("nan", "nan"),
        ("12:30", "12:30"), ("e5", "e5"), ("1_000", "1_000"),
    ],
)  # fmt: skip
def test_a_value_has_the_type_it_looks_like(text: str, value: Any) -> None:
    read = parse_value(text)
    assert read == value
    assert type(read) is type(value)


@searching(deadline=None)
@drawn(scalars)
def test_a_printed_value_reads_back(value: Any) -> None:
    text = print_value(value)
    assert parse_value(text) == value
    assert type(parse_value(text)) is type(value)


@searching(deadline=None)
@drawn(st.lists(scalars, min_size=1))
def test_commas_split_between_values_only(values: list[Any]) -> None:
    texts = [print_value(value) for value in values]
    assert split_values(",".join(texts)) == texts


@searching(deadline=None)
@drawn(st.dictionaries(keys, st.lists(scalars.filter(lambda v: v != "") | ranges, min_size=1, max_size=3).map(tuple)))
def test_printed_overrides_parse_to_the_same(settings: dict[str, tuple[Any, ...]]) -> None:
    original = Overrides(tuple((key, values) for key, values in settings.items() if not _spells_range(values)))
    assert parse(original.arguments()) == original


def _spells_range(values: tuple[Any, ...]) -> bool:
    return any(isinstance(value, str) and ":" in value for value in values)


@pytest.mark.parametrize(
    "value", [("a", "b"), (), (1,), ((1, 2), (3,)), {"a": {"b": 1}, "c": None}, ({"a": True},), {}, ("a,b", 'c"')]
)
def test_lists_and_mappings_are_json(value: Any) -> None:
    text = print_value(value)
    assert text[0] in "[{"
    assert parse_value(text) == value
    assert split_values(f"{text},3,{text}") == [text, "3", text]
    assert parse([f"model.x={text}"]).expand() == [{"model": {"x": value}}]


def test_a_bracket_that_is_no_json_stays_text() -> None:
    assert parse(["init=[1].safetensors"]).get("init") == ("[1].safetensors",)
    assert parse(["init=[a,b"]).get("init") == ("[a", "b")


def test_text_that_spells_a_range_stays_text_in_quotes() -> None:
    assert parse(['init="1:2"']).settings == (("init", ("1:2",)),)
    assert parse(['init="a,b.safetensors",c.safetensors']).get("init") == ("a,b.safetensors", "c.safetensors")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["digits"], "'digits' has no '='; did you mean task=digits?"),
        (["digts"], "'digts' has no '='; did you mean task=digits?"),
        (["muon"], "did you mean optimizer=muon?"),
        (["seed"], "did you mean seed=VALUE?"),
        (["??"], "give key=value, e.g. task=digits optimizer=muon"),
        (["optimzer=muon"], "unknown key 'optimzer'; did you mean 'optimizer'?"),
        (["lr=0.1"], "unknown key 'lr'; did you mean optimizer.lr?"),
        (["=3"], "'=3' does not start with a key"),
        (["optimizer..lr=3"], "does not start with a key"),
        (["--seed=3"], "does not start with a key"),
        (["seed=1", "seed=2"], "seed is given twice; give it once; seed=1,2 makes a run of each"),
        (["seed=1,,2"], "seed=1,,2 has an empty value"),
        (["optimizer.lr=1e-1:1e-4:log"], "the range '1e-1:1e-4:log' is empty; give the low end first"),
        (["optimizer.lr=0:1:log"], "start a log range above 0"),
        (["optimizer.lr=1:2:lag"], "'1:2:lag' has an unknown scale 'lag'"),
        (["model.width=1:2.5:int"], "give whole ends or drop :int"),
        (['init="abc'], "has a quote that does not close"),
    ],
)
def test_bad_arguments_get_one_line_that_names_the_fix(arguments: list[str], said: str) -> None:
    with pytest.raises(InputError) as caught:
        parse(arguments).expand()
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_python_says_the_same_as_the_command_line() -> None:
    pairs: list[tuple[dict[str, Any], list[str]]] = [
        ({"task": "digits", "seed": [1, 2]}, ["task=digits", "seed=1,2"]),
        ({"seed": range(3)}, ["seed=0,1,2"]),
        ({"optimizer": {"name": "muon", "lr": 0.02}}, ["optimizer=muon", "optimizer.lr=0.02"]),
        ({"optimizer": ["adamw", "muon"]}, ["optimizer=adamw,muon"]),
        ({"optimizer": {"lr": "1e-4:1e-1:log"}}, ["optimizer.lr=1e-4:1e-1:log"]),
        ({"optimizer": {"betas": (0.9, 0.95)}}, ["optimizer.betas=0.9/0.95"]),
        ({"budget": {"updates": 5}}, ["budget.updates=5"]),
        ({"wrappers": ["cautious", {"name": "sam", "rho": 0.1}]}, ["wrappers=cautious+sam", "wrappers.sam.rho=0.1"]),
        ({"wrappers": {"sam": {"rho": 0.1}}}, ["wrappers.sam.rho=0.1"]),
        ({"wrappers": [["sam"], ["cautious", "ema"]]}, ["wrappers=sam,cautious+ema"]),
        ({"optimizer.lr": 0.5}, ["optimizer.lr=0.5"]),
    ]
    for settings, arguments in pairs:
        assert given(settings).expand() == parse(arguments).expand()
    mixed = given({"optimizer": ["adamw", {"name": "muon", "lr": 0.02}]}).expand()
    assert mixed == [{"optimizer": {"name": "adamw"}}, {"optimizer": {"name": "muon", "lr": 0.02}}]


def test_one_arm_has_one_optimizer() -> None:
    with pytest.raises(InputError, match="write a study and sweep it"):
        parse(["optimizer=adamw,muon"]).layer()
    with pytest.raises(InputError, match="the list is empty"):
        given({"seed": []})


def test_two_budgets_are_refused() -> None:
    with pytest.raises(InputError, match="are two budgets"):
        parse(["task=digits", "budget.updates=60", "budget.seconds=3"]).expand()
