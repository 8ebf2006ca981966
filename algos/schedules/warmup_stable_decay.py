"""Warm-up, stable, decay (WSD): a line up, a long plateau at the full rate, a short way down at the end.

Papers: Hu et al. 2024, section 4.2 (the three stages); Hägele et al. 2024, section 3 (linear and 1-sqrt decay).
Deviations: time is the fraction of the budget, so it works for budgets in seconds too.

    f < warmup:       initial + (1 - initial)*f/warmup
    f < 1 - decay:    1
    else:             final + (1 - final)*(1 - x)          shape linear
                      final + (1 - final)*(1 - sqrt(x))    shape 1-sqrt,    x = (f - (1 - decay))/decay

f fraction of the budget used before this update. The first update has f = 0 and gets `initial`, which is above 0 so
that the update and its gradient are not wasted (1 without warm-up). From the budget's end on the factor is `final`.
"""

from __future__ import annotations

import math
from typing import Any

from algos.contracts import Progress
from algos.finding import InputError
from algos.spec import Choice, Declared, Real, Spec


class WarmupStableDecay(Declared):
    """Progress -> factor in (0, 1] until the budget's end.

    >>> schedule = WarmupStableDecay(warmup=0.1, decay=0.2, shape="linear")
    >>> [round(schedule(Progress(0, fraction)), 3) for fraction in (0.0, 0.1, 0.5, 0.9, 1.0)]
    [0.01, 1.0, 1.0, 0.5, 0.0]
    """

    warmup: float = Real(0.05, low=0, below=1, unit="fraction of the budget")
    decay: float = Real(0.2, above=0, high=1, unit="fraction of the budget, at its end")
    shape: str = Choice("1-sqrt", ("linear", "1-sqrt"))
    initial: float = Real(0.01, above=0, high=1, unit="factor on lr at the first update")
    final: float = Real(0.0, low=0, high=1, unit="factor on lr at the end")

    def __init__(self, **hyper: Any):
        super().__init__(**hyper)
        if self.warmup + self.decay > 1:
            raise InputError(
                f"warmup={self.warmup:g} and decay={self.decay:g} are more than the whole budget together",
                "give fractions that sum to at most 1",
                rule="out-of-range",
                place="WarmupStableDecay",
            )

    def __call__(self, progress: Progress) -> float:
        fraction = min(max(progress.fraction, 0.0), 1.0)
        if fraction < self.warmup:
            return self.initial + (1 - self.initial) * fraction / self.warmup
        if fraction < 1 - self.decay:
            return 1.0
        decayed = min(max((fraction - (1 - self.decay)) / self.decay, 0.0), 1.0)
        kept = 1 - decayed if self.shape == "linear" else 1 - math.sqrt(decayed)
        return self.final + (1 - self.final) * kept


SPEC = Spec(
    build=WarmupStableDecay,
    state="none",
    cost="none",
    cite="""@inproceedings{hu2024minicpm,
  title = {{MiniCPM}: Unveiling the Potential of Small Language Models with Scalable Training Strategies},
  author = {Hu, Shengding and Tu, Yuge and Han, Xu and He, Chaoqun and Cui, Ganqu and Long, Xiang and others},
  booktitle = {Conference on Language Modeling (COLM)},
  year = {2024}
}

@inproceedings{hagele2024scaling,
  title = {Scaling Laws and Compute-Optimal Training Beyond Fixed Training Durations},
  author = {H{\\"a}gele, Alexander and Bakouch, Elie and Kosson, Atli and Ben Allal, Loubna and Von Werra, Leandro and
            Jaggi, Martin},
  booktitle = {Advances in Neural Information Processing Systems (NeurIPS)},
  year = {2024}
}""",
)
