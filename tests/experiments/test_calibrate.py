"""A study decides once for each shape whether its runs train together; what is slower is never chosen."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from experiments import calibrate
from experiments.calibrate import Choice, choose, decided, sizes
from experiments.config import RunConfig, resolve


def config(**more: Any) -> RunConfig:
    return resolve({"task": "digits", "model": {"name": "mlp", "width": 8}, "batch_size": 250, **more})


def slower(gain: float) -> Any:
    """A clock by which a population of any size has this gain over the run alone."""
    told: list[float] = []

    def seconds(act: Any, limit_s: float, clock: Any) -> float:
        act(0)
        told.append(1.0)
        return 1.0 if len(told) == 1 else sizes(32)[len(told) - 2] / gain

    return seconds


@pytest.mark.parametrize(("gain", "size"), [(0.3, 1), (1.1, 1), (1.3, 8), (5.0, 8)])
def test_what_does_not_pay_is_not_chosen(monkeypatch: pytest.MonkeyPatch, gain: float, size: int) -> None:
    monkeypatch.setattr(calibrate, "_seconds", slower(gain))
    choice = choose([config()], most=32)
    assert choice.size == size
    assert choice.gain == pytest.approx(gain, rel=0.01) if size > 1 else choice.gain


def test_real_updates_are_timed() -> None:
    choice = choose([config()], most=8)
    assert choice.size in (1, 8)
    assert choice.gain is not None
    assert choice.gain > 0


def test_what_cannot_train_together_is_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibrate, "_seconds", lambda act, limit_s, clock: pytest.fail("timed"))
    assert choose([config(optimizer="lbfgs")], most=32) == Choice(1, None, "runs like this one train alone")
    assert choose([config()], most=1).size == 1


def test_a_study_decides_once_for_each_shape(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "studies" / "s" / "population.json"
    made: list[int] = []

    def chosen(configs: Any, *, most: int) -> Choice:
        made.append(most)
        return Choice(32, 4.2, "tried")

    monkeypatch.setattr(calibrate, "choose", chosen)
    assert decided(path, config(seed=1), most=32, asked="auto") == Choice(32, 4.2, "tried")
    assert decided(path, config(seed=2), most=5, asked="auto") == Choice(5, 4.2, "tried")
    assert made == [32]
    decided(path, config(model={"name": "mlp", "width": 9}), most=32, asked="auto")
    assert made == [32, 32]
    (stored, _) = json.loads(path.read_text())["shapes"].values()
    assert (stored["size"], stored["gain"]) == (32, 4.2)


@pytest.mark.parametrize(("asked", "most", "size"), [("off", 32, 1), ("8", 32, 8), ("8", 3, 3), ("8", 1, 1)])
def test_a_number_is_taken_at_its_word(tmp_path: Path, asked: str, most: int, size: int) -> None:
    choice = decided(tmp_path / "population.json", config(), most=most, asked=asked)
    assert (choice.size, choice.gain) == (size, None)
    assert not (tmp_path / "population.json").exists()


def test_a_choice_is_json_both_ways() -> None:
    choice = Choice(16, 3.5, "3.5 times as many updates a second as alone")
    assert Choice.of_json(json.loads(json.dumps(choice.to_json()))) == choice
