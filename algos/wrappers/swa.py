"""SWA: evaluate at the equal average of the weights met in the last part of training.

Paper: Izmailov et al. 2018, algorithm 1; reference implementation timgaripov/swa, and torch.optim.swa_utils.
Deviations: the high constant or cyclic rate that the paper trains with in that part is a schedule's business
(`constant`, `cyclic`); the part begins at a fraction of the budget, the interval is in updates (the paper's is an
epoch).

    at the first update that begins at or after `start`, and every `every` updates from there:
        n <- n + 1
        s <- s + (w - s)/n

w weights, s their average, n how many are in it. Before there is one, the trained weights are evaluated.

BatchNorm's statistics, with statistics=collected, are those of the averaged weights, as in the paper: the loop collects
them anew from training batches at each evaluation, and for the finished model; a loop that cannot, as a user's own
Trainer, is refused where the model has BatchNorm. With statistics=averaged they are averaged like the weights, as
torch's AveragedModel(use_buffers=True) does. Integer buffers are those of the latest weights.

State: one buffer per weight, in the weight's dtype, or float32 where that is a half precision. Cost: O(n) every `every`
updates; one copy of the weights during an evaluation.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from algos.averaging import Named, StandsIn, move_towards, snapshot, write
from algos.contracts import Oracle, Progress
from algos.spec import Choice, Declared, Int, Real, Spec


class Swa(Declared, StandsIn):
    """Equal average of the weights from a share of the budget on.

    >>> Swa(start=0.5).every
    100
    """

    start: float = Real(0.75, low=0, below=1, unit="fraction of the budget")
    every: int = Int(100, low=1, unit="updates from one averaged weight to the next")
    statistics: str = Choice("collected", ("collected", "averaged"))

    def __init__(self, **hyper: Any):
        super().__init__(**hyper)
        self.recollects = self.statistics == "collected"
        self._average: Named = {}
        self._count = self._first = 0

    def weights(self) -> Named:
        return self._average if self._count else {}

    def prepare(self, model: nn.Module) -> None:
        super().prepare(model)
        self._average = snapshot(self.live(model))

    def updated(self, oracle: Oracle, progress: Progress) -> dict[str, Tensor]:
        if not self._count and progress.fraction >= self.start:
            self._first = progress.update
        if self._first and (progress.update - self._first) % self.every == 0:
            self._count += 1
            move_towards(self._average, self.live(oracle.model), 1 / self._count)
        return {}

    def state_dict(self) -> dict[str, Any]:
        return {"average": dict(self._average), "count": self._count, "first": self._first}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        assert state["average"].keys() == self._average.keys(), "the average is of another model"
        write(self._average, state["average"])
        self._count, self._first = state["count"], state["first"]


SPEC = Spec(
    build=Swa,
    state="one buffer per weight",
    cost="O(n) every so many updates",
    cite="""@inproceedings{izmailov2018averaging,
  title = {Averaging Weights Leads to Wider Optima and Better Generalization},
  author = {Izmailov, Pavel and Podoprikhin, Dmitrii and Garipov, Timur and Vetrov, Dmitry and Wilson, Andrew Gordon},
  booktitle = {Conference on Uncertainty in Artificial Intelligence (UAI)},
  year = {2018}
}""",
)
