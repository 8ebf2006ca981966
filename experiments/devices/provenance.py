"""What a run stores of the device that computed it: bits repeat only on the same build, processor and threads."""

from __future__ import annotations

import os
import platform
from typing import TYPE_CHECKING, Any

from experiments.devices.choosing import kind_of
from experiments.devices.cpu import processor

if TYPE_CHECKING:
    import torch


def facts(device: torch.device | str) -> dict[str, Any]:
    """Of the device: type, index (0 on the CPU), name, count (of its kind), capability. Of the machine: processor,
    architecture, cores (that this process may use), threads (that torch uses). All are JSON."""
    import torch

    at = torch.device(device)
    kind = kind_of(at)
    return {
        "type": at.type,
        "index": at.index or 0,
        "name": kind.model(at),
        "count": kind.count(),
        "capability": kind.capability(at),
        "processor": processor(),
        "architecture": platform.machine(),
        "cores": _cores(),
        "threads": torch.get_num_threads(),
    }


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
