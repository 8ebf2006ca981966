"""Slurm: the same workers as an array of jobs, through submitit.

A job that is preempted or out of time stops after its update, with a checkpoint, and is queued again with the same
assignment. Jobs need nobody: the command that submitted them may end, and called again it finds those that are left.
Jobs read what they are to do from the home, so the home is a folder that all nodes share.
"""

from __future__ import annotations

import importlib.util
import json
import logging
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from algos.finding import InputError, unknown
from experiments.events import from_json
from experiments.launchers.elsewhere import environment
from experiments.launchers.slurm_job import EVENTS, Task
from experiments.progress import Listener, Notice
from experiments.store.records import write_json
from experiments.store.tracking import tracking_uri

if TYPE_CHECKING:
    from experiments.sweeps.worker import Assignment

_ROOT = str(Path(__file__).resolve().parents[2])
#: Our short words for what submitit says longer. Other options are sbatch's own, as submitit spells them.
_SHORT = {"gpus": "gpus_per_node", "cpus": "cpus_per_task"}
_OURS = ("address", "requeues")
#: How often a job may run out of time; submitit's own 3 are for jobs that do not go on.
_REQUEUES = 1000
_MINUTES = {"d": 1440.0, "h": 60.0, "m": 1.0, "s": 1 / 60}
_TIME = re.compile(r"(?:(?P<d>\d+)-)?(?:(?P<h>\d+):)?(?P<m>\d+)(?::(?P<s>\d+))?")


def check(options: Mapping[str, Any]) -> None:
    """InputError where submitit or Slurm is not here, or an option is not one."""
    if importlib.util.find_spec("submitit") is None:
        raise _refused("the launcher slurm needs submitit", "pip install 'trainlab[slurm]'")
    address = str(options.get("address") or "")
    if address not in ("", "local"):
        raise _refused(f"Slurm has no address ('{address}')", "leave it out, or give local to try jobs without Slurm")
    _parameters(options, threads=1)
    missing = [command for command in ("sbatch", "srun", "scancel") if shutil.which(command) is None]
    if missing and not address:
        raise _refused(f"Slurm's {missing[0]} is not on this machine", "sweep from a login node of the cluster")


def launch(assignments: Sequence[Assignment], options: Mapping[str, Any], listener: Listener) -> SlurmCrew:
    """Submits a job for each worker that has none left from an earlier call. options: sbatch's (partition, account,
    time in minutes or as D-HH:MM:SS, mem, gpus, qos, constraint, ...), and requeues: how often a job may run out of
    time."""
    return SlurmCrew(assignments, options, listener)


def _parameters(options: Mapping[str, Any], threads: int) -> dict[str, Any]:
    """What submitit's executor for Slurm is to be told."""
    from submitit import SlurmExecutor

    valid = {*SlurmExecutor._valid_parameters(), *_SHORT} - {"folder", "command", "map_count", "nodes"}
    told: dict[str, Any] = {"cpus_per_task": threads}
    for name, value in options.items():
        if name in _OURS:
            continue
        if name not in valid:
            raise unknown("option of the launcher slurm", name, {*valid, *_OURS}, place="launcher")
        told[_SHORT.get(name, name)] = _minutes(value) if name == "time" else _plain(value)
    return told


def _minutes(value: Any) -> int:
    found = _TIME.fullmatch(str(value))
    if not found:
        raise _refused(f"time={value!r}", "give minutes, or D-HH:MM:SS as sbatch takes it")
    parts = {unit: int(given) for unit, given in found.groupdict().items() if given}
    if "h" in parts and "s" not in parts and "d" not in parts:  # HH:MM in our pattern is sbatch's MM:SS
        parts = {"m": parts["h"], "s": parts["m"]}
    return max(1, round(sum(_MINUTES[unit] * count for unit, count in parts.items())))


def _plain(value: Any) -> Any:
    """Numbers as numbers, the rest as it was given."""
    return int(value) if isinstance(value, str) and value.isdigit() else value


def _refused(said: str, cure: str) -> InputError:
    return InputError(said, cure, rule="slurm", place="launcher")


class SlurmCrew:
    """The jobs. Those of a call before, where they are still there, count among them."""

    def __init__(self, assignments: Sequence[Assignment], options: Mapping[str, Any], listener: Listener):
        first = assignments[0]
        self._listener = listener
        self._local = options.get("address") == "local"
        self._folder = Path(first.home) / "slurm" / str(first.study["name"])
        self._folder.mkdir(parents=True, exist_ok=True)
        self._failures: list[str] = []
        self._wrong = ""
        self._stopping = False
        self._read: dict[Path, int] = {path: path.stat().st_size for path in self._folder.glob(f"*{EVENTS}")}
        self._jobs = [] if self._local else self._left()
        if self._jobs:
            listener(Notice(f"{len(self._jobs)} jobs of an earlier call are still there: {self._ids(self._jobs)}"))
        self._jobs += self._submitted(assignments[len(self._jobs) :], options)
        self._counted: set[str] = set()
        write_json(self._folder / "jobs.json", {"jobs": [job.job_id for job in self._jobs]})

    def _submitted(self, assignments: Sequence[Assignment], options: Mapping[str, Any]) -> list[Any]:
        if not assignments:
            return []
        import submitit

        logging.getLogger("submitit").setLevel(logging.ERROR)
        told = environment(tracking_uri(), assignments[0].threads)
        # The code beside this file, whatever the user's folder or PYTHONPATH call `experiments`.
        paths = os.pathsep.join([_ROOT, *filter(None, [os.environ.get("PYTHONPATH")])])
        python = f"env PYTHONPATH={shlex.quote(paths)} {shlex.quote(sys.executable)} -P"
        parameters = _parameters(options, assignments[0].threads or 1)
        name = f"trainlab-{assignments[0].study['name']}"
        executor: Any
        if self._local:
            executor = submitit.LocalExecutor(self._folder, max_num_timeout=_requeues(options), python=python)
            known = {key: parameters[key] for key in ("gpus_per_node", "signal_delay_s") if key in parameters}
            executor.update_parameters(timeout_min=parameters.get("time", 7 * 24 * 60), **known)
        else:
            executor = submitit.SlurmExecutor(self._folder, max_num_timeout=_requeues(options), python=python)
            executor.update_parameters(**{"job_name": name, "time": 60, **parameters})
        try:
            with executor.batch():
                jobs = [executor.submit(Task(each.to_json(), told, str(self._folder))) for each in assignments]
        except (submitit.core.utils.FailedJobError, submitit.core.utils.FailedSubmissionError, OSError) as error:
            said = str(error).strip().splitlines()
            raise _refused(f"sbatch refused the jobs ({said[-1] if said else error})", "mend the options") from None
        self._listener(Notice(f"submitted as {self._ids(jobs)}, with logs in {self._folder}"))
        return jobs

    def _left(self) -> list[Any]:
        """Jobs of an earlier call that Slurm still has."""
        import submitit

        logging.getLogger("submitit").setLevel(logging.ERROR)
        ids: list[str] = []
        with suppress(OSError, ValueError):
            ids = json.loads((self._folder / "jobs.json").read_bytes())["jobs"]
        jobs: list[Any] = [submitit.SlurmJob(self._folder, job_id) for job_id in ids]
        there = _queued(ids)
        return [job for job in jobs if job.job_id in there and not job.paths.result_pickle.exists()]

    @staticmethod
    def _ids(jobs: Sequence[Any]) -> str:
        ids = [job.job_id for job in jobs]
        return ids[0] if len(ids) == 1 else f"{ids[0]} to {ids[-1]}"

    # Looking after them

    def running(self) -> int:
        alive = 0
        for job in self._jobs:
            if job.job_id in self._counted:
                continue
            if not job.done():
                alive += 1
                continue
            self._counted.add(job.job_id)
            self._over(job)
        self._hear()
        return alive

    def _over(self, job: Any) -> None:
        """What came of a job that is over."""
        import submitit

        if not job.paths.result_pickle.exists():
            if not self._stopping:
                self._failures.append(f"job {job.job_id} ended without a word ({job.state}): see {job.paths.stderr}")
            return
        outcome, told = submitit.core.utils.pickle_load(job.paths.result_pickle)
        if outcome == "error":
            self._failures.append(f"job {job.job_id} failed: {told.strip().splitlines()[-1]} (see {job.paths.stderr})")
        elif told and not self._wrong:
            self._wrong = told
            self.stop("wrong input")

    def _hear(self) -> None:
        """What the workers have told since, from the files that they tell it to."""
        for path in sorted(self._folder.glob(f"*{EVENTS}")):
            with path.open("rb") as file:
                file.seek(self._read.get(path, 0))
                told = file.read()
            whole = told.rfind(b"\n") + 1
            self._read[path] = self._read.get(path, 0) + whole
            for line in told[:whole].decode().splitlines():
                with suppress(ValueError):
                    self._listener(from_json(line))

    def stop(self, reason: str) -> None:
        """Jobs that wait are taken from Slurm's queue; those that run end after their update, and are not requeued."""
        self._stopping = True
        if self._local:
            self._signal_local(signal.SIGTERM)
        else:
            self._scancel("--state=PENDING")
            self._scancel("--signal=INT")

    def kill(self) -> None:
        self._stopping = True
        if self._local:
            self._signal_local(signal.SIGTERM)
            self._signal_local(signal.SIGTERM)
        else:
            self._scancel("--signal=KILL")
            self._scancel()

    def _signal_local(self, number: int) -> None:
        for job in self._alive():
            if job._process is not None and job._process.poll() is None:
                job._process.send_signal(number)  # its controller passes it on

    def _scancel(self, *how: str) -> None:
        ids = [job.job_id for job in self._alive()]
        if ids:
            subprocess.run(["scancel", *how, *ids], capture_output=True, check=False)

    def _alive(self) -> list[Any]:
        return [job for job in self._jobs if job.job_id not in self._counted]

    def failures(self) -> list[str]:
        if self._wrong:
            raise InputError(self._wrong, rule="refused")
        return self._failures

    def close(self) -> None:
        """Nothing of Slurm's is held."""
        self._hear()


def _requeues(options: Mapping[str, Any]) -> int:
    return int(options.get("requeues", _REQUEUES))


def _queued(ids: Sequence[str]) -> set[str]:
    """Which of these jobs wait or run. --array: tasks that wait are told one by one, not as 12_[0-3]."""
    if not ids:
        return set()
    arrays = ",".join(dict.fromkeys(job_id.partition("_")[0] for job_id in ids))
    asked = ["squeue", "--noheader", "--array", "--format=%i", "--jobs", arrays]
    with suppress(OSError):
        return set(subprocess.run(asked, capture_output=True, text=True, check=False).stdout.split())
    return set()
