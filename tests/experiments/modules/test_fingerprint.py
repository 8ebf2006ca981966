"""What looks alike is told apart by what it holds; what is the same is told the same, in every process."""

from __future__ import annotations

import functools
import random
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from lightning.pytorch.demos.boring_classes import BoringModel

from experiments.modules.fingerprint import fingerprint

WIDTH = 3


def made(width: int) -> Callable[[], int]:
    def make() -> int:
        return width

    return make


def on(base: type) -> type:
    class Net(base):  # type: ignore[misc]
        pass

    return Net


def with_width(width: int) -> type:
    class Net(BoringModel):
        def __init__(self) -> None:
            super().__init__()
            self.width = width

    return Net


PAIRS: dict[str, tuple[Any, Any]] = {
    "lambdas of one line": (lambda: 1, lambda: 2),
    "defaults": (lambda h=1: h, lambda h=2: h),
    "keyword defaults": (lambda *, h=1: h, lambda *, h=2: h),
    "closures": (made(1), made(2)),
    "partials": (functools.partial(made, 1), functools.partial(made, 2)),
    "partials by keyword": (functools.partial(made, width=1), functools.partial(made, width=2)),
    "partials of lambdas": (functools.partial(lambda: 1), functools.partial(lambda: 2)),
    "bound methods": ([1].count, [2].count),
    "bases": (on(with_width(1)), on(with_width(2))),
    "classes by their closure": (with_width(1), with_width(2)),
    "what a lambda calls": (lambda: made(1)(), lambda: made(2)()),
    "generators of numbers": (random.Random(1), random.Random(2)),
    "tensors": (torch.zeros(3), torch.ones(3)),
    "types of number": (torch.zeros(3), torch.zeros(3, dtype=torch.float64)),
}


@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
def test_two_that_differ_are_told_apart(pair: tuple[Any, Any]) -> None:
    one, other = map(fingerprint, pair)
    assert one.text != other.text
    assert one.whole
    assert other.whole


@pytest.mark.parametrize(
    "make",
    [lambda: made(1), lambda: with_width(1), lambda: functools.partial(made, 1), lambda: on(with_width(1))],
)
def test_the_same_made_twice_is_told_the_same(make: Callable[[], Any]) -> None:
    one, other = make(), make()
    assert one is not other
    assert fingerprint(one) == fingerprint(other)
    assert fingerprint(one).whole


def test_a_setting_of_the_file_that_is_read_when_called_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    make = lambda: WIDTH  # noqa: E731
    before = fingerprint(make)
    monkeypatch.setitem(globals(), "WIDTH", 4)
    assert fingerprint(make) != before


def test_what_cannot_be_told_whole_is_said() -> None:
    assert not fingerprint(object()).whole
    assert not fingerprint(torch.zeros(1_000_000)).whole
    held = object()
    assert not fingerprint(lambda: held).whole


def test_what_holds_itself_ends() -> None:
    held: list[Any] = [1]
    held.append(held)
    assert fingerprint(held).text == "[1,<0>]"


PROGRAM = """
import functools
from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint
from experiments.modules.fingerprint import fingerprint
NAMES = {"a", "b", "c"}
class Net:
    names = NAMES
    def forward(self, x):
        return x in {"p", "q", "r"} and NAMES
for each in (Net, functools.partial(Net, 1), lambda: Net(), EarlyStopping("a"), ModelCheckpoint(monitor="a")):
    print(fingerprint(each).text)
"""


@pytest.mark.slow
def test_another_process_tells_the_same() -> None:
    def said(seed: str) -> str:
        command = [sys.executable, "-W", "ignore", "-c", PROGRAM]
        return subprocess.run(command, env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True).stdout

    assert said("1") == said("2") != ""
