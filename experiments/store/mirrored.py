"""How far a run has been mirrored: `mirror.json` in its folder, one part for each store it went to. Imports no mlflow.

Written after every batch that was sent, so a kill in between sends one batch twice, which MLflow stores once.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from experiments.store import records, spool
from experiments.store.home import Home
from experiments.store.tracking import shown


@dataclass
class Mirrored:
    """What of a run is in one MLflow store.

    experiment, born, run: MLflow's experiment, its creation time (a store that was deleted and made anew is another
    one), and run, "" before there is one. offsets: bytes sent of each spool. header: parameters and run.json are there.
    settled: the spools' sizes when everything up to them, status included, was there. status: the last one sent.
    metrics: those that have points. names: those that were cut, and what they were. told: the tags that said something.
    skip: why the run is mirrored no more ("" mostly).
    """

    uri: str
    experiment: str = ""
    born: int = 0
    run: str = ""
    offsets: dict[str, int] = field(default_factory=dict)
    header: bool = False
    settled: dict[str, int] = field(default_factory=dict)
    status: str = ""
    metrics: list[str] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)
    told: list[str] = field(default_factory=list)
    skip: str = ""


def sizes(folder: Path) -> dict[str, int]:
    """Bytes of each spool of a run, by attempt."""
    return {str(number): path.stat().st_size for number, path in spool.spools(folder)}


def load(folder: Path, uri: str) -> Mirrored:
    """The run's part for one store; a new one where it was never mirrored there."""
    return parts(folder).get(_key(uri)) or Mirrored(shown(uri))


def save(folder: Path, uri: str, mirrored: Mirrored) -> None:
    save_parts(folder, {**parts(folder), _key(uri): mirrored})


def save_parts(folder: Path, every: Mapping[str, Mirrored]) -> None:
    """All of the run's parts, by the keys that `parts` has."""
    stores = {key: asdict(part) for key, part in every.items()}
    records.write_json(folder / "mirror.json", {"schema": 1, "stores": stores})


def pending(folder: Path, uri: str) -> bool:
    """Whether something of the run is still to be sent to the store.

    A run that is wholly in another store stays there: a new MLFLOW_TRACKING_URI gets what happens from then on.
    """
    now = sizes(folder)
    if not now:
        return False
    others = parts(folder)
    own = others.pop(_key(uri), None)
    if own is not None and (own.run or own.skip):
        return not own.skip and own.settled != now
    return not any(other.settled == now for other in others.values())


def known(home: Home, uri: str) -> bool:
    """Whether some run of the home has been sent to the store before. The newest are asked first."""
    return any(load(home.run_folder / run_id, uri).run for run_id in reversed(home.run_ids()))


@dataclass(frozen=True)
class Left:
    """What is not in MLflow yet. False where nothing is left. runs: their ids. reason: why, as far as is known."""

    runs: tuple[str, ...] = ()
    reason: str = ""

    def __bool__(self) -> bool:
        return bool(self.runs)

    def __str__(self) -> str:
        count = f"{len(self.runs)} run{'s' if len(self.runs) != 1 else ''}"
        return (
            f"{count} not in MLflow yet{f' ({self.reason})' if self.reason else ''}" if self.runs else "all in MLflow"
        )


def left(home: Home, uri: str, among: Iterable[str] | None = None) -> Left:
    """The runs of a home that are not wholly in the store."""
    run_ids = home.run_ids() if among is None else list(among)
    waiting = tuple(run_id for run_id in run_ids if pending(home.run_folder / run_id, uri))
    return Left(waiting, reason(home, uri) if waiting else "")


def complain(home: Home, uri: str, text: str) -> None:
    """The uploader says what keeps it ("" : nothing)."""
    records.write_json(home.path / "uploader.json", {"store": _key(uri), "reason": text, "at": spool.now_ms()})


def reason(home: Home, uri: str) -> str:
    """What keeps the uploader from this store, as it last said."""
    try:
        said = json.loads((home.path / "uploader.json").read_bytes())
    except (OSError, ValueError):
        return ""
    return str(said.get("reason", "")) if said.get("store") == _key(uri) else ""


def _key(uri: str) -> str:
    return hashlib.sha256(uri.encode()).hexdigest()[:16]


def parts(folder: Path) -> dict[str, Mirrored]:
    """How far the run is in every store it was sent to; nothing where that cannot be read: it is then sent again."""
    try:
        stores: dict[str, Any] = json.loads((folder / "mirror.json").read_bytes())["stores"]
        return {key: Mirrored(**part) for key, part in stores.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}
