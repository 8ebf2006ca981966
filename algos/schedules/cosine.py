"""Cosine: half a cosine from the full rate down.

Paper: Loshchilov and Hutter 2017, equation 5, one period, no restart (torch.optim.lr_scheduler.CosineAnnealingLR with
T_max the budget). Deviations: time is the fraction of the budget, so it works for budgets in seconds too; the lowest
rate is given as a factor.

    factor(f) = final + (1 - final)*(1 + cos(pi*f))/2      f fraction of the budget used before this update

From the budget's end on the factor is `final`; torch's climbs again. With a warm-up before it: `warmup_cosine`.
"""

from __future__ import annotations

import math

from algos.contracts import Progress
from algos.spec import Declared, Real, Spec


class Cosine(Declared):
    """Progress -> factor from 1 down to `final`.

    >>> [round(Cosine()(Progress(0, fraction)), 3) for fraction in (0.0, 0.5, 1.0)]
    [1.0, 0.5, 0.0]
    """

    final: float = Real(0.0, low=0, high=1, unit="factor on lr at the end")

    def __call__(self, progress: Progress) -> float:
        fraction = min(max(progress.fraction, 0.0), 1.0)
        return self.final + (1 - self.final) * (1 + math.cos(math.pi * fraction)) / 2


SPEC = Spec(
    build=Cosine,
    state="none",
    cost="none",
    cite="""@inproceedings{loshchilov2017sgdr,
  title = {{SGDR}: Stochastic Gradient Descent with Warm Restarts},
  author = {Loshchilov, Ilya and Hutter, Frank},
  booktitle = {International Conference on Learning Representations (ICLR)},
  year = {2017}
}""",
)
