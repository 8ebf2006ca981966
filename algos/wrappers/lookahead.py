"""Lookahead: the optimizer explores with fast weights, and every k updates the slow weights go part of the way.

Paper: Zhang et al. 2019, algorithm 1; reference implementation michaelrzhang/lookahead (lookahead_pytorch.py), whose
defaults these are. Deviations: none. The optimizer's own state is kept when the fast weights go back (the paper's and
the reference's default of three choices).

    every k updates:    s <- s + alpha*(w - s)
                        w <- s

w fast weights, which are trained; s slow weights, s_0 = w_0. Evaluated, and left in the finished model, are the slow
weights, as the algorithm returns them; between two multiples of k they are those of the last one. Buffers are the
model's own: BatchNorm's statistics were collected at the fast weights, as in the reference.

State: one buffer per weight, in the weight's dtype, or float32 where that is a half precision. Cost: O(n) every k
updates; one copy of the weights during an evaluation.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from algos.averaging import Named, StandsIn, averaged, move_towards, snapshot, write
from algos.contracts import Oracle, Progress
from algos.spec import Declared, Int, Real, Spec


class Lookahead(Declared, StandsIn):
    """Slow weights around any optimizer.

    >>> Lookahead(k=10).alpha
    0.8
    """

    k: int = Int(5, low=1, unit="updates of the fast weights for one of the slow ones")
    alpha: float = Real(0.8, above=0, high=1, search="0.2:1", unit="share of the way that the slow weights go")

    def __init__(self, **hyper: Any):
        super().__init__(**hyper)
        self._slow: Named = {}

    def weights(self) -> Named:
        return self._slow

    def prepare(self, model: nn.Module) -> None:
        weights = averaged(model, buffers=False)
        self.names, self._slow = frozenset(weights), snapshot(weights)

    def updated(self, oracle: Oracle, progress: Progress) -> dict[str, Tensor]:
        if progress.update % self.k == 0:
            fast = self.live(oracle.model)
            move_towards(self._slow, fast, self.alpha)
            write(fast, self._slow)
        return {}

    def state_dict(self) -> dict[str, Any]:
        return {"slow": dict(self._slow)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        assert state["slow"].keys() == self._slow.keys(), "the slow weights are of another model"
        write(self._slow, state["slow"])


SPEC = Spec(
    build=Lookahead,
    state="one buffer per weight",
    cost="O(n) every k updates",
    cite="""@inproceedings{zhang2019lookahead,
  title = {Lookahead Optimizer: k Steps Forward, 1 Step Back},
  author = {Zhang, Michael R. and Lucas, James and Hinton, Geoffrey and Ba, Jimmy},
  booktitle = {Advances in Neural Information Processing Systems (NeurIPS)},
  year = {2019}
}""",
)
