"""Inverse square root: a line up, then down as one over the root of time.

Paper: Vaswani et al. 2017, equation 3. Deviations: the factor is 1 at the end of the warm-up, so lr is the peak rate
and the model's width does not enter (the paper's peak is (width*warm-up updates)^-0.5); the first update has a floor.

    f < warmup:   initial + (1 - initial)*f/warmup
    else:         sqrt(warmup/f)

f fraction of the budget used before this update. The paper's min(s^-0.5, s*w^-1.5), of s updates with a warm-up of w,
is after division by its peak min(sqrt(w/s), s/w): only the ratio of the two enters, so with s = f*T and w = warmup*T
the budget's T updates cancel, and it works for budgets in seconds too. What does depend on the budget is how many
updates the warm-up has. The paper counts s from 1; here the first update has f = 0 and gets `initial`, which is above 0
so that the update is not wasted. The schedule does not end at zero: at the budget's end the factor is sqrt(warmup), and
it stays there.
"""

from __future__ import annotations

import math

from algos.contracts import Progress
from algos.spec import Declared, Real, Spec


class InverseSqrt(Declared):
    """Progress -> factor in (0, 1].

    >>> schedule = InverseSqrt(warmup=0.04)
    >>> [round(schedule(Progress(0, fraction)), 3) for fraction in (0.0, 0.04, 0.16, 1.0)]
    [0.01, 1.0, 0.5, 0.2]
    """

    warmup: float = Real(0.04, above=0, high=1, unit="fraction of the budget")  # the paper: 4,000 of 100,000 updates
    initial: float = Real(0.01, above=0, high=1, unit="factor on lr at the first update")

    def __call__(self, progress: Progress) -> float:
        fraction = min(max(progress.fraction, 0.0), 1.0)
        if fraction < self.warmup:
            return self.initial + (1 - self.initial) * fraction / self.warmup
        return math.sqrt(self.warmup / fraction)


SPEC = Spec(
    build=InverseSqrt,
    state="none",
    cost="none",
    cite="""@inproceedings{vaswani2017attention,
  title = {Attention Is All You Need},
  author = {Vaswani, Ashish and Shazeer, Noam and Parmar, Niki and Uszkoreit, Jakob and Jones, Llion and
            Gomez, Aidan N. and Kaiser, {\\L}ukasz and Polosukhin, Illia},
  booktitle = {Advances in Neural Information Processing Systems (NeurIPS)},
  year = {2017}
}""",
)
