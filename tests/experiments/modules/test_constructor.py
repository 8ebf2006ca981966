"""Constructor arguments: checked, written out, and given back as the class would have had them."""

from __future__ import annotations

from typing import Any, Optional

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


def annotated(
    width: int = 3, lr: float = 0.1, bias: bool = True, act: str | None = None, drop: Optional[float] = None,  # noqa: UP045
    late: int = None, sizes: list[int] = (), either: int | str = 3,  # type: ignore[assignment]  # noqa: RUF013
) -> None: ...  # fmt: skip


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ({"width": 3.0}, 3), ({"lr": 1}, 1), ({"lr": 0.5}, 0.5), ({"bias": False}, False), ({"act": "relu"}, "relu"),
        ({"act": None}, None), ({"drop": 0.5}, 0.5), ({"drop": None}, None), ({"late": None}, None), ({"late": 4}, 4),
        ({"sizes": "any"}, "any"), ({"either": "wide"}, "wide"), ({"either": 5}, 5),
    ],
)  # fmt: skip
def test_what_a_plain_annotation_takes(given: dict[str, Any], kept: Any) -> None:
    (word,) = given
    found = checked(annotated, given, "model")[word]
    assert (type(found), found) == (type(kept), kept)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"width": "abc"}, "model.width: 'abc' is not of its annotation, int; give a whole number"),
        ({"width": 3.5}, "model.width: 3.5 is not of its annotation, int; give a whole number"),
        ({"width": True}, "give a whole number"),
        ({"lr": "fast"}, "'fast' is not of its annotation, float; give a number"),
        ({"bias": 1}, "1 is not of its annotation, bool; give true or false"),
        ({"act": 3}, "3 is not of its annotation, str | None; give text or none, in quotes: model.act='\"3\"'"),
        ({"drop": (1, 2)}, "give a number or none"),
    ],
)
def test_what_a_plain_annotation_refuses_is_one_line(given: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError) as caught:
        checked(annotated, given, "model")
    assert said in str(caught.value)


@pytest.mark.parametrize("annotation", [int, int | None, Optional[int], "Optional[int]"])  # noqa: UP045
def test_an_annotation_is_read_as_an_object_and_as_text(annotation: Any) -> None:
    def net(width: int = 3) -> None: ...

    net.__annotations__["width"] = annotation
    assert "give a whole number" in refusal(net, width="abc")
