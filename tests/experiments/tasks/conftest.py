"""Where real data are."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture
def data_root() -> Path:
    """$TRAINLAB_DATA; skips without it."""
    root = os.environ.get("TRAINLAB_DATA")
    if not root:
        pytest.skip("TRAINLAB_DATA is not set")
    return Path(root).expanduser()
