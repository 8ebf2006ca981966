"""Noise that is a function of a counter: the same step and position give the same number, everywhere.

    h = mix(mix(i + a) XOR mix(t + b))             32 bits; i the position in the tensor, t the step, a and b streams
    u = (floor(h / 2^9) + 1/2) / 2^23              uniform in (0, 1), never 0 or 1
    z = Phi^-1(u)                                  standard normal, |z| < 5.4

It needs no generator and keeps no state: it is equal in every form of a step, for every member of a population and
after a resume. All tensors see the same noise at the same step; what whitens them one by one does not mind.

mix is the 32-bit finaliser x ^= x >> 16; x *= 0x21f0aaad; x ^= x >> 15; x *= 0x735a2d97; x ^= x >> 15 (found by search,
Wellons' hash-prospector), in 64-bit integers: no product leaves 63 bits, so no device wraps around in its own way.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

WORD = (1 << 32) - 1
#: The golden ratio's bits: it sets apart streams, and positions from steps.
GOLDEN = 0x9E3779B9
BITS = 23  # of h that are used: u and 2u - 1 are then exact in float32


def uniform_noise(like: Tensor, step: Tensor, stream: int = 0) -> Tensor:
    """Uniform in (0, 1). like: gives shape, dtype (float32 or float64) and device; step: 0-d, whole, below 2^24.

    >>> uniform_noise(torch.empty(2), torch.tensor(1.0))
    tensor([0.7697, 0.0253])
    """
    return (_halves(like, step, stream) + 1) / 2


def normal_noise(like: Tensor, step: Tensor, stream: int = 0) -> Tensor:
    """Standard normal. Arguments as of `uniform_noise`.

    >>> normal_noise(torch.empty(2), torch.tensor(1.0))
    tensor([ 0.7380, -1.9556])
    """
    return math.sqrt(2) * torch.erfinv(_halves(like, step, stream))


def _halves(like: Tensor, step: Tensor, stream: int) -> Tensor:
    """2u - 1, exactly."""
    positions = torch.arange(like.numel(), dtype=torch.int64, device=like.device).reshape(like.shape)
    keys = _mixed((step.to(torch.int64) + 1 + GOLDEN * (2 * stream + 1)) & WORD)
    words = _mixed(_mixed((positions + GOLDEN * (2 * stream + 2)) & WORD) ^ keys)
    return (2 * (words >> (32 - BITS)) + (1 - (1 << BITS))).to(like.dtype) / (1 << BITS)


def _mixed(x: Tensor) -> Tensor:
    """A bijection of 32-bit words that looks random."""
    x = (x ^ (x >> 16)).mul_(0x21F0AAAD).bitwise_and_(WORD)
    x = (x ^ (x >> 15)).mul_(0x735A2D97).bitwise_and_(WORD)
    return x ^ (x >> 15)
