"""The residual network."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from algos.architectures.resnet import Block, ResNet
from algos.contracts import Signature
from algos.finding import InputError

FASHION = Signature("image", (1, 28, 28), 10)


@pytest.mark.parametrize(
    ("shape", "hyper"),
    [((1, 28, 28), {"stride": 2}), ((1, 8, 8), {}), ((3, 32, 32), {"blocks": 2}), ((1, 7, 9), {"stages": 2})],
)
def test_images_become_logits(shape: tuple[int, int, int], hyper: dict[str, int]) -> None:
    assert ResNet(Signature("image", shape, 4), width=4, **hyper)(torch.zeros(2, *shape)).shape == (2, 4)


@pytest.mark.parametrize("blocks", [1, 3])
def test_it_has_the_papers_6n_plus_2_layers(blocks: int) -> None:
    """He et al. 2016, section 4.2: with n blocks a stage and three stages, 6n + 2 layers, projections not counted."""
    model = ResNet(FASHION, width=4, blocks=blocks, stages=3)
    layers = [
        name for name, m in model.named_modules() if isinstance(m, (nn.Conv2d, nn.Linear)) and "shortcut" not in name
    ]
    assert len(layers) == 6 * blocks + 2


def test_a_stage_halves_the_sides_and_doubles_the_channels() -> None:
    model = ResNet(FASHION, width=4, stages=3).eval()
    x, shapes = model.stem(torch.zeros(1, 1, 28, 28)), []
    for block in model.layers:
        x = block(x)
        shapes.append(tuple(x.shape[1:]))
    assert shapes == [(4, 28, 28), (8, 14, 14), (16, 7, 7)]


def test_a_block_starts_as_its_shortcut() -> None:
    x = torch.randn(2, 4, 5, 5)
    assert torch.equal(Block(4, 4, stride=1)(x), F.relu(x))
    block = Block(4, 8, stride=2)
    torch.testing.assert_close(block(x), F.relu(block.shortcut(x)))


def test_a_block_adds_what_it_computes() -> None:
    block = Block(3, 3, stride=1).eval()
    nn.init.ones_(block.norm2.weight)
    x = torch.randn(2, 3, 6, 6)
    inside = F.conv2d(F.relu(block.norm1(F.conv2d(x, block.conv1.weight, padding=1))), block.conv2.weight, padding=1)
    torch.testing.assert_close(block(x), F.relu(x + block.norm2(inside)))


def test_images_too_small_for_its_stages_are_refused() -> None:
    with pytest.raises(InputError, match="reduce images 16 times, more than their 8 pixels; give fewer stages"):
        ResNet(Signature("image", (1, 8, 8), 10), stages=5)


def test_every_parameter_learns() -> None:
    torch.manual_seed(0)
    model = ResNet(FASHION, width=4, stride=2)
    for block in model.layers:
        nn.init.ones_(block.get_parameter("norm2.weight"))  # at 0 nothing before it has a gradient, in the first step
    F.cross_entropy(model(torch.randn(8, 1, 28, 28)), torch.arange(8)).backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in model.parameters())
