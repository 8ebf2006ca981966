"""What goes on where nobody reads along: streams that go away, the log that takes their place, who owns what runs."""

from __future__ import annotations

import io
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from algos.finding import InputError
from experiments.progress import RunEnded, RunStarted, StudyPlanned
from experiments.store.home import Home
from experiments.store.locks import Lock
from experiments.store.schema import Labels
from experiments.sweeps.sweep import SweepOptions
from trainlab import owners
from trainlab.attending import Watch
from trainlab.detached import Screen, log_path
from trainlab.sweeping import Night, flags, shared

IN_A_PROCESS = """
import sys
from experiments.progress import StudyPlanned, RunStarted, RunEnded
from experiments.store.home import Home
from experiments.store.schema import Labels
from trainlab.attending import attended
sys.stdin.readline()
with attended(Home(sys.argv[1]), study="s", events="events" in sys.argv) as watch:
    with watch.showing() as listener:
        listener(StudyPlanned("s", 3, 0))
        sys.stdin.readline()
        for number in range(3):
            listener(RunStarted(str(number), f"run {number}", Labels("digits", "s", "a", "final")))
            listener(RunEnded(str(number), "completed", "", 1.0))
    print("the answer")
"""


def start(home: Path, *arguments: str, **streams: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", IN_A_PROCESS, str(home), *arguments]
    return subprocess.Popen(command, stdin=subprocess.PIPE, text=True, **streams)  # type: ignore[call-overload,no-any-return]


def go(process: subprocess.Popen[str]) -> None:
    assert process.stdin
    process.stdin.write("\n")
    process.stdin.flush()


def the_log(home: Path) -> str:
    (log,) = (home / "studies" / "s").glob("*.log")
    return log.read_text()


def test_a_reader_of_stderr_who_leaves_ends_no_run(tmp_path: Path) -> None:
    with start(tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        go(process)
        assert process.stderr
        assert process.stdout
        assert process.stderr.readline() == "study s: 3 runs to do, 0 done before\n"
        process.stderr.close()
        go(process)
        assert process.stdout.read() == "the answer\n"
    assert process.returncode == 0
    lines = the_log(tmp_path).splitlines()
    assert f"nobody reads this any more; process {process.pid} goes on and says it here" in lines[0]
    assert lines[1] == f"how it stands: trainlab status s    stop it, resumable: kill {process.pid}"
    assert [line.split(":")[0] for line in lines[2:]] == ["[1/3] run 0", "[2/3] run 1", "[3/3] run 2"]


def test_a_reader_of_events_who_leaves_ends_no_run_and_then_stderr_says_it_all(tmp_path: Path) -> None:
    with (
        (tmp_path / "stderr").open("w") as stderr,
        start(tmp_path, "events", stdout=subprocess.PIPE, stderr=stderr.fileno()) as process,
    ):
        go(process)
        assert process.stdout
        assert json.loads(process.stdout.readline())["event"] == "StudyPlanned"
        process.stdout.close()
        go(process)
    assert process.returncode == 0
    lines = (tmp_path / "stderr").read_text().splitlines()
    assert "whoever started this is gone" in lines[0]
    assert [line.split(":")[0] for line in lines[2:]] == ["[1/3] run 0", "[2/3] run 1", "[3/3] run 2", "the answer"]


class Breaks(io.StringIO):
    def write(self, text: str) -> int:
        if len(self.getvalue()) > 5:
            raise OSError(5, "Input/output error")
        return super().write(text)


def test_a_table_is_drawn_on_nothing_once_its_terminal_is_gone() -> None:
    lost = []
    screen = Screen(Breaks(), lambda: lost.append(1), drawn=True)
    for _ in range(5):
        screen.write("abc")
        screen.flush()
    assert lost == [1]
    assert screen.gone


def test_logs_of_one_second_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "strftime", lambda form: "20261130-220000")
    home = Home(tmp_path)
    paths = []
    for _ in range(3):
        paths.append(log_path(home, "s"))
        paths[-1].parent.mkdir(parents=True, exist_ok=True)
        paths[-1].touch()
    assert [path.name for path in paths] == ["20261130-220000.log", "20261130-220000-2.log", "20261130-220000-3.log"]
    assert log_path(home).parent == tmp_path / "logs"


def test_nothing_is_refused_once_a_study_has_begun(tmp_path: Path) -> None:
    watch = Watch(Home(tmp_path), "s")
    assert not watch.begun
    watch.take(StudyPlanned("s", 1, 0))
    assert watch.begun
    watch.take(RunStarted("r", "r", Labels("digits")))
    watch.take(RunEnded("r", "interrupted", "Ctrl-C", 1.0))
    assert watch.halted == ["r"]


def test_a_process_of_this_machine_is_asked_and_others_are_named(tmp_path: Path) -> None:
    lock = tmp_path / "studies" / "s" / "lock"
    lock.parent.mkdir(parents=True)
    program = (
        "import sys, time; from pathlib import Path; from experiments.store.locks import Lock\n"
        "with Lock(Path(sys.argv[1])):\n print('taken', flush=True)\n time.sleep(600)"
    )
    command = [sys.executable, "-c", program, str(lock)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "taken\n"
        found = owners.of_study(Home(tmp_path), "s")
        assert [each["pid"] for each in found] == [process.pid]
        owners.ask_to_stop("study s", found)
        assert process.wait(90) == -15
    assert owners.of_study(Home(tmp_path), "s") == []
    owners.ask_to_stop("study s", found)  # gone since: nothing to ask
    with pytest.raises(
        InputError, match=r"study s is run by process 7 on elsewhere, and this is .*; stop it there: kill 7"
    ):
        owners.ask_to_stop("study s", [{"pid": 7, "host": "elsewhere"}])
    with Lock(lock), pytest.raises(InputError, match="study s is run by this process; interrupt it"):
        owners.ask_to_stop("study s", owners.of_study(Home(tmp_path), "s"))
    own = {"pid": os.getpid(), "host": socket.gethostname()}
    with pytest.raises(InputError, match="by this process"):
        owners.ask_to_stop("it", [own])


def test_what_was_asked_for_can_be_asked_for_again_on_the_command_line() -> None:
    options = SweepOptions(workers=3, threads=2, launcher="ray", address="a:1", population="8", amend=True)
    assert flags(options) == [
        "--workers=3", "--threads=2", "--launcher=ray", "--address=a:1", "--population=8", "--amend",
    ]  # fmt: skip
    night = Night.of("9h", "echo 'a b'")
    until, on_done = night.flags()
    assert on_done == "--on-done=echo 'a b'"
    assert night.until
    assert abs(Night.of(until.partition("=")[2]).until.at - night.until.at) <= 1  # type: ignore[union-attr]
    assert Night.of().flags() == []


def test_workers_share_the_cores_that_this_process_may_use() -> None:
    cores = len(os.sched_getaffinity(0))
    assert shared(SweepOptions(workers=2)).threads == max(1, cores // 2)
    assert shared(SweepOptions(workers=1000)).threads == 1
    assert shared(SweepOptions(workers=1)).threads is None
    assert shared(SweepOptions(workers=2, threads=5)).threads == 5
