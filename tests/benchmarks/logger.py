"""What a logger costs a training step: no logger, one that does nothing, ours, CSVLogger and MLFlowLogger, side by side
under the same Trainer.

The module trains an MLP with a step of about 1 ms on one core and logs its loss; only updates are timed, so that
opening a run is not in it. An ordinary update is the lower quartile of a fit's, where nothing is written and no other
program disturbs; the mean of all has everything in it. The loggers take turns; figures are medians over the turns of
the difference to no logger in the same turn. A logger that does nothing costs what Lightning itself does once there is
a logger: it turns metrics into numbers. Run by `make bench`; prints a Markdown table.
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import logging
import os
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch
from lightning.pytorch.loggers import CSVLogger, MLFlowLogger
from lightning.pytorch.loggers.logger import DummyLogger
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

WIDTH, BATCH, UPDATES = 128, 64, 500
#: Lightning's default, and what a careful user of short runs sets.
LOG_EVERY = (50, 10)


class Module(pl.LightningModule):
    """Logs its loss, and notes when each of its updates began."""

    def __init__(self) -> None:
        super().__init__()
        layers = [nn.Linear(64, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 10)]
        self.model = nn.Sequential(*layers)
        self.began_s: list[float] = []

    def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
        loss = nn.functional.cross_entropy(self.model(batch[0]), batch[1])
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=1e-3, fused=True)

    def on_train_batch_start(self, batch: Any, batch_idx: int) -> None:
        self.began_s.append(time.perf_counter())

    def on_train_end(self) -> None:
        self.began_s.append(time.perf_counter())


def fit(logger: Any, every: int, folder: Path) -> tuple[float, float]:
    """Microseconds of an update: the lower quartile, and the mean."""
    torch.manual_seed(1)
    data = TensorDataset(torch.randn(BATCH * UPDATES, 64), torch.randint(10, (BATCH * UPDATES,)))
    trainer = pl.Trainer(
        accelerator="cpu", logger=logger, max_epochs=1, log_every_n_steps=every, enable_progress_bar=False,
        enable_model_summary=False, enable_checkpointing=False, default_root_dir=folder,
    )  # fmt: skip
    module = Module()
    trainer.fit(module, DataLoader(data, BATCH))
    times = sorted((end - start) * 1e6 for start, end in itertools.pairwise(module.began_s))
    return times[len(times) // 4], statistics.fmean(times)


def loggers(folder: Path) -> dict[str, Callable[[], Any]]:
    from experiments.modules.logger import Logger

    uri = f"sqlite:///{folder / 'peer.db'}"
    return {
        "none": lambda: False,
        "one that does nothing": DummyLogger,
        "tl.Logger": lambda: Logger("bench"),
        "CSVLogger": lambda: CSVLogger(folder / "csv"),
        "MLFlowLogger on SQLite": lambda: MLFlowLogger("bench", tracking_uri=uri),
    }


def row(name: str, found: dict[str, list[tuple[float, float]]]) -> str:
    step = statistics.median(ordinary for ordinary, _ in found[name])
    more = [
        statistics.median(mine[i] - none[i] for mine, none in zip(found[name], found["none"], strict=True))
        for i in (0, 1)
    ]
    return f"{step / 1e3:.2f} | {more[0]:+.0f} | {more[1]:+.0f}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--turns", type=int, default=9)
    turns = parser.parse_args().turns
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    for name in ("lightning.pytorch", "alembic", "mlflow"):
        importlib.import_module(name)  # sets its logger's level when imported
        logging.getLogger(name).setLevel(logging.ERROR)
    print("| logger | logs every | ms an ordinary update | µs more of it | µs more of an update, all in |")
    print("|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.chdir(folder)
        os.environ["TRAINLAB_HOME"] = str(folder / "home")
        made = loggers(folder)
        for every in LOG_EVERY:
            found: dict[str, list[tuple[float, float]]] = {key: [] for key in made}
            for turn in range(turns + 1):
                for key, make in made.items():
                    measured = fit(make(), every, folder)
                    if turn:  # the first warms up: databases are made, the uploader starts
                        found[key].append(measured)
            for key in made:
                print(f"| {key} | {every} | {row(key, found)} |", flush=True)
        _stop_uploaders()


def _stop_uploaders() -> None:
    from experiments.store import uploads

    for uploader in list(uploads._started.values()):
        uploader.stop()


if __name__ == "__main__":
    main()
