"""Progress: what a log, a terminal and a notebook show of the same events."""

from __future__ import annotations

import io
import itertools
import re

import pytest

from experiments.progress import Event, RunEnded, RunProgress, RunStarted, StudyPlanned
from experiments.store.schema import Labels
from trainlab.board import Board
from trainlab.display import LOG_EVERY_S, Log, Notebook, live, watching

LABELS = Labels(task="digits", study="s", arm="a", phase="final")


def a_run(number: int, evaluations: int = 1, status: str = "completed", reason: str = "") -> list[Event]:
    run_id = f"run-{number}"
    progress: list[Event] = [
        RunProgress(run_id, step, step / evaluations, 0.1 * step, {"train/loss": 1 / step, "val/accuracy": 0.5})
        for step in range(1, evaluations + 1)
    ]
    final = {"objective": 0.9, "test/accuracy": 0.875, "test/loss": 0.3} if status == "completed" else {}
    ended = RunEnded(run_id, status, reason, 2.0, final)  # type: ignore[arg-type]
    return [RunStarted(run_id, f"digits a seed {number}", LABELS), *progress, ended]


def test_a_log_of_a_hundred_runs_of_a_thousand_evaluations_has_a_line_a_run() -> None:
    stream = io.StringIO()
    log = Log(stream, clock=lambda: 0.0)  # it all happens at once
    log.take(StudyPlanned("s", due=100, done=0))
    for number in range(100):
        for event in a_run(number, evaluations=1000):
            log.take(event)
    assert len(stream.getvalue().splitlines()) == 1 + 100


def test_a_log_tells_of_a_long_run_every_few_seconds() -> None:
    stream = io.StringIO()
    seconds = itertools.count(step=0.01)
    log = Log(stream, clock=lambda: next(seconds))
    events = a_run(1, evaluations=5000)
    for event in events[:-1]:
        log.take(event)
    lines = stream.getvalue().splitlines()
    assert 2 <= len(lines) <= 5000 * 0.02 / LOG_EVERY_S + 1
    assert re.fullmatch(r"digits a seed 1: \d+%, update \d+, train/loss \S+, val/accuracy 0.5", lines[0])


def test_a_line_says_how_a_run_ended() -> None:
    stream = io.StringIO()
    log = Log(stream)
    log.take(StudyPlanned("s", due=2, done=1))
    for event in [*a_run(1), *a_run(2, status="crashed", reason="ValueError: no")]:
        log.take(event)
    assert stream.getvalue().splitlines() == [
        "study s: 2 runs to do, 1 done before",
        "[2/3] digits a seed 1: completed in 2.0 s; test/accuracy 0.875",
        "[3/3] digits a seed 2: crashed in 2.0 s (ValueError: no)",
    ]


def test_the_board_counts_what_is_over_and_guesses_the_rest_from_the_mean() -> None:
    board = Board()
    board.take(StudyPlanned("s", due=4, done=6))
    for event in [*a_run(1), *a_run(2, status="interrupted")]:
        board.take(event)
    assert board.counted() == "study s: 7 of 10 runs done, about 6.0 s left"


def test_a_plan_that_is_told_again_counts_no_run_twice() -> None:
    board = Board()
    for number in range(3):
        board.take(StudyPlanned("s", due=5 - number, done=2))
        for event in a_run(number):
            board.take(event)
    assert (board.over, board.total) == (5, 7)


def test_running_rows_are_always_on_the_board() -> None:
    board = Board()
    board.take(RunStarted("slow", "slow", LABELS))
    for number in range(50):
        for event in a_run(number):
            board.take(event)
    shown = board.shown(10)
    assert len(shown) == 10
    assert "slow" in [row.name for row in shown]


def test_a_terminal_gets_one_table_that_stays() -> None:
    stream = io.StringIO()
    with live(stream) as listener:
        listener(StudyPlanned("[s]", due=1, done=0))
        for event in a_run(1, evaluations=3):
            listener(event)
    drawn = stream.getvalue()
    assert "digits a seed 1" in drawn
    assert "completed" in drawn
    assert "study [s]: 1 of 1 runs done" in drawn  # a name is text, not markup


def test_what_is_not_a_terminal_gets_plain_lines() -> None:
    stream = io.StringIO()
    with watching(stream) as listener:
        for event in a_run(1):
            listener(event)
    assert "\x1b" not in stream.getvalue()
    assert len(stream.getvalue().splitlines()) == 1


def test_a_notebook_shows_names_as_text(monkeypatch: pytest.MonkeyPatch) -> None:
    notebook = Notebook(clock=lambda: 0.0)
    monkeypatch.setattr(notebook, "_draw", lambda: None)
    notebook.take(RunStarted("r", "<script>alert(1)</script>", LABELS))
    assert "<script>" not in notebook.as_html()
    assert "&lt;script&gt;" in notebook.as_html()
    assert "<script>alert(1)</script>: 0%" in notebook.as_text()


def test_a_notebook_is_not_redrawn_at_every_event(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = []
    notebook = Notebook(clock=lambda: 0.0)
    monkeypatch.setattr(notebook, "_draw", lambda: drawn.append(1))
    for event in a_run(1, evaluations=1000):
        notebook.take(event)
    assert len(drawn) == 2  # the first event and the end
