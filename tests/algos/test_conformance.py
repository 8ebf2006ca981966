"""Every optimizer of the catalogue passes every check of the battery; and the checks find what is wrong."""

from typing import Any

import pytest
import torch
from torch import Tensor

from algos import catalogue, conformance
from algos.hyper_tensors import HyperValues
from algos.optimizers.adamw import AdamW
from algos.optimizers.lion import Lion
from algos.spec import Real, Spec, hyperparameters
from algos.units import State


@pytest.mark.parametrize("check", conformance.CHECKS)
@pytest.mark.parametrize("name", catalogue.paths("optimizers"))
def test_optimizer_conforms(name: str, check: str) -> None:
    result = conformance.run(check, catalogue.load("optimizers", name))
    assert result.passed, result.detail


class CoupledDecay(AdamW):
    """Decay in the gradient, as Adam had it."""

    @staticmethod
    def direction(param: Tensor, grad: Tensor, state: State, hyper: HyperValues) -> tuple[Tensor, State]:
        return AdamW.direction(param, grad + hyper.weight_decay * param, state, hyper)

    @staticmethod
    def update(param: Tensor, direction: Tensor, state: State, hyper: HyperValues) -> tuple[Tensor, State]:
        return param - hyper.lr * direction, state


class IdleHyperparameter(Lion):
    gain: float = Real(1.0, low=0)


class ReadsTheDevice(Lion):
    @staticmethod
    def direction(param: Tensor, grad: Tensor, state: State, hyper: HyperValues) -> tuple[Tensor, State]:
        direction, state = Lion.direction(param, grad, state, hyper)
        return direction * float(hyper.lr.item() >= 0), state


class NotElementwise(Lion):
    """Divides by the norm of the tensor, but says it is elementwise: wrong in one vector."""

    @staticmethod
    def direction(param: Tensor, grad: Tensor, state: State, hyper: HyperValues) -> tuple[Tensor, State]:
        return Lion.direction(param, grad / (1 + grad.norm()), state, hyper)[0] * grad.norm(), state


class NarrowState(Lion):
    @staticmethod
    def init(param: Tensor, hyper: HyperValues) -> State:
        return {"exp_avg": torch.zeros_like(param, dtype=torch.float64)}


class NeverMoves(Lion):
    @staticmethod
    def direction(param: Tensor, grad: Tensor, state: State, hyper: HyperValues) -> tuple[Tensor, State]:
        return torch.zeros_like(param), state


@pytest.mark.parametrize(
    ("wrong", "check"),
    [
        (CoupledDecay, "decay_is_decoupled"),
        (IdleHyperparameter, "every_real_hyperparameter_matters"),
        (ReadsTheDevice, "the_host_never_waits"),
        (NotElementwise, "forms_agree"),
        (NarrowState, "state_dtype_is_kept"),
        (NeverMoves, "converges_on_a_quadratic"),
    ],
)
def test_the_battery_finds_what_is_wrong(wrong: type[Any], check: str) -> None:
    spec = Spec(build=wrong, elementwise=True, cite="@misc{none}", hyper=hyperparameters(wrong))
    result = conformance.run(check, spec)
    assert not result.passed
    assert result.detail
