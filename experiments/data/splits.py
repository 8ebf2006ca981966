"""Splits: a task's tensors by split, with their digest, moved to a device once."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping

import torch
from torch import Tensor

Tensors = tuple[Tensor, ...]


class Splits:
    """Tensors on the CPU by split: "train", "validation" and "test", and "all" where splits share some (a graph).

    >>> splits = Splits({"train": (torch.zeros(3),)})
    >>> splits.on(torch.device("cpu"))["train"][0] is splits.on(torch.device("cpu"))["train"][0]
    True
    """

    def __init__(self, tensors: Mapping[str, Tensors]):
        self._tensors = dict(tensors)
        self._placed: dict[torch.device, dict[str, Tensors]] = {}

    def __getitem__(self, split: str) -> Tensors:
        return self._tensors[split]

    def on(self, device: torch.device) -> Mapping[str, Tensors]:
        """The tensors on a device: the same objects at every call."""
        if device not in self._placed:
            self._placed[device] = {
                split: tuple(tensor.to(device) for tensor in tensors) for split, tensors in self._tensors.items()
            }
        return self._placed[device]

    @functools.cached_property
    def digest(self) -> str:
        """sha256, in hex, over every split's name and its tensors' types, shapes and bytes."""
        found = hashlib.sha256()
        for split, tensors in sorted(self._tensors.items()):
            for tensor in tensors:
                found.update(f"{split} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
                found.update(tensor.contiguous().numpy().data)
        return found.hexdigest()
