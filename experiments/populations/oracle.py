"""PopulationOracle: what an algorithm may ask of a task, answered for all members at once.

A loss is one number a member; what a member's numbers become reaches no other's, since every operation has the members
in a dimension of its own.
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

from algos.contracts import Buffers, Gradient, Loss, Named, Precision
from experiments.oracle import TaskOracle
from experiments.populations.model import StackedModel


class PopulationOracle(TaskOracle):
    """An Oracle whose batches are `Stacked` and whose losses are (members,)."""

    def __init__(self, stack: StackedModel, loss: Loss, precision: Precision, device: torch.device):
        super().__init__(stack.module, loss, precision, device=device)
        self.stack = stack

    def gradient(
        self, batch: Any, *, at: Named | None = None, create_graph: bool = False, buffers: Buffers = "update"
    ) -> Gradient:
        own = at is None and not create_graph and buffers == "update"
        assert own, "a population gives the gradient at its own weights only"
        self.gradients += 1
        for _, parameter in self._trained:
            parameter.grad = None
        with torch.enable_grad():
            losses: Tensor = self.stack.told(batch, lambda predictions, targets: self._loss(predictions, targets)[0])
            torch.autograd.backward(losses, torch.ones_like(losses))
        return Gradient(losses.detach(), {name: p.grad for name, p in self._trained if p.grad is not None})

    def loss(self, batch: Any, *, at: Named | None = None, buffers: Buffers = "keep") -> Tensor:
        raise NotImplementedError("a population's algorithm asks for gradients only")

    def predict(self, batch: Any, *, at: Named | None = None) -> Tensor:
        raise NotImplementedError("a population's algorithm asks for gradients only")

    def product(
        self, batch: Any, vectors: Named, *, at: Named | None = None, matrix: Literal["hessian", "ggn"] = "hessian"
    ) -> dict[str, Tensor]:
        raise NotImplementedError("a population's algorithm asks for gradients only")
