"""8-bit numbers by blocks: each block is scaled by its largest magnitude, each number is the nearest of 256 values.

Source: Dettmers et al. 2022, "8-bit Optimizers via Block-wise Quantization", sections 2.1 and 2.2. The values are those
of dynamic tree quantization: seven decades below 1, the lowest with one fraction (two where there is no sign), each
with twice as many as the one below, at the middles of equal parts of [0.1, 1]; and 0 and 1.

A number of a block keeps about two digits where it is large. Below 2.75e-7 of the block's largest (1.6e-7 without a
sign) a number is nearer to 0 than to the lowest value.

Deviation: without a sign a number above 0 never becomes 0. What is averaged there (a second moment) is divided by:
Adam's step would be m/eps where v alone has vanished.
"""

from __future__ import annotations

import functools
import math

import torch
from torch import Tensor

DECADES = 7


@functools.cache
def values(signed: bool) -> tuple[float, ...]:
    """The 256 values, ascending, in [-1, 1] or [0, 1].

    >>> len(values(True)), len(values(False)), values(True)[-1], values(False)[:2]
    (256, 256, 1.0, (0.0, 3.25e-07))
    """
    found = [0.0, 1.0]
    for decade in range(DECADES):
        fractions = 2**decade * (1 if signed else 2)
        scale = 10.0 ** (decade - DECADES + 1)
        middles = [scale * (0.1 + 0.9 * (i + 0.5) / fractions) for i in range(fractions)]
        found += middles + [-middle for middle in middles if signed]
    return tuple(sorted(found))


def encode(tensor: Tensor, block: int, *, signed: bool) -> tuple[Tensor, Tensor]:
    """float32, any shape -> codes (uint8, the same shape) and the largest magnitude of each block of its numbers in
    row-major order (float32; the last block may be short)."""
    blocks = math.ceil(tensor.numel() / block)
    flat = torch.nn.functional.pad(tensor.reshape(-1), (0, blocks * block - tensor.numel())).reshape(blocks, block)
    largest = flat.abs().amax(1)
    scaled = flat / torch.where(largest > 0, largest, 1.0).unsqueeze(1)
    codes = torch.bucketize(scaled, _table(signed, tensor)[1])
    if not signed:
        codes = torch.where(flat > 0, codes.clamp(min=1), codes)
    codes = codes.to(torch.uint8)
    return codes.reshape(-1)[: tensor.numel()].reshape(tensor.shape), largest


def decode(codes: Tensor, largest: Tensor, block: int, *, signed: bool) -> Tensor:
    """The inverse of `encode`, to rounding: float32 in the shape of the codes."""
    numbers = _table(signed, largest)[0][codes.reshape(-1).long()]
    scales = largest.repeat_interleave(block)[: codes.numel()]
    return (numbers * scales).reshape(codes.shape)


def _table(signed: bool, like: Tensor) -> tuple[Tensor, Tensor]:
    """The values, and the middles between neighbours: which value is nearest."""
    return _tables(signed, like.device)


@functools.cache
def _tables(signed: bool, device: torch.device) -> tuple[Tensor, Tensor]:
    table = torch.tensor(values(signed), dtype=torch.float32)
    return table.to(device), ((table[1:] + table[:-1]) / 2).to(device)
