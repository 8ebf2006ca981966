"""SOAP: Adam in the eigenbasis of Shampoo's preconditioner.

Paper: Vyas et al. 2024, algorithm 3, with the QR step of algorithm 4. Reference: the authors' code,
https://github.com/nikhilvyas/SOAP, whose eps stands outside the root, as Adam's does (the paper's stands inside).

At the first step of a parameter nothing moves; for each dimension i that gets a factor:
    L_i <- (1 - bs)*g_(i) g_(i)^T                            g_(i): g unfolded along dimension i (formulas/kronecker.py)
    Q_i <- eigenvectors of L_i, the largest first
At step t > 1, with x' for x turned into the basis, Q_1^T x Q_2 for a matrix, and s = t - 1:
    m' <- b1*m' + (1 - b1)*g';  v <- b2*v + (1 - b2)*g'^2    moments, kept in the basis
    u <- sqrt(1 - b2^s) / (1 - b1^s) * m' / (sqrt(v) + eps), turned back
    w <- w - lr*wd*w - lr*u
    L_i <- bs*L_i + (1 - bs)*g_(i) g_(i)^T                   after its use: u never sees a basis made of its own g
where t is divisible by precondition_frequency also
    order the columns q of Q_i, and v with them, by q^T L_i q, the largest first
    Q_i <- QR(L_i Q_i), one step of power iteration;  m' is turned into the new basis

g gradient, w weight, m' and v: one shape, any rank; L_i, Q_i: (di, di). bs is shampoo_beta, or b2 where that is None.
Dimensions of size 1 or above max_precond_dim get no factor (Q_i = I), nor do vectors unless precondition_1d: where no
dimension has one this is Adam, one step late. Every dimension of a convolution has its own factor; with merge_dims it
is the matrix (out, in*k*k). With one_sided (the paper's cheaper variant) a matrix has one on its shorter side only.
normalize_grads divides the turned-back m'/(sqrt(v) + eps) by its root mean square.

Deviations from the authors' code: decay also applies at the first step, and to the weights before the step, not after;
t counts the first step, as the paper's (theirs turns one step later); at the first step the eigenvectors of eigenvalue
0, which may be any, are always the same ones (`kronecker.eigenbasis`); merge_dims keeps the first dimension apart.
Where L_i is still singular at a turn rounding chooses the rest of the basis, here as there: a vector of n numbers needs
n steps before its first turn.
In directions that no gradient has had, g' is rounding and so is sqrt(v): where that is above eps (gradients of about 1
in float32) Adam makes full-sized steps of it, here as in the authors' code. With gradients of rank 1 such steps soon
are most of u; a larger eps ends them.
State: exp_avg (m'), exp_avg_sq (v), step, GG_i (L_i), Q_i. Cost: 6 products of the weight with a di*di matrix for each
factor, and now and then 2 (di, di) products and one QR.
Memory: 6 numbers of state and 12.01 of work per weight of a square matrix.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor

from algos.formulas.ema import ema, ema_of_square, gathered_weight
from algos.formulas.kronecker import along, eigenbasis, folded, gram, sides
from algos.formulas.over_root import over_root
from algos.hyper_tensors import HyperValues
from algos.per_tensor import PerTensorOptimizer
from algos.spec import Flag, Int, Pair, Real, Spec
from algos.units import State


class SOAP(PerTensorOptimizer):
    """Adam in a slowly turning eigenbasis.

    The first step only finds the basis, here the axes from the left and the diagonals from the right. In it the second
    gradient is [[3, -1], [7, -1]] / sqrt(2), and Adam's first direction its sign, which is turned back:

    >>> w = torch.nn.Parameter(torch.zeros(2, 2)); optimizer = SOAP([w], lr=0.1, weight_decay=0.0)
    >>> for grad in ([[3.0, 3.0], [1.0, -1.0]], [[1.0, 2.0], [3.0, 4.0]]):
    ...     w.grad = torch.tensor(grad); optimizer.step()
    ...     [abs(round(each, 4)) for each in w.flatten().tolist()]
    [0.0, 0.0, 0.0, 0.0]
    [0.0, 0.1414, 0.0, 0.1414]
    """

    lr: float = Real(3e-3, above=0, search="1e-4:3e-2:log", unit="weight units per update")
    betas: tuple[float, float] = Pair(0.95, 0.95, low=0, below=1)
    shampoo_beta: float | None = Real(None, low=0, below=1, optional=True)  # None: the second of betas
    eps: float = Real(1e-8, low=0, unit="gradient units")
    precondition_frequency: int = Int(10, low=1)
    max_precond_dim: int = Int(10000, low=0)
    merge_dims: bool = Flag(False)
    one_sided: bool = Flag(False)
    precondition_1d: bool = Flag(False)
    normalize_grads: bool = Flag(False)
    correct_bias: bool = Flag(True)
    weight_decay: float = Real(0.01, low=0, search="1e-3:3e-1:log", unit="fraction of the weight, times lr")
    decay_all: bool = Flag(False)  # also norms, biases and embeddings

    scale_free: ClassVar[dict[str, float]] = {"eps": 0.0}
    needs: ClassVar[tuple[str, ...]] = ("phase",)
    period: ClassVar[str] = "precondition_frequency"
    unsigned_state: ClassVar[tuple[str, ...]] = ("exp_avg_sq",)
    exact_state: ClassVar[tuple[str, ...]] = ("GG_0", "GG_1", "GG_2", "GG_3", "GG_4", "Q_0", "Q_1", "Q_2", "Q_3", "Q_4")
    idle_unless: ClassVar[dict[str, dict[str, Any]]] = {
        "shampoo_beta": {"precondition_frequency": 2, "shampoo_beta": 0.9}
    }

    @staticmethod
    def init(param: Tensor, hyper: HyperValues) -> State:
        shape, dims = _factors(param, hyper)
        squares = {i: torch.zeros(shape[i], shape[i], dtype=param.dtype, device=param.device) for i in dims}
        return {
            "step": torch.zeros((), dtype=torch.float32, device=param.device),
            "exp_avg": torch.zeros_like(param),
            "exp_avg_sq": torch.zeros_like(param),
            **{f"GG_{i}": square for i, square in squares.items()},
            **{f"Q_{i}": torch.eye(shape[i], dtype=param.dtype, device=param.device) for i in dims},
        }

    @staticmethod
    def direction(param: Tensor, grad: Tensor, state: State, hyper: HyperValues, *, phase: str) -> tuple[Tensor, State]:
        shape, dims = _factors(param, hyper)
        grad = grad.reshape(shape)
        new = {**state, "step": state["step"] + 1}
        if phase != "first":
            u, moments = _adam(grad, state, hyper, dims)
            new |= {name: tensor.reshape(param.shape) for name, tensor in moments.items()}
        decay = hyper.betas[1] if hyper.shampoo_beta is None else hyper.shampoo_beta
        new |= {f"GG_{i}": ema(state[f"GG_{i}"], gram(grad, i), decay) for i in dims}
        if phase == "first":
            return torch.zeros_like(param), new | {f"Q_{i}": eigenbasis(new[f"GG_{i}"]) for i in dims}
        return u.reshape(param.shape), _turned(new, shape, dims) if phase == "due" else new


def _factors(param: Tensor, hyper: HyperValues) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The shape that the factors see, and which of its dimensions have one."""
    shape = folded(param.shape, hyper.merge_dims)
    dims = sides(shape, hyper.max_precond_dim, hyper.precondition_1d)
    if hyper.one_sided and len(shape) == 2:
        dims = tuple(i for i in dims if i == shape.index(min(shape)))
    return shape, dims


def _adam(grad: Tensor, state: State, hyper: HyperValues, dims: tuple[int, ...]) -> tuple[Tensor, State]:
    """The direction, and the new moments in the basis; all of the factors' shape."""
    b1, b2 = hyper.betas
    there, back = ({i: state[f"Q_{i}"] for i in dims}, {i: state[f"Q_{i}"].mT for i in dims})
    turned = _through(grad, there)
    m = ema(state["exp_avg"].reshape(grad.shape), turned, b1)
    v = ema_of_square(state["exp_avg_sq"].reshape(grad.shape), turned, b2)
    scale = torch.ones_like(b1)
    if hyper.correct_bias:
        scale = gathered_weight(b1, state["step"]) / gathered_weight(b2, state["step"]).sqrt()
    u = _through(over_root(m, v, scale, scale * hyper.eps), back)
    if hyper.normalize_grads:
        u = u / (scale * u.square().mean().sqrt() + 1e-30)
    return u, {"exp_avg": m, "exp_avg_sq": v}


def _turned(state: State, shape: tuple[int, ...], dims: tuple[int, ...]) -> State:
    """The state in the bases after one more step of power iteration."""
    m, v, bases = state["exp_avg"].reshape(shape), state["exp_avg_sq"].reshape(shape), {}
    for i in dims:
        old = state[f"Q_{i}"]
        powered = state[f"GG_{i}"] @ old
        order = (old * powered).sum(0).argsort(descending=True)
        v = v.index_select(i, order)
        new = torch.linalg.qr(powered.index_select(1, order))[0]
        m = along(along(m, old.mT, i), new, i)
        bases[f"Q_{i}"] = new
    own = state["exp_avg"].shape
    return {**state, "exp_avg": m.reshape(own), "exp_avg_sq": v.reshape(own), **bases}


def _through(x: Tensor, matrices: dict[int, Tensor]) -> Tensor:
    for i, matrix in matrices.items():
        x = along(x, matrix, i)
    return x


SPEC = Spec(
    build=SOAP,
    needs=("phase",),
    state="two buffers per weight, two square matrices per dimension, a step",
    cost="one gradient; 6 products per weight and dimension; a QR per dimension now and then",
    cite="""@inproceedings{vyas2025soap,
  title = {{SOAP}: Improving and Stabilizing {Shampoo} using {Adam} for Language Modeling},
  author = {Vyas, Nikhil and Morwani, Depen and Zhao, Rosie and Kwun, Mujin and Shapira, Itai and Brandfonbrener, David
    and Janson, Lucas and Kakade, Sham},
  booktitle = {International Conference on Learning Representations},
  year = {2025},
  eprint = {2409.11321},
  archivePrefix = {arXiv}
}""",
)
