"""A visit of the doctor: what was found in a home, and what was done about it, or would be.

Each thing found is a `Finding`: `said` is what it was, `cure` what was done. level: "note" mended; "caution" found in
a dry run, nothing done; "error" could not be mended.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from algos.finding import Finding, InputError
from experiments.store.home import Home, RunFolder
from experiments.store.locks import Held, Lock, is_held

_SHOWN = 3
#: `records.temporary_name`, and what other writers call a file while they write it: with their process's id.
_TEMPORARY = re.compile(
    r"\..*(?:\.new-(?P<pid>\d+)@(?P<host>.+)|-(?P<made>\d+)(?:-[0-9a-f]{8})?|\.(?P<writer>\d+)(?:\.tmp)?)"
)


@dataclass
class Visit:
    """dry_run: look only. uri: MLflow's place."""

    home: Home
    uri: str
    dry_run: bool = False
    found: list[Finding] = field(default_factory=list)

    def mend(self, rule: str, source: str, said: str, done: str, act: Callable[[], None]) -> None:
        """Mends one thing by `act`, unless this is a dry run. done: a participle, "marked as lost"."""
        if self._taken(source):
            return
        if self.dry_run:
            self.found.append(Finding(rule, said, f"would be {done}", source, level="caution"))
            return
        try:
            act()
        except Held:
            return  # somebody has just taken it up: it is theirs
        except (OSError, InputError) as error:
            self.unmended(rule, source, said, f"could not be {done}: {error}")
        else:
            self.found.append(Finding(rule, said, done, source, level="note"))

    def _taken(self, source: str) -> bool:
        """Whether what was looked at is a run that somebody has taken up since: it is theirs."""
        what, _, run_id = source.partition(" ")
        return what == "run" and is_held(self.home.run_folder / run_id / "owner.lock")

    @property
    def beside(self) -> bool:
        """Whether processes live that change this home: what is found may be on its way."""
        home = self.home.path
        locks = (home / "uploader.lock", *(home / "studies").glob("*/lock"), *(home / "workers").glob("*.lock"))
        runs = (self.home.run_folder / run_id / "owner.lock" for run_id in self.home.run_ids())
        return any(is_held(path) for path in (*locks, *runs))

    def unmended(self, rule: str, source: str, said: str, cure: str) -> None:
        self.found.append(Finding(rule, said, cure, source))

    @property
    def clean(self) -> bool:
        """Whether all is well now: nothing was found, or all of it was mended."""
        return all(finding.level == "note" for finding in self.found)

    def idle(self) -> Iterator[RunFolder]:
        """The runs that nobody works on."""
        for run_id in self.home.run_ids():
            folder = RunFolder(self.home.run_folder / run_id)
            if not is_held(folder.path / "owner.lock"):
                yield folder


@contextmanager
def owned(folder: Path) -> Iterator[None]:
    """A run's folder for this process alone; raises Held where somebody works on it."""
    with Lock(folder / "owner.lock").take(wait_s=0.2):
        yield


def abandoned(path: Path) -> bool:
    """Whether a file or folder has the name of something half written, and its writer is gone. A writer of another
    machine is believed to live for a day."""
    match = _TEMPORARY.fullmatch(path.name)
    if match is None:
        return False
    if match["host"] not in (None, socket.gethostname()):
        return _age_s(path) > 24 * 3600
    pid = match["pid"] or match["made"] or match["writer"]
    return not _alive(int(pid))


def _age_s(path: Path) -> float:
    import time

    try:
        return time.time() - path.lstat().st_mtime
    except FileNotFoundError:
        return 0.0


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True


def listed(names: Iterable[str]) -> str:
    """The first few of some names, and how many more there are.

    >>> listed("abcde")
    'a, b, c and 2 more'
    """
    known = list(names)
    more = f" and {len(known) - _SHOWN} more" if len(known) > _SHOWN else ""
    return ", ".join(known[:_SHOWN]) + more
