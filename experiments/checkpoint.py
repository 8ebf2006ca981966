"""Checkpoints: one atomic file a run, and the random states that make resuming exact.

`checkpoints/last.pt` holds the whole training state and the best evaluation weights so far, written together so that
they cannot disagree: to a temporary file, synced, renamed. It loads with weights_only=True.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy
import torch

from algos.finding import InputError

LAST = "last.pt"


def save(path: Path, state: dict[str, Any]) -> None:
    """Write `state` (tensors, numbers, strings, lists and dicts of them) so that `path` holds all of it or what it held
    before."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            torch.save(state, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def load(path: Path, device: torch.device | str = "cpu", *, trusted: bool = False) -> dict[str, Any]:
    """Raises InputError for a file that is truncated or is no checkpoint. trusted: one that this home's runs wrote of a
    user's own module, which may hold objects of theirs."""
    try:
        state = torch.load(path, map_location=device, weights_only=not trusted)
    except FileNotFoundError:
        raise InputError("there is no checkpoint", "the run never wrote one", source=str(path)) from None
    except Exception as error:
        raise InputError(
            f"not a readable checkpoint ({type(error).__name__})", "delete it to start the run again", source=str(path)
        ) from error
    if not isinstance(state, dict):
        raise InputError("not a checkpoint of a run", "give a file that a run wrote", source=str(path))
    return state


def seed_everything(seed: int) -> None:
    """torch (every device), numpy and random."""
    random.seed(seed)
    numpy.random.seed(seed % 2**32)
    torch.manual_seed(seed)


def random_states() -> dict[str, Any]:
    """The states of torch (CPU and every CUDA device), numpy and random, as tensors, ints and lists."""
    kind, keys, position, has_gauss, gauss = numpy.random.get_state(legacy=True)
    version, words, normal = random.getstate()
    return {
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
        "numpy": [str(kind), torch.tensor(list(keys)), int(position), int(has_gauss), float(gauss)],
        "python": [version, list(words), normal],
    }


def restore_random_states(state: dict[str, Any]) -> None:
    torch.set_rng_state(state["torch"].cpu())
    if state["cuda"] and torch.cuda.is_available():
        torch.cuda.set_rng_state_all([tensor.cpu() for tensor in state["cuda"]])
    kind, keys, position, has_gauss, gauss = state["numpy"]
    numpy.random.set_state((kind, keys.cpu().numpy().astype("uint32"), position, has_gauss, gauss))
    version, words, normal = state["python"]
    random.setstate((version, tuple(words), normal))


@contextmanager
def preserved_random() -> Iterator[None]:
    """Whatever is drawn within leaves no trace: evaluation must not change training, nor a run its caller."""
    before = random_states()
    try:
        yield
    finally:
        restore_random_states(before)
