"""One cycle: up to the full rate, down again, and far below where it began.

Paper: Smith and Topin 2019, section 4 (1cycle); the shape, names and defaults of torch.optim.lr_scheduler.OneCycleLR.
Deviations: only the learning rate: momentum, which the paper lets fall while the rate rises, stays as given (torch's
cycle_momentum=False). Time is the fraction of the budget, so it works for budgets in seconds too; torch ends its phases
at the updates pct_start*T - 1 and T - 1 of T, t from 0, which is this schedule with f = t/(T - 1) and with
(pct_start*T - 1)/(T - 1) for pct_start.

    up:     1/div_factor -> 1                                 f in [0, pct_start]
    down:   1 -> 1/(div_factor*final_div_factor)              f in [pct_start, 1]

    three_phase:    down to 1/div_factor until 2*pct_start, as the paper, and only then below

f fraction of the budget used before this update. A phase is half a cosine (anneal_strategy cos) or a line (linear, as
the paper). lr is the peak rate, torch's max_lr. From the budget's end on the factor is the last one.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

from algos.contracts import Progress
from algos.finding import InputError
from algos.spec import Choice, Declared, Flag, Real, Spec


class OneCycle(Declared):
    """Progress -> factor in (0, 1].

    >>> schedule = OneCycle(anneal_strategy="linear")
    >>> [round(schedule(Progress(0, fraction)), 3) for fraction in (0.0, 0.15, 0.3, 0.65, 1.0)]
    [0.04, 0.52, 1.0, 0.5, 0.0]
    """

    pct_start: float = Real(0.3, above=0, below=1, unit="fraction of the budget in which the rate rises")
    div_factor: float = Real(25.0, low=1, unit="full rate over the first one")
    final_div_factor: float = Real(1e4, low=1, unit="first rate over the last one")
    anneal_strategy: str = Choice("cos", ("cos", "linear"))
    three_phase: bool = Flag(False)

    def __init__(self, **hyper: Any):
        super().__init__(**hyper)
        if self.three_phase and self.pct_start > 0.5:
            raise InputError(
                f"with three_phase the rise and the fall take pct_start={self.pct_start:g} each, more than the budget",
                "give at most 0.5", rule="out-of-range", place="OneCycle.pct_start",
            )  # fmt: skip

    def __call__(self, progress: Progress) -> float:
        fraction = min(max(progress.fraction, 0.0), 1.0)
        first = 1 / self.div_factor
        marks = [(0.0, first), (self.pct_start, 1.0)]
        marks += [(2 * self.pct_start, first)] if self.three_phase else []
        marks.append((1.0, first / self.final_div_factor))
        for (begin, high), (end, low) in itertools.pairwise(marks):
            if fraction <= end:
                return self._between(high, low, (fraction - begin) / (end - begin) if end > begin else 1.0)
        return marks[-1][1]

    def _between(self, start: float, end: float, share: float) -> float:
        if self.anneal_strategy == "linear":
            return start + (end - start) * share
        return end + (start - end) * (1 + math.cos(math.pi * share)) / 2


SPEC = Spec(
    build=OneCycle,
    state="none",
    cost="none",
    cite="""@inproceedings{smith2019super,
  title = {Super-Convergence: Very Fast Training of Neural Networks Using Large Learning Rates},
  author = {Smith, Leslie N. and Topin, Nicholay},
  booktitle = {Artificial Intelligence and Machine Learning for Multi-Domain Operations Applications},
  volume = {11006},
  publisher = {SPIE},
  year = {2019}
}""",
)
