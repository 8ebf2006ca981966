"""bf16: matrix products in bfloat16, weights, sums and the optimizer in float32.

Paper: Kalamkar et al. 2019. bfloat16 has float32's exponents (so losses need no scaling) and 8 bits of significand.
Which operations run in bfloat16 is torch's autocast list for the device; weights stay float32 and are cast where used.

Works on the CPU, CUDA GPUs, Ascend NPUs (torch-npu's own autocast) and Apple GPUs from macOS 14. Where the device has
no autocast to bfloat16 it is refused: torch itself would warn and go on in float32.
"""

from __future__ import annotations

import functools
from contextlib import AbstractContextManager
from typing import Any

import torch

from algos.finding import InputError
from algos.spec import Declared, Spec


class Bf16(Declared):
    """torch's autocast to bfloat16 for a device type; InputError where the device cannot.

    >>> with Bf16().autocast("cpu"):
    ...     (torch.ones(2, 2) @ torch.ones(2, 2)).dtype
    torch.bfloat16
    """

    def autocast(self, device_type: str) -> AbstractContextManager[Any]:
        missing = _missing(device_type)
        if missing:
            raise InputError(
                f"precision 'bf16' cannot be used on device '{device_type}': {missing}", "give precision=fp32",
                rule="unsupported-precision", place="precision",
            )  # fmt: skip
        return torch.autocast(device_type, dtype=torch.bfloat16)


@functools.cache
def _missing(device_type: str) -> str:
    """What the device lacks for autocast to bfloat16; empty where nothing."""
    if device_type == "cuda":
        if not torch.cuda.is_available():
            return "no CUDA device is there"
        return "" if torch.cuda.is_bf16_supported() else "this GPU has no bfloat16"
    if device_type == "npu" and not hasattr(torch, "npu"):
        return "torch-npu is not imported"
    if device_type == "mps":
        recent = torch.backends.mps.is_available() and torch.backends.mps.is_macos_or_newer(14, 0)
        return "" if recent else "it needs an Apple GPU and macOS 14 or newer"
    if device_type != "npu" and not torch.amp.is_autocast_available(device_type):
        return "torch has no autocast for it"
    return ""


SPEC = Spec(
    build=Bf16,
    state="none",
    cost="2 bytes an activation of a matrix product",
    cite="""@article{kalamkar2019study,
  title = {A Study of {BFLOAT16} for Deep Learning Training},
  author = {Kalamkar, Dhiraj and Mudigere, Dheevatsa and Mellempudi, Naveen and Das, Dipankar and Banerjee, Kunal and
            Avancha, Sasikanth and others},
  journal = {arXiv preprint arXiv:1905.12322},
  year = {2019}
}""",
)
