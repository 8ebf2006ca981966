"""fp16: matrix products in float16, and a loss scaled so that small gradients survive; all else in float32.

Paper: Micikevicius et al. 2018, with dynamic loss scaling as torch.amp.GradScaler does it. float16 has 11 bits of
significand and no number below 6e-8: what is smaller on the way back would be zero. Which operations run in float16 is
torch's autocast list for the device; weights stay float32 and are cast where used.

    L' <- s*L                                 what is differentiated; gradients are divided by s again
    skip the update, s <- backoff*s           where a gradient is not finite
    s <- growth*s                             after `growth_interval` updates in a row that were finite

A skipped update counts as one (budget and schedule move on), but changes neither weights nor the optimizer's state nor
its step. A loss that is itself infinite or NaN is not the scale's doing, and scaling does not cure it.

State: s and the updates since it changed, two numbers on the device. Works on the CPU, CUDA GPUs, Ascend NPUs
(torch-npu's own autocast) and Apple GPUs; refused where the device has no autocast to float16.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor

from algos.finding import InputError
from algos.spec import Declared, Int, Real, Spec


class Fp16(Declared):
    """torch's autocast to float16 for a device type (InputError where the device cannot), and the loss's scale.

    >>> precision = Fp16(init_scale=4.0)
    >>> precision.scaled(torch.tensor(0.5))
    tensor(2.)
    >>> precision.unscaled([torch.tensor([8.0, 2.0])])
    ([tensor([2.0000, 0.5000])], tensor(True))
    """

    init_scale: float = Real(65536.0, above=0)
    growth_factor: float = Real(2.0, above=1)
    backoff_factor: float = Real(0.5, above=0, below=1)
    growth_interval: int = Int(2000, low=1, unit="updates")

    def __init__(self, **hyper: Any):
        super().__init__(**hyper)
        self._scale = torch.tensor(self.init_scale, dtype=torch.float32)
        self._since = torch.tensor(0, dtype=torch.int32)  # finite updates since the scale changed

    def autocast(self, device_type: str) -> AbstractContextManager[Any]:
        missing = _missing(device_type)
        if missing:
            raise InputError(
                f"precision 'fp16' cannot be used on device '{device_type}': {missing}", "give precision=fp32",
                rule="unsupported-precision", place="precision",
            )  # fmt: skip
        return torch.autocast(device_type, dtype=torch.float16)

    @property
    def scale(self) -> Tensor:
        return self._scale

    def scaled(self, loss: Tensor) -> Tensor:
        if self._scale.device != loss.device:  # once: the state was made, or loaded, on the CPU
            self._scale, self._since = self._scale.to(loss.device), self._since.to(loss.device)
        return loss * self._scale

    def unscaled(self, tensors: Sequence[Tensor]) -> tuple[list[Tensor], Tensor]:
        inverse, found = self._scale.reciprocal(), torch.zeros_like(self._scale)
        if any(tensor.requires_grad for tensor in tensors):
            finite = torch.stack([tensor.detach().isfinite().all() for tensor in tensors]).all()
            return [tensor * inverse for tensor in tensors], finite
        for dtype in {tensor.dtype for tensor in tensors}:
            those = [tensor for tensor in tensors if tensor.dtype == dtype]
            torch._amp_foreach_non_finite_check_and_unscale_(those, found, inverse)
        return list(tensors), found == 0

    def updated(self, finite: Tensor) -> None:
        found = (~finite).to(torch.float32)
        torch._amp_update_scale_(
            self._scale, self._since, found, self.growth_factor, self.backoff_factor, self.growth_interval
        )

    def state_dict(self) -> dict[str, Any]:
        return {"scale": self._scale.clone(), "since": self._since.clone()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._scale, self._since = state["scale"].clone(), state["since"].clone()


@functools.cache
def _missing(device_type: str) -> str:
    """What the device lacks for autocast to float16; empty where nothing."""
    if device_type == "cuda":
        return "" if torch.cuda.is_available() else "no CUDA device is there"
    if device_type == "npu":
        return "" if hasattr(torch, "npu") else "torch-npu is not imported"
    if device_type == "mps":
        return "" if torch.backends.mps.is_available() else "no Apple GPU is there"
    return "" if torch.amp.is_autocast_available(device_type) else "torch has no autocast for it"


SPEC = Spec(
    build=Fp16,
    state="a scale and a count",
    cost="2 bytes an activation of a matrix product; one more pass over the gradients",
    cite="""@inproceedings{micikevicius2018mixed,
  title = {Mixed Precision Training},
  author = {Micikevicius, Paulius and Narang, Sharan and Alben, Jonah and Diamos, Gregory and Elsen, Erich and
            Garcia, David and Ginsburg, Boris and Houston, Michael and Kuchaiev, Oleksii and Venkatesh, Ganesh and
            Wu, Hao},
  booktitle = {International Conference on Learning Representations},
  year = {2018},
  url = {https://openreview.net/forum?id=r1gs9JgRZ}
}""",
)
