"""PopulationOracle: what an algorithm may ask of a task, answered for all members at once.

A loss is one number a member; what a member's numbers become reaches no other's, since every operation has the members
in a dimension of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn

from algos.contracts import Buffers, Gradient, Loss, Named, Precision
from experiments.data.together import Stacked
from experiments.oracle import TaskOracle
from experiments.populations.model import StackedModel
from experiments.populations.program import NotRecorded, Program, record


class PopulationOracle(TaskOracle):
    """An Oracle whose batches are `Stacked` and whose losses are (members,)."""

    def __init__(self, stack: StackedModel, loss: Loss, precision: Precision, device: torch.device):
        super().__init__(stack.module, loss, precision, device=device)
        self.stack = stack
        self._programs: dict[tuple[Any, ...], Program | None] = {}

    def gradient(
        self, batch: Any, *, at: Named | None = None, create_graph: bool = False, buffers: Buffers = "update"
    ) -> Gradient:
        own = at is None and not create_graph and buffers == "update"
        assert own, "a population gives the gradient at its own weights only"
        self.gradients += 1
        losses, *grads = self._found(batch)
        assert losses is not None
        for (_, parameter), grad in zip(self._trained, grads, strict=True):
            parameter.grad = None if grad is None else grad.contiguous()
        return Gradient(losses, {name: p.grad for name, p in self._trained if p.grad is not None})

    def _found(self, batch: Stacked) -> list[Tensor | None]:
        """The losses and all gradients: by the program for batches of this kind, where there is one."""
        given = [tensor for tensor in (*batch.inputs, batch.targets, batch.where) if tensor is not None]
        tensors = self.stack.tensors
        layout = tuple(tensor.stride() for tensor in tensors.values())  # an optimizer moves weights into its own memory
        kind = (*((each.shape, each.stride(), each.dtype) for each in given), batch.where is None, batch.shared, layout)
        if kind not in self._programs:
            own = [
                tensor.detach() if isinstance(tensor, nn.Parameter) else tensor.clone() for tensor in tensors.values()
            ]
            self._programs[kind] = self._recorded(batch, [*own, *given])
        program = self._programs[kind]
        if program is None:
            return self._computed(batch, tensors)
        with torch.no_grad():
            return program([*(tensor.detach() for tensor in tensors.values()), *given])

    def _recorded(self, batch: Stacked, inputs: list[Tensor]) -> Program | None:
        """None where the computation is more than its operations; then it is made anew each time."""
        names = list(self.stack.tensors)

        def compute(inputs: Sequence[Tensor]) -> list[Tensor | None]:
            return self._computed(batch, dict(zip(names, inputs)))

        try:
            return record(compute, inputs)
        except NotRecorded:
            return None

    def _computed(self, batch: Stacked, tensors: Mapping[str, Tensor]) -> list[Tensor | None]:
        trained = {name: tensors[name].detach().requires_grad_() for name, _ in self._trained}
        with torch.enable_grad():
            losses: Tensor = self.stack.told(
                batch, lambda predictions, targets: self._loss(predictions, targets)[0], {**tensors, **trained}
            )
            grads = torch.autograd.grad(losses, list(trained.values()), torch.ones_like(losses), allow_unused=True)
        return [losses.detach(), *grads]

    def loss(self, batch: Any, *, at: Named | None = None, buffers: Buffers = "keep") -> Tensor:
        raise NotImplementedError("a population's algorithm asks for gradients only")

    def predict(self, batch: Any, *, at: Named | None = None) -> Tensor:
        raise NotImplementedError("a population's algorithm asks for gradients only")

    def product(
        self, batch: Any, vectors: Named, *, at: Named | None = None, matrix: Literal["hessian", "ggn"] = "hessian"
    ) -> dict[str, Tensor]:
        raise NotImplementedError("a population's algorithm asks for gradients only")
