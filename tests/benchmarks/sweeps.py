"""What a sweep costs: ours, with everything recorded and in MLflow at its end, beside the same sweep written by hand
with Optuna, Lightning and MLFlowLogger (`sweeps_peer`), in turns; medians.

In one process the clock runs from the study to the last run in MLflow: imports are over, databases made, and our
uploader is connected, as the peer's MLflow is imported. As a whole process it runs from `python` to its exit, in an
empty folder. Everything computes on one thread, which is fastest for models as small. Run by `make bench`:

    python -m tests.benchmarks.sweeps [--turns N] [--only PART ...]      (prints a Markdown table)
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TRIALS, UPDATES = 32, 600
SPACE = {"optimizer.lr": "1e-4:1e-1:log", "optimizer.weight_decay": "1e-4:1e-1:log"}
PEER = Path(__file__).with_name("sweeps_peer.py")
PACKAGES = ("torch", "lightning", "optuna", "mlflow")


@dataclass
class Row:
    """A line of the table. ours, peer: seconds, one a turn. most: ours / peer at most."""

    what: str
    ours: list[float]
    peer: list[float]
    most: float

    def __str__(self) -> str:
        ours, peer = statistics.median(self.ours), statistics.median(self.peer)
        ratio = statistics.median(a / b for a, b in zip(self.ours, self.peer, strict=True))
        target = f"at most 1/{1 / self.most:g}" if self.most < 1 else f"at most {self.most:g}"
        cells = (self.what, f"{ours:.2f} s", f"{peer:.2f} s", _ratio(ratio), target, _met(ratio <= self.most))
        return f"| {' | '.join(cells)} |"


def _ratio(value: float) -> str:
    return f"1/{1 / value:.1f}" if value < 0.8 else f"{value:.2f}"


def _met(good: bool) -> str:
    return "yes" if good else "NO"


class Ours:
    """Studies in one home, with a session that is open and an uploader that is connected."""

    def __init__(self, home: Any, uri: str):
        self.home, self.uri = home, uri
        self._made = 0

    def sweep(self, data: Mapping[str, Any], **options: Any) -> list[Any]:
        """The study's records, once it is done."""
        from experiments.study import StudyConfig
        from experiments.sweeps.sweep import SweepOptions, sweep

        self._made += 1
        study = StudyConfig.of({**data, "name": f"{data['name']}-{self._made}"})
        result = sweep(study, home=self.home, options=SweepOptions(**options))
        assert result.complete, result.notes
        bad = [record for record in result.records if record.status not in ("completed", "diverged")]
        assert not bad, bad[0].traceback or bad[0].reason
        return list(result.records)

    def mirrored(self) -> None:
        """Waits until everything is in MLflow."""
        from experiments.store.uploads import start_uploader

        left = start_uploader(self.home, self.uri).finish(120.0)
        assert not left, left

    def timed(self, data: Mapping[str, Any], **options: Any) -> float:
        started = time.perf_counter()
        self.sweep(data, **options)
        self.mirrored()
        return time.perf_counter() - started


def study(name: str, *, trials: int = TRIALS, updates: int = UPDATES, sampler: str = "random", **config: Any) -> Any:
    """AdamW on the digits, or what `config` says."""
    settings = {
        "model": {"name": "mlp", "width": 64, "depth": 1}, "batch_size": 64, "evaluate_every": 100,
        "device": "cpu", **config,
    }  # fmt: skip
    task = settings.pop("task", "digits")
    return {
        "name": name, "tasks": [task], "arms": {"adamw": {"optimizer": "adamw", "schedule": "constant"}},
        "config": settings, "budget": {"updates": updates}, "seeds": 1,
        "tune": {"trials": trials, "sampler": sampler, "space": SPACE},
    }  # fmt: skip


# The parts


def in_process(ours: Ours, folder: Path, turns: int) -> Iterator[str]:
    """32 trials and the final run of the winner, against 32 trials."""
    from tests.benchmarks import sweeps_peer

    sweeps_peer.sweep("warm", 1, 100, folder)
    ours.timed(study("warm", trials=3, updates=100))
    times: dict[str, list[float]] = {"peer": [], "random": [], "grid": []}
    for turn in range(turns):
        times["random"].append(ours.timed(study("random"), population="auto"))
        times["grid"].append(ours.timed(study("grid", sampler="grid"), population="auto"))
        started = time.perf_counter()
        sweeps_peer.sweep(f"peer-{turn}", TRIALS, UPDATES, folder)
        times["peer"].append(time.perf_counter() - started)
    told = {"random": "random: 22, then 10, then a final run", "grid": "grid: all at once, then a final run"}
    for sampler, what in told.items():
        yield str(Row(f"{TRIALS} trials, imports excluded ({what})", times[sampler], times["peer"], 1 / 8))


def whole_process(ours: Ours, folder: Path, turns: int) -> Iterator[str]:
    """From the command line, in an empty folder."""
    from experiments.yaml_lines import load_yaml  # what the command reads

    peer, trainlab = [], []
    for _ in range(turns):
        with tempfile.TemporaryDirectory() as name:
            text = _yaml(study("random"))
            Path(name, "study.yaml").write_text(text)
            assert load_yaml(Path(name, "study.yaml"))[0]["name"] == "random"
            trainlab.append(_process_s([sys.executable, "-P", "-m", "trainlab", "sweep", "study.yaml"], name))
        with tempfile.TemporaryDirectory() as name:
            peer.append(_process_s([sys.executable, str(PEER), str(TRIALS), str(UPDATES)], name))
    yield str(Row(f"{TRIALS} trials, random, as a whole process in an empty folder", trainlab, peer, 1 / 3))


def _yaml(data: Any) -> str:
    import json

    return "\n".join(f"{key}: {json.dumps(value)}" for key, value in data.items()) + "\n"


def _process_s(command: list[str], folder: str) -> float:
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("TRAINLAB_", "MLFLOW_"))}
    environment["OMP_NUM_THREADS"] = "1"
    started = time.perf_counter()
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return time.perf_counter() - started


def large_models(ours: Ours, folder: Path, turns: int) -> Iterator[str]:
    """Where a population does not pay: a small ResNet on the digits' images, and a transformer on text. Beside the peer
    as Lightning makes it, and beside one that evaluates as often as ours."""
    from tests.benchmarks import sweeps_models

    for what, config in sweeps_models.CASES.items():
        data = study("model", trials=4, sampler="grid", **config)
        updates = config["updates"]
        ours.timed(study("warm", trials=2, sampler="grid", **{**config, "updates": 2, "evaluate_every": 2}))
        sweeps_models.sweep(config, [(1e-3, 1e-2)], 2, folder, whole=True)
        own: list[float] = []
        peers: dict[bool, list[float]] = {False: [], True: []}
        for _ in range(turns):
            started = time.perf_counter()
            records = ours.sweep(data, population="auto")
            ours.mirrored()
            own.append(time.perf_counter() - started)
            chosen = [_chosen(record) for record in sorted(records, key=lambda record: int(record.file.created))]
            for whole, seconds in peers.items():
                started = time.perf_counter()
                sweeps_models.sweep(config, chosen, updates, folder, whole=whole)
                seconds.append(time.perf_counter() - started)
        runs = f"{what}: {len(chosen)} runs of {updates} updates"
        yield str(Row(runs, own, peers[False], 1.0))
        yield str(Row(f"{runs}, the peer evaluating as ours: before them, and the test", own, peers[True], 1.0))


def _chosen(record: Any) -> tuple[float, float]:
    optimizer = record.config["optimizer"]
    return float(optimizer["lr"]), float(optimizer["weight_decay"])


def empty_trials(ours: Ours, folder: Path, turns: int) -> Iterator[str]:
    """Trials of one update: what is left beside training and MLflow's own cost of a run."""
    count = 32
    data = study("empty", trials=count, updates=1, sampler="grid", model={"name": "mlp", "width": 8, "depth": 1})
    plain = statistics.median(plain_runs_s(ours.uri) for _ in range(3))
    alone, wholly = [], []
    for _ in range(turns + 1):
        started = time.perf_counter()
        records = ours.sweep(data, population="off")
        done = time.perf_counter()
        ours.mirrored()
        mirrored = time.perf_counter()
        training = statistics.median(run.last["time/train_s"] + run.last["time/evaluate_s"] for run in records)
        alone.append((done - started) / len(records) - training)
        wholly.append((mirrored - started) / len(records) - training - plain)
    told = {"the sweep itself": alone[1:], f"until in MLflow, less its own {plain * 1e3:.0f} ms": wholly[1:]}
    for what, found in told.items():
        value = statistics.median(found) * 1e3
        yield f"| an empty trial, {what} | {value:.1f} ms | | | at most 40 ms | {_met(value <= 40)} |"


def plain_runs_s(uri: str, runs: int = 10) -> float:
    """What MLflow itself takes for a run with as many values as an empty trial of ours has."""
    from mlflow import MlflowClient
    from mlflow.entities import Metric, Param, RunTag

    client = MlflowClient(uri)
    experiment = client.get_experiment_by_name("plain")
    place = experiment.experiment_id if experiment else client.create_experiment("plain")
    started = time.perf_counter()
    for _ in range(runs):
        run = client.create_run(place, tags={f"t{i}": "1" for i in range(12)}).info.run_id
        metrics = [Metric(f"m{i % 10}", 0.5, 1, i) for i in range(20)]
        params = [Param(f"p{i}", "1") for i in range(24)]
        client.log_batch(run, metrics, params, [RunTag(f"o{i}", "1") for i in range(6)])
        client.set_terminated(run)
    return (time.perf_counter() - started) / runs


def two_workers(ours: Ours, folder: Path, turns: int) -> Iterator[str]:
    """Trials of about two seconds on one thread each; from the first run's start to the last one's end."""
    data = study("workers", trials=10, updates=1500, sampler="grid", model={"name": "mlp", "width": 192, "depth": 2})
    gains = []
    for _ in range(turns):
        rates = []
        for workers in (1, 2):
            records = [
                record for record in ours.sweep(data, workers=workers, threads=1, population="off")
                if record.labels.phase == "tune"
            ]  # fmt: skip
            ours.mirrored()
            seconds = (max(record.ended for record in records) - min(record.started for record in records)) / 1e3
            rates.append(len(records) / seconds)
        gains.append(rates[1] / rates[0])
    gain = statistics.median(gains)
    yield f"| 2 workers, beside one worker's throughput | {gain:.2f} times | | | at least 1.8 | {_met(gain >= 1.8)} |"


PARTS: dict[str, tuple[Callable[[Ours, Path, int], Iterator[str]], int]] = {
    "in-process": (in_process, 3),
    "whole": (whole_process, 1),
    "models": (large_models, 2),
    "empty": (empty_trials, 3),
    "workers": (two_workers, 1),
}


@contextmanager
def opened(folder: Path) -> Iterator[Ours]:
    """A session in the folder."""
    from experiments.session import session
    from experiments.store.home import Home
    from experiments.store.tracking import tracking_uri
    from experiments.store.uploads import start_uploader

    os.chdir(folder)
    os.environ["MLFLOW_TRACKING_URI"] = f"sqlite:///{folder / 'mlflow.db'}"
    with session(Home(folder / "home")) as found:
        yield Ours(found.home, tracking_uri())
    start_uploader(found.home, tracking_uri()).stop()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--turns", type=int, default=0, help="of each part, where not its own number")
    parser.add_argument("--only", nargs="*", choices=PARTS, default=list(PARTS))
    asked = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    import torch

    from tests.benchmarks import sweeps_peer

    torch.set_num_threads(1)
    sweeps_peer.hush()
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in PACKAGES)
    print(f"On {platform.machine()} with {os.cpu_count()} cores; {versions}; medians over turns.\n")
    print("| what | ours | peer | ours / peer | target | met |\n|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as name, opened(Path(name)) as ours:
        for part in asked.only:
            measure, turns = PARTS[part]
            for line in measure(ours, Path(name), asked.turns or turns):
                print(line, flush=True)


if __name__ == "__main__":
    main()
