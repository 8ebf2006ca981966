"""Images: a classification task's images in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from algos.contracts import Signature
from experiments.data.batch import Batch
from experiments.data.shuffled import Shuffled, Take
from experiments.data.splits import Splits
from experiments.data.together import Stacked
from experiments.task import BatchSource, Split

EVALUATION_BATCH = 1000


class Images:
    """TaskData of images (N, C, H, W) in float and labels (N,) by split.

    baselines: "majority", the test accuracy of always naming the commonest training class.
    """

    def __init__(self, splits: Mapping[str, tuple[Tensor, Tensor]], classes: int):
        self._splits = Splits(splits)
        images, labels = splits["train"]
        self.signature = Signature("image", tuple(images.shape[1:]), classes)
        self.digest = self._splits.digest
        self.sizes: Mapping[str, int] = {split: len(targets) for split, (_, targets) in splits.items()}
        self.baselines: Mapping[str, float] = {"majority": majority_accuracy(labels, splits["test"][1])}

    def training(self, batch_size: int, seed: int, device: torch.device) -> BatchSource:
        images, labels = self._splits.on(device)["train"]

        take = Labelled(images, labels)

        def open_epoch(generator: torch.Generator) -> Take:
            return take

        return Shuffled(len(labels), batch_size, seed, device, open_epoch)

    def evaluation(self, split: Split, device: torch.device) -> list[Batch]:
        images, labels = self._splits.on(device)[split]
        pairs = zip(images.split(EVALUATION_BATCH), labels.split(EVALUATION_BATCH), strict=True)
        return [Batch((part,), targets) for part, targets in pairs]


@dataclass(frozen=True)
class Labelled:
    """Rows of images and labels, as a batch."""

    images: Tensor
    labels: Tensor

    def __call__(self, rows: Tensor) -> Batch:
        return Batch((self.images.index_select(0, rows),), self.labels.index_select(0, rows))

    def together(self, takes: Sequence[Take], rows: Tensor) -> Stacked:
        """rows: (members, B)."""
        flat = rows.reshape(-1)
        images = self.images.index_select(0, flat).view(*rows.shape, *self.images.shape[1:])
        return Stacked((images,), self.labels.index_select(0, flat).view(rows.shape))


def majority_accuracy(train: Tensor, held_out: Tensor) -> float:
    """The share of held_out (M,) that is the commonest class of train (N,); the lowest class of several as common."""
    return (held_out == train.bincount().argmax()).double().mean().item()
