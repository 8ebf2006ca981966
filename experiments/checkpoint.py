"""Checkpoints: a run's whole training state in files that are whole or not there, and the random states that make
resuming exact.

    checkpoints/last.pt                   the whole training state at the newest checkpoint
    checkpoints/previous.pt               the one before it, which is used where last.pt cannot be
    checkpoints/best.<update>.safetensors the best evaluation weights so far, where the run selects its best

Each is written to a temporary file, synced and renamed, and the folder is synced: whenever the process or the machine
dies, one of the two states is whole, and nobody ever reads half a file. The best weights are stored once, when they
are first in a checkpoint; last.pt and previous.pt name their file and its checksum, and a file that neither names is
removed. When a run that selects its best completes, its model.safetensors is that same file (a hard link). States hold
tensors, numbers and text only and load with weights_only=True; those of users' own modules also hold their objects.
"""

from __future__ import annotations

import os
import random
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy
import torch

from algos.finding import InputError
from experiments.store.spool import clear
from experiments.weights import store_model

LAST, PREVIOUS = "last.pt", "previous.pt"
#: Of the states that are written, and those that can be read (1 had the best weights inside).
SCHEMA, READABLE = 2, (1, 2)
_BEST = re.compile(r"best\.\d+\.safetensors")
_TEMPORARY = re.compile(r"\.(last\.pt|best\.\d+\.safetensors)\.\d+\.tmp")


@dataclass(frozen=True)
class Found:
    """What a run goes on from. state: None where it is to start from the beginning. path: the file it was read from.
    warning: what is wrong with newer files and what is done instead, in words; "" where all is well."""

    state: dict[str, Any] | None = None
    path: Path | None = None
    warning: str = ""


class Checkpoints:
    """The checkpoints of one run, for the one process that has it. folder: its `checkpoints/`."""

    def __init__(self, folder: Path, run_id: str):
        self.folder, self._run_id = folder, run_id
        self._of_last: Mapping[str, Any] = {}  # the file of best weights that last.pt names, and its checksum
        self._of_previous: Mapping[str, Any] = {}
        self._keeps = True  # whether last.pt is to be kept as previous.pt

    def newest(self, device: torch.device | str = "cpu", *, trusted: bool = False) -> Found:
        """The newest whole state of this run; never raises for a file that is not. trusted: see `load`."""
        faults = []
        for name in (LAST, PREVIOUS):
            path = self.folder / name
            if not path.exists():
                continue
            try:
                state, named = _loaded(path, device, trusted, self._run_id)
            except InputError as error:
                faults.append(f"{self.folder.name}/{name}: {error.finding.said}")
                self._keeps = self._keeps and name != LAST
                continue
            self._of_last, self._of_previous = (named if name == LAST else {}), named
            told = f"the run goes on from {self.folder.name}/{name} (update {_ours(state)['update']})"
            return Found(state, path, "; ".join([*faults, told]) if faults else "")
        return Found(warning="; ".join([*faults, "the run begins again from its start"]) if faults else "")

    def save(self, state: Mapping[str, Any]) -> None:
        """Makes `state` the last one, and the last one the one before. StoreFull on a full disk: both stay."""
        try:
            self._save(state)
        except OSError as error:
            raise clear(error, self.folder.parent) from error

    def _save(self, state: Mapping[str, Any]) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        named = self._stored(_ours(state)["best"])
        save(self.folder / LAST, _referring(state, named, self._run_id), before=self._keep_last)
        self._of_last, self._keeps = named, True
        self._tidy()

    def _keep_last(self) -> None:
        """The last state becomes the one before, unless it cannot be read."""
        last = self.folder / LAST
        if self._keeps and last.exists():
            os.replace(last, self.folder / PREVIOUS)
            self._of_previous = self._of_last

    def _stored(self, best: Mapping[str, Any]) -> Mapping[str, Any]:
        """The file of the best weights, written where no checkpoint of this run names it yet; {} where none are
        kept."""
        if not best["weights"]:
            return {}
        name = f"best.{best['update']}.safetensors"
        for known in (self._of_last, self._of_previous):
            if known.get("file") == name and (self.folder / name).exists():
                return known
        path = self.folder / name
        store_model(path, best["weights"])
        return {"file": name, "crc32": _crc32(path)}

    def _tidy(self) -> None:
        """Removes best weights that no state names any more, and what kills in mid-write left."""
        named = {each.get("file") for each in (self._of_last, self._of_previous)}
        with os.scandir(self.folder) as entries:
            found = [entry.name for entry in entries]
        for name in found:
            if _TEMPORARY.fullmatch(name) or (_BEST.fullmatch(name) and name not in named):
                (self.folder / name).unlink(missing_ok=True)

    def give_best(self, path: Path) -> bool:
        """Makes `path` the file of the best weights, without a copy; False where the last state has none, or where the
        file system cannot."""
        if not self._of_last:
            return False
        temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        temporary.unlink(missing_ok=True)
        try:
            os.link(self.folder / self._of_last["file"], temporary)
        except OSError:
            return False
        os.replace(temporary, path)
        return True


def load(path: Path, device: torch.device | str = "cpu", *, trusted: bool = False, run_id: str = "") -> dict[str, Any]:
    """A state, its best weights in their place. Raises InputError for a file that is empty, truncated, damaged, of
    another version, or, where run_id is given, of another run.

    trusted: one that this home's runs wrote of a user's own module, which may hold objects of theirs.
    """
    return _loaded(path, device, trusted, run_id)[0]


def _loaded(
    path: Path, device: torch.device | str, trusted: bool, run_id: str
) -> tuple[dict[str, Any], Mapping[str, Any]]:
    """The state, and what it said of the file of its best weights."""
    try:
        state = _read(path, device, trusted)
        _check(state, run_id)
        return state, _complete(_ours(state)["best"], path.parent, device)
    except FileNotFoundError:
        raise InputError("there is no checkpoint", "the run never wrote one", source=str(path)) from None
    except _Unfit as unfit:
        raise InputError(str(unfit), "delete it to start the run again", source=str(path)) from unfit.__cause__


def save(path: Path, state: Mapping[str, Any], *, before: Callable[[], None] = lambda: None) -> None:
    """Write `state` (tensors, numbers, strings, lists and dicts of them) so that `path` holds all of it or what it held
    before. before: called when the new file is on the disk and has not taken its place yet."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        _dump(temporary, state)
        before()
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    sync(path.parent)


def sync(folder: Path) -> None:
    """What was renamed in a folder stays so after a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class _Unfit(Exception):
    """A file that is not the checkpoint it should be, in words."""


def _ours(state: Mapping[str, Any]) -> Any:
    """What we keep in a state; of a user's module it stands beside what Lightning keeps."""
    return state.get("trainlab", state)


def _referring(state: Mapping[str, Any], named: Mapping[str, Any], run_id: str) -> dict[str, Any]:
    """The state as it is stored: with the name of the file of its best weights in the place of them."""
    ours = _ours(state)
    best = {key: value for key, value in ours["best"].items() if key != "weights"}
    ours = {**ours, "schema": SCHEMA, "run_id": run_id, "best": {**best, "stored": dict(named)}}
    return {**state, "trainlab": ours} if "trainlab" in state else ours


def _read(path: Path, device: torch.device | str, trusted: bool) -> Any:
    if not path.stat().st_size:
        raise _Unfit("the file is empty")
    try:
        with zipfile.ZipFile(path) as file:
            damaged = file.testzip()  # torch itself checks no checksum when it reads
        if damaged is not None:
            raise _Unfit("the file is damaged: its checksums do not hold")
        return torch.load(path, map_location=device, weights_only=not trusted)
    except (FileNotFoundError, _Unfit):
        raise
    except zipfile.BadZipFile as error:
        raise _Unfit("the file is truncated, or no checkpoint") from error
    except Exception as error:
        raise _Unfit(f"not a readable checkpoint ({type(error).__name__})") from error


def _check(state: Any, run_id: str) -> None:
    ours = _ours(state) if isinstance(state, dict) else None
    if not isinstance(ours, dict) or not {"schema", "update", "best"} <= ours.keys():
        raise _Unfit("the file is no checkpoint of a run")
    if ours["schema"] not in READABLE:
        raise _Unfit(f"the file has schema {ours['schema']}, and this trainlab reads {READABLE[0]} to {READABLE[-1]}")
    if run_id and ours.get("run_id", run_id) != run_id:
        raise _Unfit(f"the file is of another run, {ours['run_id']}")


def _complete(best: dict[str, Any], folder: Path, device: torch.device | str) -> Mapping[str, Any]:
    """Puts the best weights into the place of their file's name, and returns what was said of it."""
    named: Mapping[str, Any] = best.pop("stored", {})
    if named:
        path = folder / named["file"]
        if not path.exists() or _crc32(path) != named["crc32"]:
            raise _Unfit(f"its best weights, {folder.name}/{named['file']}, are damaged or gone")
        from safetensors.torch import load_file

        best["weights"] = load_file(path, device=str(device))
    best.setdefault("weights", {})
    return named


def _crc32(path: Path) -> int:
    total = 0
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            total = zlib.crc32(block, total)
    return total


def _dump(path: Path, state: Mapping[str, Any]) -> None:
    """torch says RuntimeError of a disk that is full: the OSError beneath it is what happened."""
    checked = torch.serialization.get_crc32_options()
    torch.serialization.set_crc32_options(True)
    try:
        with path.open("wb") as file:
            torch.save(dict(state), file)
            file.flush()
            os.fsync(file.fileno())
    except RuntimeError as error:
        if isinstance(error.__context__, OSError):
            raise error.__context__ from error
        raise
    finally:
        torch.serialization.set_crc32_options(checked)


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
