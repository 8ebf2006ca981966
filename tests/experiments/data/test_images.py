"""Images in memory."""

from __future__ import annotations

import pytest
import torch

from experiments.data.images import Images, majority_accuracy

CPU = torch.device("cpu")


def images(train: int = 30) -> Images:
    """Every image is filled with its own number; the label is the number modulo 3."""

    def made(first: int, count: int) -> tuple[torch.Tensor, torch.Tensor]:
        numbers = torch.arange(first, first + count)
        return numbers.float().view(-1, 1, 1, 1).expand(-1, 1, 2, 2).contiguous(), numbers % 3

    return Images({"train": made(0, train), "validation": made(100, 2005), "test": made(3000, 7)}, classes=3)


def test_batches_keep_image_and_label_together() -> None:
    source = images().training(8, seed=1, device=CPU)
    for _ in range(9):
        batch = source.next()
        assert torch.equal(batch.inputs[0][:, 0, 0, 0].long() % 3, batch.targets)


def test_evaluation_is_in_order_whole_and_the_same_again() -> None:
    batches = images().evaluation("validation", CPU)
    for _ in range(2):
        assert torch.equal(torch.cat([batch.inputs[0][:, 0, 0, 0] for batch in batches]), torch.arange(100.0, 2105.0))


def test_facts() -> None:
    data = images()
    assert (data.signature.inputs, data.signature.outputs) == ((1, 2, 2), 3)
    assert dict(data.sizes) == {"train": 30, "validation": 2005, "test": 7}


def test_the_majority_is_the_trainings() -> None:
    assert majority_accuracy(torch.tensor([2, 2, 0]), torch.tensor([2, 0, 0, 0])) == 0.25


def test_the_digest_is_of_every_pixel_and_label() -> None:
    assert images().digest == images().digest
    assert images().digest != images(train=29).digest


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_tensors_move_to_the_device_once(device: str) -> None:
    data, place = images(), torch.device(device)
    first, second = (data.evaluation("test", place)[0] for _ in range(2))
    assert first.inputs[0].device.type == device
    assert first.targets.untyped_storage()._cdata == second.targets.untyped_storage()._cdata
