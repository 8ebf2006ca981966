"""YAML is read with its lines; what cannot be read says where."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from algos.finding import InputError
from experiments.yaml_lines import load_yaml, parse_yaml

#: Nine names, each a list of nine times the one before.
BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{name}: &{name} [{','.join([f'*{before}'] * 9)}]\n" for before, name in zip("abcdefgh", "bcdefghi")
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-4", 1e-4), ("1E3", 1000.0), ("+1e5", 1e5), (".5", 0.5), ("no", "no"), ("true", True), ("~", None),
        ("3", 3), ("[0.9, 0.95]", [0.9, 0.95]), ("1e-4:1e-1:log", "1e-4:1e-1:log"), ("'3'", "3"),
        ("1_000", 1000),
    ],
)  # fmt: skip
def test_a_scalar_is_plain_and_of_the_right_type(text: str, value: Any) -> None:
    read = parse_yaml(f"key: {text}", "study.yaml")[0]["key"]
    assert read == value
    assert type(read) is type(value)


def test_every_key_knows_its_place() -> None:
    _, lines = parse_yaml(
        "name: a\narms:\n  x:\n    optimizer.lr: 1\n    wrappers: [{name: sam, rho: 1}]\n", "study.yaml"
    )
    assert lines.find("arms.x.optimizer.lr") == "line 4, column 5"
    assert lines.find("arms.x.wrappers.sam.rho") == "line 5, column 28"
    assert lines.find("arms.x.nothing.here") == "line 3, column 3"
    assert lines.find("elsewhere") == ""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "a: 1\nb: [1, 2}\n",
            "study.yaml: line 2, column 9: not YAML: while parsing a flow sequence expected ',' or ']'",
        ),
        ("a: 1\nb:\n  c: 1\n  c: 2\n", "study.yaml: line 4, column 3: the key 'c' stands there twice; keep one"),
        ("\ta: 1", "study.yaml: line 1, column 1: not YAML"),
        ("a: 1\n---\nb: 1\n", "study.yaml: line 2, column 1: not YAML: expected a single document"),
        ("- a\n", "study.yaml: the file holds no settings; give lines of `key: value`"),
        ("", "study.yaml: the file holds no settings"),
        ("a: 2024-01-01", "study.yaml: line 1, column 1 (a): 2024-01-01 is not text, a number"),
        ("a: " + "9" * 5000, "study.yaml: not YAML: Exceeds the limit"),
        ("a: " + "[" * 3000 + "]" * 3000, "study.yaml: not YAML"),
        ("a: " + "[" * 150 + "]" * 150, "study.yaml: it is more than 100 levels deep"),
        ("a: !!python/object/apply:os.system [id]", "study.yaml: line 1, column 1 (a): the tag"),
        (BOMB, "study.yaml: its aliases unfold to more than 100,000 values"),
    ],
)
def test_what_is_not_right_says_where(text: str, said: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_yaml(text, "study.yaml")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    for path, said in (
        (tmp_path / "none.yaml", "no such file"),
        (tmp_path, "folder"),
        (tmp_path / "binary.yaml", "UTF-8"),
    ):
        with pytest.raises(InputError, match=said) as caught:
            load_yaml(path)
        assert str(path) in str(caught.value)
