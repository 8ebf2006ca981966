"""A worker as a process: an assignment on stdin, events as JSON lines on stdout.

SIGTERM stops it after its update, a second one now. It goes on where whoever started it is gone, and then sees to the
uploads itself. Exit codes: 0 done or stopped, 2 wrong input (the line is on stderr).
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time

from algos.finding import InputError
from experiments.events import to_json
from experiments.progress import Event
from experiments.stopping import StopNow, stopping
from experiments.store.home import Home
from experiments.sweeps.worker import Assignment, work


def main() -> None:
    parent = os.getppid()
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    assignment = Assignment.of(sys.stdin.read())
    code = 0
    if not assignment.own_session:
        threading.Thread(target=_adopt_uploads, args=(parent, assignment), daemon=True).start()
    try:
        with stopping() as stop, _session(assignment):
            work(assignment, listener=_tell, stop=stop)
    except InputError as error:
        print(f"error: {' '.join(str(error).split())}", file=sys.stderr, flush=True)
        code = 2
    except StopNow:
        code = 130
    sys.stdout.flush()
    sys.exit(code)


def _tell(event: Event) -> None:
    try:
        print(to_json(event), flush=True)
    except OSError:  # whoever watched is gone; the runs go on
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115


def _session(assignment: Assignment) -> contextlib.AbstractContextManager[object]:
    from experiments.session import session

    if not assignment.own_session:
        return contextlib.nullcontext()
    return session(Home(assignment.home) if assignment.home else Home.default())


def _adopt_uploads(parent: int, assignment: Assignment) -> None:
    """Once the process that saw to the uploads is gone, this one starts an uploader."""
    from experiments.store.tracking import tracking_uri
    from experiments.store.uploads import start_uploader

    while os.getppid() == parent:
        time.sleep(1.0)
    with contextlib.suppress(OSError, InputError):
        start_uploader(Home(assignment.home), tracking_uri())


if __name__ == "__main__":
    main()
