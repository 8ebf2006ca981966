"""TaskOracle: what an algorithm may ask of a task, answered for one model on one device.

It owns the micro-batches, the autocast (around the forward pass and the loss only, so that no optimizer runs under it)
and the counts of gradients and updates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.func import functional_call

from algos.contracts import Buffers, Gradient, Loss, Named, Precision
from experiments.data.batch import Batch


class TaskOracle:
    """An `algos.contracts.Oracle`.

    accumulate: how many micro-batches an update's batch is split into; the gradient is that of the whole batch,
    micro-batches counting by their weight. backward: how a loss is differentiated into `.grad` (a strategy's own
    backward, so that its hooks fire); plain autograd by default.
    """

    def __init__(
        self, model: nn.Module, loss: Loss, precision: Precision, *, accumulate: int = 1, device: torch.device,
        backward: Callable[[Tensor], None] = torch.autograd.backward,
    ):  # fmt: skip
        self.model = model
        self.accumulate = accumulate
        self.gradients = 0
        self.updates = 0
        self._loss = loss
        self._precision = precision
        self._device = device
        self._backward = backward
        self._trained = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
        self._has_buffers = next(model.buffers(), None) is not None

    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        return iter(self._trained)

    def predict(self, batch: Batch, *, at: Named | None = None) -> Tensor:
        with self._precision.autocast(self._device.type):
            return self._forward(batch, at, "keep")

    def loss(self, batch: Batch, *, at: Named | None = None, buffers: Buffers = "keep") -> Tensor:
        """0-d: the mean over the whole batch."""
        total, weight = None, 0.0
        for part in batch.split(self.accumulate):
            mean, share = self._part(part, at, buffers)
            total = mean * share if total is None else total + mean * share
            weight = weight + share
        assert total is not None
        return total / _counted(weight)

    def gradient(
        self, batch: Batch, *, at: Named | None = None, create_graph: bool = False, buffers: Buffers = "update"
    ) -> Gradient:
        self.gradients += 1
        with torch.enable_grad():  # a component may call from under no_grad
            return self._gradient(batch, at, create_graph, buffers)

    def _gradient(self, batch: Batch, at: Named | None, create_graph: bool, buffers: Buffers) -> Gradient:
        if at is None and not create_graph:
            return self._own_gradient(batch, buffers)
        leaves = self._leaves(at)
        if create_graph:
            loss = self.loss(batch, at=leaves, buffers=buffers)
            grads = torch.autograd.grad(loss, list(leaves.values()), create_graph=True, materialize_grads=True)
            return Gradient(loss, dict(zip(leaves, grads)))
        return self._gradient_at(batch, leaves, buffers)

    def product(
        self, batch: Batch, vectors: Named, *, at: Named | None = None, matrix: Literal["hessian", "ggn"] = "hessian"
    ) -> dict[str, Tensor]:
        self.gradients += 2  # it differentiates twice
        with torch.enable_grad():
            return self._product(batch, vectors, at, matrix)

    def _product(self, batch: Batch, vectors: Named, at: Named | None, matrix: str) -> dict[str, Tensor]:
        leaves = self._leaves(at)
        names, tensors = list(leaves), list(leaves.values())
        given = [vectors[name] for name in names]
        found: Sequence[Tensor]
        if matrix == "hessian":
            loss = self.loss(batch, at=leaves)
            grads = torch.autograd.grad(loss, tensors, create_graph=True, materialize_grads=True)
            found = torch.autograd.grad(grads, tensors, grad_outputs=given, materialize_grads=True)
        else:
            found = self._gauss_newton(batch, leaves, given)
        return dict(zip(names, found))

    def mean(self, tensors: Sequence[Tensor]) -> Sequence[Tensor]:
        return tensors

    def update(self, apply: Callable[[], None], finite: Tensor | None = None) -> None:
        """Only a precision that scales losses passes `finite`; none in the catalogue does yet, so reading it on the
        host is fine."""
        if finite is None or bool(finite):
            apply()
        self.updates += 1

    def _own_gradient(self, batch: Batch, buffers: Buffers) -> Gradient:
        for _, parameter in self._trained:
            parameter.grad = None
        if self.accumulate == 1:
            loss, _ = self._part(batch, None, buffers)
            self._backward(loss)
            loss = loss.detach()
        else:
            total, weight = None, 0.0
            for part in batch.split(self.accumulate):
                mean, share = self._part(part, None, buffers)
                weighted = mean * share
                self._backward(weighted)
                total = weighted.detach() if total is None else total + weighted.detach()
                weight = weight + share
            assert total is not None
            loss = total / _counted(weight)
            torch._foreach_div_([p.grad for _, p in self._trained if p.grad is not None], _counted(weight))
        return Gradient(loss, {name: p.grad for name, p in self._trained if p.grad is not None})

    def _gradient_at(self, batch: Batch, leaves: dict[str, Tensor], buffers: Buffers) -> Gradient:
        tensors = list(leaves.values())
        sums: list[Tensor] | None = None
        total, weight = None, 0.0
        for part in batch.split(self.accumulate):
            mean, share = self._part(part, leaves, buffers)
            weighted = mean * share
            grads = list(torch.autograd.grad(weighted, tensors, materialize_grads=True))
            sums = grads if sums is None else list(torch._foreach_add(sums, grads))
            total = weighted.detach() if total is None else total + weighted.detach()
            weight = weight + share
        assert sums is not None
        assert total is not None
        torch._foreach_div_(sums, _counted(weight))
        return Gradient(total / _counted(weight), dict(zip(leaves, sums)))

    def _gauss_newton(self, batch: Batch, leaves: dict[str, Tensor], vectors: list[Tensor]) -> list[Tensor]:
        """J^T H J v with J the predictions' Jacobian and H the loss's Hessian in the predictions (Schraudolph 2002),
        the J v by two reverse passes."""
        tensors = list(leaves.values())
        predictions = self.predict(batch, at=leaves)
        dual = torch.zeros_like(predictions, requires_grad=True)
        pulled = torch.autograd.grad(predictions, tensors, dual, create_graph=True, materialize_grads=True)
        pushed = torch.autograd.grad(pulled, dual, grad_outputs=vectors, retain_graph=True)[0]
        apart = predictions.detach().requires_grad_()
        mean, _ = self._loss(apart, batch.targets)
        slope = torch.autograd.grad(mean, apart, create_graph=True)[0]
        curved = torch.autograd.grad(slope, apart, grad_outputs=pushed)[0]
        return list(torch.autograd.grad(predictions, tensors, curved, materialize_grads=True))

    def _leaves(self, at: Named | None) -> dict[str, Tensor]:
        given: Mapping[str, Tensor] = at or {}
        return {
            name: tensor if tensor.requires_grad else tensor.detach().requires_grad_()
            for name, tensor in ((name, given.get(name, parameter)) for name, parameter in self._trained)
        }

    def _part(self, batch: Batch, at: Named | None, buffers: Buffers) -> tuple[Tensor, Any]:
        with self._precision.autocast(self._device.type):
            return self._loss(self._forward(batch, at, buffers), batch.targets)

    def _forward(self, batch: Batch, at: Named | None, buffers: Buffers) -> Tensor:
        keeps = buffers == "keep" and self._has_buffers
        if at is None and not keeps:
            predictions = self.model(*batch.inputs)
        else:
            tensors: dict[str, Any] = dict(at or {})
            if keeps:
                tensors |= {name: buffer.clone() for name, buffer in self.model.named_buffers()}
            predictions = functional_call(self.model, tensors, batch.inputs)
        return predictions if batch.where is None else predictions[batch.where]


def _counted(weight: Any) -> Any:
    """What a sum is divided by: its weight, or 1 where nothing counted, so that the mean over nothing is 0."""
    return torch.where(weight > 0, weight, 1.0) if isinstance(weight, Tensor) else weight or 1.0
