"""Metrics: sums and counts over a batch, so that totals are exact whatever the batches.

    loss                -log softmax(prediction)[target], in nats, whatever loss an arm trains with
    accuracy            1 where the target's class has the largest prediction, else 0
    bits_per_character  loss / ln 2

each as the mean over the targets, from float32 predictions. Sums stay on the device (no host synchronisation), in
float64 where it has that.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import torch
from torch import Tensor
from torch.nn import functional as F

from algos.finding import unknown


def evaluate_batch(names: Iterable[str], predictions: Tensor, targets: Tensor) -> dict[str, tuple[Tensor, int]]:
    """name -> (0-d sum over the targets, how many targets). The metric of a split is total sum / total count.

    predictions (..., classes) logits, targets (...) class numbers. InputError for a name there is not.

    >>> sums = evaluate_batch(["accuracy"], torch.tensor([[0.0, 1.0], [0.0, 1.0]]), torch.tensor([1, 0]))
    >>> sums["accuracy"][0].item(), sums["accuracy"][1]
    (1.0, 2)
    """
    logits, wanted = predictions.reshape(-1, predictions.shape[-1]).float(), targets.reshape(-1)
    found = {}
    for name in names:
        if name not in METRICS:
            raise unknown("metric", name, METRICS)
        found[name] = (METRICS[name](logits, wanted), wanted.numel())
    return found


def _nats(logits: Tensor, targets: Tensor) -> Tensor:
    return _sum(F.cross_entropy(logits, targets, reduction="none"))


def _right(logits: Tensor, targets: Tensor) -> Tensor:
    return _sum(logits.argmax(dim=1) == targets)


def _bits(logits: Tensor, targets: Tensor) -> Tensor:
    return _nats(logits, targets) / math.log(2)


def _sum(values: Tensor) -> Tensor:
    wide = torch.float64 if values.device.type in ("cpu", "cuda") else torch.float32
    return values.sum(dtype=wide)


#: Name -> sum over the targets: logits (M, classes), targets (M,) -> 0-d.
METRICS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "loss": _nats,
    "accuracy": _right,
    "bits_per_character": _bits,
}
