"""Linear: the rate changes along one line over the budget.

Source: Defazio et al. 2023, section 1 (linear decay to zero); torch.optim.lr_scheduler.LinearLR with total_iters the
budget. Deviations: time is the fraction of the budget, so it works for budgets in seconds too; the defaults fall from 1
to 0, torch's rise from 1/3 to 1.

    factor(f) = initial + (final - initial)*f         f fraction of the budget used before this update

From the budget's end on the factor is `final`. With a warm-up before the line: `warmup_stable_decay` with
shape=linear and decay = 1 - warmup.
"""

from __future__ import annotations

from algos.contracts import Progress
from algos.spec import Declared, Real, Spec


class Linear(Declared):
    """Progress -> factor between `initial` and `final`.

    >>> [Linear()(Progress(0, fraction)) for fraction in (0.0, 0.25, 1.0)]
    [1.0, 0.75, 0.0]
    """

    initial: float = Real(1.0, above=0, high=1, unit="factor on lr at the first update")
    final: float = Real(0.0, low=0, high=1, unit="factor on lr at the end")

    def __call__(self, progress: Progress) -> float:
        fraction = min(max(progress.fraction, 0.0), 1.0)
        return self.initial * (1 - fraction) + self.final * fraction


SPEC = Spec(
    build=Linear,
    state="none",
    cost="none",
    cite="""@article{defazio2023when,
  title = {When, Why and How Much? Adaptive Learning Rate Scheduling by Refinement},
  author = {Defazio, Aaron and Cutkosky, Ashok and Mehta, Harsh and Mishchenko, Konstantin},
  journal = {arXiv preprint arXiv:2310.07831},
  year = {2023}
}""",
)
