"""Adam's quotient: an average over the root of an average of squares.

    q = x / (a*sqrt(v) + c)                            in general
    u = (x/cx) / (sqrt(v/cv) + eps)                    corrected: a = cx/sqrt(cv), c = cx*eps

x, v: one shape, any rank; a, c, cx, cv, eps broadcast to it. Numbers are put together before they meet a tensor, and
the one new tensor is worked on in place: of all ways to write it this takes the least memory and, without a compiler,
half the time.
"""

from __future__ import annotations

from torch import Tensor


def over_root(x: Tensor, v: Tensor, scale: Tensor, offset: Tensor) -> Tensor:
    """x / (scale*sqrt(v) + offset). x, v: one shape, v not negative; scale, offset: broadcastable to it.

    >>> import torch
    >>> over_root(torch.tensor([6.0]), torch.tensor([4.0]), torch.tensor(1.0), torch.tensor(1.0))
    tensor([2.])
    """
    return v.sqrt().mul_(scale).add_(offset).reciprocal_().mul_(x)


def corrected(x: Tensor, v: Tensor, x_weight: Tensor, v_weight: Tensor, eps: Tensor) -> Tensor:
    """(x/x_weight) / (sqrt(v/v_weight) + eps). The weights are what `ema.gathered_weight` gives.

    >>> import torch
    >>> half = torch.tensor(0.5)
    >>> corrected(torch.tensor([3.0]), torch.tensor([2.0]), half, half, torch.tensor(1.0))
    tensor([2.])
    """
    return over_root(x, v, x_weight * v_weight.rsqrt(), x_weight * eps)
