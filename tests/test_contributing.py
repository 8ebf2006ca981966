"""CONTRIBUTING.md: its examples work as they stand, each one file and one test."""

from __future__ import annotations

import importlib.util
import inspect
import json
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from experiments import launchers
from trainlab.cli import main

ROOT = Path(__file__).parent.parent
BLOCKS = dict(re.findall(r"`([\w/]+\.py)`:\n\n```python\n(.*?)```", (ROOT / "CONTRIBUTING.md").read_text(), re.DOTALL))
ENTRIES = {
    "algos/optimizers/signum.py": "optimizers/signum.py",
    "experiments/tasks/cv/digits_noisy.py": "tasks/cv/digits_noisy.py",
}


@pytest.fixture(autouse=True)
def entries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The examples' entries, as a user's own."""
    for block, place in ENTRIES.items():
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).write_text(BLOCKS[block])
    monkeypatch.setenv("TRAINLAB_ENTRIES", str(tmp_path))
    return tmp_path


def loaded(block: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The block as the module it would be."""
    path = folder / Path(block).name
    path.write_text(BLOCKS[block])
    name = block.removesuffix(".py").replace("/", ".")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, module)
    spec.loader.exec_module(module)
    return module


def test_there_is_a_test_for_each_example() -> None:
    written = {Path(block).stem for block in BLOCKS if not block.startswith("tests/")}
    tested = {Path(block).stem.removeprefix("test_") for block in BLOCKS if block.startswith("tests/")}
    assert written == tested == {"signum", "digits_noisy", "staircase", "ssh"}


SLOW = {"tests/experiments/launchers/test_ssh.py"}


@pytest.mark.parametrize(
    "block",
    [
        pytest.param(block, marks=[pytest.mark.slow] if block in SLOW else [])
        for block in BLOCKS
        if block.startswith("tests/")
    ],
)
def test_the_tests_of_the_examples_pass(block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if "staircase" in block:
        loaded("reports/figures/staircase.py", tmp_path, monkeypatch)
    if "ssh" in block:
        loaded("experiments/launchers/ssh.py", tmp_path, monkeypatch)
        monkeypatch.setattr(launchers, "LAUNCHERS", (*launchers.LAUNCHERS, "ssh"))
    module = loaded(block, tmp_path, monkeypatch)
    tests = [value for name, value in vars(module).items() if name.startswith("test_")]
    assert tests
    given = {"tmp_path": tmp_path, "monkeypatch": monkeypatch}
    for test in tests:
        test(**{name: given[name] for name in inspect.signature(test).parameters})


def test_the_examples_stand_where_their_names_are_free() -> None:
    assert not [block for block in BLOCKS if (ROOT / block).exists()]


def test_the_example_optimizer_trains_the_example_task(
    entries: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TRAINLAB_HOME", str(entries / "home"))
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{entries}/mlflow.db")
    assert main(["run", "task=digits_noisy", "optimizer=signum", "schedule=warmup_cosine", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row["test"] > 0.85


def test_the_example_optimizer_is_listed_and_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "signum", "--task", "digits"]) == 0
    shown = capsys.readouterr().out
    assert "bernstein2018signsgd" in shown
    assert "1e-4:1e-2:log" in shown
