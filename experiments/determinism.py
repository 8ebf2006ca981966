"""Determinism: which operations of a run give other bits each time on its device, found out in its first update.

torch knows them, and says so where it was asked for deterministic algorithms. It is asked while the first update's
gradients are computed, and only then: no later update pays for it, and no compiled step is compiled twice. On the CPU
nothing changes by it. Where a user has asked torch already, their choice stands.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

_NAMED = re.compile(r"^(.+?) does not have a deterministic implementation")
_CUBLAS = "uses CuBLAS"


class Watching:
    """An oracle that passes everything on, and tells once which operations under its gradients are not
    deterministic."""

    def __init__(self, oracle: Any, tell: Callable[[list[str]], None]):
        self._oracle, self._tell = oracle, tell

    def __getattr__(self, name: str) -> Any:
        return getattr(self._oracle, name)

    def gradient(self, *arguments: Any, **words: Any) -> Any:
        return self._watched("gradient", *arguments, **words)

    def product(self, *arguments: Any, **words: Any) -> Any:
        return self._watched("product", *arguments, **words)

    def loss(self, *arguments: Any, **words: Any) -> Any:
        return self._watched("loss", *arguments, **words)

    def _watched(self, name: str, *arguments: Any, **words: Any) -> Any:
        with asking() as found:
            value = getattr(self._oracle, name)(*arguments, **words)
        if found:
            self._tell(found)
        return value


@contextmanager
def asking() -> Iterator[list[str]]:
    """The names of operations within it that are not deterministic, filled at its end, each once."""
    found: list[str] = []
    if torch.are_deterministic_algorithms_enabled():
        yield found
        return
    memory: Any = torch.utils.deterministic  # its one setting is a property of the module
    filled = memory.fill_uninitialized_memory
    try:
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            memory.fill_uninitialized_memory = False
            torch._C._set_deterministic_algorithms(True, warn_only=True)  # the public word also loads a compiler
            yield found
    finally:
        torch._C._set_deterministic_algorithms(False, warn_only=False)
        memory.fill_uninitialized_memory = filled
    for each in heard:
        if name := named(str(each.message)):
            found.extend([name] if name not in found else [])
        else:
            warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)


def named(text: str) -> str:
    """The operation that a warning of torch's is about; "" for any other warning.

    >>> named("cumsum_cuda_kernel does not have a deterministic implementation, but you set ...")
    'cumsum_cuda_kernel'
    """
    if match := _NAMED.match(text):
        return match[1]
    return "matrix products (CUBLAS_WORKSPACE_CONFIG=:4096:8 makes them so)" if _CUBLAS in text else ""


def said(names: list[str], device: object) -> str:
    return f"not deterministic on {device}: {', '.join(names)}; a run repeats to rounding only"
