"""TensorBoard's event files as a Source: each folder that holds some is a run, and its scalars are its metrics.

Needs the package `tensorboard` (the extra of that name). A file that ends in the middle of a record gives what is whole
before it, and the import says so. TensorBoard does not tell how a run ended."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from algos.finding import InputError
from experiments.store.sources.foreign import Point, Points, Read, Told, counted, in_order, stepless
from experiments.store.sources.tfrecords import records

_EVENTS = "tfevents"
_FIELDS = ("task", "arm", "seed", "name")
_HPARAMS = "hparams"


class TensorboardReader:
    """Reads a folder. pattern: how folders are called, as in "{task}/{arm}/seed{seed}"; `*` is anything but a slash,
    and folders that are called otherwise are left out."""

    kind = "tensorboard"
    late: Sequence[str] = ()

    def __init__(self, folder: Path | str, pattern: str = ""):
        self.folder = Path(folder).expanduser().absolute()
        self.place = str(self.folder)
        self._pattern = expression(pattern) if pattern else None
        self._written = pattern

    def points(self, run: Told) -> Points:
        return run.points

    def read(self) -> Read:
        _check_package()
        if not self.folder.is_dir():
            said = f"{self.folder} is a file" if self.folder.exists() else f"{self.folder} is not there"
            raise InputError(said, "give the folder that TensorBoard is started on (--logdir)", rule="no-source")
        folders = self._folders()
        if not folders:
            raise InputError(
                f"no file in {self.folder} is TensorBoard's (*{_EVENTS}*)", "give its --logdir", rule="empty-source"
            )
        notes: list[str] = []
        runs, cut, lost = [], [], 0
        for folder, files in folders.items():
            labels = self._labels(folder)
            if labels is None:
                lost += 1
                continue
            run, troubles = _run(folder, files, labels)
            cut += troubles
            if run.points:
                runs.append(run)
        if lost and not runs:
            shown = ", ".join(list(folders)[:3])
            raise InputError(
                f"no folder is called like '{self._written}' ({shown})", "mend --pattern", rule="empty-source"
            )
        empty = len(folders) - lost - len(runs)
        notes += [f"{lost} folders are not called like '{self._written}', and left out"] if lost else []
        notes += [f"{empty} folders have events but no scalars, and are left out"] if empty else []
        notes += cut
        notes.append("TensorBoard does not say how runs ended: they are taken as completed")
        notes += uneven(runs)
        return Read(runs, notes)

    def _folders(self) -> dict[str, list[Path]]:
        """Relative folder -> its event files, in the order in which they were begun."""
        found: dict[str, list[Path]] = {}
        for place, folders, names in os.walk(self.folder):
            folders.sort()
            files = [Path(place, name) for name in names if _EVENTS in name]
            if files:
                found[os.path.relpath(place, self.folder)] = sorted(
                    files, key=lambda path: (_begun(path.name), path.name)
                )
        return dict(sorted(found.items()))

    def _labels(self, folder: str) -> dict[str, Any] | None:
        if self._pattern is None:
            return {}
        match = self._pattern.fullmatch(folder)
        return None if match is None else {key: value for key, value in match.groupdict().items() if value}


def expression(pattern: str) -> re.Pattern[str]:
    """A pattern of folders' names as a regular expression.

    >>> expression("{arm}/seed{seed}/*").fullmatch("adam w/seed3/version_0").groupdict()
    {'arm': 'adam w', 'seed': '3'}
    """
    parts = re.split(r"(\{[^}]*\}|\*)", pattern.strip("/"))
    seen: list[str] = []
    for index, part in enumerate(parts):
        if part.startswith("{"):
            name = part[1:-1]
            if name not in _FIELDS or name in seen:
                said = f"'{part}' in the pattern is {'there twice' if name in seen else 'no label'}"
                raise InputError(said, "write {task}, {arm}, {seed} or {name}, each at most once", place="--pattern")
            seen.append(name)
            parts[index] = rf"(?P<{name}>{'[0-9]+' if name == 'seed' else '[^/]+?'})"
        else:
            parts[index] = "[^/]*" if part == "*" else re.escape(part)
    return re.compile("".join(parts))


def uneven(runs: Sequence[Told]) -> list[str]:
    """Where runs that nobody says have ended stop at different steps."""
    ends: dict[int, int] = {}
    for run in runs:
        end = max((points[-1][0] for points in run.points.values()), default=0)
        ends[end] = ends.get(end, 0) + 1
    if len(ends) < 2:
        return []
    told = ", ".join(f"{count} at {end}" for end, count in sorted(ends.items(), reverse=True)[:4])
    return [f"runs stop at different steps ({told}{', ...' if len(ends) > 4 else ''}): some may not have finished"]


def _check_package() -> None:
    try:
        import tensorboard.compat.proto.event_pb2  # noqa: F401
    except ImportError:
        raise InputError(
            "TensorBoard's files are read by its package, which is not installed",
            "pip install 'trainlab[tensorboard]'",
            rule="extra-missing",
        ) from None  # fmt: skip


def _begun(name: str) -> int:
    """events.out.tfevents.1700000000.host: seconds since 1970."""
    match = re.search(rf"{_EVENTS}\.(\d+)", name)
    return int(match[1]) if match else 0


def _run(folder: str, files: Sequence[Path], labels: dict[str, Any]) -> tuple[Told, list[str]]:
    raw: dict[str, list[Point]] = {}
    config: dict[str, Any] = {}
    troubles = []
    times: list[int] = []
    for path in files:
        events, trouble = _events(path)
        for event in events:
            at = round(event.wall_time * 1000)
            times.append(at)
            for value in event.summary.value if event.HasField("summary") else ():
                _take(value, int(event.step), at, raw, config)
        if trouble:
            troubles.append(f"{folder}/{path.name}: broken after {len(events)} events ({trouble}); those are read")
    points: Points = {}
    for tag, found in raw.items():
        points[tag], _ = in_order(counted(found) if stepless(found) else found)
    name = str(labels.pop("name", "") or (folder if folder != "." else ""))
    return Told(
        key=folder,
        name=name,
        said=config,
        config=config,
        started=min(times) if times else None,
        ended=max(times) if times else None,
        points=points,
        labels=labels,
        reason="TensorBoard does not say how it ended",
    ), troubles


def _take(value: Any, step: int, at: int, raw: dict[str, list[Point]], config: dict[str, Any]) -> None:
    """A summary's value: a scalar of either kind, or hyperparameters."""
    plugin = value.metadata.plugin_data
    if plugin.plugin_name == _HPARAMS:
        config.update(_hparams(plugin.content))
        return
    kind = value.WhichOneof("value")
    if kind == "simple_value":
        raw.setdefault(value.tag, []).append((step, float(value.simple_value), at))
    elif kind == "tensor" and not value.tensor.tensor_shape.dim and not value.tensor.string_val:
        from tensorboard.util.tensor_util import make_ndarray

        raw.setdefault(value.tag, []).append((step, float(make_ndarray(value.tensor)), at))


def _hparams(content: bytes) -> dict[str, Any]:
    from google.protobuf.message import DecodeError
    from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

    try:
        data = HParamsPluginData.FromString(content)
    except DecodeError:
        return {}
    found = {}
    for name, value in data.session_start_info.hparams.items():
        kind = value.WhichOneof("kind")
        if kind is not None:
            number = getattr(value, kind)
            whole = kind == "number_value" and float(number).is_integer() and abs(number) < 1e15
            found[name] = int(number) if whole else number
    return found


def _events(path: Path) -> tuple[list[Any], str]:
    """The events of a file up to where it is cut or damaged, and what is wrong there ("": nothing)."""
    from google.protobuf.message import DecodeError
    from tensorboard.compat.proto.event_pb2 import Event

    whole, trouble = records(path.read_bytes())
    found = []
    for record in whole:
        try:
            found.append(Event.FromString(record))
        except DecodeError:
            return found, "a record is no event"
    return found, trouble
