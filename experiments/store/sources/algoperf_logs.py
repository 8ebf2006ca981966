"""AlgoPerf's logs on the disk: where the trials of a benchmark lie, and their eval_measurements.csv read fast.

Files of the same header are parsed together, by pyarrow, in one call: 3,700 files of 20 kB take a third of a second.
Where that does not fit (rows of other lengths, words for numbers, half a last line) each file is read by itself, row by
row, and what could not be used is told.
"""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from algos.finding import Finding, InputError

Array = NDArray[np.float64]

FILE = "eval_measurements.csv"
RULESETS = {"external_tuning": "external", "self_tuning": "self"}
_STUDY, _TRIAL = re.compile(r"study_(\d+)"), re.compile(r"trial_(\d+)")
_FRAMEWORK = re.compile(r"(.+)_(jax|pytorch)")
#: No log lies deeper below a folder that is given than this.
_DEEPEST = 6
_EMPTY = ("", "nan", "NaN", "NAN", "None")


@dataclass(frozen=True)
class Place:
    """Where a trial's log should be. path: from the folder that was given. ruleset: what a folder above says, or ""."""

    submission: str
    study: int
    workload: str
    framework: str
    trial: int
    path: str
    ruleset: str = ""


@dataclass(frozen=True)
class Log:
    """What a trial logged: a column a name, one value an evaluation, nan where there was none. troubles: what of the
    file could not be used. size, at: its bytes, and when it was written (ms since 1970)."""

    columns: dict[str, Array]
    troubles: tuple[str, ...] = ()
    at: int = 0

    @property
    def length(self) -> int:
        return len(next(iter(self.columns.values()), ()))


def find(folder: Path) -> tuple[list[Place], list[Finding]]:
    """Every trial under `folder`, in order of submission, study, workload and trial; and the logs that lie where no
    trial of a workload does. InputError where there is none at all."""
    if not folder.is_dir():
        packed = folder.is_file() and ".tar" in folder.name
        cure = "unpack it first: tar xf" if packed else "give the folder with SUBMISSION/study_N/WORKLOAD/trial_M"
        raise InputError(f"{folder} is {'an archive' if packed else 'no folder'}", cure, rule="no-folder")
    places: list[Place] = []
    odd: dict[str, list[str]] = {}
    for above, study in _studies(folder, "", 0, odd):
        places += _of_study(folder, above, study, odd)
    if not places:
        said = f"{folder} has no logs of AlgoPerf (SUBMISSION/study_N/WORKLOAD/trial_M/{FILE})"
        raise InputError(said, "give the folder that holds the submissions' folders", rule="no-logs")
    findings = [
        Finding(
            "stray-log",
            f"{_counted(paths)} in no workload's folder left out: {_first(paths)}",
            "move into SUBMISSION/study_N/WORKLOAD/trial_M what belongs to the benchmark",
            source=_name(above, folder)[0],
            level="caution",
        )
        for above, paths in odd.items()
    ]
    return sorted(places, key=lambda p: (p.submission, p.study, p.workload, p.trial)), findings


def read(folder: Path, places: Sequence[Place], wanted: Callable[[str], bool] | None = None) -> list[Log | None]:
    """The logs of `places`, one for each; None where there is no file. wanted: which columns, by name (all)."""
    found: list[Log | None] = [None] * len(places)
    alike: dict[bytes, list[tuple[int, bytes, int]]] = {}
    for index, place in enumerate(places):
        try:
            data, at = _bytes(f"{folder}/{place.path}/{FILE}")
        except FileNotFoundError:
            continue
        except OSError as error:
            found[index] = Log({}, (f"cannot be read ({error.strerror})",))
            continue
        head, _, rest = data.partition(b"\n")
        if rest.endswith(b"\n") and b'"' not in rest:
            alike.setdefault(head, []).append((index, rest, at))
        else:
            found[index] = _by_rows(data, at, wanted)
    for head, files in alike.items():
        together = _together(head, [rest for _, rest, _ in files], wanted)
        for position, (index, rest, at) in enumerate(files):
            if together is None:
                found[index] = _by_rows(head + b"\n" + rest, at, wanted)
            else:
                found[index] = Log(together[position], (), at)
    return found


def _studies(folder: Path, above: str, depth: int, odd: dict[str, list[str]]) -> Iterator[tuple[str, str]]:
    """(folder above, name) of every study, and the logs beside them."""
    for entry in _entries(folder / above):
        path = f"{above}/{entry.name}" if above else entry.name
        if entry.name == FILE:
            odd.setdefault(above, []).append(path)
        elif entry.is_dir() and _STUDY.fullmatch(entry.name):
            yield above, entry.name
        elif entry.is_dir() and depth < _DEEPEST:
            yield from _studies(folder, path, depth + 1, odd)


def _of_study(folder: Path, above: str, study: str, odd: dict[str, list[str]]) -> Iterator[Place]:
    submission, ruleset = _name(above, folder)
    inside = f"{above}/{study}" if above else study
    for workload in _entries(folder / inside):
        path = f"{inside}/{workload.name}"
        if workload.name == FILE or (workload.is_dir() and (folder / path / FILE).exists()):
            odd.setdefault(above, []).append(path)
        if not workload.is_dir() or _TRIAL.fullmatch(workload.name):
            continue
        named = _FRAMEWORK.fullmatch(workload.name)
        name, framework = (named[1], named[2]) if named else (workload.name, "")
        for trial in _entries(folder / path):
            numbered = _TRIAL.fullmatch(trial.name)
            if numbered and trial.is_dir():
                where = f"{path}/{trial.name}"
                yield Place(submission, int(study[6:]), name, framework, int(numbered[1]), where, ruleset)
            elif trial.is_dir() and (folder / path / trial.name / FILE).exists():
                odd.setdefault(above, []).append(f"{path}/{trial.name}")


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted((e for e in entries if not e.name.startswith(".")), key=lambda entry: entry.name)
    except OSError as error:
        said = f"{folder} cannot be read ({error.strerror})"
        raise InputError(said, "make it readable, or copy the logs elsewhere", rule="not-readable") from None


def _name(above: str, folder: Path) -> tuple[str, str]:
    """A submission's name and ruleset, by the folders above its studies."""
    parts = [part for part in above.split("/") if part]
    told = [RULESETS[part] for part in (*folder.absolute().parts[-3:], *parts) if part in RULESETS]
    parts = [part for part in parts if part not in RULESETS]
    return "/".join(parts) or folder.absolute().name, told[-1] if told else ""


def _counted(paths: Sequence[str]) -> str:
    return f"{len(paths)} log{'' if len(paths) == 1 else 's'}"


def _first(paths: Sequence[str]) -> str:
    return ", ".join(paths[:3]) + (", ..." if len(paths) > 3 else "")


def _bytes(path: str) -> tuple[bytes, int]:
    file = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
    try:
        state = os.fstat(file)
        data = os.read(file, state.st_size)
        while len(data) < state.st_size and (more := os.read(file, state.st_size - len(data))):
            data += more
        return data, state.st_mtime_ns // 1_000_000
    finally:
        os.close(file)


def _together(head: bytes, bodies: list[bytes], wanted: Callable[[str], bool] | None) -> list[dict[str, Array]] | None:
    """The columns of several files with one header; None where they do not parse as such."""
    import pyarrow as pa
    import pyarrow.csv as parse

    names = head.decode(errors="replace").rstrip("\r").split(",")
    if len(set(names)) < len(names) or '"' in head.decode(errors="replace"):
        return None
    columns = [name for name in names if wanted is None or wanted(name)]
    if not columns:
        return [{}] * len(bodies)
    try:
        table = parse.read_csv(
            pa.BufferReader(b"".join(bodies)),
            read_options=parse.ReadOptions(column_names=names),
            parse_options=parse.ParseOptions(ignore_empty_lines=False),
            convert_options=parse.ConvertOptions(
                include_columns=columns, column_types=dict.fromkeys(columns, pa.float64()), null_values=list(_EMPTY)
            ),
        )
    except (pa.ArrowInvalid, UnicodeDecodeError):
        return None
    arrays = {name: table[name].to_numpy() for name in columns}
    ends = np.cumsum([body.count(b"\n") for body in bodies])
    if ends[-1] != table.num_rows:
        return None
    return [
        {name: values[start:end] for name, values in arrays.items()}
        for start, end in zip([0, *ends[:-1].tolist()], ends.tolist())
    ]


def _by_rows(data: bytes, at: int, wanted: Callable[[str], bool] | None) -> Log:
    """One file, row by row: what is no row of numbers is left out and told."""
    troubles = []
    text = data.decode(errors="replace").replace("\r\n", "\n")
    if text and not text.endswith("\n"):
        text = text[: text.rfind("\n") + 1]
        troubles.append("its last line is not whole and was left out")
    rows = list(csv.reader(text.splitlines()))
    if not rows:
        return Log({}, ("it is empty",), at) if not troubles else Log({}, tuple(troubles), at)
    names, kept = rows[0], []
    for number, row in enumerate(rows[1:], start=2):
        try:
            if len(row) != len(names):
                raise ValueError
            kept.append([float("nan") if word.strip() in _EMPTY else float(word) for word in row])
        except ValueError:
            said = f"{len(row)} values for {len(names)} columns" if len(row) != len(names) else "a word for a number"
            troubles.append(f"line {number} was left out ({said})")
    if len(troubles) > 3:
        troubles = [*troubles[:2], f"and {len(troubles) - 2} more lines were left out"]
    values = np.array(kept, float).reshape(len(kept), len(names))
    columns = {name: values[:, i] for i, name in enumerate(names) if wanted is None or wanted(name)}
    return Log(columns, tuple(troubles), at)
