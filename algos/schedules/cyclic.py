"""Cyclic: the rate goes up and down between two bounds, again and again.

Paper: Smith 2017, section 3 (triangular, triangular2, exp_range); torch.optim.lr_scheduler.CyclicLR with
cycle_momentum=False. Deviations: the length of a cycle is the budget's over `cycles`, so it works for budgets in
seconds too; and exp_range's decline is given for the whole budget, gamma = torch's gamma^T for T updates.

    x = cycles*f,  c = floor(x),  h = the share of the way up, 0 -> 1 -> 0 along two lines, in cycle c
    factor(f) = base + (1 - base)*h*s         s = 1            triangular
                                                  2^-c         triangular2
                                                  gamma^f      exp_range

f fraction of the budget used before this update; the rise takes `up` of a cycle. lr is the upper bound (torch's
max_lr), base*lr the lower one. At the budget's end, and from there on, the factor is `base`.
"""

from __future__ import annotations

import math

from algos.contracts import Progress
from algos.spec import Choice, Declared, Int, Real, Spec


class Cyclic(Declared):
    """Progress -> factor between `base` and 1.

    >>> schedule = Cyclic(cycles=2, base=0.2, mode="triangular2")
    >>> [round(schedule(Progress(0, fraction)), 3) for fraction in (0.0, 0.125, 0.25, 0.5, 0.75, 1.0)]
    [0.2, 0.6, 1.0, 0.2, 0.6, 0.2]
    """

    cycles: int = Int(4, low=1, unit="cycles in the budget")
    base: float = Real(0.25, above=0, high=1, unit="lowest factor on lr")  # the paper's bounds: a third to a quarter
    up: float = Real(0.5, above=0, below=1, unit="fraction of a cycle in which the rate rises")
    mode: str = Choice("triangular", ("triangular", "triangular2", "exp_range"))
    gamma: float = Real(0.1, above=0, high=1, unit="height of a cycle at the end over the first, for exp_range")

    def __call__(self, progress: Progress) -> float:
        fraction = min(max(progress.fraction, 0.0), 1.0)
        if fraction >= 1:
            return self.base
        cycle = math.floor(self.cycles * fraction)
        place = self.cycles * fraction - cycle
        height = place / self.up if place <= self.up else (1 - place) / (1 - self.up)
        return self.base + (1 - self.base) * height * self._scale(cycle, fraction)

    def _scale(self, cycle: int, fraction: float) -> float:
        if self.mode == "triangular":
            return 1.0
        return 0.5**cycle if self.mode == "triangular2" else self.gamma**fraction


SPEC = Spec(
    build=Cyclic,
    state="none",
    cost="none",
    cite="""@inproceedings{smith2017cyclical,
  title = {Cyclical Learning Rates for Training Neural Networks},
  author = {Smith, Leslie N.},
  booktitle = {IEEE Winter Conference on Applications of Computer Vision (WACV)},
  pages = {464--472},
  year = {2017}
}""",
)
