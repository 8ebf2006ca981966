"""What all tests share: the uploaders that they started are stopped at the end; small filesystems to be filled."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="session", autouse=True)
def _no_uploader_outlives_the_tests() -> Iterator[None]:
    yield
    uploads = sys.modules.get("experiments.store.uploads")
    for uploader in list(uploads._started.values()) if uploads else []:
        uploader.stop()


@pytest.fixture
def small_disk(tmp_path) -> Iterator[Callable[[str], Path]]:
    """Makes small filesystems, real ones: small_disk("2m") is the folder of one. Skips where nobody may mount."""
    mounted: list[Path] = []

    def make(size: str) -> Path:
        folder = tmp_path / f"disk{len(mounted)}"
        folder.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
        try:
            done = subprocess.run(command, capture_output=True, text=True)
        except FileNotFoundError:
            pytest.skip("there is no `mount` here, to make a small disk with")
        if done.returncode:
            pytest.skip(f"a small disk cannot be made here ({done.stderr.strip()})")
        mounted.append(folder)
        return folder

    yield make
    for folder in mounted:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
