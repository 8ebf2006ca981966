"""`trainlab fork` and `replay`, `tl.fork` and `tl.replay`: through the front door."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import trainlab as tl
from algos.finding import InputError
from trainlab.cli import main

SMALL = ["task=digits", "model.width=16", "batch_size=250", "budget.updates=12", "evaluate_every=4", "device=cpu"]
Capsys = pytest.CaptureFixture[str]


def said(capsys: Capsys, *arguments: str) -> tuple[int, str, str]:
    """The exit code, stdout and stderr of a command."""
    code = main(list(arguments))
    found = capsys.readouterr()
    return code, found.out, found.err


@pytest.fixture(scope="module")
def trunk(place: Path) -> str:
    run = tl.run(*SMALL, checkpoint_every=8)
    assert isinstance(run, tl.Run)
    return run.run_id


def test_fork_from_the_command_line_is_the_one_from_python(trunk: str, capsys: Capsys) -> None:
    code, out, err = said(capsys, "fork", f"{trunk}@8", "schedule=linear", "budget.updates=16", "--json")
    assert code == 0, err
    (row,) = json.loads(out)
    assert (row["parent"], row["shared_updates"], row["updates"]) == (f"{trunk}@8", 8, 16)
    assert row["name"] == "digits adamw seed 1@8 schedule=linear budget.updates=16"
    run = tl.fork(f"{trunk}@8", "budget.updates=16", schedule="linear")
    assert isinstance(run, tl.Run)
    assert run.metrics["objective"] == row["objective"]
    assert run.history["val/loss"].dropna().index.tolist() == [12, 16]
    code, out, _ = said(capsys, "runs")
    assert f"{trunk}@8" in out


@pytest.mark.parametrize("update", ["0", "-1"])
def test_a_fork_begins_after_an_update(trunk: str, update: str, capsys: Capsys) -> None:
    code, _, err = said(capsys, "fork", f"{trunk}@{update}", "schedule=linear")
    assert code == 2
    assert "give an update from 1" in err


def test_how_a_fork_was_found_is_told_once(trunk: str, capsys: Capsys) -> None:
    code, _, err = said(capsys, "fork", f"{trunk}@5", "budget.updates=6", "seed=1,2")
    assert (code, err.count("computed again from")) == (0, 1)


def test_several_values_are_several_forks(trunk: str) -> None:
    runs = tl.fork(f"{trunk}@8", schedule=["linear", "constant"])
    assert isinstance(runs, list)
    assert [run.name.rpartition("@8 ")[2] for run in runs] == ["schedule=linear", "schedule=constant"]
    assert len({run.metrics["objective"] for run in runs}) == 2


def test_what_would_be_forked_is_shown(trunk: str, capsys: Capsys) -> None:
    before = len(tl.runs())
    code, out, _ = said(capsys, "fork", f"{trunk}@8", "schedule=linear", "--dry-run")
    assert code == 0
    assert "schedule=linear" in out
    assert len(tl.runs()) == before


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["fork", "{}@best"], "use it"),
        (["fork", "{}@99"], "got to update 12; give an update up to 12"),
        (["fork", "{}"], "does not say where to fork"),
        (["fork", "{}@8", "task=cora"], "a fork goes on with its trunk's task"),
        (["fork", "{}@8", "optimiser=lion"], "did you mean"),
        (["replay", "nobody"], "no run is called"),
        (["replay", "{}", "--tolerance", "-1"], "give a number from 0 up"),
    ],
)
def test_a_wrong_word_is_one_line_and_makes_nothing(
    arguments: list[str], line: str, trunk: str, capsys: Capsys
) -> None:
    before = len(tl.runs())
    code, out, err = said(capsys, *(argument.format(trunk) for argument in arguments))
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert (line if line != "use it" else f"init=run:{trunk}@best") in err
    assert len(tl.runs()) == before


def test_replay_says_what_differs_and_its_verdict(trunk: str, capsys: Capsys) -> None:
    code, out, _ = said(capsys, "replay", trunk)
    lines = out.splitlines()
    assert code == 0
    assert lines[0].startswith(f"{trunk} (completed), replayed as ")
    assert "what differs between then and now:" in lines
    assert lines[-1].startswith("verdict: identical, bit for bit (")
    assert tl.replay(trunk).agrees


def test_a_replay_that_is_not_the_same_is_exit_code_1(trunk: str, capsys: Capsys) -> None:
    run = tl.run(*SMALL, seed=5)
    assert isinstance(run, tl.Run)
    path = run.path / "spool.1.jsonl"
    path.write_text(path.read_text().replace('"val/loss":', '"val/loss":1'))
    (run.path / "record.json").unlink(missing_ok=True)
    code, out, _ = said(capsys, "replay", run.run_id, "--json")
    found = json.loads(out)
    assert (code, found["verdict"], found["parted"]) == (1, "not", 0)
    with pytest.raises(InputError, match="no run is called"):
        tl.replay("nobody")
