"""TensorBoard's event files as a Source: each folder that holds some is a run, and its scalars are its metrics.

A folder that torch's writer makes by itself below a run's, for `add_hparams` or `add_scalars`, is part of that run.
Needs the package `tensorboard` (the extra of that name). A file that ends in the middle of a record gives what is whole
before it, and the import says so. TensorBoard does not tell how a run ended."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from algos.finding import InputError
from experiments.store.sources.foreign import Point, Points, Read, Told, counted, in_order, stepless
from experiments.store.sources.tfrecords import records

_EVENTS = "tfevents"
_FIELDS = ("task", "arm", "seed", "name")
_HPARAMS = "hparams"
#: What `add_hparams` calls the folder that it makes: seconds since 1970.
_TIME = re.compile(r"\d{9,11}\.\d+")


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
        labels = {folder: self._labels(folder) for folder in folders}
        above = {folder: _above(folder, folders) for folder in folders}
        read, cut = {}, []
        for folder, files in folders.items():
            if labels[folder] is not None or labels.get(above[folder]) is not None:
                read[folder], troubles = _run(folder, files)
                cut += troubles
        notes = _joined(read, above)
        for folder, run in read.items():
            run.labels = labels[folder] or {}
            run.name = str(run.labels.pop("name", "") or (folder if folder != "." else ""))
        runs = [run for folder, run in read.items() if run.points and labels[folder] is not None]
        lost = sum(labels[folder] is None for folder in folders if folder in read or above[folder] not in read)
        if lost and not runs:
            shown = ", ".join(list(folders)[:3])
            raise InputError(
                f"no folder is called like '{self._written}' ({shown})", "mend --pattern", rule="empty-source"
            )
        empty = sum(not run.points for folder, run in read.items() if labels[folder] is not None)
        if not runs:
            said = f"no scalars can be read in {self.folder} ({cut[0] if cut else 'its events are others'})"
            raise InputError(said, "look at it in TensorBoard", rule="empty-source")
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


def _above(folder: str, folders: Mapping[str, Any]) -> str:
    """The folder that this one lies in, where that has events too; else ""."""
    parent = os.path.dirname(folder) or "."
    return parent if folder != "." and parent in folders else ""


def _joined(read: dict[str, Told], above: Mapping[str, str]) -> list[str]:
    """Takes the folders that torch's writer made below a run's out, and into the run; what is to be told of that."""
    settings: dict[str, list[str]] = {}
    series = 0
    for folder in [folder for folder in read if above[folder] in read]:
        run, name = read[folder], os.path.basename(folder)
        if run.config and _TIME.fullmatch(name):
            settings.setdefault(above[folder], []).append(folder)
        elif len(run.points) == 1:
            [(tag, points)] = run.points.items()
            head = tag.replace("/", "_") + "_"
            if name.startswith(head) and name != head:
                read[above[folder]].points[f"{tag}/{name.removeprefix(head)}"] = points
                del read[folder]
                series += 1
    alone = {parent: folders[0] for parent, folders in settings.items() if len(folders) == 1}
    for parent, folder in alone.items():
        run, into = read.pop(folder), read[parent]
        into.config = {**into.config, **run.config}
        into.said = into.config
        for tag, points in run.points.items():
            into.points.setdefault(tag, points)
    notes = [f"{series} folders of add_scalars are metrics of the runs that they lie in"] if series else []
    notes += [f"{len(alone)} folders of add_hparams are settings of the runs that they lie in"] if alone else []
    return notes


def _run(folder: str, files: Sequence[Path]) -> tuple[Told, list[str]]:
    raw: dict[str, list[Point]] = {}
    config: dict[str, Any] = {}
    troubles = []
    times: list[int] = []
    gone = 0
    for path in files:
        events, trouble = _events(path)
        for event in events:
            at = round(event.wall_time * 1000)
            times.append(at)
            if event.HasField("session_log") and event.session_log.status == event.session_log.START:
                gone += _purge(raw, int(event.step))
            for value in event.summary.value if event.HasField("summary") else ():
                _take(value, int(event.step), at, raw, config)
        if trouble:
            troubles.append(f"{folder}/{path.name}: broken after {len(events)} events ({trouble}); those are read")
    points: Points = {}
    twice = 0
    for tag, found in raw.items():
        points[tag], dropped = in_order(counted(found) if stepless(found) else found)
        twice += dropped
    troubles += [f"{folder}: it was started again, and {gone} values from that step on are void"] if gone else []
    troubles += (
        [f"{folder}: {twice} values were given twice for a metric and step; the last one is kept"] if twice else []
    )
    return Told(
        key=folder,
        said=config,
        config=config,
        started=min(times) if times else None,
        ended=max(times) if times else None,
        points=points,
        reason="TensorBoard does not say how it ended",
    ), troubles


def _purge(raw: dict[str, list[Point]], step: int) -> int:
    """Drops what a writer that starts again at a step says is void, as TensorBoard does; how much that was."""
    before = sum(map(len, raw.values()))
    for tag, found in raw.items():
        raw[tag] = [point for point in found if point[0] < step]
    return before - sum(map(len, raw.values()))


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
