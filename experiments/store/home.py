"""Home: the folder that holds every run. `$TRAINLAB_HOME`, else `./.trainlab`.

home = Home.default()
folder = home.create(RunFile(run_id=new_run_id(), ...))
attempt = folder.begin()
attempt.points(100, {"train/loss": 0.3})
attempt.end("completed")
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import string
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from algos.finding import InputError, closest
from experiments.store import pins, records, spool
from experiments.store.schema import RunFile, RunRecord
from experiments.store.sources import Series

_LETTERS = string.digits + string.ascii_lowercase


def new_run_id() -> str:
    """A new run's id: the time it was made (UTC) and six random letters, so ids sort by age: 20261130-104212-7f3a2c."""
    return time.strftime("%Y%m%d-%H%M%S-", time.gmtime()) + "".join(secrets.choice(_LETTERS) for _ in range(6))


class RunFolder:
    """One run's folder."""

    def __init__(self, path: Path, file: RunFile | None = None):
        self.path = path
        self._file = file

    @property
    def run_id(self) -> str:
        return self.path.name

    @property
    def file(self) -> RunFile:
        if self._file is None:
            file = records.read_file(self.path)
            records.check_place(self.path, file)
            self._file = file
        return self._file

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    def begin(self, resumed_from: int = 0) -> spool.Attempt:
        """Takes the run for this process. InputError where another has it, or where it is over."""
        return spool.Attempt(self.path, self.run_id, resumed_from)

    def record(self) -> RunRecord:
        return pins.marked([_load(self.path, self._file)], self.path.parent.parent)[0]

    def series(self, metrics: Iterable[str] | None = None) -> list[Series]:
        return records.series(self.path, self.run_id, metrics)


class Home:
    """The folder that holds every run. It is made when the first run is created, and git ignores it."""

    def __init__(self, path: Path | str):
        self.path = Path(path).expanduser().absolute()

    @classmethod
    def default(cls) -> Home:
        """`$TRAINLAB_HOME`, read now; else `./.trainlab`."""
        return cls(os.environ.get("TRAINLAB_HOME") or ".trainlab")

    @property
    def run_folder(self) -> Path:
        return self.path / "runs"

    def prepare(self) -> Home:
        """Makes the folder, or says in one line why that cannot be."""
        probe = self.run_folder / records.temporary_name(f"probe-{secrets.token_hex(4)}")
        try:
            self.run_folder.mkdir(parents=True, exist_ok=True)
            ignore = self.path / ".gitignore"
            probe.write_text("*\n")
            if ignore.exists():
                probe.unlink()
            else:
                probe.rename(ignore)
        except OSError as error:
            with contextlib.suppress(OSError):
                probe.unlink(missing_ok=True)
            raise InputError(
                f"runs cannot be stored in {self.path}: {error.strerror}",
                "set TRAINLAB_HOME to a folder that you may write to, with space left",
                rule="home-not-writable",
            ) from None
        return self

    def create(
        self, file: RunFile, files: Mapping[str, str] | None = None, fill: Callable[[Path], None] | None = None
    ) -> RunFolder:
        """A new run's folder, whole or not at all. files: others by name, as {"working.diff": provenance.diff()}. fill:
        puts more into the folder."""
        final = self.run_folder / file.run_id
        temporary = self.run_folder / records.temporary_name(file.run_id)
        if not self.run_folder.is_dir():
            self.prepare()
        try:
            (temporary / "checkpoints").mkdir(parents=True)
            for name, text in (files or {}).items():
                (temporary / name).write_text(text)
            if fill:
                fill(temporary)
            with (temporary / "run.json").open("w") as out:
                json.dump(file.to_json(), out, indent=1)
                out.flush()
                os.fsync(out.fileno())
            if final.exists():
                raise InputError(f"run {file.run_id} exists already", "give the new run another id", rule="run-exists")
            temporary.rename(final)
        except OSError as error:
            raise spool.clear(error, final) from error
        finally:
            with contextlib.suppress(OSError):
                shutil.rmtree(temporary)
        return RunFolder(final)  # the file is read back: what it holds is JSON, for its maker too

    def folder(self, run_id: str) -> RunFolder:
        """The folder of a run, by its whole id (`queries.find` takes prefixes and names)."""
        path = self.run_folder / run_id
        if not run_id or run_id.startswith(".") or "/" in run_id or not (path / "run.json").exists():
            guess = closest(run_id, self.run_ids())
            cure = f"did you mean '{guess}'?" if guess else "`trainlab runs` lists them"
            raise InputError(f"no run '{run_id}' in {self.path}", cure, rule="unknown-run")
        return RunFolder(path)

    def run_ids(self) -> list[str]:
        """Every run's id, oldest first."""
        try:
            with os.scandir(self.run_folder) as entries:
                return sorted(entry.name for entry in entries if not entry.name.startswith(".") and entry.is_dir())
        except FileNotFoundError:
            return []
        except OSError as error:
            raise InputError(
                f"runs cannot be read from {self.path}: {error.strerror}",
                "set TRAINLAB_HOME to a folder that you may read",
                rule="home-not-readable",
            ) from None

    def records(self, query: str = "") -> list[RunRecord]:
        """The runs that `query` selects (see `queries`), oldest first."""
        from experiments.store.queries import parse

        found = pins.marked([_load(self.run_folder / run_id) for run_id in self.run_ids()], self.path)
        wanted = parse(query, found)
        return [record for record in found if wanted(record)]

    def series(self, run_ids: Iterable[str], metrics: Sequence[str] | None = None) -> list[Series]:
        """The runs' metrics, run by run in the order given."""
        return [line for run_id in run_ids for line in self.folder(run_id).series(metrics)]


def _load(folder: Path, file: RunFile | None = None) -> RunRecord:
    record = records.load(folder, file)
    records.check_place(folder, record.file)
    return record
