"""Apple's GPU, through Metal Performance Shaders."""

from __future__ import annotations

from typing import TYPE_CHECKING

from experiments.devices.cpu import processor
from experiments.devices.kind import DeviceKind

if TYPE_CHECKING:
    import torch


class Mps(DeviceKind):
    name = "mps"
    accelerator = "mps"
    cure = "it takes an Apple GPU, macOS 13 or newer and torch's macOS build"

    def missing(self) -> str:
        import torch

        if not torch.backends.mps.is_built():
            return f"torch {torch.__version__} is built without MPS"
        return "" if torch.backends.mps.is_available() else "torch finds no Apple GPU"

    def count(self) -> int:
        return 1

    def model(self, device: torch.device) -> str:
        """The GPU is part of the processor and has no name of its own."""
        return f"GPU of {processor()}"

    def capability(self, device: torch.device) -> str:
        import platform

        return f"macOS {platform.mac_ver()[0]}"

    def synchronise(self, device: torch.device) -> None:
        import torch

        torch.mps.synchronize()
