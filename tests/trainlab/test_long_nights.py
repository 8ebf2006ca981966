"""Long nights, with real processes: Ctrl-C in a terminal, terminals that close, kernels and starters that are killed,
commands that were left alone. Each time the sweep does what it should, and says so."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import trainlab as tl
from algos.finding import InputError
from experiments.store.home import Home
from experiments.sweeps.lease import workers
from trainlab import owners

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("night")]
COMMAND = str(Path(sys.executable).with_name("trainlab"))
STUDY = """\
name: night
tasks: {digits: {budget: {updates: 1000000}, evaluate_every: 50}}
arms: {adamw: {optimizer: adamw}, lion: {optimizer: lion}}
seeds: 3
population: off
"""
#: Makes its stdin the terminal that controls it, and becomes the command.
IN_A_TERMINAL = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
)


@pytest.fixture
def night(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(("TRAINLAB_", "MLFLOW_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.chdir(tmp_path)
    Path("night.yaml").write_text(STUDY)


class Terminal:
    """A terminal with a command in it."""

    def __init__(self, *arguments: str):
        self._mine, theirs = pty.openpty()
        self.seen = ""
        self.process = subprocess.Popen(
            [sys.executable, "-c", IN_A_TERMINAL, COMMAND, *arguments],
            stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
        )  # fmt: skip
        os.close(theirs)

    def read(self, seconds: float = 0.1) -> bool:
        """What it shows; False when it has ended."""
        if not select.select([self._mine], [], [], seconds)[0]:
            return True
        try:
            data = os.read(self._mine, 65536)
        except OSError:
            return False
        self.seen += re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", data.decode(errors="replace"))
        return bool(data)

    def shows(self, text: str, seconds: float = 120.0) -> None:
        deadline = time.monotonic() + seconds
        while text not in self.seen:
            assert self.read(), self.seen
            assert time.monotonic() < deadline, self.seen

    def press_ctrl_c(self) -> None:
        os.write(self._mine, b"\x03")

    def close(self) -> None:
        os.close(self._mine)

    def code(self) -> int:
        while self.read():
            pass
        return self.process.wait(120)


def eventually(holds: Callable[[], bool], seconds: float = 120.0) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def statuses() -> list[str]:
    return sorted(str(record.status) for record in Home.default().records())


def updates() -> dict[str, float]:
    return {record.run_id: record.last.get("count/updates", 0.0) for record in Home.default().records()}


def two_train() -> bool:
    """Both have made an update; the first evaluation is before any."""
    home = Home.default()
    trained = [each for each in home.records() if each.status == "running" and each.last.get("count/updates", 0)]
    return len(trained) == 2


def nobody_works() -> bool:
    return not workers(Home.default()) and not owners.of_study(Home.default(), "night")


def the_log() -> str:
    return "".join(log.read_text() for log in Path(".trainlab/studies/night").glob("*.log"))


def test_ctrl_c_reaches_the_starter_who_stops_its_workers_and_the_second_one_is_now() -> None:
    terminal = Terminal("sweep", "night.yaml", "--workers", "2")
    eventually(lambda: terminal.read() and two_train())
    terminal.press_ctrl_c()
    terminal.shows("Ctrl-C: stopping after this update; Ctrl-C again stops now")
    assert terminal.code() == 130, terminal.seen
    assert "interrupted (Ctrl-C): 6 runs are left; the same command goes on with the study 'night'" in terminal.seen
    assert "Traceback" not in terminal.seen
    assert (statuses(), nobody_works()) == (["interrupted"] * 2, True)

    terminal = Terminal("sweep", "night.yaml", "--workers", "2")
    eventually(lambda: terminal.read() and two_train())
    for _ in range(2):
        terminal.press_ctrl_c()
        time.sleep(0.2)
    assert terminal.code() == 130, terminal.seen
    assert "Traceback" not in terminal.seen
    assert nobody_works()
    assert set(statuses()) <= {"interrupted", "lost"}
    assert len(statuses()) == 2, "the same runs went on"


def test_ctrl_c_while_workers_start_is_heard() -> None:
    terminal = Terminal("sweep", "night.yaml", "--workers", "2")
    terminal.shows("0 of 6 runs done")
    terminal.press_ctrl_c()
    assert terminal.code() == 130, terminal.seen
    assert "Traceback" not in terminal.seen
    assert nobody_works()


def test_a_closed_terminal_ends_no_sweep_and_the_log_has_the_rest() -> None:
    terminal = Terminal("sweep", "night.yaml", "--on-done", "echo $TRAINLAB_STATUS > done")
    terminal.shows("running")
    terminal.close()
    eventually(lambda: "running" in statuses() and "%, update" in the_log())
    tl.study("night").stop()
    assert terminal.process.wait(120) == 130
    log = the_log()
    # SIGHUP tells of it, or a line that cannot be written: whichever comes first.
    why = "(the terminal closed|nobody reads this any more)"
    assert re.search(rf"{why}; process {terminal.process.pid} goes on and says it here", log), log
    assert "SIGTERM: stopping after this update" in log
    assert "interrupted (SIGTERM): 6 runs are left" in log
    assert "\x1b" not in log
    assert Path("done").read_text() == "incomplete\n"
    assert statuses() == ["interrupted"]


def test_a_time_to_stop_at_is_no_failure_and_is_said() -> None:
    command = [COMMAND, "sweep", "night.yaml", "--until", "8s"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert re.search(r"^until \d\d:\d\d", done.stderr)
    assert done.stderr.endswith(
        "stopped as asked, until 8s: the study is incomplete, 6 runs are left; "
        "the same command goes on with the study 'night'\n"
    )
    assert set(statuses()) <= {"interrupted"}


def test_what_is_detached_is_found_by_its_name_kept_to_one_and_stopped_from_elsewhere() -> None:
    asked = [COMMAND, "sweep", "night.yaml", "--detach"]
    Path("wrong.yaml").write_text(STUDY.replace("optimizer: lion", "optimizer: lbfgs, precision: fp16"))
    refused = subprocess.run([COMMAND, "sweep", "wrong.yaml", "--detach"], capture_output=True, text=True, check=False)
    assert (refused.returncode, refused.stdout, refused.stderr.count("\n")) == (2, "", 1)
    assert refused.stderr.startswith("error: arms.lion")
    assert not Path(".trainlab/studies").exists()

    done = "echo $TRAINLAB_STUDY $TRAINLAB_STATUS >> done"
    started = subprocess.run([*asked, "--json", "--on-done", done], capture_output=True, text=True, check=True)
    told = json.loads(started.stdout)
    eventually(lambda: statuses() == ["running"])
    again = subprocess.run(asked, capture_output=True, text=True, check=False)
    assert (again.returncode, again.stderr.count("\n")) == (2, 1)
    assert f"study night is being run by pid {told['pid']}" in again.stderr

    study = tl.study("night")
    with pytest.raises(InputError, match=r'would take it up again; tl.study\("night"\).stop\(\) stops the study'):
        study.runs[0].stop()
    study.stop()
    eventually(nobody_works)
    eventually(lambda: Path("done").exists() and Path("done").read_text() == "night incomplete\n")
    assert statuses() == ["interrupted"]
    assert "interrupted (SIGTERM): 6 runs are left" in Path(told["log"]).read_text()


KERNEL = """
import time, trainlab as tl
study = tl.sweep("night.yaml", wait=False, workers=2)
while True:
    time.sleep(1)
"""


@pytest.mark.parametrize("starter", ["kernel", "sweep"])
def test_whoever_started_it_is_killed_and_it_goes_on_and_can_be_stopped(starter: str) -> None:
    command = [sys.executable, "-c", KERNEL] if starter == "kernel" else [COMMAND, "sweep", "night.yaml", "--workers=2"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        eventually(two_train)
        process.kill()
    before = updates()
    eventually(lambda: all(now > before[run_id] for run_id, now in updates().items()))
    told = subprocess.run([COMMAND, "status", "night"], capture_output=True, text=True, check=True)
    assert "running" in told.stdout
    tl.study("night").stop()
    eventually(lambda: statuses() == ["interrupted"] * 2)
    eventually(nobody_works)
    if starter == "kernel":
        assert "whoever started this is gone" in the_log()


def test_a_run_found_by_its_id_is_stopped_from_another_process() -> None:
    with subprocess.Popen(
        [COMMAND, "run", "task=digits", "budget.updates=1000000"], stderr=subprocess.DEVNULL
    ) as process:
        eventually(lambda: [(r.status, r.attempts) for r in Home.default().records()] == [("running", 1)])
        (run,) = tl.runs()
        run.stop()
        try:
            assert process.wait(120) == 130
        finally:
            process.kill()
    assert (run.status, run.record.reason) == ("interrupted", "SIGTERM")
    run.stop()  # nobody runs it: nothing to stop
