"""Warm-up and cosine: a line up to the full rate, then half a cosine down.

Paper: Loshchilov and Hutter 2017, equation 5, one period, no restart; linear warm-up as Goyal et al. 2017, section 2.2.
Deviations: time is the fraction of the budget, so it works for budgets in seconds too.

    f < warmup:   initial + (1 - initial)*f/warmup
    else:         final + (1 - final)*(1 + cos(pi*(f - warmup)/(1 - warmup)))/2

f fraction of the budget used before this update. The first update has f = 0 and gets `initial`, which is above 0 so
that the update and its gradient are not wasted (1 without warm-up). From the budget's end on the factor is `final`.
"""

from __future__ import annotations

import math

from algos.contracts import Progress
from algos.spec import Declared, Real, Spec


class WarmupCosine(Declared):
    """Progress -> factor in (0, 1] until the budget's end.

    >>> schedule = WarmupCosine(warmup=0.1)
    >>> [round(schedule(Progress(0, fraction)), 3) for fraction in (0.0, 0.1, 0.55, 1.0)]
    [0.01, 1.0, 0.5, 0.0]
    """

    warmup: float = Real(0.05, low=0, below=1, unit="fraction of the budget")
    initial: float = Real(0.01, above=0, high=1, unit="factor on lr at the first update")
    final: float = Real(0.0, low=0, high=1, unit="factor on lr at the end")

    def __call__(self, progress: Progress) -> float:
        fraction = min(max(progress.fraction, 0.0), 1.0)
        if fraction < self.warmup:
            return self.initial + (1 - self.initial) * fraction / self.warmup
        angle = math.pi * (fraction - self.warmup) / (1 - self.warmup)
        return self.final + (1 - self.final) * (1 + math.cos(angle)) / 2


SPEC = Spec(
    build=WarmupCosine,
    state="none",
    cost="none",
    cite="""@inproceedings{loshchilov2017sgdr,
  title = {{SGDR}: Stochastic Gradient Descent with Warm Restarts},
  author = {Loshchilov, Ilya and Hutter, Frank},
  booktitle = {International Conference on Learning Representations (ICLR)},
  year = {2017}
}

@article{goyal2017accurate,
  title = {Accurate, Large Minibatch {SGD}: Training {ImageNet} in 1 Hour},
  author = {Goyal, Priya and Doll{\\'a}r, Piotr and Girshick, Ross and Noordhuis, Pieter and Wesolowski, Lukasz and
            Kyrola, Aapo and Tulloch, Andrew and Jia, Yangqing and He, Kaiming},
  journal = {arXiv preprint arXiv:1706.02677},
  year = {2017}
}""",
)
