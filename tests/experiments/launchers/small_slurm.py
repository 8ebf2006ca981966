"""A Slurm of one file, for tests: sbatch, srun, scancel, scontrol requeue, squeue and sacct, as submitit uses them.

Jobs start at once, as processes of this machine; their states are files in $SMALL_SLURM.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

HERE = Path(os.environ.get("SMALL_SLURM", ""))


def states() -> dict[str, str]:
    return {path.name.removeprefix("state."): path.read_text() for path in HERE.glob("state.*")}


def sbatch(script: str) -> None:
    text = Path(script).read_text()
    job = str(len(list(HERE.glob("job.*"))) + 1)
    (HERE / f"job.{job}").write_text(text)
    array = re.search(r"--array=0-(\d+)", text)
    for task in [f"{job}_{number}" for number in range(int(array[1]) + 1)] if array else [job]:
        (HERE / f"state.{task}").write_text("RUNNING")
        quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        subprocess.Popen([sys.executable, __file__, "run", task], start_new_session=True, **quiet)
    print(f"Submitted batch job {job}")


def run(task: str) -> None:
    """The life of one job: again where it was requeued."""
    job, _, number = task.partition("_")
    array = {"SLURM_ARRAY_JOB_ID": job, "SLURM_ARRAY_TASK_ID": number} if number else {}
    told = {
        **os.environ,
        "SLURM_JOB_ID": job,
        "SLURM_PROCID": "0",
        "SLURM_NTASKS": "1",
        **array,
        "SMALL_SLURM_TASK": task,
    }
    while True:
        subprocess.run(["bash", str(HERE / f"job.{job}")], env=told)
        requeued = HERE / f"requeue.{task}"
        if not requeued.exists():
            break
        requeued.unlink()
    state = HERE / f"state.{task}"
    if state.read_text() == "RUNNING":
        state.write_text("COMPLETED")


def srun(*given: str) -> None:
    words, files = list(given), {}
    while words[0].startswith("--"):
        option = words.pop(0)
        if option in ("--output", "--error"):
            files[option] = words.pop(0)
    job, _, number = os.environ["SMALL_SLURM_TASK"].partition("_")
    for number_of, option in ((1, "--output"), (2, "--error")):
        path = files[option].replace("%A", job).replace("%a", number).replace("%j", job).replace("%t", "0")
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644), number_of)
    (HERE / f"pid.{os.environ['SMALL_SLURM_TASK']}").write_text(str(os.getpid()))
    os.execvp(words[0], words)


def scancel(*given: str) -> None:
    options = dict(word[2:].partition("=")[::2] for word in given if word.startswith("--"))
    if "state" in options:
        return  # none ever waits
    number = signal.Signals[f"SIG{options.get('signal', 'TERM')}"]
    for task in (word for word in given if not word.startswith("--")):
        if "signal" not in options:
            (HERE / f"state.{task}").write_text("CANCELLED")
        pid = HERE / f"pid.{task}"
        if pid.exists() and states()[task] == "RUNNING":
            os.kill(int(pid.read_text()), number)


def scontrol(verb: str, task: str) -> None:
    assert verb == "requeue"
    (HERE / f"requeue.{task}").touch()


def squeue(*given: str) -> None:
    print(*[task for task, state in states().items() if state == "RUNNING"], sep="\n")


def sacct(*given: str) -> None:
    print("JobID|State|NodeList")
    print(*[f"{task}|{state}|here" for task, state in states().items()], sep="\n")


if __name__ == "__main__":
    called, *arguments = sys.argv[1:]
    globals()[called](*arguments)
