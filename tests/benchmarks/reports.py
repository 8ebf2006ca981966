"""A report of 1,000 runs x 5 metrics x 100 points, from MLflow's SQLite and from the home: seconds and memory;
and how long one figure takes to be drawn again. Prints a table in Markdown.

    python -m tests.benchmarks.reports
"""

from __future__ import annotations

import json
import math
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

RUNS, POINTS = 1000, 100
_REPORT = """
import json, resource, sys, time
begun = time.perf_counter()
from pathlib import Path
from experiments.store.home import Home
from experiments.store.sources.home import HomeSource
from experiments.store.sources.mlflow import MLflowSource
from reports.writing import write
source = HomeSource(Home.default()) if sys.argv[1] == "home" else MLflowSource(sys.argv[1])
write(source, "big", Path(sys.argv[2]))
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2
print(json.dumps([time.perf_counter() - begun, peak]))
"""
_FIGURES = """
import json, time
import trainlab as tl
from matplotlib.figure import Figure
study = tl.plot.load("big")
found = {}
for kind in ("curves", "points", "survival", "sensitivity", "slices", "pareto"):
    taken = []
    for _ in range(3):
        begun = time.perf_counter()
        with tl.style("icml"):
            figure = Figure(layout="constrained")
            getattr(tl.plot, kind)(study, task="a", ax=figure.add_subplot())
            tl.plot.save(figure, "again", formats=("pdf",))
        taken.append(time.perf_counter() - begun)
    found[kind] = min(taken[1:])
print(json.dumps(found))
"""


def lines(run: int) -> list[dict[str, Any]]:
    """The spool of a run: five metrics at 100 evaluations."""
    generator, rate = random.Random(run), 10 ** (-4 + 3 * (run % 97) / 96)
    best = 0.9 - 0.03 * math.log10(rate / 1e-2) ** 2 + generator.gauss(0, 0.004)
    at = 1_790_000_000_000 + run * 1000
    told: list[dict[str, Any]] = [
        {"kind": "began", "attempt": 1, "token": "x", "pid": 1, "host": "x", "resumed_from": 0, "at": at}
    ]
    for point in range(1, POINTS + 1):
        accuracy = best * (1 - math.exp(-point / 18)) + generator.gauss(0, 0.002)
        values = {
            "val/accuracy": accuracy, "train/loss": 2 * math.exp(-point / 20), "time/train_s": 0.05 * point,
            "count/gradients": 10.0 * point, "count/updates": 10.0 * point,
        }  # fmt: skip
        told.append({"kind": "points", "update": 10 * point, "values": values, "at": at + point})
    final = {"test/accuracy": best, "objective": best}
    told.append({"kind": "final", "update": 10 * POINTS, "values": final, "at": at + 200})
    told.append({"kind": "ended", "status": "completed", "reason": "", "traceback": "", "at": at + 201})
    return told


def make(folder: Path) -> None:
    """A study of two tasks and five arms: 80 tuning runs and 20 final ones of each."""
    facts = {
        "metric": "accuracy", "mode": "max", "worst": 0.0, "target": 0.8, "target_source": "made up", "unit": "images",
        "sizes": {"train": 1000, "validation": 500, "test": 500}, "digest": "d",
    }  # fmt: skip
    told = {"sampler": "random", "trials": 80, "seeds": 20, "space": {"optimizer.lr": "1e-4:1e-1:log"}}
    for run in range(RUNS):
        place, number = divmod(run, 100)
        phase = "tune" if number < 80 else "final"
        config = {"optimizer": {"name": "adamw", "lr": 10 ** (-4 + 3 * (run % 97) / 96) if phase == "tune" else 0.01}}
        labels = {
            "task": "ab"[place % 2], "study": "big", "arm": f"arm {place // 2}", "phase": phase,
            "number": number if phase == "tune" else number - 80, "seed": 1 if phase == "tune" else number,
        }  # fmt: skip
        run_id = f"20260101-000000-{run:06d}"
        where = folder / ".trainlab" / "runs" / run_id
        where.mkdir(parents=True)
        data = {
            "run_id": run_id, "name": f"run {run}", "labels": labels, "digest": f"{run}", "parent": "", "schema": 1,
            "config": {**config, "budget": {"updates": 1000}}, "facts": {"task": facts, "study": told, "parameters": 9},
            "provenance": {}, "created": 1_790_000_000_000 + run,
        }  # fmt: skip
        (where / "run.json").write_text(json.dumps(data))
        (where / "spool.1.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines(run)))


def python(code: str, folder: Path, *arguments: str) -> Any:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    environment.pop("TRAINLAB_HOME", None)
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=folder, env=environment, capture_output=True, text=True
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        make(folder)
        uri = f"sqlite:///{folder}/mlflow.db"
        begun = time.perf_counter()
        mirror = (
            "from experiments.session import session\nfrom experiments.store.home import Home\n"
            "with session(Home.default(), wait_s=1200) as opened: pass\nassert not opened.left, opened.left\nprint(0)"
        )
        os.environ["MLFLOW_TRACKING_URI"] = uri
        python(mirror, folder)
        sent = time.perf_counter() - begun
        print(f"## A report of {RUNS:,} runs, 5 metrics, {POINTS} points each\n")
        print("One process, its imports included.\n\n| read from | seconds | GB |\n|---|---|---|")
        for name, place in (("MLflow's SQLite", uri), ("the home", "home")):
            seconds, gigabytes = python(_REPORT, folder, place, str(folder / name.split()[-1]))
            print(f"| {name} | {seconds:.1f} | {gigabytes:.2f} |")
        print(f"\nTo send the runs to MLflow took {sent:.0f} s.\n\n## A figure drawn again, from loaded data\n")
        print("| kind | seconds |\n|---|---|")
        for kind, seconds in python(_FIGURES, folder).items():
            print(f"| {kind} | {seconds:.2f} |")


if __name__ == "__main__":
    main()
