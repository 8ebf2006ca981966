"""What it costs to log a point, and to get it into MLflow: a million points through our spool and uploader, beside
MLflow's own `log_batch` of 1,000 into the same store, in turns.

Ours is the real uploader, in its process, connected before the clock starts; the clock runs from a run whose points are
spooled to the store's having all of them, and what the uploader sent while the run was still spooling is not counted.
The peer makes its Metric objects from numbers, as anybody has to. Run by `make bench`:

    python -m tests.benchmarks.mirror [--points N] [--turns N]      (prints a Markdown table)
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

MOST = 1000


def spooled(home: Any, points: int, wide: int) -> tuple[Any, float]:
    """A run with so many points, `wide` an update; and the seconds that logging them took the training thread."""
    from experiments.store.home import new_run_id
    from experiments.store.schema import Labels, RunFile

    file = RunFile(new_run_id(), "points", Labels(task="bench"), {"schema": 1}, "0")
    folder = home.create(file)
    attempt = folder.begin()
    names = [f"val/metric_{i}" for i in range(wide)]
    started = time.perf_counter()
    for update in range(points // wide):
        attempt.points(update, dict.fromkeys(names, 0.123456789 * update))
    seconds = time.perf_counter() - started
    return (folder, attempt), seconds


def end(made: Any) -> Any:
    """The run's last word, as training says it; its folder."""
    folder, attempt = made
    attempt.end("completed")
    folder.record()
    return folder


def wait(folder: Any, uri: str) -> None:
    """Until all of the run is in MLflow."""
    from experiments.store import mirrored

    while mirrored.pending(folder.path, uri):
        time.sleep(0.01)


def uploaded(uri: str, made: Any) -> tuple[int, float]:
    """How many points went to MLflow after the end of the run, and seconds from then to the last of them."""
    folder = end(made)
    started = time.perf_counter()
    before, _ = counted(folder.run_id)  # the uploader does not wait for the end of a run
    wait(folder, uri)
    seconds = time.perf_counter() - started
    return counted(folder.run_id)[0] - before, seconds


def peer_s(client: Any, experiment: str, points: int, wide: int) -> float:
    """The same with `log_batch` alone."""
    from mlflow.entities import Metric

    started = time.perf_counter()
    run = client.create_run(experiment).info.run_id
    names = [f"val/metric_{i}" for i in range(wide)]
    batch: list[Any] = []
    for update in range(points // wide):
        at = 1_700_000_000_000 + update
        batch += [Metric(name, 0.123456789 * update, at, update) for name in names]
        if len(batch) >= MOST:
            client.log_batch(run, batch[:MOST])
            batch = batch[MOST:]
    client.log_batch(run, batch)
    client.set_terminated(run)
    return time.perf_counter() - started


def counted(run_id: str) -> tuple[int, int]:
    """A run's rows in the store of the working folder, and how many (metric, update) they are of."""
    import sqlite3

    asked = (
        "select count(*), count(distinct key || '/' || step) from metrics where run_uuid ="
        " (select run_uuid from tags where key = 'trainlab.run_id' and value = ?)"
    )
    with contextlib.closing(sqlite3.connect("mlflow.db", timeout=60)) as connection:
        rows, points = connection.execute(asked, (run_id,)).fetchone()
    return int(rows), int(points)


def loop_us(home: Any, updates: int = 20_000) -> float:
    """Microseconds the training thread spends on a logged loss in our loop: reading it, its window and the spool."""
    from types import SimpleNamespace

    import torch

    from experiments.config import resolve
    from experiments.loop import Loop

    (_, attempt), _ = spooled(home, 1, 1)
    config = resolve({"task": "digits", "log_every": 1, "device": "cpu", "seed": 1})
    loop: Any = Loop.__new__(Loop)
    loop.parts, loop._attempt, loop._window, loop.update = SimpleNamespace(config=config), attempt, [], 1
    losses = [torch.tensor(0.5) for _ in range(updates)]
    started = time.perf_counter()
    for start in range(0, updates, 100):  # an evaluation every 100
        loop._fresh = losses[start : start + 100]
        loop.update += 100
        loop._spool_losses()
    seconds = time.perf_counter() - started
    attempt.end("completed")
    return seconds / updates * 1e6


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--points", type=int, default=1_000_000)
    parser.add_argument("--turns", type=int, default=10)
    asked = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    from mlflow import MlflowClient

    from experiments.session import session
    from experiments.store.home import Home
    from experiments.store.tracking import tracking_uri
    from experiments.store.uploads import start_uploader

    each = asked.points // asked.turns
    with tempfile.TemporaryDirectory() as name:
        os.chdir(name)
        os.environ["MLFLOW_TRACKING_URI"] = f"sqlite:///{name}/mlflow.db"
        with session(Home(Path(name, "home"))) as found:
            home, uri = found.home, tracking_uri()
            wait(end(spooled(home, 10, 1)[0]), uri)  # the store is made, the uploader connected
            client = MlflowClient(uri)
            experiment = client.create_experiment("peer")
            peer_s(client, experiment, MOST, 1)
            logging_us: list[float] = []
            rates: dict[int, list[tuple[float, float]]] = {1: [], 10: []}
            for turn in range(asked.turns):
                wide = (1, 10)[turn % 2]
                made, seconds = spooled(home, each, wide)
                logging_us.append(seconds / each * 1e6)
                sent, ours = uploaded(uri, made)
                assert counted(made[0].run_id) == (each, each), "every point is there once"
                rates[wide].append((sent / ours, each / peer_s(client, experiment, each, wide)))
            loop = loop_us(home)
        start_uploader(home, uri).stop()
    _print(asked.points, logging_us, rates, loop)


def _print(points: int, logging_us: list[float], rates: dict[int, list[tuple[float, float]]], loop: float) -> None:
    print("| what | ours | MLflow's `log_batch` | ours / its | target | met |\n|---|---|---|---|---|---|")
    for wide, found in rates.items():
        ours, peer = (statistics.median(pair[i] for pair in found) for i in (0, 1))
        ratio = statistics.median(a / b for a, b in found)
        met = "yes" if ratio >= 0.9 else "NO"
        what = f"{points:,} points into MLflow, {wide} an update"
        print(f"| {what} | {ours:,.0f} a second | {peer:,.0f} a second | {ratio:.2f} | at least 0.9 | {met} |")
    told = {"`Attempt.points`, the slowest turn": max(logging_us), "a loss in our loop, logged each update": loop}
    for what, value in told.items():
        print(f"| {what} | {value:.1f} µs a point | | | at most 20 µs | {'yes' if value <= 20 else 'NO'} |")


if __name__ == "__main__":
    main()
