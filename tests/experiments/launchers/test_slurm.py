"""Slurm: jobs that are preempted go on exactly, jobs that are stopped stop, and what cannot be is refused."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from algos.finding import InputError
from experiments.launchers import slurm
from experiments.stopping import Stop
from experiments.store.home import Home
from experiments.study import StudyConfig
from experiments.sweeps.sweep import SweepOptions, sweep

Study = Callable[..., StudyConfig]


def worker_in_mid_run(home: Path) -> int | None:
    """The process id of a worker of a home whose run has been evaluated after an update (the first is before any)."""
    updated = {
        record.labels.trial
        for record in Home(home).records()
        if record.status == "running" and record.last.get("count/updates", 0)
    }
    for said in (home / "workers").glob("*.json"):
        told = json.loads(said.read_text())
        if updated.intersection(told["trials"]):
            return int(told["pid"])
    return None


@pytest.mark.slow
def test_a_preempted_job_is_queued_again_and_goes_on_exactly(
    tmp_path: Path, study: Study, undisturbed: Any, outcome: Any, wait: Any
) -> None:
    home = tmp_path / "home"
    signalled: list[int] = []

    def preempt() -> None:
        pid = wait(lambda: worker_in_mid_run(home))
        os.kill(pid, signal.SIGUSR2)
        signalled.append(pid)

    thread = threading.Thread(target=preempt)
    thread.start()
    options = SweepOptions(launcher="slurm", address="local", threads=1)
    result = sweep(study(2500), home=Home(home), options=options)
    thread.join()
    assert signalled
    assert result.complete
    assert result.notes == []
    attempts = [record.attempts for record in result.records]
    assert sorted(attempts) == [1, 1, 1, 2], "one run was interrupted, and resumed as itself"
    logs = "".join(path.read_text() for path in (home / "slurm" / "spread").glob("*_log.*"))
    assert "Requeued job" in logs
    resumed = next(record for record in result.records if record.attempts == 2)
    began = [json.loads(line) for line in (home / "runs" / resumed.run_id / "spool.2.jsonl").read_text().splitlines()]
    assert began[0]["resumed_from"] > 0, "it did not start over"
    assert outcome(result.records) == undisturbed(study(2500))


@pytest.mark.slow
def test_a_stopped_sweep_stops_its_jobs_after_an_update(
    tmp_path: Path, study: Study, undisturbed: Any, outcome: Any
) -> None:
    home, stop = Home(tmp_path / "home"), Stop()
    seen: list[Any] = []

    def listen(event: Any) -> None:
        seen.append(event)
        if type(event).__name__ == "RunProgress" and event.update:  # the first evaluation is before any
            stop.request("enough")

    options = SweepOptions(workers=2, launcher="slurm", address="local", threads=1)
    stopped = sweep(study(2500), home=home, listener=listen, stop=stop, options=options)
    assert not stopped.complete
    assert stopped.notes == []
    assert {"interrupted"} <= {r.status for r in stopped.records} <= {"interrupted", "completed"}
    assert any("submitted as" in getattr(event, "text", "") for event in seen)
    done = sweep(study(2500), home=home, options=SweepOptions(threads=1))
    assert outcome(done.records) == undisturbed(study(2500))


@pytest.fixture
def small_slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Slurm's commands on the path; its state in the folder that is returned."""
    state, commands = tmp_path / "slurm", tmp_path / "bin"
    state.mkdir()
    commands.mkdir()
    for name in ("sbatch", "srun", "scancel", "scontrol", "squeue", "sacct"):
        path = commands / name
        path.write_text(f"#!{sys.executable}\nimport runpy, sys\nsys.argv.insert(1, {name!r})\n" + _SMALL)
        path.chmod(0o755)
    monkeypatch.setenv("SMALL_SLURM", str(state))
    monkeypatch.setenv("PATH", f"{commands}{os.pathsep}{os.environ['PATH']}")
    return state


_SMALL = f"runpy.run_path({str(Path(__file__).with_name('small_slurm.py'))!r}, run_name='__main__')\n"


@pytest.mark.slow
def test_an_array_outlives_its_command_is_requeued_and_is_found_again(
    tmp_path: Path, study: Study, small_slurm: Path, undisturbed: Any, outcome: Any, wait: Any
) -> None:
    """Two jobs, submitted by a command that dies; one is preempted; the same command called again waits for both."""
    home, config = tmp_path / "home", study(6000)
    program = (
        "import json, os, sys\n"
        "from experiments.store.home import Home\n"
        "from experiments.study import StudyConfig\n"
        "from experiments.sweeps.sweep import SweepOptions, sweep\n"
        "own = {'partition': 'gpu', 'time': '2:00:00'}\n"
        "options = SweepOptions(workers=2, threads=1, launcher='slurm', launcher_options=own)\n"
        "sweep(StudyConfig.of(json.loads(sys.argv[2])), home=Home(sys.argv[1]), options=options)\n"
    )
    command = subprocess.Popen([sys.executable, "-c", program, str(home), json.dumps(config.to_json())])
    pid = wait(lambda: worker_in_mid_run(home))
    command.kill()
    command.wait()
    os.kill(pid, signal.SIGUSR2)
    script = (small_slurm / "job.1").read_text()
    assert {"#SBATCH --partition=gpu", "#SBATCH --time=120", "#SBATCH --array=0-1%2"} <= set(script.splitlines())

    seen: list[Any] = []
    options = SweepOptions(workers=2, threads=1, launcher="slurm", launcher_options={"partition": "gpu"})
    result = sweep(config, home=Home(home), listener=seen.append, options=options)
    assert result.complete
    assert result.notes == []
    told = [event.text for event in seen if hasattr(event, "text")]
    assert "2 jobs of an earlier call are still there: 1_0 to 1_1" in told
    assert not (small_slurm / "job.2").exists(), "none was submitted twice"
    assert outcome(result.records) == undisturbed(config)
    assert sorted(record.attempts for record in result.records) == [1, 1, 1, 2]


@pytest.mark.slow
def test_a_stopped_sweep_cancels_its_array_after_an_update(tmp_path: Path, study: Study, small_slurm: Path) -> None:
    home, stop = Home(tmp_path / "home"), Stop()

    def listen(event: Any) -> None:
        if type(event).__name__ == "RunProgress" and event.update:  # the first evaluation is before any
            stop.request("enough")

    options = SweepOptions(workers=2, threads=1, launcher="slurm")
    stopped = sweep(study(20000), home=home, listener=listen, stop=stop, options=options)
    assert "interrupted" in {record.status for record in stopped.records}
    assert stopped.notes == []
    assert not list(small_slurm.glob("requeue.*"))


@pytest.mark.slow
def test_wrong_input_that_a_job_meets_comes_back_as_its_line(tmp_path: Path) -> None:
    from experiments.sweeps.worker import Assignment

    broken = Assignment({"name": "spread", "tasks": ["digit"], "arms": ["adamw"]}, str(tmp_path / "home"), threads=1)
    crew = slurm.launch([broken], {"address": "local"}, lambda event: None)
    while crew.running():
        pass
    with pytest.raises(InputError, match="digit"):
        crew.failures()
    crew.close()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"address": "local", "partitoin": "gpu"}, "did you mean 'partition'"),
        ({"address": "local", "time": "soon"}, "D-HH:MM:SS"),
        ({"address": "head:6379"}, "Slurm has no address"),
        ({"partition": "gpu"}, "sbatch is not on this machine"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_made(
    tmp_path: Path, study: Study, options: dict[str, Any], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    address = options.pop("address", "")
    with pytest.raises(InputError, match=said) as refused:
        sweep(
            study(10),
            home=Home(tmp_path / "home"),
            options=SweepOptions(launcher="slurm", address=address, launcher_options=options),
        )
    assert "\n" not in str(refused.value)
    assert not (tmp_path / "home").exists()


def test_without_submitit_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"pip install 'trainlab\[slurm\]'"):
        slurm.check({})


@pytest.mark.parametrize(
    ("given", "minutes"),
    [("90", 90), (90, 90), ("02:00:00", 120), ("1-00:00:00", 1440), ("1-12:00", 2160), ("45:00", 45), ("0:30", 1)],
)
def test_time_is_read_as_sbatch_reads_it(given: Any, minutes: int) -> None:
    assert slurm._minutes(given) == minutes
