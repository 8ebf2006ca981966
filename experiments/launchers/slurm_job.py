"""A worker as a job of Slurm's: what submitit pickles, and calls on a node; what stops it, and when it is queued again.

    SUBMITIT's signal (USR2)   preempted, or nearly out of time: stops after its update, and is queued again
    SIGTERM                    Slurm takes the job away, or gives it back its place in the queue: stops after its update
    SIGINT                     `trainlab sweep` was stopped: stops after its update, and that is all

The second SIGINT or SIGTERM stops it now. submitit's own handlers requeue in the middle of an update; ours let the
update end and the checkpoint be written, and then hand over to them.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from experiments.stopping import Stop, StopNow

if TYPE_CHECKING:
    from experiments.progress import Event

EVENTS = ".events.jsonl"
#: After SIGTERM Slurm either kills the job or says with its other signal that it is to be queued again.
_AFTER_TERM_S = 120.0
#: How long a job waits at its end for MLflow. What is left is sent by the next; 90 s after its signal Slurm kills.
_UPLOADS_S = 20.0


class Task:
    """One worker. Callable once in each job; `checkpoint` says what the requeued job is to call."""

    def __init__(self, assignment: str, environment: Mapping[str, str], folder: str):
        self.assignment, self.environment, self.folder = assignment, dict(environment), folder

    def __call__(self) -> str:
        """Returns "", or what was wrong with the input."""
        with _signals() as (stop, came):
            said = self._work(stop)
        _hand_over(came)
        return said

    def _work(self, stop: Stop) -> str:
        os.environ.update({**self.environment, **{k: os.environ[k] for k in self.environment if k in os.environ}})
        os.environ["MLFLOW_TRACKING_URI"] = self.environment["MLFLOW_TRACKING_URI"]
        os.environ["SLURM_JOB_NAME"] = "bash"  # Lightning's word for: one process; else it counts and requeues itself
        from algos.finding import InputError
        from experiments.events import to_json
        from experiments.session import session
        from experiments.store.home import Home
        from experiments.sweeps.worker import Assignment, work

        assignment = Assignment.of(self.assignment)
        path = Path(self.folder) / f"{assignment.worker}{EVENTS}"
        with path.open("a", buffering=1) as events:

            def tell(event: Event) -> None:
                with contextlib.suppress(OSError):
                    events.write(to_json(event) + "\n")

            try:
                with session(Home(assignment.home), wait_s=_UPLOADS_S):
                    work(assignment, listener=tell, stop=stop)
            except InputError as error:
                return " ".join(str(error).split())
            except StopNow:
                pass
        return ""

    def checkpoint(self) -> Any:
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(Task(self.assignment, self.environment, self.folder))


@contextlib.contextmanager
def _signals() -> Iterator[tuple[Stop, list[int]]]:
    """A Stop that Slurm's signals request, and those that came. submitit's own handlers are put back after."""
    stop = Stop()
    came: list[int] = []
    words = {_preempted(): "preempted", signal.SIGTERM: "SIGTERM", signal.SIGINT: "stopped"}

    def handle(number: int, frame: FrameType | None) -> None:
        came.append(number)
        stop.request(words[signal.Signals(number)])
        if sum(each != _preempted() for each in came) > 1:
            raise StopNow(signal.Signals(number).name)

    before = {number: signal.signal(number, handle) for number in words}
    try:
        yield stop, came
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _hand_over(came: Collection[int]) -> None:
    """The worker has stopped; what comes now is between Slurm and submitit."""
    if signal.SIGINT in came:
        return
    if _preempted() in came:
        os.kill(os.getpid(), _preempted())  # submitit writes what `checkpoint` gives it, requeues the job, and exits
    elif signal.SIGTERM in came and os.environ.get("SUBMITIT_EXECUTOR") == "slurm":
        time.sleep(_AFTER_TERM_S)


def _preempted() -> signal.Signals:
    return signal.Signals[f"SIG{os.environ.get('SUBMITIT_PREEMPT_SIGNAL', 'USR2')}"]
