"""Declarations are read, not run."""

from __future__ import annotations

from pathlib import Path

import pytest

from algos.finding import InputError
from algos.literals import declaration


def written(folder: Path, text: str) -> Path:
    path = folder / "thing.py"
    path.write_text(text)
    return path


def read(path: Path) -> object:
    return declaration(path, "THING", "Thing", valid={"make", "size"}, by_name={"make"})


def test_nothing_is_run(tmp_path: Path) -> None:
    path = written(
        tmp_path, '"""A thing.\n\nMore."""\nraise SystemExit\nTHING = Thing(make=build, size={"a": (1, 2)})\n'
    )
    found = declaration(path, "THING", "Thing", valid={"make", "size"}, by_name={"make"})
    assert (found.title, found.literals, found.names) == ("A thing.", {"size": {"a": (1, 2)}}, {"make": "build"})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("THING = 3\n", "no `THING = Thing(...)` at the top level"),
        ("\nTHING = Thing(size=1 + x)\n", "line 2: `1 + x` is not a literal"),
        ("THING = Thing(sise=1)\n", "did you mean 'size'"),
        ("THING = Thing(**more)\n", "unknown field of Thing"),
        ("THING = (\n", "line 1"),
    ],
)
def test_what_cannot_be_read_says_where(tmp_path: Path, text: str, said: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(InputError) as refused:
        read(path)
    assert said in str(refused.value)
    assert str(path) in str(refused.value)
