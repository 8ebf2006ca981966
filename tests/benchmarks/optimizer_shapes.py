"""What optimizers are timed on: the parameters of a transformer, a ResNet-18 and the digits MLP.

The transformer has 6 layers of width 384, norms after each part (weight and bias), linear layers without biases, query,
key and value as one matrix, 8192 tokens tied to the output and 256 positions: 50 tensors, 13,870,080 numbers. The
ResNet-18 is He et al. 2016, table 1: 62 tensors, 11,689,512 numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

Shapes = dict[str, tuple[int, ...]]

#: Tensors that matrix methods leave to their fallback, AdamW, as their authors do.
NOT_HIDDEN = ("tokens", "positions", "head")


def transformer(width: int = 384) -> Shapes:
    """All sizes in proportion to the width."""
    found: Shapes = {}
    for layer in range(6):
        found |= {
            f"{layer}.qkv": (3 * width, width),
            f"{layer}.out": (width, width),
            f"{layer}.norm1.weight": (width,),
            f"{layer}.norm1.bias": (width,),
            f"{layer}.expand": (4 * width, width),
            f"{layer}.contract": (width, 4 * width),
            f"{layer}.norm2.weight": (width,),
            f"{layer}.norm2.bias": (width,),
        }
    return found | {"tokens": (width * 64 // 3, width), "positions": (width * 2 // 3, width)}


def resnet18() -> Shapes:
    found: Shapes = {"stem": (64, 3, 7, 7), "stem.norm.weight": (64,), "stem.norm.bias": (64,)}
    fan_in = 64
    for stage, width in enumerate((64, 128, 256, 512)):
        for block in range(2):
            name = f"{stage}.{block}"
            convolutions = {f"{name}.conv1": (width, fan_in, 3, 3), f"{name}.conv2": (width, width, 3, 3)}
            if fan_in != width:
                convolutions[f"{name}.shortcut"] = (width, fan_in, 1, 1)
            for convolution, shape in convolutions.items():
                found[convolution] = shape
                found |= {f"{convolution}.norm.weight": (width,), f"{convolution}.norm.bias": (width,)}
            fan_in = width
    return found | {"head": (1000, 512), "head.bias": (1000,)}


MODELS = {"transformer": transformer, "resnet18": resnet18}
#: The parameters of the digits MLP, 64-64-10.
MLP: Shapes = {"0.weight": (64, 64), "0.bias": (64,), "1.weight": (10, 64), "1.bias": (10,)}


@dataclass(frozen=True)
class Params:
    """Parameters of these shapes, and a gradient for each, the same at every call."""

    all: list[nn.Parameter]
    hidden: list[nn.Parameter]  # matrices and convolutions, without embeddings and head
    gradients: list[Tensor]

    @property
    def rest(self) -> list[nn.Parameter]:
        hidden = {id(param) for param in self.hidden}
        return [param for param in self.all if id(param) not in hidden]

    def give(self, own: list[Tensor]) -> None:
        """Fresh gradients: `own` refilled, since optimizers may change or take them."""
        torch._foreach_copy_(own, self.gradients)
        for param, gradient in zip(self.all, own, strict=True):
            param.grad = gradient


def make(shapes: Shapes, gradients: list[Tensor] | None = None, copies: int = 1) -> Params:
    """copies: how many tensors of each shape."""
    random = torch.Generator().manual_seed(1)
    named = [(name, shape) for name, shape in shapes.items() for _ in range(copies)]
    params = [nn.Parameter(torch.randn(shape, generator=random) * 0.05) for _, shape in named]
    hidden = [p for p, (name, _) in zip(params, named, strict=True) if p.dim() > 1 and name not in NOT_HIDDEN]
    if gradients is None:
        gradients = [torch.randn(shape, generator=random) * 0.01 for _, shape in named]
    return Params(params, hidden, gradients)


def numel(shapes: Shapes) -> int:
    return sum(torch.Size(shape).numel() for shape in shapes.values())
