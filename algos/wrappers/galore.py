"""GaLore: the optimizer works on the gradient's projection onto its leading singular directions, and keeps only that.

Paper: Zhao et al. 2024, section 4.2 and algorithm 2; reference implementation jiaweizzhao/GaLore (galore_projector.py,
adamw.py), whose defaults these are. G gradient, (m, n); the smaller side is projected:

    P <- the r leading left (m <= n) or right singular vectors of G    at the first update and every `every` after it
    R <- P^T G  (r, n)    or    G P  (m, r)
    N <- the optimizer's direction for the gradient R
    direction: scale * P N    or    scale * N P^T

The state is of R's shape and is kept when P changes, as in the paper. In the weight's place the optimizer sees the
weight projected as well; decoupled decay is of the weight itself.

Which parameters: matrices and, as matrices (first dimension, all others), convolutions, whose smaller side is more than
the rank. Embeddings, the output layer, norms and vectors are left to the optimizer as they are, as in the paper's runs;
`everywhere` takes embeddings and output layers too. An optimizer that itself works now and then (soap, shampoo), looks
across tensors (prodigy), asks for curvature (sophia) or moves weights its own way (schedule-free) is refused.

Deviations: the sign of a singular vector, which is arbitrary, is chosen so that its largest entry is positive: the
state outlives P, so that the reference's steps hang on the sign that the library returned. A square matrix is projected
from the left, as the paper writes; the reference takes the right. Numbers that are not finite count as zeros in the
decomposition, and remain in R.

State: P, r numbers for each on the smaller side, beside the optimizer's own for R. Cost: three products with P an
update, O(mnr), and one singular value decomposition every `every` updates, for which the host waits.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from algos.contracts import Component
from algos.finding import InputError
from algos.parameters import places
from algos.spec import Declared, Flag, Int, Real, Spec

PROJECTOR = "projector"


class Galore(Declared, Component):
    """Low-rank optimizer state for the matrices of any optimizer of the catalogue whose rule looks at one tensor.

    >>> from algos.optimizers.adamw import AdamW
    >>> weight = nn.Parameter(torch.ones(8, 20)); weight.grad = torch.randn(8, 20)
    >>> optimizer = AdamW([weight])
    >>> optimizer.replace_rule(Galore(rank=2).rule); optimizer.step()
    >>> [(name, tuple(tensor.shape)) for name, tensor in optimizer.state[weight].items() if tensor.dim()]
    [('projector', (8, 2)), ('exp_avg', (2, 20)), ('exp_avg_sq', (2, 20))]
    """

    rank: int = Int(128, low=1, search="16:512:int")
    every: int = Int(200, low=1, unit="updates between two decompositions")
    scale: float = Real(0.25, above=0, search="0.05:2:log", unit="factor on the optimizer's direction")
    everywhere: bool = Flag(False)  # also embeddings and the output layer

    def __init__(self, **hyper: Any):
        super().__init__(**hyper)
        self._projects: dict[Tensor, bool] = {}

    def prepare(self, model: nn.Module) -> None:
        self._projects = {place.param: place.role == "matrix" for place in places(model)}

    def rule(self, rule: type[Any], param: Tensor, shape: Sequence[int]) -> type[Any]:
        _check(rule)
        if len(shape) < 2 or min(shape[0], math.prod(shape[1:])) <= self.rank or not self._wanted(param):
            return rule
        own: Any = rule
        return _low_rank(own, self.rank, self.every, self.scale)

    def check_rules(self, optimizer: Any) -> None:
        params = [param for group in optimizer.param_groups for param in group["params"]]
        members = optimizer.population is not None
        shapes = [param.shape[members:] for param in params if self._wanted(param)]
        sides = [min(shape[0], math.prod(shape[1:])) for shape in shapes if len(shape) >= 2]
        largest = max(sides, default=0)
        if largest <= self.rank:
            said = (
                f"with rank {self.rank} nothing is projected: the smaller sides of the matrices are at most {largest}"
            )
            place = "wrappers.galore.rank"
            raise InputError(said, "give a smaller rank, or leave galore out", rule="idle-component", place=place)

    def _wanted(self, param: Tensor) -> bool:
        """Without a model that it was prepared for, every parameter is."""
        if self.everywhere or not self._projects:
            return True
        if param not in self._projects:
            raise InputError(
                "galore does not know whether a parameter that is not the model's own is an embedding or an output "
                "layer", "give everywhere=true", place="Galore.everywhere",
            )  # fmt: skip
        return self._projects[param]


@functools.cache
def _low_rank(rule: Any, rank: int, every: int, scale: float) -> type[Any]:
    """The rule on projected gradients."""

    def phase(cls: type[Any], steps: int, group: Mapping[str, Any]) -> str:
        return "between" if steps % every else "due" if steps else "first"

    def init(param: Tensor, hyper: Any) -> dict[str, Tensor]:
        _check_whole(rule, hyper)
        rows, columns = _matrix(param).shape
        p = param.new_zeros((min(rows, columns), rank))
        inner = rule.init(_down(p, _matrix(param)), hyper)
        return {PROJECTOR: p, "step": torch.zeros((), dtype=torch.float32, device=param.device), **inner}

    def direction(
        param: Tensor, grad: Tensor, state: dict[str, Tensor], hyper: Any, phase: str
    ) -> tuple[Tensor, dict[str, Tensor]]:
        g = _matrix(grad)
        p = state[PROJECTOR] if phase == "between" else _leading(g, rank)
        inner = {name: tensor for name, tensor in state.items() if name != PROJECTOR}
        n, inner = rule.direction(_down(p, _matrix(param)), _down(p, g), inner, hyper)
        step = inner.get("step", state["step"])
        counted = step + 1 if step is state["step"] else step  # not every rule counts
        return scale * _up(p, n, grad), {PROJECTOR: p, **inner, "step": counted}

    functions = {"phase": classmethod(phase), "init": staticmethod(init), "direction": staticmethod(direction)}
    facts = {"elementwise": False, "needs": ("phase",), "exact_state": (*rule.exact_state, PROJECTOR)}
    return type(f"LowRank{rule.__name__}", (rule,), {**functions, **facts})


def _check(rule: type[Any]) -> None:
    """Raises InputError for an optimizer whose mathematics is not a function of one gradient alone."""
    optimizer: Any = next(each for each in rule.__mro__ if not each.__module__.startswith("algos.wrappers."))
    own_weights = getattr(optimizer.evaluate, "__qualname__", "") != "PerTensorOptimizer.evaluate"
    if "phase" in rule.needs:
        why = "does work of its own now and then, in bases of its own"
    elif rule.needs:
        words = {"shared": "sums over all parameters", "curvature": "curvature"}
        why = f"needs {' and '.join(words.get(need, need) for need in rule.needs)} beside the gradient"
    elif rule.own_update or own_weights:
        why = "moves the weights in its own way"
    else:
        return
    raise _refused(rule, why)


def _check_whole(rule: type[Any], hyper: Any) -> None:
    if getattr(hyper, "parts", 1) > 1:
        raise _refused(rule, f"takes a weight apart into {hyper.parts} matrices")


def _refused(rule: type[Any], why: str) -> InputError:
    said = f"{rule.__name__} {why}, which galore's projection would change"
    return InputError(said, "give another optimizer, e.g. adamw, or leave galore out", place="wrappers")


def _matrix(tensor: Tensor) -> Tensor:
    return tensor if tensor.dim() == 2 else tensor.reshape(tensor.shape[0], -1)


def _down(p: Tensor, matrix: Tensor) -> Tensor:
    """(m, n) -> (r, n) or (m, r)."""
    rows, columns = matrix.shape
    return p.mT @ matrix if rows <= columns else matrix @ p


def _up(p: Tensor, low: Tensor, like: Tensor) -> Tensor:
    """The transpose of `_down`, in the shape of `like`."""
    rows, columns = _matrix(like).shape
    return (p @ low if rows <= columns else low @ p.mT).reshape(like.shape)


def _leading(matrix: Tensor, rank: int) -> Tensor:
    """(m, n) -> (min(m, n), rank): the leading singular vectors of the smaller side, largest entries positive."""
    rows, columns = matrix.shape
    wide = matrix if rows <= columns else matrix.mT
    vectors = torch.linalg.svd(torch.nan_to_num(wide, 0.0, 0.0, 0.0), full_matrices=False).U[:, :rank]
    largest = torch.gather(vectors, 0, vectors.abs().argmax(0, keepdim=True))
    return vectors * torch.where(largest < 0, -1.0, 1.0).to(vectors.dtype)


SPEC = Spec(
    build=Galore,
    needs=("directions",),
    state="r per number of the smaller side, and the optimizer's own for rank r",
    cost="three products with the projector an update, a singular value decomposition every so many",
    cite="""@inproceedings{zhao2024galore,
  title = {{GaLore}: Memory-Efficient {LLM} Training by Gradient Low-Rank Projection},
  author = {Zhao, Jiawei and Zhang, Zhenyu and Chen, Beidi and Wang, Zhangyang and Anandkumar, Anima and
            Tian, Yuandong},
  booktitle = {International Conference on Machine Learning (ICML)},
  year = {2024}
}""",
)
