"""Ray: the same sweep on a cluster, whatever becomes of its nodes; and what cannot be is refused in a line."""

from __future__ import annotations

import http.server
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import experiments.sweeps.sweep
from algos.finding import InputError
from experiments.launchers import ray as launcher
from experiments.progress import Notice, RunEnded
from experiments.stopping import Stop
from experiments.store.home import Home
from experiments.study import StudyConfig
from experiments.sweeps.sweep import SweepOptions, sweep
from experiments.sweeps.worker import Assignment

Study = Callable[..., StudyConfig]


class Nodes:
    """A Ray cluster of this machine, whose nodes have homes of their own."""

    def __init__(self) -> None:
        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
        from ray.cluster_utils import Cluster

        self._cluster = Cluster()
        self.add(num_cpus=0)

    @property
    def address(self) -> str:
        return str(self._cluster.address)

    def add(self, home: Path | None = None, num_cpus: int = 1) -> Any:
        told = {"TRAINLAB_HOME": str(home)} if home else {}
        return self._cluster.add_node(num_cpus=num_cpus, include_dashboard=False, env_vars=told)

    def remove(self, node: Any) -> None:
        self._cluster.remove_node(node, allow_graceful=False)

    def end(self) -> None:
        self._cluster.shutdown()


@pytest.fixture
def nodes() -> Iterator[Nodes]:
    made = Nodes()
    yield made
    made.end()


def in_mid_run(home: Path) -> int | None:
    """The process id of the worker of a home, once its first run is under way."""
    for said in (home / "workers").glob("*.json"):
        if any('"val/' in spool.read_text() for spool in (home / "runs").glob("*/spool.*.jsonl")):
            return int(json.loads(said.read_text())["pid"])
    return None


@pytest.mark.slow
def test_a_lost_nodes_trials_are_taken_over_by_the_others(
    tmp_path: Path, nodes: Nodes, proxy: str, mlflow_server: str, study: Study, undisturbed: Any, outcome: Any,
    wait: Any, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Two nodes with separate homes share a queue and an MLflow server only; one vanishes in mid-run, power and all."""
    homes = [tmp_path / "first", tmp_path / "second"]
    _, second = (nodes.add(home) for home in homes)
    monkeypatch.setattr(experiments.sweeps.sweep, "Assignment", partial(Assignment, lease_s=4.0))
    lost: list[str] = []

    def vanish() -> None:
        pid = wait(lambda: in_mid_run(homes[1]), 120.0)
        os.kill(pid, signal.SIGSTOP)  # its last words are never said
        nodes.remove(second)
        os.kill(pid, signal.SIGKILL)
        lost.extend(path.name for path in (homes[1] / "runs").iterdir())

    thread = threading.Thread(target=vanish)
    thread.start()
    seen: list[Any] = []
    options = SweepOptions(workers=2, launcher="ray", address=nodes.address, storage=proxy, threads=1)
    config = study(2500, tune={**study(1).tune.model_dump(), "trials": 5})
    result = sweep(config, home=Home(tmp_path / "mine"), listener=seen.append, options=options)
    thread.join()

    assert lost
    assert result.complete
    assert [r.status for r in result.records] == ["completed"] * 6
    assert len({r.labels.trial for r in result.records}) == 6
    assert set(states(proxy)) == {"COMPLETE"}
    assert [note for note in result.notes if "was lost with its node" in note]
    assert outcome(result.records) == undisturbed(config)

    taken = [record for record in Home(homes[0]).records() if "taken_over" in record.file.facts["study"]]
    assert taken
    assert all(str(homes[1]) in record.file.facts["study"]["taken_over"] for record in taken)
    for record in taken:
        spool = (homes[0] / "runs" / record.run_id / "spool.1.jsonl").read_text()
        assert '"taken_over"' in spool
        assert "starts from zero" in spool
    told = [event.text for event in seen if hasattr(event, "text")]
    assert [text for text in told if "homes of their own" in text]
    assert [text for text in told if "starts from zero" in text and "taken over from" in text]
    assert tracked(mlflow_server, "FINISHED") >= {r.run_id for r in taken}


def states(storage: str) -> list[str]:
    """The states of all trials of the study's queue."""
    import optuna

    from experiments.sweeps.storage import open_storage

    place = open_storage(storage, Path())
    names = [name for name in optuna.get_all_study_names(place) if not name.endswith("/turns")]
    return [t.state.name for name in names for t in optuna.load_study(study_name=name, storage=place).get_trials()]


def tracked(uri: str, status: str) -> set[str]:
    """Our ids of the MLflow server's runs of a status."""
    from mlflow import MlflowClient

    client = MlflowClient(uri)
    places = [experiment.experiment_id for experiment in client.search_experiments()]
    runs = client.search_runs(places, f"attributes.status = '{status}'")
    return {run.data.tags["trainlab.run_id"] for run in runs}


@pytest.mark.slow
def test_a_cluster_of_its_own_is_stopped_with_the_sweep_and_goes_on(
    tmp_path: Path, study: Study, undisturbed: Any, outcome: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    home, stop, seen = Home(tmp_path / "home"), Stop(), []

    def listen(event: Any) -> None:
        seen.append(event)
        if isinstance(event, RunEnded):
            stop.request("enough")

    options = SweepOptions(workers=2, launcher="ray", threads=1)
    stopped = sweep(study(2500), home=home, listener=listen, stop=stop, options=options)
    assert not stopped.complete
    assert stopped.notes == []
    assert "completed" in {record.status for record in stopped.records}
    assert {record.status for record in stopped.records} <= {"completed", "interrupted"}
    assert "ray" not in "".join(capfd.readouterr()).lower(), "Ray's own words stay away"
    assert not running_in(home.path)
    done = sweep(study(2500), home=home, options=SweepOptions(threads=1))
    assert outcome(done.records) == undisturbed(study(2500))


def running_in(home: Path) -> list[str]:
    from experiments.sweeps.lease import workers

    return [worker["name"] for worker in workers(Home(home))]


@pytest.mark.slow
def test_what_a_node_cannot_do_is_said_before_anything_runs(tmp_path: Path, nodes: Nodes, study: Study) -> None:
    nodes.add(tmp_path / "elsewhere")
    mine = Home(tmp_path / "mine")
    options = SweepOptions(launcher="ray", address=nodes.address, threads=1)
    with pytest.raises(InputError, match=r"the queue is a journal in .*mine.* give --storage") as refused:
        sweep(study(10), home=mine, options=options)
    assert "\n" not in str(refused.value)
    assert mine.run_ids() == []
    assert not (tmp_path / "elsewhere" / "runs").exists()

    broken = Assignment({"name": "spread", "tasks": ["digit"], "arms": ["adamw"]}, str(mine.path), threads=1)
    broken = Assignment(broken.study, broken.home, f"sqlite:///{tmp_path}/queue.db", threads=1)
    crew = launcher.launch([broken], {"address": nodes.address}, lambda event: None)
    while crew.running():
        time.sleep(0.1)
    crew.close()
    with pytest.raises(InputError, match="digit"):
        crew.failures()

    waiting: list[Any] = []
    crew = launcher.launch([broken], {"address": nodes.address, "gpus": 1}, waiting.append)
    assert crew.running() == 1
    assert [e.text for e in waiting if isinstance(e, Notice) and "wait for room" in e.text and "1 GPUs" in e.text]
    crew.stop("enough")
    while crew.running():
        time.sleep(0.1)
    assert crew.failures() == []
    crew.close()


# What is refused without Ray


@pytest.fixture
def web() -> Iterator[str]:
    """Something that answers, and is no Ray cluster."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler) as served:
        thread = threading.Thread(target=served.serve_forever)
        thread.start()
        yield f"127.0.0.1:{served.server_address[1]}"
        served.shutdown()
        thread.join()


def refusal(study: StudyConfig, home: Path, address: str, **options: Any) -> str:
    began = time.monotonic()
    with pytest.raises(InputError) as refused:
        sweep(study, home=Home(home), options=SweepOptions(launcher="ray", address=address, launcher_options=options))
    assert time.monotonic() - began < 60
    assert not home.exists()
    assert "\n" not in str(refused.value)
    return str(refused.value)


def test_an_address_that_does_not_answer_is_refused(tmp_path: Path, study: Study, web: str) -> None:
    home = tmp_path / "home"
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        closed = f"127.0.0.1:{taken.getsockname()[1]}"
        assert "does not answer" in refusal(study(10), home, closed)
        assert "does not answer" in refusal(study(10), home, f"ray://{closed}")
    with socket.create_server(("127.0.0.1", 0)) as dumb:
        assert "does not answer" in refusal(study(10), home, f"127.0.0.1:{dumb.getsockname()[1]}")
    assert "answers, but not as a Ray cluster" in refusal(study(10), home, web)
    assert "HOST:PORT" in refusal(study(10), home, "nonsense")
    assert "HOST:PORT" in refusal(study(10), home, "http://127.0.0.1:6379")


def test_auto_names_a_cluster_that_runs(tmp_path: Path, study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    assert "no Ray cluster runs on this machine" in refusal(study(10), tmp_path / "home", "auto")


@pytest.mark.parametrize(
    ("options", "said"),
    [({"gpu": 1}, "did you mean 'gpus'"), ({"gpus": "many"}, "a number from 0"), ({"cpus": -1}, "a number from 0")],
)
def test_options_are_checked(tmp_path: Path, study: Study, options: dict[str, Any], said: str) -> None:
    assert said in refusal(study(10), tmp_path / "home", "", **options)


def test_without_ray_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"pip install 'trainlab\[ray\]'"):
        launcher.check({})


@pytest.mark.slow
def test_nothing_of_a_cluster_is_imported_without_its_launcher(tmp_path: Path) -> None:
    (tmp_path / "tiny.yaml").write_text(
        "name: tiny\ntasks: [digits]\narms: [adamw]\nseeds: 1\nbudget: {updates: 2}\n"
        "config: {model: {name: mlp, width: 4}, device: cpu, evaluate_every: 2}\n"
    )
    program = (
        "import atexit, sys\n"
        "names = ('ray', 'submitit', 'grpc', 'psycopg')\n"
        "atexit.register(lambda: print('loaded:', *[name for name in names if name in sys.modules]))\n"
        "sys.argv = ['trainlab', 'sweep', 'tiny.yaml']\n"
        "from trainlab.cli import main\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path, check=True)
    assert done.stdout.splitlines()[-1] == "loaded:"
    assert "completed" in done.stdout
