"""Progress: what a log, a terminal and a notebook show of the same events."""

from __future__ import annotations

import io
import itertools
import re
import threading

import pytest

from experiments.progress import Event, Notice, RunEnded, RunProgress, RunStarted, StudyPlanned
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


def test_the_board_guesses_the_rest_from_the_pace_of_all_workers_together() -> None:
    seconds = [100.0]
    board = Board(clock=lambda: seconds[0])
    board.take(StudyPlanned("s", due=10, done=6))
    assert board.counted() == "study s: 6 of 16 runs done"
    for number in (1, 2):  # two at once: both over after 30 s
        board.take(RunStarted(f"run-{number}", "a", LABELS))
    seconds[0] = 130.0
    for number in (1, 2):
        board.take(RunEnded(f"run-{number}", "completed", "", 30.0))
    assert board.counted() == "study s: 8 of 16 runs done, about 2:00 left"
    board.take(RunEnded("run-3", "interrupted", "Ctrl-C", 1.0))
    assert (board.over, board.total) == (8, 16)


def test_several_workers_plans_count_no_run_twice_however_late_they_come() -> None:
    board = Board()
    board.take(StudyPlanned("s", due=5, done=2))
    for number in range(3):
        for event in a_run(number):
            board.take(event)
        board.take(StudyPlanned("s", due=4 - number, done=3 + number))
        board.take(StudyPlanned("s", due=5 - number, done=2 + number))  # of a worker that looked earlier
    assert (board.over, board.total) == (5, 7)


def test_runs_that_were_never_seen_to_start_are_told_of_all_the_same() -> None:
    board = Board()
    board.take(RunProgress("run-9", 10, 0.5, 1.0, {"val/accuracy": 0.5}))
    assert board.shown(10)[0].line() == "run-9: 50%, update 10, val/accuracy 0.5"
    board.take(RunEnded("run-8", "lost", "", 1.0))
    assert [row.status for row in board.shown(10)] == ["lost", "running"]


def a_population(size: int, arm: str = "a") -> list[Event]:
    labels = Labels(task="digits", study="s", arm=arm, phase="tune")
    started: list[Event] = [RunStarted(f"{arm}-{n}", f"digits {arm} tune {n:02d}", labels) for n in range(size)]
    measured = [
        RunProgress(f"{arm}-{n}", 100, 0.5, 2.0, {"train/loss": 0.25, "val/accuracy": 0.5 + n / 100})
        for n in range(size)
    ]
    return [*started, *measured]


def test_a_population_that_does_not_fit_is_one_row() -> None:
    board = Board()
    for event in [*a_run(1), *a_population(32)]:
        board.take(event)
    assert [row.line() for row in board.shown(10)][1:] == [
        "digits a tune, 32 runs at once: 50%, update 100, train/loss 0.25, val/accuracy 0.5 to 0.81"
    ]
    assert len(board.shown(40)) == 33


def test_however_many_arms_run_the_table_keeps_its_size() -> None:
    board = Board()
    for arm in range(30):
        for event in a_population(2, arm=f"arm{arm}"):
            board.take(event)
    shown = board.shown(10)
    assert len(shown) == 10
    assert shown[-1].name == "and 42 more"


def test_ten_thousand_runs_leave_a_board_of_few_rows_and_a_log_of_few_lines() -> None:
    stream, seconds = io.StringIO(), [0.0]
    log = Log(stream, clock=lambda: seconds[0])
    log.take(StudyPlanned("s", due=10_000, done=0))
    for number in range(10_000):  # a night of ten hours
        seconds[0] += 3.6
        for event in a_run(number, evaluations=3, status="diverged" if number % 100 == 99 else "completed"):
            log.take(event)
    log.close()
    lines = stream.getvalue().splitlines()
    assert len(log.board.ended) + len(log.board.running) <= 50
    assert len(lines) < 1000
    assert re.search(
        r"^\[10000/10000\] \d+ runs: \d+ completed, 1 diverged; the last: digits a seed 9999: diverged", lines[-1]
    )
    told = sum(int(found[1]) if (found := re.search(r"\] (\d+) runs: ", line)) else "] " in line for line in lines)
    assert told >= 10_000, "every run that ended is in some line"


def test_a_log_tells_of_several_running_runs_in_one_line() -> None:
    stream, seconds = io.StringIO(), [0.0]
    log = Log(stream, clock=lambda: seconds[0])
    for event in a_population(32):
        seconds[0] += 1
        log.take(event)
    lines = stream.getvalue().splitlines()
    assert len(lines) <= 64 / LOG_EVERY_S + 1
    assert lines[-1].startswith("digits a tune, 32 runs at once: ")


def test_events_of_many_threads_are_all_counted() -> None:
    board = Board()
    board.take(StudyPlanned("s", due=800, done=0))

    def worker(start: int) -> None:
        for number in range(start, start + 100):
            for event in a_run(number, evaluations=3):
                board.take(event)
                board.shown(10)
                board.counted()

    threads = [threading.Thread(target=worker, args=(start,)) for start in range(0, 800, 100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (board.over, board.total, len(board.running)) == (800, 800, 0)


def test_what_is_said_of_the_whole_is_seen_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    said = "Ctrl-C: stopping after this update; Ctrl-C again stops now"
    stream = io.StringIO()
    Log(stream).take(Notice(said))
    assert stream.getvalue() == f"{said}\n"
    drawn = io.StringIO()
    with live(drawn) as listener:
        listener(Notice(said))
    assert said in drawn.getvalue()
    notebook = Notebook(clock=lambda: 0.0)
    draws = []
    monkeypatch.setattr(notebook, "_draw", lambda: draws.append(notebook.as_text()))
    for event in (*a_run(1), Notice(said)):
        notebook.take(event)
    assert draws[-1].endswith(said)


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
    notebook.close()
    assert len(drawn) == 2  # the first event and the end
