"""Evaluation weights of optimizers that train others (schedule-free): put in the parameters' place for a while."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from algos.hyper_tensors import HyperTensors
from algos.units import Rule, State, member_state, widened


@torch.no_grad()
def evaluated(rule: type[Rule], param: Tensor, state: State, hyper: HyperTensors) -> Tensor:
    """The weights to evaluate in a parameter's place."""
    hyper.refresh()
    weights = widened(param.detach())
    if hyper.population is None:
        return rule.evaluate(weights, state, hyper.alone)
    members = [(weights[i], member_state(state, i), values) for i, values in enumerate(hyper.members)]
    return torch.stack([rule.evaluate(*member) for member in members])


@contextmanager
def exchanged(weights: Sequence[tuple[Tensor, Tensor]]) -> Iterator[None]:
    """Within it each parameter holds the other weights; then its own come back bit for bit."""
    kept = [param.detach().clone() for param, _ in weights]
    try:
        with torch.no_grad():
            for param, other in weights:
                param.copy_(other)
        yield
    finally:
        with torch.no_grad():
            for (param, _), own in zip(weights, kept, strict=True):
                param.copy_(own)
