"""EMA: evaluate at an exponential moving average of the weights; train as without it.

Source: Polyak and Juditsky 1992 (averaging the iterates), in the exponential form of Tarvainen and Valpola 2017,
equation 2. Deviations: the decay is warmed up, so that the first weights are soon forgotten; `warmup=false` turns
that off.

    d_t <- min(decay, (1 + t)/(10 + t))       with warm-up; else d_t = decay
    s_t <- d_t*s_{t-1} + (1 - d_t)*w_t        s_0 = w_0, the weights before the first update

w weights, s their average, t updates completed. Trained weights are averaged, and so are the floating-point buffers
that a checkpoint would hold (BatchNorm's statistics), which belong to the averaged weights; integer and boolean
buffers are copied.

State: one buffer per weight, in the weight's dtype, or float32 where that is a half precision. Cost: O(n) an update;
one copy of the weights during an evaluation.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from algos.averaging import Named, StandsIn, move_towards, snapshot, write
from algos.contracts import Oracle, Progress
from algos.spec import Declared, Flag, Real, Spec


class Ema(Declared, StandsIn):
    """Averaged weights for evaluation, and in the finished model.

    >>> ema = Ema(decay=0.99)
    >>> [round(ema.decay_after(updates), 3) for updates in (1, 10, 10_000)]
    [0.182, 0.55, 0.99]
    """

    decay: float = Real(0.999, low=0, below=1, unit="share of the average kept at an update")
    warmup: bool = Flag(True)

    def __init__(self, **hyper: Any):
        super().__init__(**hyper)
        self._average: Named = {}

    def decay_after(self, updates: int) -> float:
        """The decay used after so many updates."""
        return min(self.decay, (1 + updates) / (10 + updates)) if self.warmup else self.decay

    def weights(self) -> Named:
        return self._average

    def prepare(self, model: nn.Module) -> None:
        super().prepare(model)
        self._average = snapshot(self.live(model))

    def updated(self, oracle: Oracle, progress: Progress) -> dict[str, Tensor]:
        move_towards(self._average, self.live(oracle.model), 1 - self.decay_after(progress.update))
        return {}

    def state_dict(self) -> dict[str, Any]:
        return {"average": dict(self._average)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        average = state["average"]
        assert average.keys() == self._average.keys(), "the averages are of another model"
        write(self._average, average)


SPEC = Spec(
    build=Ema,
    state="one buffer per weight",
    cost="O(n) an update",
    cite="""@article{polyak1992acceleration,
  title = {Acceleration of Stochastic Approximation by Averaging},
  author = {Polyak, Boris T. and Juditsky, Anatoli B.},
  journal = {SIAM Journal on Control and Optimization},
  volume = {30},
  number = {4},
  pages = {838--855},
  year = {1992}
}

@inproceedings{tarvainen2017mean,
  title = {Mean Teachers are Better Role Models: Weight-Averaged Consistency Targets Improve Semi-Supervised Deep
           Learning Results},
  author = {Tarvainen, Antti and Valpola, Harri},
  booktitle = {Advances in Neural Information Processing Systems (NeurIPS)},
  year = {2017}
}""",
)
