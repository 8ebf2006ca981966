"""The processor that Python itself runs on. It is always there."""

from __future__ import annotations

import functools
import platform
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.devices.kind import DeviceKind

if TYPE_CHECKING:
    import torch


class Cpu(DeviceKind):
    name = "cpu"
    accelerator = "cpu"
    cure = ""

    def missing(self) -> str:
        return ""

    def count(self) -> int:
        return 1

    def model(self, device: torch.device) -> str:
        return processor()

    def capability(self, device: torch.device) -> str:
        import torch

        return torch.backends.cpu.get_cpu_capability()

    def synchronise(self, device: torch.device) -> None:
        """Nothing: its work is done when a call returns."""


@functools.cache
def processor() -> str:
    """The processor's model name, as exactly as the system tells it without a further program."""
    listing = Path("/proc/cpuinfo")
    lines = listing.read_text(errors="replace").splitlines() if listing.exists() else []
    told = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}
    return told.get("model name") or platform.processor() or platform.machine()
