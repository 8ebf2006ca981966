"""What all tests share: the uploaders that they started are stopped at the end."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session", autouse=True)
def _no_uploader_outlives_the_tests() -> Iterator[None]:
    yield
    uploads = sys.modules.get("experiments.store.uploads")
    for uploader in list(uploads._started.values()) if uploads else []:
        uploader.stop()
