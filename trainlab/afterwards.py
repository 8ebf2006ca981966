"""Afterwards: a command of the user's that is run once when all is over, however it ended (`--on-done`).

It is told in its environment: TRAINLAB_STUDY, TRAINLAB_STATUS (complete, incomplete, failed), TRAINLAB_RUNS (how many
there are), TRAINLAB_COMPLETED, TRAINLAB_CRASHED, TRAINLAB_REASON (why it is incomplete or failed) and TRAINLAB_HOME.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from experiments.stopping import StopNow
from experiments.store.home import Home
from experiments.store.schema import RunRecord
from trainlab.attending import Watch, note
from trainlab.display import in_notebook

_LOOK_S = 0.2


@dataclass
class Outcome:
    """How it ended, filled in by the block. complete: whether nothing is left to do."""

    records: Sequence[RunRecord] = field(default_factory=tuple)
    complete: bool = False


@contextmanager
def afterwards(command: str, home: Home, watch: Watch) -> Iterator[Outcome]:
    """Runs the command when the block is over; not where the block refused its input before anything began."""
    outcome = Outcome()
    try:
        yield outcome
    except (StopNow, KeyboardInterrupt):
        _run(command, _told(home, watch, outcome, "incomplete", watch.stop.reason), watch)
        raise
    except BaseException as error:
        if watch.begun:
            said = " ".join(str(error).split()) or type(error).__name__
            _run(command, _told(home, watch, outcome, "failed", said), watch)
        raise
    if outcome.complete:
        status, reason = "complete", ""
    elif watch.stop.requested:
        status, reason = "incomplete", watch.stop.reason
    else:
        status, reason = "failed", "work was left that nobody did"
    _run(command, _told(home, watch, outcome, status, reason), watch)


def _told(home: Home, watch: Watch, outcome: Outcome, status: str, reason: str) -> dict[str, str]:
    records = outcome.records
    if not records and watch.study:
        records = [record for record in home.records() if record.labels.study == watch.study]
    statuses = Counter(record.status for record in records)
    return {
        "TRAINLAB_HOME": str(home.path),
        "TRAINLAB_STUDY": watch.study,
        "TRAINLAB_STATUS": status,
        "TRAINLAB_RUNS": str(len(records)),
        "TRAINLAB_COMPLETED": str(statuses["completed"]),
        "TRAINLAB_CRASHED": str(statuses["crashed"]),
        "TRAINLAB_REASON": reason,
    }


def _run(command: str, told: dict[str, str], watch: Watch) -> None:
    """Run it; its failure is said and changes nothing. Ctrl-C or SIGTERM meanwhile ends it. What it prints goes to
    stderr, for stdout is the answer's."""
    if not command:
        return
    before = watch.stop.signals
    output = subprocess.PIPE if in_notebook() else 2
    try:
        process = subprocess.Popen(
            command, shell=True, env={**os.environ, **told}, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
            text=True,
        )  # fmt: skip
    except OSError as error:
        note(f"--on-done could not be run: {error.strerror}")
        return
    while True:
        try:
            said, wrong = process.communicate(timeout=_LOOK_S)
            break
        except subprocess.TimeoutExpired:
            if watch.stop.signals > before:
                process.terminate()
        except StopNow:
            process.kill()
    if said or wrong:
        sys.stdout.write(f"{said or ''}{wrong or ''}")
    if process.returncode:
        how = f"ended with code {process.returncode}" if process.returncode > 0 else "was stopped"
        note(f"--on-done `{command}` {how}")
