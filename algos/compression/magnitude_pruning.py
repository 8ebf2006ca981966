"""Magnitude pruning: set the smallest weights to zero, more and more of them as training goes on.

Paper: Zhu and Gupta 2017, equation 1. Deviations: time is the fraction of the budget; ranking over all weights together
(scope global) is offered beside the paper's per layer.

    s(f) = sparsity + (initial - sparsity) * (1 - (f - begin)/(end - begin))**3      begin <= f <= end
    after an update:  at the first with f >= begin, and every `every` updates from it, mark the smallest |w| so that a
                      share s(f) is marked; then w <- 0 where marked

f fraction of the budget used, s the share of the prunable weights that is zero. Once s = sparsity the marks stay as
they are. A weight that is marked stays marked; equal magnitudes are marked in the order of the weights. Marks are
made at updates that depend only on the progress and on the state, so a resumed run makes the same.

Prunable: trained weights that `algos.parameters.places` calls a matrix or the head: linear maps and convolutions. Not
pruned: biases, normalisations, embeddings (a matrix shared with an embedding included).

State: one boolean per prunable weight. Cost: O(n) an update, and a few passes more when marks are made.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from algos.contracts import Component, Oracle, Progress
from algos.finding import InputError
from algos.parameters import places
from algos.spec import Choice, Declared, Int, Real, Spec


class MagnitudePruning(Declared, Component):
    """Gradual pruning by magnitude.

    >>> pruning = MagnitudePruning(sparsity=0.8, begin=0.0, end=1.0)
    >>> [round(pruning.sparsity_at(fraction), 3) for fraction in (0.0, 0.5, 1.0)]
    [0.0, 0.7, 0.8]
    """

    sparsity: float = Real(0.8, above=0, below=1, search="0.5:0.95", unit="share of the prunable weights, at the end")
    initial: float = Real(0.0, low=0, below=1, unit="share pruned at `begin`")
    begin: float = Real(0.1, low=0, high=1, unit="fraction of the budget")
    end: float = Real(0.7, low=0, high=1, unit="fraction of the budget")
    every: int = Int(20, low=1, unit="updates")
    scope: str = Choice("global", ("global", "layer"))

    def __init__(self, **hyper: Any):
        super().__init__(**hyper)
        for early, late in (("begin", "end"), ("initial", "sparsity")):
            if getattr(self, early) > getattr(self, late):
                raise InputError(
                    f"{early}={getattr(self, early):g} is above {late}={getattr(self, late):g}",
                    f"give {early} at most {late}", rule="out-of-range", place=f"MagnitudePruning.{early}",
                )  # fmt: skip
        self._kept: dict[str, Tensor] = {}
        self._reached = 0.0
        self._marked_at = -1
        self._shown = torch.tensor(0.0, dtype=torch.float64)
        self._finished = False

    def sparsity_at(self, fraction: float) -> float:
        """The share that is to be zero when `fraction` of the budget is used."""
        if fraction < self.begin:
            return 0.0
        if fraction >= self.end:
            return self.sparsity
        left = 1 - (fraction - self.begin) / (self.end - self.begin)
        return self.sparsity + (self.initial - self.sparsity) * left**3

    def prepare(self, model: nn.Module) -> None:
        weights = prunable(model)
        if not weights:
            raise InputError("the model has no matrix or convolution to prune", "leave magnitude_pruning out")
        self._kept = {name: torch.ones_like(weight, dtype=torch.bool) for name, weight in weights.items()}

    def updated(self, oracle: Oracle, progress: Progress) -> dict[str, Tensor]:
        waited = self._marked_at < 0 or progress.update - self._marked_at >= self.every
        due = waited or progress.fraction >= self.end
        if due and progress.fraction >= self.begin and self._reached < self.sparsity:
            self._mark(self._live(oracle.model), self.sparsity_at(progress.fraction))
            self._marked_at = progress.update
        if self._reached > 0:
            self._zero(self._live(oracle.model))
        return {"sparsity": self._shown}

    @contextmanager
    def evaluating(self, oracle: Oracle) -> Iterator[None]:
        """Averaged weights, where another component puts them in, are pruned as well."""
        trained = {name: weight.detach().clone() for name, weight in self._live(oracle.model).items()}
        self._finished = False
        self._zero(self._live(oracle.model))
        try:
            yield
        finally:
            if not self._finished:
                with torch.no_grad():
                    for name, weight in self._live(oracle.model).items():
                        weight.copy_(trained[name])

    def finalize(self, model: nn.Module) -> None:
        """Exactly `sparsity` of the prunable weights become zero (to the nearest weight), wherever training ended."""
        weights = self._live(model)
        if self._reached < self.sparsity:
            self._mark(weights, self.sparsity)
        self._zero(weights)
        self._finished = True

    def state_dict(self) -> dict[str, Any]:
        return {"kept": dict(self._kept), "reached": self._reached, "marked_at": self._marked_at}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        assert state["kept"].keys() == self._kept.keys(), "the marks are of another model"
        for name, kept in self._kept.items():
            kept.copy_(state["kept"][name])
        self._marked_at = state["marked_at"]
        self._show(state["reached"])

    def _live(self, model: nn.Module) -> dict[str, Tensor]:
        return {name: weight for name, weight in model.named_parameters() if name in self._kept}

    @torch.no_grad()
    def _mark(self, weights: Mapping[str, Tensor], share: float) -> None:
        """Mark the smallest magnitudes, those marked before first."""
        sizes = {name: w.abs().masked_fill_(~self._kept[name], -1).flatten() for name, w in weights.items()}
        if self.scope == "layer":
            marks = [_smallest(size, share) for size in sizes.values()]
        else:
            together = _smallest(torch.cat(list(sizes.values())), share)
            marks = list(together.split([size.numel() for size in sizes.values()]))
        for name, mark in zip(sizes, marks, strict=True):
            self._kept[name].copy_(~mark.view_as(self._kept[name]))
        self._show(share)

    @torch.no_grad()
    def _zero(self, weights: Mapping[str, Tensor]) -> None:
        for name, weight in weights.items():
            weight.mul_(self._kept[name])

    def _show(self, share: float) -> None:
        self._reached = share
        self._shown = torch.tensor(share, dtype=torch.float64)


def prunable(model: nn.Module) -> dict[str, Tensor]:
    """The weights that are pruned, by name."""
    return {
        place.name: place.param
        for place in places(model)
        if place.param.requires_grad and place.role in ("matrix", "head")
    }


def _smallest(sizes: Tensor, share: float) -> Tensor:
    """(n,) bool: True for the round(share*n) smallest, the first of equals first."""
    count = round(share * sizes.numel())
    if count == 0:
        return torch.zeros_like(sizes, dtype=torch.bool)
    largest = torch.topk(sizes, count, largest=False, sorted=False).values.max()
    marks, equal = sizes < largest, sizes == largest
    return marks | (equal & (equal.cumsum(0) <= count - marks.sum()))


SPEC = Spec(
    build=MagnitudePruning,
    state="one boolean per prunable weight",
    cost="O(n) an update",
    cite="""@article{zhu2017prune,
  title = {To Prune, or Not to Prune: Exploring the Efficacy of Pruning for Model Compression},
  author = {Zhu, Michael and Gupta, Suyog},
  journal = {arXiv preprint arXiv:1710.01878},
  year = {2017}
}""",
)
