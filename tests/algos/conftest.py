"""A plain Oracle: what the contracts ask, written as simply as can be, for testing algorithms without the loop."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call

from algos.contracts import Buffers, Gradient, Named


class PlainOracle:
    """batch: (inputs, targets). loss: (predictions, targets) -> (mean, weight). parts: micro-batches a batch."""

    def __init__(self, model: nn.Module, loss: Callable[[Tensor, Tensor], tuple[Tensor, Any]], parts: int = 1):
        self.model = model
        self.parts = parts
        self.gradients = 0
        self.updates = 0
        self._loss = loss

    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        return ((name, weight) for name, weight in self.model.named_parameters() if weight.requires_grad)

    def predict(self, batch: Any, *, at: Named | None = None) -> Tensor:
        return self._forward(batch[0], dict(at or {}), "keep")

    def loss(self, batch: Any, *, at: Named | None = None, buffers: Buffers = "keep") -> Tensor:
        sums, weights = [], []
        for inputs, targets in zip(batch[0].chunk(self.parts), batch[1].chunk(self.parts), strict=True):
            mean, weight = self._loss(self._forward(inputs, dict(at or {}), buffers), targets)
            sums.append(mean * weight)
            weights.append(weight)
        return sum(sums) / sum(weights)

    def gradient(
        self, batch: Any, *, at: Named | None = None, create_graph: bool = False, buffers: Buffers = "update"
    ) -> Gradient:
        self.gradients += 1
        weights = {name: weight.detach().requires_grad_() for name, weight in self.named_parameters()}
        weights |= {
            name: tensor if tensor.requires_grad else tensor.detach().requires_grad_()
            for name, tensor in (at or {}).items()
        }
        loss = self.loss(batch, at=weights, buffers=buffers)
        grads = torch.autograd.grad(loss, list(weights.values()), create_graph=create_graph)
        named = dict(zip(weights, grads, strict=True))
        if at is None and not create_graph:  # then it is a backward pass of the model, and leaves .grad as one does
            for name, weight in self.named_parameters():
                weight.grad = named[name]
        return Gradient(loss.detach(), named)

    def product(
        self, batch: Any, vectors: Named, *, at: Named | None = None, matrix: str = "hessian"
    ) -> dict[str, Tensor]:
        """The Gauss-Newton matrix is J^T S J by micro-batches, S the mean loss's Hessian in the predictions."""
        self.gradients += 2
        weights = {name: weight.detach() for name, weight in self.named_parameters()} | dict(at or {})
        named = {name: vectors[name] for name in weights}
        if matrix == "hessian":
            gradient = torch.func.grad(lambda w: self.loss(batch, at=w))
            return torch.func.jvp(gradient, (weights,), (named,))[1]
        sums: list[dict[str, Tensor]] = []
        total = 0.0
        for inputs, targets in zip(batch[0].chunk(self.parts), batch[1].chunk(self.parts), strict=True):
            part, pull = torch.func.vjp(lambda w, x=inputs: self._forward(x, w, "keep"), weights)
            _, pushed = torch.func.jvp(lambda w, x=inputs: self._forward(x, w, "keep"), (weights,), (named,))
            slope = torch.func.grad(lambda out, y=targets: self._loss(out, y)[0])
            weight = self._loss(part, targets)[1]
            (found,) = pull(torch.func.jvp(slope, (part,), (pushed,))[1])
            sums.append({name: weight * tensor for name, tensor in found.items()})
            total += weight
        return {name: sum(each[name] for each in sums) / total for name in weights}

    def mean(self, tensors: Sequence[Tensor]) -> Sequence[Tensor]:
        return tensors

    def update(self, apply: Callable[[], None], finite: Tensor | None = None) -> None:
        apply()
        self.updates += 1

    def _forward(self, inputs: Tensor, at: dict[str, Tensor], buffers: Buffers) -> Tensor:
        kept = {name: buffer.clone() for name, buffer in self.model.named_buffers()} if buffers == "keep" else {}
        predictions: Tensor = functional_call(self.model, at | kept, (inputs,))
        return predictions


@pytest.fixture
def plain_oracle() -> type[PlainOracle]:
    return PlainOracle
