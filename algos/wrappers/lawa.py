"""LAWA: evaluate at the average of the latest checkpoints of the weights.

Paper: Kaddour 2022, section 2. Deviations: the checkpoints are `every` updates apart, the paper's are an epoch.

    every `every` updates:    put w into the queue of the last k
    evaluate at               the mean of the queue

w weights. While the queue is not full the mean is of what it has; while it is empty the trained weights are evaluated.
A checkpoint has the floating-point buffers too, so that BatchNorm's statistics are averaged with the weights; integer
buffers are the latest one's.

State: k buffers per weight, in the weight's dtype, or float32 where that is a half precision; a run's checkpoint file
has them too. Cost: a copy of the weights every `every` updates; their mean, O(k n), at an evaluation.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from algos.averaging import Named, StandsIn, snapshot, write
from algos.contracts import Oracle, Progress
from algos.spec import Declared, Int, Spec


class Lawa(Declared, StandsIn):
    """The mean of the last k of the weights, taken at equal distances.

    >>> Lawa(k=4).every
    100
    """

    k: int = Int(6, low=1, unit="checkpoints in the average")
    every: int = Int(100, low=1, unit="updates from one checkpoint to the next")

    def __init__(self, **hyper: Any):
        super().__init__(**hyper)
        self._queue: list[Named] = []  # k places, filled in turn
        self._count = 0  # checkpoints so far

    @torch.no_grad()
    def weights(self) -> Named:
        if not self._count:
            return {}
        filled = self._queue[: min(self._count, self.k)]
        latest = self._queue[(self._count - 1) % self.k]
        return {
            name: torch.stack([each[name] for each in filled]).mean(0) if tensor.is_floating_point() else tensor
            for name, tensor in latest.items()
        }

    def prepare(self, model: nn.Module) -> None:
        super().prepare(model)
        self._queue = [snapshot(self.live(model)) for _ in range(self.k)]

    def updated(self, oracle: Oracle, progress: Progress) -> dict[str, Tensor]:
        if progress.update % self.every == 0:
            write(self._queue[self._count % self.k], self.live(oracle.model))
            self._count += 1
        return {}

    def state_dict(self) -> dict[str, Any]:
        filled = self._queue[: min(self._count, self.k)]
        return {"queue": [dict(each) for each in filled], "count": self._count}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        assert all(each.keys() == self.names for each in state["queue"]), "the checkpoints are of another model"
        for place, each in zip(self._queue, state["queue"]):
            write(place, each)
        self._count = state["count"]


SPEC = Spec(
    build=Lawa,
    state="k buffers per weight",
    cost="a copy every so many updates",
    cite="""@article{kaddour2022stop,
  title = {Stop Wasting My Time! Saving Days of {ImageNet} and {BERT} Training with Latest Weight Averaging},
  author = {Kaddour, Jean},
  journal = {arXiv preprint arXiv:2209.14981},
  year = {2022}
}""",
)
