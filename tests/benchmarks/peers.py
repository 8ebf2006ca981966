"""Whom each optimizer is timed beside: entry -> other people's implementations of the same method.

Peers run at our settings where these change the work: the same frequency of preconditioning, the same largest side that
is preconditioned, the same matrices under a matrix method and AdamW for the rest. Packages are imported when built.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from tests.benchmarks.optimizer_shapes import Params

#: Settings of ours that differ from the defaults: no side above 2048 is preconditioned, by us or by a peer.
OURS: dict[str, dict[str, Any]] = {
    "soap": {"max_precond_dim": 2048},
    "psgd_kron": {"max_size_triangular": 2048},
    "lbfgs": {"max_iter": 1, "history_size": 10},
}
#: Further settings of ours that are timed too: as torch.optim.Muon, which orthogonalizes in bfloat16.
VARIANTS: dict[str, dict[str, dict[str, Any]]] = {"muon": {"in bfloat16": {"orthogonalize_in": "bfloat16"}}}
#: Entries timed without embeddings and head, since a peer would have to take the root of an 8192 x 8192 matrix.
BLOCKS_ONLY = ("shampoo",)


@dataclass(frozen=True)
class Peer:
    """label: what people call it. kind: eager, fused or compiled. build: from parameters, something with `step`.
    period: after how many steps its work repeats."""

    label: str
    kind: str
    build: Callable[[Params], Any]
    period: int = 1


class Several:
    """Optimizers that step together."""

    def __init__(self, *optimizers: Any):
        self.optimizers = optimizers

    def step(self) -> None:
        for optimizer in self.optimizers:
            optimizer.step()


class Compiled:
    """An optimizer whose step torch.compile has compiled."""

    def __init__(self, optimizer: Any):
        self.step = torch.compile(optimizer.step)


class Curved:
    """pytorch_optimizer's second-order methods, given an estimate of the curvature every so many steps."""

    def __init__(self, optimizer: Any, params: Params, every: int):
        self._optimizer, self._hessian, self._every, self._steps = optimizer, params.gradients, every, 0

    def step(self) -> None:
        due = self._steps % self._every == 0
        self._optimizer.step(**({"hessian": self._hessian} if due else {}))
        self._steps += 1


def theirs(name: str, **hyper: Any) -> Callable[[Params], Any]:
    """torch.optim's."""
    return lambda params: getattr(torch.optim, name)(params.all, **hyper)


def compiled(name: str, **hyper: Any) -> Callable[[Params], Any]:
    return lambda params: Compiled(getattr(torch.optim, name)(params.all, **hyper))


def of(package: str, name: str, **hyper: Any) -> Callable[[Params], Any]:
    """Another package's."""
    return lambda params: getattr(__import__(package), name)(params.all, **hyper)


def heavy(name: str, **hyper: Any) -> Callable[[Params], Any]:
    return of("heavyball", name, compile_step=True, **hyper)


def training(package: str, name: str, **hyper: Any) -> Callable[[Params], Any]:
    """One that has to be told that training begins."""

    def build(params: Params) -> Any:
        optimizer = of(package, name, **hyper)(params)
        optimizer.train()
        return optimizer

    return build


def split(package: str, name: str, **hyper: Any) -> Callable[[Params], Any]:
    """pytorch_optimizer's descendants of Muon, which have AdamW for the rest inside."""

    def build(params: Params) -> Any:
        groups = [{"params": params.hidden, "use_muon": True}, {"params": params.rest, "use_muon": False}]
        return getattr(__import__(package), name)(groups, **hyper)

    return build


def torch_muon(params: Params) -> Any:
    return Several(torch.optim.Muon(params.hidden), torch.optim.AdamW(params.rest, fused=True))


def torch_muon_compiled(params: Params) -> Any:
    return Several(Compiled(torch.optim.Muon(params.hidden)), torch.optim.AdamW(params.rest, fused=True))


def heavy_muon(params: Params) -> Any:
    import heavyball

    hidden, rest = [{"params": params.hidden, "use_muon": True}], [{"params": params.rest, "use_muon": False}]
    return heavyball.MuonAdamW(hidden + rest, compile_step=True)


def curved(name: str, every: int) -> Callable[[Params], Any]:
    return lambda params: Curved(getattr(__import__("pytorch_optimizer"), name)(params.all), params, every)


PO = "pytorch_optimizer"
PEERS: dict[str, list[Peer]] = {
    "sgd": [
        Peer("torch foreach", "eager", theirs("SGD", momentum=0.9, foreach=True)),
        Peer("torch fused", "fused", theirs("SGD", momentum=0.9, fused=True)),
        Peer("torch compiled", "compiled", compiled("SGD", momentum=0.9, foreach=True)),
        Peer("heavyball", "compiled", heavy("SGD")),
    ],
    "adamw": [
        Peer("torch foreach", "eager", theirs("AdamW", foreach=True)),
        Peer("torch fused", "fused", theirs("AdamW", fused=True)),
        Peer("torch compiled", "compiled", compiled("AdamW", foreach=True)),
        Peer("heavyball", "compiled", heavy("AdamW")),
    ],
    "nadamw": [
        Peer("torch foreach", "eager", theirs("NAdam", decoupled_weight_decay=True, foreach=True)),
        Peer("torch compiled", "compiled", compiled("NAdam", decoupled_weight_decay=True, foreach=True)),
        Peer("heavyball", "compiled", heavy("NAdam")),
    ],
    "radam": [
        Peer("torch foreach", "eager", theirs("RAdam", decoupled_weight_decay=True, foreach=True)),
        Peer("torch compiled", "compiled", compiled("RAdam", decoupled_weight_decay=True, foreach=True)),
        Peer(PO, "eager", of(PO, "RAdam")),
    ],
    "adabelief": [Peer(PO, "eager", of(PO, "AdaBelief"))],
    "adafactor": [
        Peer("torch foreach", "eager", theirs("Adafactor", foreach=True)),
        Peer("torch compiled", "compiled", compiled("Adafactor", foreach=True)),
        Peer(PO, "eager", of(PO, "AdaFactor")),
    ],
    "lamb": [Peer(PO, "eager", of(PO, "Lamb"))],
    "lars": [Peer(PO, "eager", of(PO, "LARS"))],
    "lion": [Peer("lion_pytorch", "eager", of("lion_pytorch", "Lion")), Peer(PO, "eager", of(PO, "Lion"))],
    "adan": [Peer(PO, "eager", of(PO, "Adan"))],
    "ademamix": [
        Peer(PO, "eager", of(PO, "AdEMAMix")),
        Peer("heavyball", "compiled", heavy("AdEMAMix")),
    ],
    "adopt": [Peer(PO, "eager", of(PO, "ADOPT")), Peer("heavyball", "compiled", heavy("ADOPT"))],
    "mars": [Peer(PO, "eager", of(PO, "MARS")), Peer("heavyball", "compiled", heavy("AdamW", mars=True))],
    "came": [Peer("came_pytorch", "eager", of("came_pytorch", "CAME", lr=2e-4)), Peer(PO, "eager", of(PO, "CAME"))],
    "prodigy": [Peer("prodigyopt", "eager", of("prodigyopt", "Prodigy")), Peer(PO, "eager", of(PO, "Prodigy"))],
    "d_adaptation": [Peer(PO, "eager", of(PO, "DAdaptAdam"))],
    "schedule_free_adamw": [
        Peer("schedulefree", "eager", training("schedulefree", "AdamWScheduleFree")),
        Peer(PO, "eager", training(PO, "ScheduleFreeAdamW")),
        Peer("heavyball", "compiled", heavy("SFAdamW")),
    ],
    "schedule_free_sgd": [
        Peer("schedulefree", "eager", training("schedulefree", "SGDScheduleFree")),
        Peer(PO, "eager", training(PO, "ScheduleFreeSGD")),
    ],
    "muon": [
        Peer("torch.optim.Muon", "eager", torch_muon),
        Peer("torch.optim.Muon compiled", "compiled", torch_muon_compiled),
        Peer(PO, "eager", split(PO, "Muon")),
        Peer("heavyball", "compiled", heavy_muon),
    ],
    "normuon": [Peer(PO, "eager", split(PO, "NorMuon"))],
    "scion": [Peer(PO, "eager", of(PO, "SCION")), Peer("heavyball", "compiled", heavy("Scion"))],
    "soap": [
        Peer(PO, "eager", of(PO, "SOAP", precondition_frequency=10, max_precondition_dim=2048), period=10),
        Peer(
            "heavyball", "compiled",
            heavy("SOAP", precondition_frequency=10, max_precond_dim=2048, use_precond_schedule=False), period=10,
        ),
    ],
    "shampoo": [
        Peer(f"{PO}, its default of every step", "eager", of(PO, "Shampoo")),
        Peer(f"{PO}, every 10 steps", "eager", of(PO, "Shampoo", preconditioning_compute_steps=10), period=10),
    ],
    "psgd_kron": [
        Peer(PO, "eager", of(PO, "Kron", pre_conditioner_update_probability=1.0, max_size_triangular=2048)),
        Peer("heavyball", "compiled", heavy("PSGDKron", preconditioner_update_probability=1.0)),
    ],
    "sophia": [Peer(PO, "eager", curved("SophiaH", 10), period=10)],
    "adahessian": [Peer(PO, "eager", curved("AdaHessian", 1))],
    "lbfgs": [Peer("torch", "eager", theirs("LBFGS", max_iter=1, history_size=10))],
}  # fmt: skip
