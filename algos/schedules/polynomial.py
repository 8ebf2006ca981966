"""Polynomial: the rate falls as a power of what is left of the budget.

Source: Chen et al. 2018 (DeepLab), section 4.1.2, the "poly" policy with power 0.9 (torch.optim.lr_scheduler.
PolynomialLR with total_iters the budget, whose default power is 1). Deviations: time is the fraction of the budget, so
it works for budgets in seconds too; and it may end above zero.

    factor(f) = final + (1 - final)*(1 - f)^power         f fraction of the budget used before this update

From the budget's end on the factor is `final`.
"""

from __future__ import annotations

from algos.contracts import Progress
from algos.spec import Declared, Real, Spec


class Polynomial(Declared):
    """Progress -> factor from 1 down to `final`.

    >>> [Polynomial(power=2.0)(Progress(0, fraction)) for fraction in (0.0, 0.5, 1.0)]
    [1.0, 0.25, 0.0]
    """

    power: float = Real(0.9, above=0)
    final: float = Real(0.0, low=0, high=1, unit="factor on lr at the end")

    def __call__(self, progress: Progress) -> float:
        left = 1 - min(max(progress.fraction, 0.0), 1.0)
        return float(self.final + (1 - self.final) * left**self.power)


SPEC = Spec(
    build=Polynomial,
    state="none",
    cost="none",
    cite="""@article{chen2018deeplab,
  title = {{DeepLab}: Semantic Image Segmentation with Deep Convolutional Nets, Atrous Convolution, and Fully Connected
           {CRFs}},
  author = {Chen, Liang-Chieh and Papandreou, George and Kokkinos, Iasonas and Murphy, Kevin and Yuille, Alan L.},
  journal = {IEEE Transactions on Pattern Analysis and Machine Intelligence},
  volume = {40},
  number = {4},
  pages = {834--848},
  year = {2018}
}""",
)
