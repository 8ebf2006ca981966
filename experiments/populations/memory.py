"""Memory of the C library: kept while a population trains.

A step makes and frees dozens of tensors of a megabyte. glibc gives such memory back to the system at once, which clears
every page anew when it is taken again: a third of a step's time.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

# glibc's mallopt: which parameter, and in bytes what it is set to within and after.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_KEPT, _LARGEST, _USUAL = 1 << 30, 1 << 25, 1 << 26


@contextmanager
def kept() -> Iterator[None]:
    """Within it freed memory stays with the process. Nothing where the C library is another."""
    libc = _glibc()
    if libc is None:
        yield
        return
    libc.mallopt(_MMAP_THRESHOLD, _LARGEST)
    libc.mallopt(_TRIM_THRESHOLD, _KEPT)
    try:
        yield
    finally:
        libc.mallopt(_TRIM_THRESHOLD, _USUAL)
        libc.malloc_trim(0)


@functools.cache
def _glibc() -> Any:
    if sys.platform != "linux":
        return None
    libc = ctypes.CDLL(None)
    return libc if hasattr(libc, "gnu_get_libc_version") and hasattr(libc, "mallopt") else None
