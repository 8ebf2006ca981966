"""Exponential moving averages, and the correction of their start from zero.

    m <- b*m + (1 - b)*x          the average of x; b in [0, 1)
    c = 1 - b^t                   the weight an average that began at zero has gathered after t steps

c is computed as -expm1(t*log b): in float32, 1 - b^t itself loses up to four digits while b^t is near 1.
"""

from __future__ import annotations

import torch
from torch import Tensor


def ema(average: Tensor, value: Tensor, decay: Tensor) -> Tensor:
    """b*average + (1 - b)*value, in one kernel. average, value: one shape, any rank; decay: broadcastable to it.

    >>> ema(torch.tensor([1.0]), torch.tensor([3.0]), torch.tensor(0.5))
    tensor([2.])
    """
    return torch.lerp(value, average, decay)


def ema_of_square(average: Tensor, value: Tensor, decay: Tensor) -> Tensor:
    """b*average + (1 - b)*value^2. Shapes as for `ema`.

    >>> ema_of_square(torch.tensor([1.0]), torch.tensor([3.0]), torch.tensor(0.5))
    tensor([5.])
    """
    return torch.lerp(value.square(), average, decay)


def gathered_weight(decay: Tensor, step: Tensor) -> Tensor:
    """1 - decay^step, accurately: what to divide an average by that began at zero. step: whole, >= 1.

    >>> gathered_weight(torch.tensor(0.5), torch.tensor(2.0))
    tensor(0.7500)
    """
    return -torch.expm1(step * torch.log(decay))
