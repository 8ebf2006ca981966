"""One queue for workers of several homes: Optuna's gRPC proxy and PostgreSQL, really running."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from algos.finding import InputError
from experiments.launchers import local
from experiments.progress import silent
from experiments.store.home import Home
from experiments.study import StudyConfig
from experiments.sweeps.sweep import SweepOptions, sweep
from experiments.sweeps.worker import Assignment

Study = Callable[..., StudyConfig]


def _program(name: str) -> str:
    """Of PostgreSQL's server, which distributions keep off the path."""
    found = shutil.which(name) or next(map(str, sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))), None)
    if found is None:
        pytest.skip(f"PostgreSQL's {name} is not on this machine")
    return found


@pytest.fixture(scope="module")
def postgresql() -> Iterator[str]:
    """A server of its own, on a free port of this machine. PostgreSQL refuses to run as root, so another user runs
    it."""
    pytest.importorskip("psycopg")
    who: dict[str, Any] = {}
    initdb, pg_ctl = _program("initdb"), _program("pg_ctl")
    folder = Path(tempfile.mkdtemp(prefix="pg"))
    if os.getuid() == 0:
        known = {entry.pw_name: entry for entry in pwd.getpwall()}
        user = known.get("postgres") or known["nobody"]
        os.chown(folder, user.pw_uid, user.pw_gid)
        who = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": [], "cwd": folder}
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]

    def run(*command: str) -> None:
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, **who)
        assert done.returncode == 0, done.stdout + done.stderr

    run(initdb, "-D", f"{folder}/data", "-U", "lab", "--auth=trust", "--no-sync", "-E", "UTF8", "--locale=C")
    settings = f"-p {port} -k {folder} -c listen_addresses=127.0.0.1 -c fsync=off"
    run(pg_ctl, "-D", f"{folder}/data", "-l", f"{folder}/log", "-w", "-o", settings, "start")
    try:
        yield f"postgresql://lab@127.0.0.1:{port}/postgres"
    finally:
        run(pg_ctl, "-D", f"{folder}/data", "-m", "immediate", "stop")
        shutil.rmtree(folder)


def two_homes(config: StudyConfig, storage: str, folder: Path) -> list[Home]:
    """Two workers at once, each a process with a home of its own, on the queue that a third home has made."""
    from experiments.sweeps.queue import Queue

    Queue(Home(folder / "mine").prepare(), config, storage).prepare()
    homes = [Home(folder / name) for name in ("first", "second")]
    crew = local.launch(
        [
            Assignment(config.to_json(), str(home.path), storage, number, 2, threads=1)
            for number, home in enumerate(homes)
        ],
        {},
        silent,
    )
    while crew.running():
        time.sleep(0.1)
    crew.close()
    assert crew.failures() == []
    return homes


def shared(config: StudyConfig, storage: str, folder: Path, outcome: Any, undisturbed: Any) -> None:
    """Every trial once, whichever home has it; who asks later reads all of them, and finds nothing left to do."""
    homes = two_homes(config, storage, folder)
    trials = [record.labels.trial for home in homes for record in home.records()]
    assert len(trials) == len(set(trials)) == 4
    result = sweep(config, home=Home(folder / "mine"), options=SweepOptions(storage=storage))
    assert result.complete
    assert Home(folder / "mine").run_ids() == []
    assert outcome(result.records) == undisturbed(config)


@pytest.mark.slow
def test_two_homes_share_a_queue_behind_optunas_proxy(
    tmp_path: Path, study: Study, proxy: str, outcome: Any, undisturbed: Any
) -> None:
    shared(study(40), proxy, tmp_path, outcome, undisturbed)


@pytest.mark.slow
def test_two_homes_share_a_queue_in_postgresql(
    tmp_path: Path, study: Study, postgresql: str, outcome: Any, undisturbed: Any
) -> None:
    shared(study(40), postgresql, tmp_path, outcome, undisturbed)


@pytest.mark.slow
def test_a_database_that_refuses_is_told_without_its_password(tmp_path: Path, study: Study, postgresql: str) -> None:
    elsewhere = postgresql.replace("lab@", "nobody:secret@")
    with pytest.raises(InputError, match="does not answer") as refused:
        sweep(study(40), home=Home(tmp_path / "home"), options=SweepOptions(storage=elsewhere))
    assert "\n" not in str(refused.value)
    assert "secret" not in str(refused.value)


def test_a_proxy_that_does_not_answer_is_refused_before_anything_is_made(tmp_path: Path, study: Study) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"grpc://127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(InputError, match="does not answer"):
            sweep(study(40), home=Home(tmp_path / "home"), options=SweepOptions(storage=url))
    assert not (tmp_path / "home").exists()
