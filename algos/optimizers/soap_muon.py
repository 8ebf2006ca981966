"""SOAP-Muon: Muon's momentum goes through SOAP's preconditioner before it is orthogonalized.

There is no paper. Source and reference: modded-nanogpt's optimizer track, pull requests 278 (May 2026; this step alone
took the record from 3225 to 3150 steps) and 321 (June 2026: 2750 steps over 20 seeds, all hidden matrices
preconditioned, basis refreshed every step; tuned Muon: 3375 to 3500). This is the preconditioner on plain Muon: those
scripts have more (a floor of the update's norm, radial damping, schedules and betas of the others), which is not here;
nor are, of 321's stored script, its 12 Newton-Schulz steps with a, b, c = 2, -1.5, 0.5 (ours: `steps`, `coefficients`)
and the gate of trust through which attn.proj's preconditioning goes.
Momentum, iteration, scalings and grouping are Muon's.

At the first step of a parameter n is not preconditioned. At step t > 1, for n (rows, columns), Muon's momentum:
    n' = Q_0^T n Q_1                                     in the basis
    v <- b2*v + (1 - b2)*n'^2                            from 0, without bias correction
    O <- NewtonSchulz(Q_0 (n' / (sqrt(v) + eps)) Q_1^T)
    w <- w - lr*wd*w - lr*s*O                            s: Muon's scale
then, at every step, so that O never sees a basis made of its own g:
    L_0 <- b2*L_0 + (1 - b2)*g g^T;  L_1 <- b2*L_1 + (1 - b2)*g^T g
    Q_i <- eigenvectors of L_i, the largest first        at the first step
    order the columns q of Q_i, and v with them, by q^T L_i q; Q_i <- QR(L_i Q_i)      where t is divisible by
                                                         precondition_frequency (278: 10; 321: 1)

Deviations: t counts the first step (the scripts' refresh comes one step later); eigenvectors of eigenvalue 0, which are
any, are always the same (formulas/kronecker.py); the scripts rescale the preconditioned n to the norm of n, which
NewtonSchulz undoes. In directions that no gradient has had, n' is rounding and so is sqrt(v): where that is above eps
(gradients of about 1 in float32) their quotient is of full size, and so is O there, here as in the scripts. State:
momentum_buffer, exp_avg_sq (v), step, GG_i (L_i) and Q_i: (parts, side, side); for the fallback AdamW's. Cost: Muon's,
6 products of the matrix with a square one for each side, now and then 2 and a QR.
Memory: 6 numbers of state and 12.01 of work per weight of a square matrix.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor

from algos.formulas.ema import ema
from algos.formulas.kronecker import eigenbasis
from algos.hyper_tensors import HyperValues
from algos.matrices import MatrixOptimizer, as_matrices
from algos.optimizers.adamw import AdamW
from algos.optimizers.muon import momentum, orthogonal, scale
from algos.per_tensor import PerTensorOptimizer
from algos.spec import Choice, Flag, Int, Pair, Real, Spec
from algos.units import State


class SOAPMuon(MatrixOptimizer):
    """Orthogonalized momentum after Adam's division in a slowly turning eigenbasis; AdamW for the rest.

    >>> w = torch.nn.Parameter(torch.zeros(2, 2)); w.grad = torch.tensor([[1000.0, 0.0], [0.0, 0.0]])
    >>> SOAPMuon([w], lr=1.0).step(); 0.6 < -w[0, 0].item() < 1.3
    True
    """

    lr: float = Real(0.02, above=0, search="1e-3:1e-1:log", unit="spectral norm per update")
    momentum: float = Real(0.95, low=0, below=1)
    nesterov: bool = Flag(True)
    beta2: float = Real(0.9, low=0, below=1)  # of v and of L_i
    eps: float = Real(1e-8, low=0, unit="gradient units")
    precondition_frequency: int = Int(10, low=1)
    steps: int = Int(5, low=1, high=20)  # of Newton-Schulz
    coefficients: str = Choice("newton_schulz", ("newton_schulz", "polar_express"))
    scaling: str = Choice("original", ("original", "match_rms_adamw", "unit_rms_norm"))
    orthogonalize_in: str = Choice("weight", ("weight", "bfloat16"))
    parts: int = Int(1, low=1)  # matrices on top of one another in each weight; the grouping gives 3 to fused QKV
    weight_decay: float = Real(0.0, low=0, search="1e-3:1e-1:log", unit="fraction of the weight, times lr")
    fallback_lr: float = Real(1e-3, above=0, search="1e-4:3e-2:log", unit="weight units per update")
    fallback_betas: tuple[float, float] = Pair(0.9, 0.95, low=0, below=1)
    fallback_eps: float = Real(1e-8, low=0, unit="gradient units")
    fallback_weight_decay: float = Real(0.0, low=0, unit="fraction of the weight, times lr")
    decay_all: bool = Flag(False)  # the fallback also decays norms, biases and embeddings

    scale_free: ClassVar[dict[str, float]] = {"eps": 0.0, "fallback_eps": 0.0}
    rules: ClassVar[Mapping[str, type[PerTensorOptimizer]]] = {"fallback": AdamW}
    needs: ClassVar[tuple[str, ...]] = ("phase",)
    period: ClassVar[str] = "precondition_frequency"
    unsigned_state: ClassVar[tuple[str, ...]] = ("exp_avg_sq",)
    exact_state: ClassVar[tuple[str, ...]] = ("GG_0", "GG_1", "Q_0", "Q_1")

    @staticmethod
    def init(param: Tensor, hyper: HyperValues) -> State:
        matrices = as_matrices(param, hyper.parts)
        parts, *sides = matrices.shape
        return {
            "step": torch.zeros((), dtype=torch.float32, device=param.device),
            "momentum_buffer": torch.zeros_like(param),
            "exp_avg_sq": torch.zeros_like(matrices),
            **{f"GG_{i}": param.new_zeros(parts, side, side) for i, side in enumerate(sides)},
            **{f"Q_{i}": param.new_zeros(parts, side, side) for i, side in enumerate(sides)},
        }

    @staticmethod
    def direction(param: Tensor, grad: Tensor, state: State, hyper: HyperValues, *, phase: str) -> tuple[Tensor, State]:
        n, m = momentum(grad, state["momentum_buffer"], hyper)
        g, matrices = as_matrices(grad, hyper.parts), as_matrices(n, hyper.parts)
        new = {**state, "step": state["step"] + 1, "momentum_buffer": m}
        if phase != "first":
            matrices, new["exp_avg_sq"] = _preconditioned(matrices, state, hyper)
        new |= {f"GG_{i}": ema(state[f"GG_{i}"], gram, hyper.beta2) for i, gram in enumerate((g @ g.mT, g.mT @ g))}
        if phase == "first" and grad.numel():
            new |= {f"Q_{i}": torch.vmap(eigenbasis)(new[f"GG_{i}"]) for i in (0, 1)}
        elif phase == "due":
            new = _turned(new)
        u = orthogonal(matrices, hyper) * scale(hyper.scaling, *matrices.shape[1:])
        return u.reshape(grad.shape), new


def _preconditioned(n: Tensor, state: State, hyper: HyperValues) -> tuple[Tensor, Tensor]:
    """(what is orthogonalized, v), both (parts, rows, columns)."""
    rows, columns = state["Q_0"], state["Q_1"]
    turned = rows.mT @ n @ columns
    v = ema(state["exp_avg_sq"], turned.square(), hyper.beta2)
    return rows @ (turned / (v.sqrt() + hyper.eps)) @ columns.mT, v


def _turned(state: State) -> State:
    """The state in the bases after one more step of power iteration."""
    v, bases = state["exp_avg_sq"], {}
    for i in (0, 1):
        old = state[f"Q_{i}"]
        powered = state[f"GG_{i}"] @ old
        order = (old * powered).sum(-2).argsort(dim=-1, descending=True)
        along = order.unsqueeze(-1) if i == 0 else order.unsqueeze(-2)
        v = v.gather(i - 2, along.expand(v.shape))
        sorted_columns = powered.gather(-1, order.unsqueeze(-2).expand(powered.shape))
        bases[f"Q_{i}"] = torch.linalg.qr(sorted_columns)[0]
    return {**state, "exp_avg_sq": v, **bases}


SPEC = Spec(
    build=SOAPMuon,
    needs=("names", "phase"),
    state="two buffers per weight of a matrix and four square matrices; AdamW's for the rest",
    cost="one gradient; 15 matrix products per matrix, 6 per side; a QR per side now and then",
    cite="""@misc{moddednanogpt2026soapmuon,
  title = {{SOAP} preconditioning before {Muon}'s orthogonalization: records 278 and 321 of the optimizer track},
  author = {{contributors to modded-nanogpt}},
  year = {2026},
  url = {https://github.com/KellerJordan/modded-nanogpt/pull/321}
}
@inproceedings{vyas2025soap,
  title = {{SOAP}: Improving and Stabilizing {Shampoo} using {Adam} for Language Modeling},
  author = {Vyas, Nikhil and Morwani, Depen and Zhao, Rosie and Kwun, Mujin and Shapira, Itai and Brandfonbrener, David
    and Janson, Lucas and Kakade, Sham},
  booktitle = {International Conference on Learning Representations},
  year = {2025},
  eprint = {2409.11321},
  archivePrefix = {arXiv}
}""",
)
