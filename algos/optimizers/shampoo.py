"""Shampoo: precondition a gradient on every side, by inverse roots of what it has correlated with there.

Variant: Shi et al. 2023, "A Distributed Data-Parallel PyTorch Implementation of the Distributed Shampoo Optimizer",
algorithm 2, on one device (reference: facebookresearch/optimizers); the grafting of Anil et al. 2020. With
statistics="sum", betas=(0, 0.999), grafting="none", ridge="absolute", precondition_frequency=1 it is Gupta et al. 2018,
algorithm 2.

    m <- b1*m + (1 - b1)*g;  n = m / (1 - b1^t)                    momentum
    F_i <- b2*F_i + (1 - b2)*g_(i) g_(i)^T                         statistics "ema"
           F_i + g_(i) g_(i)^T                                     statistics "sum"
    where t is divisible by precondition_frequency: R_i <- (F_i / c + r*I)^(-1/p), by eigendecomposition
    P <- R_1 n R_2 for a matrix; R_i along each dimension i in general
    v <- b2*v + (1 - b2)*g^2;  a = n / (sqrt(v / (1 - b2^t)) + graft_eps)
    u <- P * |a| / |P|    grafting "adam"     P * |n| / |P|    grafting "sgd"     P    grafting "none"
    u <- a, n or n, as long as t < precondition_frequency: there is no R_i yet
    w <- w - lr*wd*w - lr*u

g gradient, w weight, m, v: one shape, any rank; g_(i) its unfolding along dimension i (formulas/kronecker.py); F_i and
R_i: (di, di); c = 1 - b2^t for "ema", 1 for "sum"; r = eps*(largest eigenvalue of F_i / c) (ridge "relative", as Anil
et al.) or eps itself ("absolute", as Shi et al. and Gupta et al.); p = 2k with k dimensions that have a factor, so 4
for a matrix and 2 for a vector; or `root`, where that is not 0.

Dimensions of size 1 or above max_precond_dim have no factor, so that a matrix with a long side has the other's alone,
with p = 2 (as Anil et al.); nor have vectors where precondition_1d is off: u is then a or n. Every dimension of a
convolution has its own factor; with merge_dims it is the matrix (out, in*k*k).

Deviations from the reference: large dimensions are not cut into blocks; merge_dims does not merge the first dimension
with others; roots at steps divisible by precondition_frequency (there the same, from start_preconditioning_step on).
State: exp_avg (m), exp_avg_sq (v, for grafting "adam"), step, factor_i (F_i), inv_factor_i (R_i). Cost: 2 products of
the weight with a di*di matrix for each factor, and now and then an eigendecomposition.
Memory: 6 numbers of state and 11 of work per weight of a square matrix.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor

from algos.formulas.ema import ema, ema_of_square, gathered_weight
from algos.formulas.kronecker import along, folded, gram, inverse_root, sides
from algos.formulas.over_root import over_root
from algos.hyper_tensors import HyperValues
from algos.per_tensor import PerTensorOptimizer
from algos.spec import Choice, Flag, Int, Pair, Real, Spec
from algos.units import State


class Shampoo(PerTensorOptimizer):
    """Inverse roots of gradient correlations on every side of the gradient, with a grafted length.

    A lone gradient U S V^T goes to U V^T, its length to that of Adam's direction, here sqrt(2):

    >>> w = torch.nn.Parameter(torch.zeros(2, 2)); w.grad = torch.tensor([[3.0, 0.0], [0.0, -1.0]])
    >>> Shampoo([w], lr=0.1, precondition_frequency=1).step(); w.detach()
    tensor([[-0.1000, 0.0000],
            [ 0.0000, 0.1000]])
    """

    lr: float = Real(1e-3, above=0, search="1e-4:3e-2:log", unit="weight units per update")
    betas: tuple[float, float] = Pair(0.9, 0.999, low=0, below=1)
    statistics: str = Choice("ema", ("ema", "sum"))
    eps: float = Real(1e-6, low=0)
    ridge: str = Choice("relative", ("relative", "absolute"))
    root: int = Int(0, low=0)  # 0: twice the number of factors
    precondition_frequency: int = Int(20, low=1)
    max_precond_dim: int = Int(8192, low=0)
    merge_dims: bool = Flag(False)
    precondition_1d: bool = Flag(True)
    grafting: str = Choice("adam", ("adam", "sgd", "none"))
    graft_eps: float = Real(1e-8, low=0, unit="gradient units")
    weight_decay: float = Real(0.0, low=0, search="1e-3:3e-1:log", unit="fraction of the weight, times lr")
    decay_all: bool = Flag(False)  # also norms, biases and embeddings

    scale_free: ClassVar[dict[str, float]] = {"eps": 0.0, "graft_eps": 0.0}
    needs: ClassVar[tuple[str, ...]] = ("phase",)
    period: ClassVar[str] = "precondition_frequency"
    unsigned_state: ClassVar[tuple[str, ...]] = ("exp_avg_sq",)
    exact_state: ClassVar[tuple[str, ...]] = (
        "factor_0", "factor_1", "factor_2", "factor_3", "factor_4",
        "inv_factor_0", "inv_factor_1", "inv_factor_2", "inv_factor_3", "inv_factor_4",
    )  # fmt: skip
    idle_unless: ClassVar[dict[str, dict[str, Any]]] = {"eps": {"precondition_frequency": 2}}

    @staticmethod
    def init(param: Tensor, hyper: HyperValues) -> State:
        shape, dims = _factors(param, hyper)
        eyes = {i: torch.eye(shape[i], dtype=param.dtype, device=param.device) for i in dims}
        return {
            "step": torch.zeros((), dtype=torch.float32, device=param.device),
            "exp_avg": torch.zeros_like(param),
            **({"exp_avg_sq": torch.zeros_like(param)} if hyper.grafting == "adam" else {}),
            **{f"factor_{i}": torch.zeros_like(eye) for i, eye in eyes.items()},
            **{f"inv_factor_{i}": eye for i, eye in eyes.items()},
        }

    @staticmethod
    def direction(param: Tensor, grad: Tensor, state: State, hyper: HyperValues, *, phase: str) -> tuple[Tensor, State]:
        t = state["step"] + 1
        shape, dims = _factors(param, hyper)
        m = ema(state["exp_avg"], grad, hyper.betas[0])
        n = m / gathered_weight(hyper.betas[0], t)
        new = {**state, "step": t, "exp_avg": m, **_statistics(grad.reshape(shape), state, hyper, dims)}
        if phase == "due" or (phase == "first" and hyper.precondition_frequency == 1):
            new |= _roots(new, hyper, dims)
        grafted = n
        if hyper.grafting == "adam":
            new["exp_avg_sq"] = v = ema_of_square(state["exp_avg_sq"], grad, hyper.betas[1])
            grafted = over_root(n, v, gathered_weight(hyper.betas[1], t).rsqrt(), hyper.graft_eps)
        if not dims:
            return grafted, new
        p = n.reshape(shape)
        for i in dims:
            p = along(p, new[f"inv_factor_{i}"], i)
        p = p.reshape(param.shape)
        if hyper.grafting == "none":
            return p, new
        norm = torch.linalg.vector_norm
        return torch.where(t < hyper.precondition_frequency, grafted, p * (norm(grafted) / (norm(p) + 1e-16))), new


def _factors(param: Tensor, hyper: HyperValues) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The shape that the factors see, and which of its dimensions have one."""
    shape = folded(param.shape, hyper.merge_dims)
    return shape, sides(shape, hyper.max_precond_dim, hyper.precondition_1d)


def _statistics(grad: Tensor, state: State, hyper: HyperValues, dims: tuple[int, ...]) -> State:
    if hyper.statistics == "sum":
        return {f"factor_{i}": state[f"factor_{i}"] + gram(grad, i) for i in dims}
    return {f"factor_{i}": ema(state[f"factor_{i}"], gram(grad, i), hyper.betas[1]) for i in dims}


def _roots(state: State, hyper: HyperValues, dims: tuple[int, ...]) -> State:
    weight = gathered_weight(hyper.betas[1], state["step"]) if hyper.statistics == "ema" else torch.ones_like(hyper.eps)
    root, relative = hyper.root or 2 * len(dims), hyper.ridge == "relative"
    return {
        f"inv_factor_{i}": inverse_root(state[f"factor_{i}"] / weight, root, hyper.eps, relative) for i in dims
    }  # fmt: skip


SPEC = Spec(
    build=Shampoo,
    needs=("phase",),
    state="two buffers per weight, two square matrices per dimension, a step",
    cost="one gradient; 2 products per weight and dimension; an eigendecomposition per dimension now and then",
    cite="""@inproceedings{gupta2018shampoo,
  title = {Shampoo: Preconditioned Stochastic Tensor Optimization},
  author = {Gupta, Vineet and Koren, Tomer and Singer, Yoram},
  booktitle = {International Conference on Machine Learning},
  year = {2018},
  eprint = {1802.09568},
  archivePrefix = {arXiv}
}
@misc{shi2023distributed,
  title = {A Distributed Data-Parallel {PyTorch} Implementation of the Distributed {Shampoo} Optimizer for Training
    Neural Networks At-Scale},
  author = {Shi, Hao-Jun Michael and Lee, Tsung-Hsien and Iwasaki, Shintaro and Gallego-Posada, Jose and Li, Zhijing and
    Rangadurai, Kaushik and Mudigere, Dheevatsa and Rabbat, Michael},
  year = {2023},
  eprint = {2309.06497},
  archivePrefix = {arXiv}
}
@misc{anil2020scalable,
  title = {Scalable Second Order Optimization for Deep Learning},
  author = {Anil, Rohan and Gupta, Vineet and Koren, Tomer and Regan, Kevin and Singer, Yoram},
  year = {2020},
  eprint = {2002.09018},
  archivePrefix = {arXiv}
}""",
)
