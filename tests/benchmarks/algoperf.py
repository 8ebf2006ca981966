"""What it costs to score all of AlgoPerf v0.5's raw logs: by our Source and score, beside the benchmark's own way, in
turns, each in a process of its own; and to import them.

`read and score`: from `AlgoPerfSource(folder)` to the scores, nothing copied (what Python's caller does); with Python's
start and the imports, and without. `import`: the same logs as runs of a home. Needs the logs unpacked, or
$TRAINLAB_DATA, from which they are unpacked first (not timed). Run by `make bench`:

    python -m tests.benchmarks.algoperf [--folder DIR] [--turns N] [--copy]      (prints a Markdown table)
"""

from __future__ import annotations

import argparse
import io
import json
import os
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

_OURS = """
from experiments.store.sources.algoperf import AlgoPerfSource
from reports.statistics import algoperf
started = time.perf_counter()
source = AlgoPerfSource(folder)
found = algoperf.scores(source.trials(), source.targets.base, source.targets.held_out)
scores = dict(zip(found.submissions, found.official.tolist()))
"""
_PEER = """
from tests.benchmarks import algoperf_peer
started = time.perf_counter()
scores = algoperf_peer.scores(folder)
"""
_COPY = """
from experiments.store.copying import copy
from experiments.store.home import Home
from experiments.store.sources.algoperf import AlgoPerfSource
import tempfile
with tempfile.TemporaryDirectory() as home:
    started = time.perf_counter()
    copied = copy(AlgoPerfSource(folder), Home(home), study="v05")
    scores = {"runs": len(copied.added)}
    took = time.perf_counter() - started
"""
_END = """
print(json.dumps({"scores": scores, "s": vars().get("took") or time.perf_counter() - started}))
"""


def timed(code: str, folder: Path) -> tuple[dict[str, float], float, float]:
    """What a process of its own found, its seconds after the imports, and all its seconds."""
    head = f"import json, time\nfolder = {str(folder)!r}\n"
    started = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", head + code + _END], capture_output=True, text=True, check=True)
    whole = time.perf_counter() - started
    told = json.loads(done.stdout)
    return told["scores"], told["s"], whole


def unpacked(into: Path) -> Path:
    """The published logs, from $TRAINLAB_DATA."""
    root = os.environ.get("TRAINLAB_DATA")
    if not root:
        raise SystemExit("TRAINLAB_DATA is not set, and no --folder given: there are no logs to score")
    packed = Path(root) / "algoperf" / "algoperf-v0.5-external_tuning.tar.xz"
    with tarfile.open(fileobj=io.BytesIO(packed.read_bytes())) as archive:
        archive.extractall(into, filter="data")
    found = [path for path in into.iterdir() if path.is_dir()]
    return found[0] if len(found) == 1 else into


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--folder", type=Path)
    options.add_argument("--turns", type=int, default=5)
    options.add_argument("--copy", action="store_true", help="also time the import into a home")
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = given.folder or unpacked(Path(scratch))
        measured: dict[str, list[tuple[float, float]]] = {"trainlab": [], "as the benchmark's own scripts": []}
        for _ in range(given.turns):
            mine, *seconds = timed(_OURS, folder)
            measured["trainlab"].append((seconds[0], seconds[1]))
            theirs, *seconds = timed(_PEER, folder)
            measured["as the benchmark's own scripts"].append((seconds[0], seconds[1]))
            assert {name: round(score, 4) for name, score in mine.items()} == {
                name: round(score, 4) for name, score in theirs.items()
            }, "the two do not agree"
        copied = [timed(_COPY, folder) for _ in range(1 if given.copy else 0)]
    logs = "AlgoPerf v0.5, external tuning: 3,700 trials, 221,660 evaluations, 74 MB of CSV"
    print(f"## Scoring {logs}\n\nSeconds, medians of {given.turns} turns; equal to four decimals each time.\n")
    print("| | read and score | with Python's start and imports |\n|---|---|---|")
    middle = {n: [statistics.median(column) for column in zip(*found)] for n, found in measured.items()}
    for name, (inside, whole) in middle.items():
        print(f"| {name} | {inside:.2f} | {whole:.2f} |")
    inside, whole = (theirs / mine for mine, theirs in zip(*middle.values()))
    print(f"| ratio | {inside:.1f} | {whole:.1f} |")
    for found, seconds_in, _ in copied:
        print(f"\nImport of the same logs into a home: {found['runs']:,} runs in {seconds_in:.1f} s.")


if __name__ == "__main__":
    main()
