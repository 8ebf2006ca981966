"""Ascend NPUs, through torch-npu, which adds `torch.npu` when it is imported."""

from __future__ import annotations

import importlib
import importlib.util
from typing import TYPE_CHECKING, Any

from experiments.devices.kind import DeviceKind

if TYPE_CHECKING:
    import torch


class Npu(DeviceKind):
    name = "npu"
    accelerator = "npu"
    cure = "install CANN and the torch-npu of torch's version (pip install torch-npu)"

    def missing(self) -> str:
        import torch

        if not hasattr(torch, "npu"):
            if importlib.util.find_spec("torch_npu") is None:
                return "torch-npu is not installed"
            try:
                importlib.import_module("torch_npu")
            except (ImportError, OSError) as error:
                return f"torch-npu cannot be imported ({str(error).partition(chr(10))[0]})"
        return "" if _npu().is_available() else "torch-npu finds no NPU (driver, or ASCEND_RT_VISIBLE_DEVICES)"

    def count(self) -> int:
        return int(_npu().device_count())

    def model(self, device: torch.device) -> str:
        return str(_npu().get_device_name(device.index or 0))

    def capability(self, device: torch.device) -> str:
        """An NPU's name says its generation; there is no further number."""
        return self.model(device)

    def synchronise(self, device: torch.device) -> None:
        _npu().synchronize(device)


def _npu() -> Any:
    import torch

    return torch.npu  # type: ignore[attr-defined]
