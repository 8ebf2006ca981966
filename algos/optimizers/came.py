"""CAME: Adafactor with momentum, its step smaller where updates differ from their average.

Paper: Luo et al. 2023, algorithm 2; reference: the authors' package came-pytorch, which equals it. Of what the paper
leaves open ours is the package's: vectors (rank 0 and 1) are not factored and take no account of confidence; decay is
decoupled; tensors of more than two dimensions are factored over the last two. Deviations: none.

    R, C <- b2*(R, C) + (1 - b2)*(row, column means of g^2 + eps)      V = R C / mean(R), formulas/factored.py
    u = g / sqrt(V)
    u <- u / max(1, RMS(u)/clip_threshold)
    m <- b1*m + (1 - b1)*u                                             momentum
    U = (u - m)^2 + instability_eps                                    how far the update is from its average
    R', C' <- b3*(R', C') + (1 - b3)*(row, column means of U)          S = R' C' / mean(R')
    w <- w - lr*wd*w - lr*m/sqrt(S)

    V <- b2*V + (1 - b2)*(g^2 + eps)                                   vectors
    w <- w - lr*wd*w - lr*m

g gradient, u update, m momentum, w weight: one shape, any rank. No average is corrected for its start from zero: u is
clipped, and S begins small, so that first steps are large; use a warm-up.
State: exp_avg (m); exp_avg_sq_row and exp_avg_sq_col (R, C), exp_avg_res_row and exp_avg_res_col (R', C'), each
(..., rows, 1) or (..., 1, columns); for vectors exp_avg_sq (V). Cost: O(n) and one gradient per step.
Memory: 1.02 numbers of state and 3.02 of work per weight of a square matrix.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor

from algos.formulas.ema import ema
from algos.formulas.factored import over_factored_root, rms, row_and_column_means
from algos.hyper_tensors import HyperValues
from algos.per_tensor import PerTensorOptimizer
from algos.spec import Flag, Pair, Real, Spec
from algos.units import State


class Came(PerTensorOptimizer):
    """Confidence-guided Adafactor: one buffer per weight, and rows and columns.

    A vector's update has an RMS of at most 1, of which the momentum takes a tenth:

    >>> w = torch.nn.Parameter(torch.tensor([1.0])); w.grad = torch.tensor([0.3])
    >>> Came([w], lr=0.1).step(); round(w.item(), 4)
    0.99
    """

    lr: float = Real(2e-4, above=0, search="1e-5:1e-2:log", unit="weight units per update")  # 0.5 to 0.9 of AdamW's
    betas: tuple[float, float] = Pair(0.9, 0.999, low=0, below=1)  # of the momentum and of squared gradients
    beta3: float = Real(0.9999, low=0, below=1)  # of the instability
    eps: float = Real(1e-30, above=0, unit="squared gradient units")
    instability_eps: float = Real(1e-16, above=0)
    clip_threshold: float = Real(1.0, above=0)
    weight_decay: float = Real(0.0, low=0, search="1e-3:3e-1:log", unit="fraction of the weight, times lr")
    decay_all: bool = Flag(False)  # also norms, biases and embeddings

    scale_free: ClassVar[Mapping[str, Any] | None] = {}
    unsigned_state: ClassVar[tuple[str, ...]] = (
        "exp_avg_sq", "exp_avg_sq_row", "exp_avg_sq_col", "exp_avg_res_row", "exp_avg_res_col",
    )  # fmt: skip
    exact_state: ClassVar[tuple[str, ...]] = ("exp_avg_sq_row", "exp_avg_sq_col", "exp_avg_res_row", "exp_avg_res_col")

    @staticmethod
    def init(param: Tensor, hyper: HyperValues) -> State:
        if param.dim() < 2:
            return {"exp_avg": torch.zeros_like(param), "exp_avg_sq": torch.zeros_like(param)}
        rows, columns = param.shape[-2:]
        lead = param.shape[:-2]
        return {
            "exp_avg": torch.zeros_like(param),
            "exp_avg_sq_row": param.new_zeros(*lead, rows, 1),
            "exp_avg_sq_col": param.new_zeros(*lead, 1, columns),
            "exp_avg_res_row": param.new_zeros(*lead, rows, 1),
            "exp_avg_res_col": param.new_zeros(*lead, 1, columns),
        }

    @staticmethod
    def direction(param: Tensor, grad: Tensor, state: State, hyper: HyperValues) -> tuple[Tensor, State]:
        b1, b2 = hyper.betas
        squares = grad.square().add_(hyper.eps)
        new: State = {}
        if param.dim() < 2:
            new["exp_avg_sq"] = ema(state["exp_avg_sq"], squares, b2)
            u = grad * new["exp_avg_sq"].rsqrt()
        else:
            u = over_factored_root(grad, *_followed("exp_avg_sq", squares, state, b2, new))
        del squares
        u = u.div_((rms(u) / hyper.clip_threshold).clamp(min=1))
        m = new["exp_avg"] = ema(state["exp_avg"], u, b1)
        if param.dim() < 2:
            return m, new
        u.sub_(m)
        instability = u.mul_(u).add_(hyper.instability_eps)
        return over_factored_root(m, *_followed("exp_avg_res", instability, state, hyper.beta3, new)), new


def _followed(name: str, squares: Tensor, state: State, beta: Tensor, new: State) -> tuple[Tensor, Tensor]:
    """The averages of row and column means with these squares in them, which are also put into `new`."""
    row, column = row_and_column_means(squares)
    new[f"{name}_row"] = ema(state[f"{name}_row"], row, beta)
    new[f"{name}_col"] = ema(state[f"{name}_col"], column, beta)
    return new[f"{name}_row"], new[f"{name}_col"]


SPEC = Spec(
    build=Came,
    state="one buffer per weight, and rows and columns of each matrix twice; two buffers per weight of a vector",
    cost="one gradient; about 16 passes over the weights",
    cite="""@inproceedings{luo2023came,
  title = {{CAME}: Confidence-guided Adaptive Memory Efficient Optimization},
  author = {Luo, Yang and Ren, Xiaozhe and Zheng, Zangwei and Jiang, Zhuo and Jiang, Xin and You, Yang},
  booktitle = {Annual Meeting of the Association for Computational Linguistics},
  year = {2023},
  url = {https://arxiv.org/abs/2307.02047}
}""",
)
