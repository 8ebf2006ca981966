"""GPUs that torch reaches through CUDA (NVIDIA), or through ROCm under the same name (AMD)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from experiments.devices.kind import DeviceKind

if TYPE_CHECKING:
    import torch


class Cuda(DeviceKind):
    name = "cuda"
    accelerator = "cuda"
    cure = "install a GPU driver and a CUDA build of torch (pytorch.org/get-started)"

    def missing(self) -> str:
        import torch

        if torch.version.cuda is None and torch.version.hip is None:
            return f"torch {torch.__version__} is built without CUDA"
        return "" if torch.cuda.is_available() else "torch finds no GPU (driver, or CUDA_VISIBLE_DEVICES)"

    def count(self) -> int:
        import torch

        return torch.cuda.device_count()

    def model(self, device: torch.device) -> str:
        import torch

        return torch.cuda.get_device_name(device)

    def capability(self, device: torch.device) -> str:
        import torch

        return "{}.{}".format(*torch.cuda.get_device_capability(device))

    def synchronise(self, device: torch.device) -> None:
        import torch

        torch.cuda.synchronize(device)
