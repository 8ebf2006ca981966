"""Muon Hyperball (MuonH): Muon on spheres: every hidden matrix keeps its norm, and each step is a part of that norm.

Paper: Wen et al. 2026, "Fantastic Pretraining Optimizers and Where to Find Them II: Hyperball Optimization",
https://arxiv.org/abs/2606.16899; references: MuonH in modded-nanogpt and in microsoft/dion, MuonHyperball in NVIDIA's
Emerging-Optimizers. Evidence: records of modded-nanogpt's optimizer track, 3325 steps and with `neurons` (NorMuonH)
3250, where tuned Muon needed 3375 to 3500 (pull requests 267, 271, 273); the paper reports 20 to 30 percent fewer
tokens than with weight decay up to 1.2 billion parameters. `neurons` "short_axis" is NorMuonH: Muon's update is first
divided by the root mean square of late along the longer side (see normuon.py); "rows" always along rows. Momentum,
iteration and grouping are Muon's.

    R = |w| before the first step
    u <- R * U/|U|                           U: Muon's or NorMuon's update; its scale cancels
    w <- R * (w - lr*u) / |w - lr*u|         no weight decay: it would change nothing but lr

|.| is Frobenius's norm, of each part of fused weights. A matrix of zeros could never move, nor one of a single number,
and both are refused, also a part or a population's member of zeros: initialize output projections with something else.

State: momentum_buffer, radius (R: (parts, 1, 1)), exp_avg_sq with `neurons`; for the fallback AdamW's.
Cost: Muon's, and 3 passes.
Memory: 1 number of state and 6 of work per weight.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor

from algos.finding import InputError
from algos.hyper_tensors import HyperValues
from algos.matrices import MatrixOptimizer, as_matrices
from algos.optimizers.adamw import AdamW
from algos.optimizers.muon import momentum, orthogonal
from algos.optimizers.normuon import begun, by_neuron, frobenius
from algos.per_tensor import PerTensorOptimizer
from algos.spec import Choice, Flag, Int, Pair, Real, Spec
from algos.units import State


class MuonHyperball(MatrixOptimizer):
    """Muon with weights of constant norm; AdamW for what is no hidden matrix.

    >>> w = torch.nn.Parameter(torch.tensor([[3.0, 0.0], [0.0, 4.0]])); w.grad = torch.tensor([[0.0, 1.0], [0.0, 0.0]])
    >>> MuonHyperball([w], lr=1.0).step(); w.detach().norm().item()
    5.0
    """

    lr: float = Real(0.018, above=0, search="1e-3:1e-1:log", unit="norms of the weight per update")
    momentum: float = Real(0.95, low=0, below=1)
    nesterov: bool = Flag(True)
    neurons: str = Choice("none", ("none", "rows", "short_axis"))
    beta2: float = Real(0.95, low=0, below=1)
    eps: float = Real(1e-10, low=0)
    steps: int = Int(5, low=1, high=20)  # of Newton-Schulz
    coefficients: str = Choice("newton_schulz", ("newton_schulz", "polar_express"))
    orthogonalize_in: str = Choice("weight", ("weight", "bfloat16"))
    parts: int = Int(1, low=1)  # matrices on top of one another in each weight; the grouping gives 3 to fused QKV
    fallback_lr: float = Real(1e-3, above=0, search="1e-4:3e-2:log", unit="weight units per update")
    fallback_betas: tuple[float, float] = Pair(0.9, 0.95, low=0, below=1)
    fallback_eps: float = Real(1e-8, low=0, unit="gradient units")
    fallback_weight_decay: float = Real(0.0, low=0, unit="fraction of the weight, times lr")
    decay_all: bool = Flag(False)  # the fallback also decays norms, biases and embeddings

    scale_free: ClassVar[dict[str, float]] = {"eps": 0.0, "fallback_eps": 0.0}
    rules: ClassVar[Mapping[str, type[PerTensorOptimizer]]] = {"fallback": AdamW}
    unsigned_state: ClassVar[tuple[str, ...]] = ("exp_avg_sq",)
    exact_state: ClassVar[tuple[str, ...]] = ("radius",)
    decoupled: ClassVar[bool] = False
    #: A step is not proportional to its direction.
    on_a_sphere: ClassVar[bool] = True
    idle_unless: ClassVar[Mapping[str, Mapping[str, Any]]] = {"beta2": {"neurons": "rows"}, "eps": {"neurons": "rows"}}

    @staticmethod
    def init(param: Tensor, hyper: HyperValues) -> State:
        matrices = as_matrices(param, hyper.parts)
        state = {"momentum_buffer": torch.zeros_like(param), "radius": frobenius(matrices)}
        return state if hyper.neurons == "none" else {**state, "exp_avg_sq": begun(matrices, hyper.neurons)}

    @staticmethod
    def direction(param: Tensor, grad: Tensor, state: State, hyper: HyperValues) -> tuple[Tensor, State]:
        n, m = momentum(grad, state["momentum_buffer"], hyper)
        u = orthogonal(as_matrices(n, hyper.parts), hyper)
        new = {**state, "momentum_buffer": m}
        if hyper.neurons != "none":
            u, new["exp_avg_sq"] = by_neuron(u, state["exp_avg_sq"], hyper)
        return _of_norm(u, state["radius"]).reshape(n.shape), new

    @staticmethod
    def update(param: Tensor, direction: Tensor, state: State, hyper: HyperValues) -> tuple[Tensor, State]:
        moved = as_matrices(param - hyper.lr * direction, hyper.parts)
        return _of_norm(moved, state["radius"]).reshape(param.shape), state

    def _check_parameter(self, param: Tensor, group: Mapping[str, Any]) -> None:
        super()._check_parameter(param, group)
        shape = tuple(param.shape[self.population is not None :])
        if group.get("rule") or not param.numel():
            return
        if math.prod(shape) == group["parts"]:
            raise InputError(
                f"a parameter of shape {shape}, a single number per matrix, cannot turn on a sphere",
                "give its group rule='fallback'",
                place="MuonHyperball",
            )
        members, parts = self.population or 1, group["parts"]
        moving = param.detach().reshape(members * parts, -1).any(-1).tolist()
        if False in moving:
            member, part = divmod(moving.index(False), parts)
            which = [f"part {part + 1} of {parts}"] if parts > 1 else []
            which += [f"member {member}"] if self.population is not None else []
            raise InputError(
                f"a matrix of zeros, of shape {shape}{''.join(f', {each}' for each in which)}, stays zero on its sphere"
                " of radius 0",
                "initialize it with other numbers, or give its group rule='fallback'",
                place="MuonHyperball",
            )


def _of_norm(matrices: Tensor, radius: Tensor) -> Tensor:
    return matrices * (radius / frobenius(matrices).clamp(min=1e-10))


SPEC = Spec(
    build=MuonHyperball,
    needs=("names",),
    state="one buffer per weight of a matrix and its norm; AdamW's for the rest",
    cost="one gradient; 15 matrix products per matrix",
    cite="""@misc{wen2026fantastic,
  title = {Fantastic Pretraining Optimizers and Where to Find Them {II}: Hyperball Optimization},
  author = {Wen, Kaiyue and Dang, Xingyu and Lyu, Kaifeng and Ma, Tengyu and Liang, Percy},
  year = {2026},
  eprint = {2606.16899},
  archivePrefix = {arXiv}
}""",
)
