"""What the loop costs: a raw PyTorch loop, plain Lightning with its MLFlowLogger, and ours with everything recorded,
side by side.

All three train the same MLP on the digits from the same batches with torch's fused AdamW, validate as often, and are
timed from a built model to the end of training. They take turns, so that a noisy machine is noisy for all of them;
ratios are medians over the turns. Run by `make bench`; prints a Markdown table.
"""

from __future__ import annotations

import argparse
import importlib
import os
import statistics
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import nn

#: Name -> (width, depth, updates). Sizes chosen to take about 1 ms and 10 ms an update on one core.
SIZES = {"1 ms": (160, 2, 2000), "10 ms": (640, 4, 300)}
BATCH = 64


def data() -> Any:
    from experiments.training import load_data

    return load_data("digits", None)


def fresh_model(width: int, depth: int) -> nn.Module:
    from algos import catalogue

    torch.manual_seed(1)
    model: nn.Module = catalogue.load("architectures", "mlp").build(data().signature, width=width, depth=depth)
    return model


def accuracy(model: nn.Module) -> float:
    right = total = 0
    model.eval()
    with torch.no_grad():
        for batch in data().evaluation("validation", torch.device("cpu")):
            right += int((model(*batch.inputs).argmax(-1) == batch.targets).sum())
            total += batch.targets.numel()
    model.train()
    return right / total


def raw(width: int, depth: int, updates: int, every: int) -> float:
    """Nothing recorded but the validation accuracy, in a list."""
    model = fresh_model(width, depth)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    source = data().training(BATCH, 1, torch.device("cpu"))
    started = time.perf_counter()
    found = [accuracy(model)]
    for update in range(1, updates + 1):
        batch = source.next()
        optimizer.zero_grad(set_to_none=True)
        nn.functional.cross_entropy(model(*batch.inputs), batch.targets).backward()
        optimizer.step()
        if update % every == 0:
            found.append(accuracy(model))
    return time.perf_counter() - started


def lightning(width: int, depth: int, updates: int, every: int, folder: Path) -> float:
    """As a careful user writes it: MLFlowLogger on SQLite, loss logged every 10 steps, its own loader over the same
    tensors."""
    import lightning.pytorch as pl
    from lightning.pytorch.loggers import MLFlowLogger
    from torch.utils.data import DataLoader, TensorDataset

    class Module(pl.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.model = fresh_model(width, depth)

        def training_step(self, batch: Any, index: int) -> torch.Tensor:
            loss = nn.functional.cross_entropy(self.model(batch[0]), batch[1])
            self.log("train/loss", loss)
            return loss

        def validation_step(self, batch: Any, index: int) -> None:
            self.log("val/accuracy", (self.model(batch[0]).argmax(-1) == batch[1]).float().mean())

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.AdamW(self.parameters(), lr=1e-3, fused=True)

    source = data().training(BATCH, 1, torch.device("cpu"))
    parts = [source.next() for _ in range(len(source))]
    train = TensorDataset(torch.cat([p.inputs[0] for p in parts]), torch.cat([p.targets for p in parts]))
    held = list(data().evaluation("validation", torch.device("cpu")))
    validation = TensorDataset(torch.cat([p.inputs[0] for p in held]), torch.cat([p.targets for p in held]))
    logger = MLFlowLogger(experiment_name="overhead", tracking_uri=f"sqlite:///{folder / 'peer.db'}")
    _ = logger.run_id  # the database is made before the clock starts
    trainer = pl.Trainer(
        accelerator="cpu", logger=logger, max_steps=updates, val_check_interval=every, check_val_every_n_epoch=None,
        log_every_n_steps=10, enable_progress_bar=False, enable_model_summary=False, enable_checkpointing=False,
        default_root_dir=folder,
    )  # fmt: skip
    module = Module()
    loaders = DataLoader(train, BATCH, shuffle=True), DataLoader(validation, 1000)
    started = time.perf_counter()
    trainer.fit(module, *loaders)
    return time.perf_counter() - started


def ours(width: int, depth: int, updates: int, every: int, session: Any) -> float:
    """Everything recorded: losses, metrics, counts, clock, provenance, checkpoint, MLflow mirror in its own process."""
    from experiments.config import resolve
    from experiments.training import train

    config = resolve({
        "task": "digits", "model": {"name": "mlp", "width": width, "depth": depth}, "batch_size": BATCH,
        "budget": {"updates": updates}, "evaluate_every": every, "optimizer": {"name": "adamw", "lr": 1e-3},
        "device": "cpu", "seed": 1,
    })  # fmt: skip
    started = time.perf_counter()
    finished = train(config, home=session.home)
    assert finished.record.status == "completed", finished.record
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--turns", type=int, default=5)
    turns = parser.parse_args().turns
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    import logging

    importlib.import_module("lightning.pytorch")  # sets its logger's level when imported

    for name in ("lightning.pytorch", "alembic", "mlflow"):
        logging.getLogger(name).setLevel(logging.ERROR)
    from experiments.session import session
    from experiments.store.home import Home

    print("| step | raw loop, ms an update | Lightning + MLFlowLogger / raw | ours / raw |")
    print("|---|---|---|---|")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.chdir(folder)
        with session(Home(folder / "home")) as opened:
            for label, (width, depth, updates) in SIZES.items():
                every = updates // 5
                raw(width, depth, updates // 4, every)
                ours(width, depth, updates // 4, every, opened)
                times: dict[str, list[float]] = {"raw": [], "lightning": [], "ours": []}
                for _ in range(turns):
                    times["raw"].append(raw(width, depth, updates, every))
                    times["ours"].append(ours(width, depth, updates, every, opened))
                    times["lightning"].append(lightning(width, depth, updates, every, folder))
                step = statistics.median(times["raw"]) / updates * 1e3
                ratios = {
                    key: statistics.median(a / b for a, b in zip(times[key], times["raw"], strict=True))
                    for key in ("lightning", "ours")
                }
                print(f"| {label} | {step:.2f} | {ratios['lightning']:.2f} | {ratios['ours']:.2f} |", flush=True)


if __name__ == "__main__":
    main()
