"""Where MLflow's store is, and whether it is there: cheap questions, asked before anything runs. Imports no mlflow."""

from __future__ import annotations

import os
from pathlib import Path

from algos.finding import InputError

_TIMEOUT_S = 3.0
_DATABASES = ("postgresql", "mysql", "mssql")


def tracking_uri() -> str:
    """`$MLFLOW_TRACKING_URI`, read now; else MLflow's own default, `mlflow.db` in this folder. Places are absolute."""
    return absolute(os.environ.get("MLFLOW_TRACKING_URI") or "sqlite:///mlflow.db")


def absolute(uri: str) -> str:
    """The URI with an absolute path, so that it means the same from any folder.

    >>> absolute("sqlite:////data/mlflow.db"), absolute("http://host:5000/")
    ('sqlite:////data/mlflow.db', 'http://host:5000')
    """
    path = sqlite_path(uri)
    if path is None:
        return uri.rstrip("/")
    head, _, rest = uri.partition(":///")
    _, mark, arguments = rest.partition("?")
    return f"{head}:///{path}{mark}{arguments}"


def sqlite_path(uri: str) -> Path | None:
    """The file of an SQLite URI, absolute; None for other URIs and for databases in memory."""
    head, mark, rest = uri.partition(":///")
    file = rest.partition("?")[0]
    if not mark or head.partition("+")[0] != "sqlite" or file in ("", ":memory:"):
        return None
    return Path(os.path.abspath(file))


def shown(uri: str) -> str:
    """The URI without its password.

    >>> shown("http://me:secret@host:5000")
    'http://me:***@host:5000'
    """
    head, mark, rest = uri.partition("://")
    who, at, host = rest.rpartition("@")
    return f"{head}{mark}{who.partition(':')[0]}:***{at}{host}" if at and ":" in who else uri


def check_tracking(uri: str) -> None:
    """InputError unless MLflow's store can be reached and written: asked before anything runs.

    A server is asked for its health. An SQLite file's folder must be there and writable. Databases and Databricks are
    not asked; their own clients tell.
    """
    scheme = uri.partition(":")[0].partition("+")[0].lower()
    path = sqlite_path(uri)
    if scheme in ("http", "https"):
        _check_server(uri)
    elif path is not None:
        _check_sqlite(uri, path)
    elif scheme == "sqlite" and path is None:
        raise _refused(f"{uri} is a database in memory, which nobody else can read", "give a file: sqlite:///mlflow.db")
    elif scheme == "file" or ("://" not in uri and not scheme.startswith("databricks")):
        raise _refused(
            f"{uri} is a folder, and MLflow 3.13 and later refuse file stores",
            "set MLFLOW_TRACKING_URI to a database (sqlite:///mlflow.db) or a server (http://host:5000)",
        )
    elif scheme not in _DATABASES and not scheme.startswith("databricks"):
        raise _refused(f"{shown(uri)} is not a place MLflow knows", "give sqlite:///FILE or http://HOST:PORT")


#: The rules of `check_tracking`: a place that can never be one, and one that is not there now.
WRONG, AWAY = "tracking-store", "tracking-away"


def _refused(said: str, cure: str, rule: str = WRONG) -> InputError:
    return InputError(f"{said} (nothing was run)", cure, rule=rule, source="MLFLOW_TRACKING_URI")


def _check_server(uri: str) -> None:
    import urllib.error
    import urllib.request

    cure = "start it, or set MLFLOW_TRACKING_URI to one that runs (unset: sqlite:///mlflow.db in this folder)"
    try:
        head, mark, rest = uri.rstrip("/").partition("://")
        place = rest.rpartition("@")[2]  # urllib takes no name and password
        with urllib.request.urlopen(f"{head}{mark}{place}/health", timeout=_TIMEOUT_S):
            return
    except urllib.error.HTTPError as error:
        with error:
            if error.code in (401, 403):
                return
            said = f"{shown(uri)} answers, but not as a healthy MLflow server ({error.code})"
            raise _refused(said, cure, AWAY) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise _refused(f"the tracking server {shown(uri)} does not answer ({reason})", cure, AWAY) from None


def _check_sqlite(uri: str, path: Path) -> None:
    cure = "set MLFLOW_TRACKING_URI to a file in a folder that you may write to, e.g. sqlite:///mlflow.db"
    if path.is_dir():
        raise _refused(f"{uri} is a folder, not a file", cure)
    if not path.parent.is_dir():
        raise _refused(f"the folder of {uri} does not exist", cure, AWAY)
    if not os.access(path.parent, os.W_OK) or (path.exists() and not os.access(path, os.W_OK)):
        raise _refused(f"{uri} cannot be written", cure, AWAY)
    if path.exists():
        with path.open("rb") as file:
            start = file.read(16)
        if start not in (b"", b"SQLite format 3\0"):
            raise _refused(f"{uri} is not an SQLite database", cure)
