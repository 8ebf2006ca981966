"""How much later a user's module reaches its first training step through `trainlab run` than as a plain script.

Both start a new process in an empty folder; the module notes the time when its first batch has been trained. Turns
alternate; medians. Prints a Markdown table.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TURNS = 7
MODULE = """
import os
import time

from lightning.pytorch.demos.boring_classes import BoringModel


class Net(BoringModel):
    def on_train_batch_end(self, *rest):
        if not os.path.exists("first"):
            open("first", "w").write(repr(time.time()))
"""
PLAIN = """
import lightning.pytorch as pl
from my_module import Net

pl.seed_everything(1)
pl.Trainer(max_steps=5, logger=False, enable_checkpointing=False, enable_progress_bar=False).fit(Net())
"""
COMMANDS = {
    "plain script": [sys.executable, "plain.py"],
    "trainlab run": [
        sys.executable, "-P", "-m", "trainlab", "run", "task=my_module.py:Net", "metric=validation_step:x", "mode=min",
        "budget.updates=5",
    ],
}  # fmt: skip


def first_step_s(command: list[str]) -> float:
    """Seconds from the start of the process to the end of its first training step."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "my_module.py").write_text(MODULE)
        Path(folder, "plain.py").write_text(PLAIN)
        started = time.time()
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        environment.pop("TRAINLAB_HOME", None)
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return float(Path(folder, "first").read_text()) - started


def main() -> None:
    times: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for command in COMMANDS.values():
        first_step_s(command)  # warms the disk
    for _ in range(TURNS):
        for name, command in COMMANDS.items():
            times[name].append(first_step_s(command))
    plain, ours = (statistics.median(times[name]) for name in COMMANDS)
    print("## A user's module: its first training step\n")
    print("| started as | first step after | later |\n|---|---|---|")
    print(f"| plain script | {plain:.2f} s | |")
    print(f"| `trainlab run task=my_module.py:Net` | {ours:.2f} s | {ours - plain:.2f} s |")


if __name__ == "__main__":
    main()
