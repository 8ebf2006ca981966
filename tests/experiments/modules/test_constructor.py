"""Constructor arguments: checked, written out, and given back as the class would have had them."""

from __future__ import annotations

from typing import Any

import pytest

from algos.finding import InputError
from experiments.frozen import Frozen, plain
from experiments.modules.constructor import arguments, called, checked


class Net:
    def __init__(
        self,
        width: int,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.99),
        sizes: list[int] = [8, 4],  # noqa: B006
        nested: list[list[int]] = [[1]],  # noqa: B006
        options: dict[str, Any] = {"a": {"b": 1}, "c": None},  # noqa: B006
        act: Any = print,
        limit: float = float("inf"),
        *,
        flag: bool = False,
    ):
        self.had = {key: value for key, value in locals().items() if key != "self"}


class Open:
    def __init__(self, width: int = 3, *args: int, **more: Any):
        self.had = {"width": width, **more}


def refusal(target: Any, **given: Any) -> str:
    with pytest.raises(InputError) as caught:
        checked(target, given, "model")
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_plain_defaults_are_written_out_and_the_others_are_not() -> None:
    assert checked(Net, {"width": 8}, "model") == {
        "width": 8, "lr": 1e-3, "betas": [0.9, 0.99], "sizes": [8, 4], "nested": [[1]],
        "options": {"a": {"b": 1}, "c": None}, "flag": False,
    }  # fmt: skip


def test_a_mapping_is_changed_one_by_one() -> None:
    assert checked(Net, {"width": 8, "options": {"a": {"b": 2}}}, "model")["options"] == {"a": {"b": 2}, "c": None}


def test_the_class_gets_what_it_would_have_had() -> None:
    """Through the frozen config, whose lists are tuples."""
    kept = Frozen(checked(Net, {"width": 8, "sizes": (1, 2, 3), "nested": ((1, 2), (3,))}, "model"))
    wanted = Net(8, sizes=[1, 2, 3], nested=[[1, 2], [3]]).had
    assert called(Net, kept).had == wanted
    assert {key: type(value) for key, value in called(Net, kept).had.items()} == {k: type(v) for k, v in wanted.items()}
    assert called(Net, Frozen(plain(kept))).had == wanted


def test_a_default_is_left_to_the_class_itself() -> None:
    """So that a mutable or numpy-like default stays the very object of the signature."""
    kept = Frozen(checked(Net, {"width": 8}, "model"))
    assert called(Net, kept).had["options"] is arguments(Net).named["options"].default


def test_keyword_arguments_of_any_name_pass_where_the_class_takes_them() -> None:
    assert called(Open, checked(Open, {"depth": 2}, "model")).had == {"width": 3, "depth": 2}


def test_a_function_is_a_factory() -> None:
    def make(width: int = 2) -> Net:
        return Net(width)

    assert called(make, checked(make, {"width": 5}, "model")).had["width"] == 5


def test_what_is_wrong_is_one_line_with_the_fix() -> None:
    def named(name: str = "resnet", hyper: int = 1) -> None: ...

    assert refusal(Net, widht=8).startswith("model.widht: unknown argument of Net 'widht'; did you mean 'width'?")
    assert refusal(Net) == "model: Net needs width; give model.width=VALUE"
    assert "write a function that makes Net from plain values" in refusal(Net, width=8, act=print)
    assert "no plain value" in refusal(Net, width=8, lr=float("nan"))
    assert "an argument called 'hyper' cannot be set here" in refusal(named, hyper=3)
    assert checked(named, {}, "model") == {}
