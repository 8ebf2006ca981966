"""Databases that other tools wrote, looked at before their libraries open them, which would make what is missing."""

from __future__ import annotations

import socket
import sqlite3
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import urlsplit

from algos.finding import InputError
from experiments.store.tracking import shown, sqlite_path

_PORTS = {"postgresql": 5432, "mysql": 3306, "mssql": 1433}
_TIMEOUT_S = 5.0
_SECRET = ("pass", "token", "secret", "key", "pwd")


def displayed(uri: str) -> str:
    """A URI without its secrets, the arguments among them.

    >>> displayed("postgresql://me:pw@host/db?sslpassword=x&timeout=3"), displayed("http://token@host")
    ('postgresql://me:***@host/db?sslpassword=***&timeout=3', 'http://***@host')
    """
    head, mark, arguments = shown(uri).partition("?")
    scheme, slashes, rest = head.partition("://")
    who, at, host = rest.rpartition("@")
    if at and ":" not in who:
        head = f"{scheme}{slashes}***@{host}"  # a name alone may be a token
    parts = [part.partition("=") for part in arguments.split("&")]
    safe = [f"{k}{eq}{'***' if any(word in k.lower() for word in _SECRET) else v}" for k, eq, v in parts]
    return f"{head}{mark}{'&'.join(safe)}"


def without_secrets(text: str, uri: str) -> str:
    """A library's message about a URI, with what `displayed` hides hidden."""
    said = " ".join(text.split()).replace(uri, displayed(uri))
    _, _, rest = uri.partition("://")
    who, at, _ = rest.rpartition("@")
    for secret in ([who.partition(":")[2] or who] if at else []) + _arguments(uri):
        said = said.replace(secret, "***") if len(secret) > 2 else said
    return said[:300]


def _arguments(uri: str) -> list[str]:
    parts = [part.partition("=") for part in uri.partition("?")[2].split("&")]
    return [value for key, _, value in parts if any(word in key.lower() for word in _SECRET)]


def check_sqlite(uri: str, tables: Iterable[str], tool: str) -> None:
    """InputError unless the file of an SQLite URI is there and has the tool's tables. Other URIs are not looked at.

    Nothing is written: an empty file would become a store, and another tool's database get tables it does not want.
    """
    path = sqlite_path(uri)
    if path is None:
        return
    check_file(path, f"{tool}'s SQLite file")
    found = _tables(path)
    if not set(tables) <= found:
        has = f"its tables: {', '.join(sorted(found)[:6])}" if found else "it has no tables"
        raise InputError(f"{path} is not {tool}'s ({has})", f"give {tool}'s own file", rule="wrong-kind")


def check_answers(uri: str) -> None:
    """InputError unless somebody listens at a database's host: libraries try for minutes. Others are not looked at."""
    parts = urlsplit(uri)
    port = next((port for name, port in _PORTS.items() if parts.scheme.startswith(name)), None)
    if port is None or not parts.hostname:
        return
    try:
        with socket.create_connection((parts.hostname, parts.port or port), timeout=_TIMEOUT_S):
            return
    except (OSError, ValueError) as error:
        said = f"{displayed(uri)} does not answer ({error})"
        raise InputError(said, "look whether it runs, and whether the address is right", rule="no-source") from None


def check_file(path: Path, what: str) -> None:
    """InputError unless the file is there, can be read and is not empty."""
    if not path.is_file():
        said = f"{path} is a folder" if path.is_dir() else f"{path} is not there"
        raise InputError(said, f"give {what}", rule="no-source")
    try:
        with path.open("rb") as file:
            start = file.read(1)
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror})", f"give {what}", rule="no-source") from None
    if not start:
        raise InputError(f"{path} is empty", f"give {what}", rule="empty-source")


def _tables(path: Path) -> set[str]:
    try:
        connection = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)
        try:
            return {str(row[0]) for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        finally:
            connection.close()
    except sqlite3.Error as error:
        said = f"{path} cannot be read as an SQLite database ({error})"
        busy = "locked" in str(error) or "busy" in str(error)
        cure = "import it when whatever writes it is done" if busy else "give the file that the tool wrote, whole"
        raise InputError(said, cure, rule="busy-source" if busy else "wrong-kind") from None
