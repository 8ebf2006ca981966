"""A clock that can be put ahead, so that a test of seconds asks nothing of the machine's speed."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest


@pytest.fixture
def jump(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """jump(s): so many seconds have passed, by the clock that training is measured with (`time.perf_counter`)."""
    real, ahead = time.perf_counter, [0.0]

    def pass_by(seconds: float) -> None:
        ahead[0] += seconds

    monkeypatch.setattr(time, "perf_counter", lambda: real() + ahead[0])
    return pass_by
