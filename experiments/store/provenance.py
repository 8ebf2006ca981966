"""Provenance: with what code, packages and machine a run was made."""

from __future__ import annotations

import functools
import getpass
import hashlib
import os
import platform
import shlex
import socket
import subprocess
import sys
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

#: Packages whose version can change a result or a record.
PACKAGES = (
    "trainlab", "torch", "torch-npu", "lightning", "optuna", "mlflow", "torch-geometric", "torchmetrics", "numpy",
    "scipy", "scikit-learn", "pandas", "triton", "safetensors", "pydantic", "transformers", "accelerate",
)  # fmt: skip
#: Words of the environment that can change a result, by how they begin. None of them holds secrets.
ENVIRONMENT = (
    "OMP_", "MKL_NUM", "CUDA_VISIBLE", "CUBLAS_WORKSPACE", "ASCEND_", "NPU_", "HCCL_", "NCCL_", "PYTORCH_", "TORCH_",
    "PYTHONHASHSEED", "TRAINLAB_", "SLURM_JOB_ID", "SLURM_PROCID", "WORLD_SIZE",
)  # fmt: skip
_DIFF_BYTES = 1_000_000
_GIT_TIMEOUT_S = 5.0
_TRAINLAB = Path(__file__).resolve().parents[2]


def provenance() -> dict[str, Any]:
    """What is known without asking the device: JSON, at once (found out once a process).

    commit, dirty, diff_sha256: of the working folder's repository, "" and False outside one. trainlab: the same of its
    own checkout. packages, python, platform, machine, cpus, host, user, command, environment.
    """
    return {**_found(os.getcwd()), "environment": _environment()}


def diff() -> str:
    """The changes of the working folder that are not committed, new source files too, at most 1 MB of them; or ""."""
    return _repository(os.getcwd()).text


class _Repository:
    """A folder's git repository. All empty where there is none, or no git."""

    def __init__(self, commit: str, changes: bytes):
        self.commit = commit
        self.dirty = bool(changes)
        self.sha256 = hashlib.sha256(changes).hexdigest() if changes else ""
        self.text = changes[:_DIFF_BYTES].decode(errors="replace")
        if len(changes) > _DIFF_BYTES:
            self.text += f"\n[cut: {len(changes)} bytes in all]\n"

    def to_json(self) -> dict[str, Any]:
        return {"commit": self.commit, "dirty": self.dirty, "diff_sha256": self.sha256}


@functools.cache
def _repository(folder: str) -> _Repository:
    commit = _git(folder, "rev-parse", "HEAD").decode().strip()
    inside = bool(commit) or _git(folder, "rev-parse", "--is-inside-work-tree").strip() == b"true"
    if not inside:
        return _Repository("", b"")
    changes = _git(folder, "diff", "HEAD", "--no-ext-diff", "--no-color") if commit else b""
    untracked = _git(
        folder, "ls-files", "-z", "--others", "--exclude-standard", "--", "*.py", "*.yaml", "*.yml", "*.toml"
    )
    new = b"".join(_whole(folder, os.fsdecode(name)) for name in untracked.split(b"\0") if name)
    return _Repository(commit, changes + new)


def _whole(folder: str, name: str) -> bytes:
    try:
        text = Path(folder, name).read_bytes()
    except OSError:
        text = b"cannot be read"
    return b"\nnew file %s\n%s" % (os.fsencode(name), text)


@functools.cache
def _found(folder: str) -> Mapping[str, Any]:
    own = _repository(str(_TRAINLAB)) if (_TRAINLAB / ".git").exists() else _Repository("", b"")
    return {
        **_repository(folder).to_json(),
        "trainlab": own.to_json(),
        "packages": _packages(),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "machine": platform.machine(),
        "cpus": os.cpu_count(),
        "host": socket.gethostname(),
        "user": _user(),
        "command": _command(),
    }


def _packages() -> dict[str, str]:
    versions = {}
    for name in PACKAGES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return versions


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container's user may have no name
        return ""


def _command() -> str:
    program = Path(sys.argv[0]).name if sys.argv and sys.argv[0] else "python"
    return shlex.join([program, *sys.argv[1:]])


def _environment() -> dict[str, str]:
    return {key: value for key, value in sorted(os.environ.items()) if key.startswith(ENVIRONMENT)}


def _git(folder: str, *arguments: str) -> bytes:
    """What git says; nothing where there is no git, no repository, or no answer in time."""
    command = ["git", "-C", folder, "--no-optional-locks", *arguments]
    try:
        done = subprocess.run(
            command, capture_output=True, timeout=_GIT_TIMEOUT_S, stdin=subprocess.DEVNULL, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return b""
    return done.stdout if done.returncode == 0 else b""
