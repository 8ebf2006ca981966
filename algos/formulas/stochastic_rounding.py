"""Stochastic rounding to bfloat16: up or down with the probabilities that keep the mean.

Source: Gupta et al. 2015, "Deep Learning with Limited Numerical Precision", section 3.1. bfloat16 is the upper half of
a float32: a random whole number below 2^16 is added to the lower half, which is then cut off.

    P(round up) = (x - down)/(up - down)        so that E[round(x)] = x

An update smaller than half the distance of two weights is lost by rounding to nearest, always; here it counts now and
then, and in the mean.
"""

from __future__ import annotations

import torch
from torch import Tensor


def stochastic_round(values: Tensor) -> Tensor:
    """float32, any shape -> bfloat16, with torch's own random numbers. What is not finite stays.

    >>> stochastic_round(torch.tensor([1.0, -2.5, float("inf")])).tolist()  # these are bfloat16's own
    [1.0, -2.5, inf]
    """
    assert values.dtype == torch.float32, f"of float32 only, not {values.dtype}"
    bits = values.view(torch.int32)
    rounded = ((bits + torch.randint_like(bits, 0, 1 << 16)) & -(1 << 16)).view(torch.float32)
    return torch.where(torch.isfinite(values), rounded, values).to(torch.bfloat16)
