"""Station: a place on a node of a Ray cluster where one worker is started, heard and stopped.

Sent to the node by value, so it imports nothing but Python's own: a node where trainlab is missing can say so, and a
folder of the user's called `experiments` shadows nothing. The worker is a process of its own, with a main thread for
signals; it stops, resumable, where its station is gone.
"""

from __future__ import annotations

import collections
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_CODE = """
import os, signal, sys, threading, time
def follow(station):
    while os.getppid() == station:
        time.sleep(0.5)
    os.kill(os.getpid(), signal.SIGTERM)
threading.Thread(target=follow, args=(int(sys.argv[1]),), daemon=True).start()
sys.path[:0] = sys.argv[2:]
from experiments.sweeps.worker_process import main
main()
"""
_VERSIONS = """
import importlib.metadata, importlib.util, json, sys
sys.path[:0] = sys.argv[1:]
def version(name):
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""
there = importlib.util.find_spec("experiments") and importlib.util.find_spec("experiments.sweeps.worker_process")
print(json.dumps({"trainlab": bool(there), "torch": version("torch"), "python": sys.version.split()[0]}))
"""


class Station:
    """One place. Made by Ray, as an actor; every method answers at once."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._lines: collections.deque[str] = collections.deque()
        self._stderr: Any = None
        self._reader: threading.Thread | None = None

    def look(self, home: str, root: str, files: Mapping[str, str], token: str) -> dict[str, Any]:
        """What is seen from here. home: the driver's, where this node has none of its own in TRAINLAB_HOME. root: of
        the code. files: what each is for -> its path. token: a file that the driver put into its home."""
        own = os.path.abspath(os.environ.get("TRAINLAB_HOME") or home)
        self._code = [root] if (Path(root) / "experiments" / "worker_process.py").exists() else []
        told = subprocess.run([sys.executable, "-P", "-c", _VERSIONS, *self._code], capture_output=True, text=True)
        return {
            "host": socket.gethostname(),
            "home": own,
            "shared": (Path(own) / token).exists(),
            "unseen": [what for what, path in files.items() if not Path(path).exists()],
            **(json.loads(told.stdout) if told.returncode == 0 else {"trainlab": False, "torch": "", "python": ""}),
        }

    def start(self, assignment: str, home: str, environment: Mapping[str, str], folder: str) -> int:
        """Starts the worker; its process id. environment: what the node does not say itself. folder: to work in, where
        it is there."""
        told = json.dumps({**json.loads(assignment), "home": home})
        self._stderr = tempfile.TemporaryFile("w+")  # noqa: SIM115 (lives as long as the process)
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", _CODE, str(os.getpid()), *self._code],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._stderr, text=True,
            env={**os.environ, **environment}, cwd=folder if os.path.isdir(folder) else None,
            start_new_session=True,  # Ray's signals are for the station
        )  # fmt: skip
        assert self._process.stdin
        with contextlib.suppress(BrokenPipeError), self._process.stdin as stdin:
            stdin.write(told)
        self._reader = threading.Thread(target=self._read, args=(self._process,), daemon=True)
        self._reader.start()
        return self._process.pid

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout
        with process.stdout as lines:
            self._lines.extend(lines)  # one after the other, as they come

    def news(self) -> tuple[list[str], int | None, str]:
        """Lines of its stdout that are new, its exit code once it has ended, and then the last line of its stderr."""
        assert self._process
        assert self._reader
        code = self._process.poll()
        if code is not None:
            self._reader.join(timeout=5.0)
        lines = [self._lines.popleft() for _ in range(len(self._lines))]
        return lines, code, self._said() if code is not None else ""

    def _said(self) -> str:
        self._stderr.seek(0)
        lines = self._stderr.read().strip().splitlines()
        return lines[-1] if lines else ""

    def signal(self, number: int) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.Signals(number))
