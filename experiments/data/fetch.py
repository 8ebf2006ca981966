"""Fetch: a published data set's files, found in a folder or downloaded once, and checked. Torch-free.

Looked for in `$TRAINLAB_DATA/<folder>`, then where a distribution's package puts them, then in the cache
(`$XDG_CACHE_HOME/trainlab`, else `~/.cache/trainlab`), where missing ones are downloaded. The first folder that holds
any of the files must hold them all. Every file's length and sha256 are checked at every load, so what is read is what
was published.
"""

from __future__ import annotations

import hashlib
import os
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

from algos.finding import InputError

TIMEOUT_S = 30.0
_CHUNK_BYTES = 1 << 20
_DOWNLOADS: ContextVar[bool] = ContextVar("downloads", default=True)


@contextmanager
def from_disk() -> Iterator[None]:
    """Nothing is downloaded within: what is not on this machine is missing."""
    token = _DOWNLOADS.set(False)
    try:
        yield
    finally:
        _DOWNLOADS.reset(token)


@dataclass(frozen=True)
class Remote:
    """One published file: its name, where it is, its sha256 in hex and its length."""

    name: str
    url: str
    sha256: str
    size_bytes: int


@dataclass(frozen=True)
class Published:
    """A data set as published. folder: where its files lie below $TRAINLAB_DATA and below the cache. elsewhere: other
    folders to look in. package: how else to get it, for the message."""

    name: str
    folder: str
    files: tuple[Remote, ...]
    elsewhere: tuple[str, ...] = ()
    package: str = ""

    def fetch(self, root: Path | None) -> Path:
        """The folder with all the files, each checked. root: $TRAINLAB_DATA or None.

        InputError, naming the file and where to get it, for one that is missing, truncated, changed or unreadable.
        """
        places = [*([root / self.folder] if root else []), *(Path(place) for place in self.elsewhere)]
        for place in places:
            if any((place / file.name).exists() for file in self.files):
                for file in self.files:
                    self._demand(place / file.name, file)
                return place
        return self._from_cache(root)

    def _demand(self, path: Path, file: Remote) -> None:
        wrong = problem(path, file)
        if wrong:
            raise InputError(wrong, f"get it again from {file.url}", rule="bad-data", source=str(path))

    def _from_cache(self, root: Path | None) -> Path:
        folder = cache() / self.folder
        for file in self.files:
            path = folder / file.name
            if problem(path, file):
                try:
                    download(file, path)
                except OSError as error:
                    raise self._unavailable(file, root, error) from error
        return folder

    def _unavailable(self, file: Remote, root: Path | None, error: OSError) -> InputError:
        where = f"not in {root / self.folder}" if root else "not at hand (TRAINLAB_DATA is not set)"
        ways = f"put it into $TRAINLAB_DATA/{self.folder}, or go online: it is downloaded from {file.url}"
        return InputError(
            f"{file.name} is {where}, and the download failed ({_reason(error)})",
            f"{ways}{f', or {self.package}' if self.package else ''}", rule="missing-data", source=self.name,
        )  # fmt: skip


def cache() -> Path:
    """Where downloads are kept."""
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "trainlab"


def problem(path: Path, file: Remote) -> str:
    """What is wrong with a file, in words; empty when it is the published one."""
    try:
        size = path.stat().st_size
        if size != file.size_bytes:
            return f"{'truncated' if size < file.size_bytes else 'too long'}: {size} bytes of {file.size_bytes}"
        with path.open("rb") as stream:
            found = hashlib.file_digest(stream, "sha256").hexdigest()
    except FileNotFoundError:
        return "missing"
    except OSError as error:
        return f"cannot be read ({_reason(error)})"
    return "" if found == file.sha256 else f"not the published file: sha256 {found[:12]}..., not {file.sha256[:12]}..."


def download(file: Remote, path: Path) -> None:
    """Download a file to path. Only a whole and right one appears there, also when several processes do this at once.

    Raises OSError where the network, the disk or the file that came is at fault.
    """
    if not _DOWNLOADS.get():
        raise OSError("not asked for here")
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.{uuid.uuid4().hex}.part")
    try:
        with urllib.request.urlopen(file.url, timeout=TIMEOUT_S) as stream, partial.open("wb") as out:
            while chunk := stream.read(_CHUNK_BYTES):
                out.write(chunk)
        wrong = problem(partial, file)
        if wrong:
            raise OSError(f"what came is {wrong}")
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def _reason(error: OSError) -> str:
    cause = getattr(error, "reason", error)
    return str(getattr(cause, "strerror", None) or cause)
