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

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from algos.contracts import Component, Oracle, Progress
from algos.spec import Declared, Flag, Real, Spec


class Ema(Declared, Component):
    """Averaged weights for evaluation, and in the finished model.

    >>> ema = Ema(decay=0.99)
    >>> [round(ema.decay_after(updates), 3) for updates in (1, 10, 10_000)]
    [0.182, 0.55, 0.99]
    """

    decay: float = Real(0.999, low=0, below=1, unit="share of the average kept at an update")
    warmup: bool = Flag(True)

    replaces_weights: ClassVar[bool] = True

    def __init__(self, **hyper: Any):
        super().__init__(**hyper)
        self._average: dict[str, Tensor] = {}
        self._buffers: list[str] = []
        self._evaluating = self._finished = False

    def decay_after(self, updates: int) -> float:
        """The decay used after so many updates."""
        return min(self.decay, (1 + updates) / (10 + updates)) if self.warmup else self.decay

    @torch.no_grad()
    def prepare(self, model: nn.Module) -> None:
        trained = {name: weight for name, weight in model.named_parameters() if weight.requires_grad}
        kept = set(model.state_dict())
        buffers = {name: buffer for name, buffer in model.named_buffers() if name in kept}
        self._buffers = list(buffers)
        self._average = {name: _start(tensor) for name, tensor in (trained | buffers).items()}

    @torch.no_grad()
    def updated(self, oracle: Oracle, progress: Progress) -> dict[str, Tensor]:
        averages, latest = [], []
        for name, tensor in self._live(oracle.model).items():
            average = self._average[name]
            if average.is_floating_point():
                averages.append(average)
                latest.append(tensor.to(average.dtype))
            else:
                average.copy_(tensor)
        torch._foreach_lerp_(averages, latest, 1 - self.decay_after(progress.update))
        return {}

    @contextmanager
    def evaluating(self, oracle: Oracle) -> Iterator[None]:
        live = self._live(oracle.model)
        trained = {name: tensor.detach().clone() for name, tensor in live.items()}
        self._evaluating, self._finished = True, False
        _write(live, self._average)
        try:
            yield
        finally:
            if not self._finished:
                _write(self._live(oracle.model), trained)
            self._evaluating = False

    def finalize(self, model: nn.Module) -> None:
        """The averages stay in the model: the end of `evaluating` around this brings nothing back.

        Within `evaluating` the model holds them already, perhaps pruned by now, so they are not written again.
        """
        if not self._evaluating:
            _write(self._live(model), self._average)
        self._finished = True

    def state_dict(self) -> dict[str, Any]:
        return {"average": dict(self._average)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        average = state["average"]
        assert average.keys() == self._average.keys(), "the averages are of another model"
        _write(self._average, average)

    def _live(self, model: nn.Module) -> dict[str, Tensor]:
        """The model's tensors that are averaged, by name."""
        live: dict[str, Tensor] = {name: w for name, w in model.named_parameters() if name in self._average}
        if self._buffers:
            live |= {name: buffer for name, buffer in model.named_buffers() if name in self._average}
        return live


def _start(tensor: Tensor) -> Tensor:
    half = tensor.dtype in (torch.bfloat16, torch.float16)
    return tensor.detach().clone().to(torch.float32 if half else tensor.dtype)


@torch.no_grad()
def _write(into: dict[str, Tensor], values: dict[str, Tensor]) -> None:
    for name, tensor in into.items():
        tensor.copy_(values[name])


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
