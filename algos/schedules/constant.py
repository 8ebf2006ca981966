"""Constant: the learning rate as it was given, throughout.

Source: Bottou, Curtis and Nocedal 2018, section 4.2 (fixed stepsize). Deviations: none.

    factor(f) = 1          f fraction of the budget used
"""

from __future__ import annotations

from algos.contracts import Progress
from algos.spec import Declared, Spec


class Constant(Declared):
    """Progress -> 1.

    >>> Constant()(Progress(update=0, fraction=0.0))
    1.0
    """

    def __call__(self, progress: Progress) -> float:
        return 1.0


SPEC = Spec(
    build=Constant,
    state="none",
    cost="none",
    cite="""@article{bottou2018optimization,
  title = {Optimization Methods for Large-Scale Machine Learning},
  author = {Bottou, L{\\'e}on and Curtis, Frank E. and Nocedal, Jorge},
  journal = {SIAM Review},
  volume = {60},
  number = {2},
  pages = {223--311},
  year = {2018}
}""",
)
