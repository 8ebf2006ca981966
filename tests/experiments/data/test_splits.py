"""The digest of tensors."""

from __future__ import annotations

import hashlib

import torch

from experiments.data.splits import Splits


def test_the_digest_is_sha256_of_names_types_shapes_and_bytes() -> None:
    splits = Splits(
        {"train": (torch.tensor([[1, 2]], dtype=torch.uint8),), "test": (torch.tensor([3], dtype=torch.uint8),)}
    )
    expected = hashlib.sha256(b"test torch.uint8 (1,)\n\x03train torch.uint8 (1, 2)\n\x01\x02").hexdigest()
    assert splits.digest == expected


def test_layout_in_memory_does_not_matter_and_shape_does() -> None:
    tensor = torch.arange(6.0).view(2, 3)
    turned = tensor.t().contiguous().t()
    assert Splits({"train": (turned,)}).digest == Splits({"train": (tensor,)}).digest
    assert Splits({"train": (tensor.view(3, 2),)}).digest != Splits({"train": (tensor,)}).digest
