"""TaskOracle: what an algorithm may ask of a task, answered for one model on one device.

It owns the micro-batches, the autocast (around the forward pass and the loss only, so that no optimizer runs under
it), the loss's scale where the precision has one, and the counts of gradients and updates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.func import functional_call

from algos.contracts import Buffers, Gradient, Loss, Named, Precision, Scaling
from algos.curvature import twice_differentiable
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
        self._scaling = precision if isinstance(precision, Scaling) else None
        self._skipped = torch.zeros((), dtype=torch.int64, device=device)
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
        kernels = twice_differentiable() if create_graph else nullcontext()
        with torch.enable_grad(), kernels:  # a component may call from under no_grad
            return self._gradient(batch, at, create_graph, buffers)

    def _gradient(self, batch: Batch, at: Named | None, create_graph: bool, buffers: Buffers) -> Gradient:
        if at is None and not create_graph:
            return self._own_gradient(batch, buffers)
        leaves = self._leaves(at)
        if create_graph:
            loss = self.loss(batch, at=leaves, buffers=buffers)
            graphed = torch.autograd.grad(
                self._scaled(loss), list(leaves.values()), create_graph=True, materialize_grads=True
            )
            grads, finite = self._unscaled(graphed)
            return Gradient(loss, dict(zip(leaves, grads)), finite)
        return self._gradient_at(batch, leaves, buffers)

    def product(
        self, batch: Batch, vectors: Named, *, at: Named | None = None, matrix: Literal["hessian", "ggn"] = "hessian"
    ) -> dict[str, Tensor]:
        self.gradients += 2  # it differentiates twice
        with torch.enable_grad(), twice_differentiable():
            return self._product(batch, vectors, at, matrix)

    def _product(self, batch: Batch, vectors: Named, at: Named | None, matrix: str) -> dict[str, Tensor]:
        """By micro-batches, each counting by its weight."""
        leaves = self._leaves(at)
        given = [vectors[name] for name in leaves]
        product = self._hessian if matrix == "hessian" else self._gauss_newton
        sums: list[Tensor] | None = None
        weight = None
        for part in batch.split(self.accumulate):
            found, share = product(part, leaves, given)
            found = list(torch._foreach_mul(found, share)) if self.accumulate > 1 else found
            sums = found if sums is None else list(torch._foreach_add(sums, found))
            weight = share if weight is None else weight + share
        assert sums is not None
        if self.accumulate > 1:
            torch._foreach_div_(sums, _counted(weight))
        return dict(zip(leaves, self._unscaled(sums)[0]))

    def _hessian(self, part: Batch, leaves: dict[str, Tensor], vectors: list[Tensor]) -> tuple[list[Tensor], Any]:
        tensors = list(leaves.values())
        mean, share = self._part(part, leaves, "keep")
        slope = torch.autograd.grad(self._scaled(mean), tensors, create_graph=True, materialize_grads=True)
        return list(torch.autograd.grad(slope, tensors, grad_outputs=vectors, materialize_grads=True)), share

    def mean(self, tensors: Sequence[Tensor]) -> Sequence[Tensor]:
        return tensors

    def update(self, apply: Callable[[], None], finite: Tensor | None = None) -> None:
        if finite is not None:
            assert self._scaling is not None, "only a precision that scales losses says what is finite"
            self._scaling.updated(finite)
            self._skipped += ~finite
        # Optimizers keep counts on the host (phases, curvature), so whether to step is read there: once an update, and
        # only where losses are scaled.
        if finite is None or bool(finite):
            apply()
        self.updates += 1

    @property
    def scale(self) -> float | None:
        """What losses are multiplied by now; None where the precision scales none. Reads the device."""
        return None if self._scaling is None else float(self._scaling.scale)

    @property
    def skipped(self) -> int | None:
        """Updates that were counted and not applied; None where the precision scales no losses. Reads the device."""
        return None if self._scaling is None else int(self._skipped)

    def state_dict(self) -> dict[str, Any]:
        """What the loss's scaling remembers; empty where there is none."""
        return {} if self._scaling is None else {"scaling": self._scaling.state_dict(), "skipped": int(self._skipped)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if self._scaling is not None and state:
            self._scaling.load_state_dict(state["scaling"])
            self._skipped.fill_(state["skipped"])

    def _own_gradient(self, batch: Batch, buffers: Buffers) -> Gradient:
        for _, parameter in self._trained:
            parameter.grad = None
        if self.accumulate == 1:
            loss, _ = self._part(batch, None, buffers)
            self._backward(self._scaled(loss))
            loss = loss.detach()
        else:
            total, weight, first = None, None, None
            for part in batch.split(self.accumulate):
                mean, share = self._part(part, None, buffers)
                first = share if first is None else first
                share = self._measured(share, first)
                weighted = mean * share
                self._backward(self._scaled(weighted))
                total = weighted.detach() if total is None else total + weighted.detach()
                weight = share if weight is None else weight + share
            assert total is not None
            loss = total / _counted(weight)
            torch._foreach_div_([p.grad for _, p in self._trained if p.grad is not None], _counted(weight))
        grads = {name: p.grad for name, p in self._trained if p.grad is not None}
        _, finite = self._unscaled(list(grads.values()))
        return Gradient(loss, grads, finite)

    def _gradient_at(self, batch: Batch, leaves: dict[str, Tensor], buffers: Buffers) -> Gradient:
        tensors = list(leaves.values())
        sums: list[Tensor] | None = None
        total, weight, first = None, None, None
        for part in batch.split(self.accumulate):
            mean, share = self._part(part, leaves, buffers)
            first = share if first is None else first
            share = self._measured(share, first)
            weighted = mean * share
            grads = list(torch.autograd.grad(self._scaled(weighted), tensors, materialize_grads=True))
            sums = grads if sums is None else list(torch._foreach_add(sums, grads))
            total = weighted.detach() if total is None else total + weighted.detach()
            weight = share if weight is None else weight + share
        assert sums is not None
        assert total is not None
        torch._foreach_div_(sums, _counted(weight))
        sums, finite = self._unscaled(sums)
        return Gradient(total / _counted(weight), dict(zip(leaves, sums)), finite)

    def _scaled(self, loss: Tensor) -> Tensor:
        return loss if self._scaling is None else self._scaling.scaled(loss)

    def _unscaled(self, tensors: Sequence[Tensor]) -> tuple[list[Tensor], Tensor | None]:
        return (list(tensors), None) if self._scaling is None else self._scaling.unscaled(tensors)

    def _measured(self, share: Any, first: Any) -> Any:
        """A micro-batch's weight: where losses are scaled in units of the first one's, so that what is differentiated
        stays of the mean loss's size."""
        return share if self._scaling is None else share / _counted(first)

    def _gauss_newton(self, part: Batch, leaves: dict[str, Tensor], vectors: list[Tensor]) -> tuple[list[Tensor], Any]:
        """J^T H J v with J the predictions' Jacobian and H the loss's Hessian in the predictions (Schraudolph 2002),
        the J v by two reverse passes."""
        tensors = list(leaves.values())
        predictions = self.predict(part, at=leaves)
        dual = torch.zeros_like(predictions, requires_grad=True)
        pulled = torch.autograd.grad(predictions, tensors, dual, create_graph=True, materialize_grads=True)
        pushed = torch.autograd.grad(pulled, dual, grad_outputs=vectors, retain_graph=True)[0]
        apart = predictions.detach().requires_grad_()
        with self._precision.autocast(self._device.type):
            mean, share = self._loss(apart, part.targets)
        slope = torch.autograd.grad(self._scaled(mean), apart, create_graph=True)[0]
        curved = torch.autograd.grad(slope, apart, grad_outputs=pushed)[0]
        return list(torch.autograd.grad(predictions, tensors, curved, materialize_grads=True)), share

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
