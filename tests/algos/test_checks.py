"""Every check finds what it is for: optimizers that are each wrong in one way."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor

from algos import conformance
from algos.hyper_tensors import HyperValues
from algos.optimizers.adamw import AdamW
from algos.optimizers.lion import Lion
from algos.spec import Real, Spec, hyperparameters
from algos.units import State

Stepped = tuple[Tensor, State]


class CoupledDecay(AdamW):
    """Decay in the gradient, as Adam had it."""

    @staticmethod
    def direction(param: Tensor, grad: Tensor, state: State, hyper: HyperValues) -> Stepped:
        return AdamW.direction(param, grad + hyper.weight_decay * param, state, hyper)

    @staticmethod
    def update(param: Tensor, direction: Tensor, state: State, hyper: HyperValues) -> Stepped:
        return param - hyper.lr * direction, state


class IdleHyperparameter(Lion):
    gain: float = Real(1.0, low=0)


class ReadsTheDevice(Lion):
    @staticmethod
    def direction(param: Tensor, grad: Tensor, state: State, hyper: HyperValues) -> Stepped:
        direction, state = Lion.direction(param, grad, state, hyper)
        return direction * float(hyper.lr.item() >= 0), state


class NotElementwise(Lion):
    """Divides by the norm of the tensor, but says it is elementwise: wrong in one vector."""

    @staticmethod
    def direction(param: Tensor, grad: Tensor, state: State, hyper: HyperValues) -> Stepped:
        return Lion.direction(param, grad / (1 + grad.norm()), state, hyper)[0] * grad.norm(), state


class WideState(Lion):
    @staticmethod
    def init(param: Tensor, hyper: HyperValues) -> State:
        return {"exp_avg": torch.zeros_like(param, dtype=torch.float64)}


class NeverMoves(Lion):
    @staticmethod
    def direction(param: Tensor, grad: Tensor, state: State, hyper: HyperValues) -> Stepped:
        return torch.zeros_like(param), state


class NotScaleFree(AdamW):
    """eps is in the gradients' unit."""

    scale_free: ClassVar[dict[str, Any]] = {"eps": 1e-3}


@pytest.mark.parametrize(
    ("wrong", "check"),
    [
        (CoupledDecay, "decay_is_decoupled"),
        (IdleHyperparameter, "every_hyperparameter_matters"),
        (ReadsTheDevice, "the_host_never_waits"),
        (NotElementwise, "forms_agree"),
        (NotElementwise, "every_rank_is_trained"),
        (WideState, "state_dtype_is_kept"),
        (NeverMoves, "converges_on_a_quadratic"),
        (NotScaleFree, "declared_scale_freedom_holds"),
    ],
)
def test_what_is_wrong_in_per_tensor_mathematics_is_found(wrong: type[Any], check: str) -> None:
    spec = Spec(build=wrong, elementwise=True, cite="@misc{none}", hyper=hyperparameters(wrong))
    result = conformance.run(check, spec)
    assert result.status == "failed"
    assert result.detail


class Momentum(torch.optim.Optimizer):
    """A plain optimizer without a fault, for those below to add one."""

    def __init__(self, params: Any, lr: float = 0.01, beta: float = 0.9):
        if not lr >= 0:
            raise ValueError(f"lr={lr} is below 0")
        super().__init__(params, {"lr": lr, "beta": beta})

    def step(self, closure: Callable[[], Any] | None = None) -> Any:  # type: ignore[override]
        with torch.enable_grad():
            loss = None if closure is None else closure()
        with torch.no_grad():
            for group in self.param_groups:
                for param in group["params"]:
                    if param.grad is not None:
                        self.move(param, param.grad, self.state[param], group)
        return loss

    def move(self, param: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        m = state.setdefault("m", torch.zeros_like(param))
        m.mul_(group["beta"]).add_(grad)
        param.add_(m, alpha=-group["lr"])


class SharedCount(Momentum):
    """Adam's correction by a count of the optimizer's, which is in no state_dict and in no copy."""

    def __init__(self, params: Any, lr: float = 0.01):
        super().__init__(params, lr)
        self.count = 0

    def step(self, closure: Callable[[], Any] | None = None) -> Any:  # type: ignore[override]
        self.count += 1
        return super().step(closure)

    def move(self, param: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        param.add_(grad, alpha=-group["lr"] / (1 - 0.9**self.count))


class FrozenDecays(Momentum):
    def step(self, closure: Callable[[], Any] | None = None) -> Any:  # type: ignore[override]
        loss = super().step(closure)
        for group in self.param_groups:
            for param in group["params"]:
                param.data.mul_(0.999)
        return loss


class NarrowLoaded(Momentum):
    """float32 momentum for bfloat16 weights, which torch's load_state_dict casts."""

    def move(self, param: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        m = state.setdefault("m", torch.zeros_like(param, dtype=torch.float32))
        m.mul_(group["beta"]).add_(grad)
        param.add_(m.to(param.dtype), alpha=-group["lr"])


class WritesGradients(Momentum):
    def move(self, param: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        super().move(param, grad.add_(param, alpha=0.1), state, group)


class ForgetsTheLoss(Momentum):
    def step(self, closure: Callable[[], Any] | None = None) -> Any:  # type: ignore[override]
        super().step(closure)


class NormOfEverything(Momentum):
    """Clips by the norm of all gradients, and does not say that it looks across."""

    def step(self, closure: Callable[[], Any] | None = None) -> Any:  # type: ignore[override]
        grads = [param.grad for group in self.param_groups for param in group["params"] if param.grad is not None]
        self.norm = 1 + torch.stack([grad.norm() for grad in grads]).sum() if grads else torch.ones(())
        return super().step(closure)

    def move(self, param: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        super().move(param, grad / self.norm.to(grad), state, group)


class Waits(Momentum):
    def move(self, param: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        super().move(param, grad / max(1.0, grad.sum().item()), state, group)


class TakesOwnRate(Momentum):
    """Reads the rate once: a schedule changes nothing."""

    def move(self, param: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        super().move(param, grad, state, {**group, "lr": self.defaults["lr"]})


class OrderMatters(Momentum):
    """The first parameter is moved twice as far."""

    def move(self, param: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        first = self.param_groups[0]["params"][0] is param
        super().move(param, grad * (2 if first else 1), state, group)


class NotContiguous(Momentum):
    """Takes memory for shape."""

    def move(self, param: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        flat = torch.as_strided(param.data, (param.numel(),), (1,))
        flat.add_(grad.reshape(-1), alpha=-group["lr"])


class RefusesVectors(Momentum):
    def move(self, param: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        assert param.dim() != 1
        super().move(param, grad, state, group)


class Inverts(Momentum):
    """Climbs."""

    def move(self, param: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        super().move(param, -grad, state, group)


class IdleBeta(Momentum):
    def move(self, param: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        super().move(param, grad, state, {**group, "beta": 0.5})


class TakesAnyRate(Momentum):
    def __init__(self, params: Any, lr: float = 0.01):
        super().__init__(params)
        self.param_groups[0]["lr"] = lr


class TakesAnything(Momentum):
    def __init__(self, params: Any, lr: float = 0.01, **anything: Any):
        super().__init__(params, lr)


FAULTS = [
    (SharedCount, "state_survives_saving"),
    (SharedCount, "copies_go_on"),
    (SharedCount, "a_group_can_be_added"),
    (SharedCount, "missing_gradients_are_skipped"),
    (FrozenDecays, "missing_gradients_are_skipped"),
    (FrozenDecays, "no_gradients_no_step"),
    (FrozenDecays, "no_rate_no_change"),
    (NarrowLoaded, "state_dtype_is_kept"),
    (WritesGradients, "gradients_are_left_alone"),
    (ForgetsTheLoss, "a_closure_is_called"),
    (NormOfEverything, "groups_are_independent"),
    (Waits, "the_host_never_waits"),
    (TakesOwnRate, "hyperparameters_change_between_steps"),
    (OrderMatters, "permuted_parameters_permute_the_result"),
    (NotContiguous, "memory_may_be_in_any_order"),
    (RefusesVectors, "every_rank_is_trained"),
    (Inverts, "converges_on_a_quadratic"),
    (Inverts, "converges_on_rosenbrock"),
    (IdleBeta, "every_hyperparameter_matters"),
    (TakesAnyRate, "bad_values_are_refused"),
    (TakesAnything, "unknown_names_are_refused"),
]


@pytest.mark.parametrize(("wrong", "check"), FAULTS)
def test_what_is_wrong_in_a_plain_optimizer_is_found(wrong: type[torch.optim.Optimizer], check: str) -> None:
    result = conformance.run(check, wrong)
    assert result.status == "failed"
    assert result.detail


@pytest.mark.parametrize("check", sorted({check for _, check in FAULTS}))
def test_the_faultless_one_passes(check: str) -> None:
    result = conformance.run(check, Momentum)
    assert result.status == "passed", result.detail


class SpoiltByNonFinite(Momentum):
    """Takes its own decision on what is not finite, so that the scaler's skip comes too late."""

    _step_supports_amp_scaling = True


def test_a_step_that_the_scaler_cannot_skip_is_found() -> None:
    result = conformance.run("an_fp16_scaler_skips_what_is_not_finite", SpoiltByNonFinite)
    assert result.status == "failed"
    assert "skipped step" in result.detail


class MultipliesMatrices(Momentum):
    def move(self, param: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        super().move(param, grad @ torch.eye(grad.shape[1]).to(grad) if grad.dim() == 2 else grad, state, group)


def test_lower_precision_under_autocast_is_found() -> None:
    assert conformance.run("a_step_ignores_autocast", MultipliesMatrices).status == "failed"


class TimesSparse(Momentum):
    """Squares: a sparse gradient is taken, and momentum of the untouched rows is forgotten."""

    def move(self, param: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        if grad.is_sparse:
            param.add_(grad, alpha=-group["lr"])
        else:
            super().move(param, grad, state, group)


class SquaresComplex(Momentum):
    """g^2 where |g|^2 belongs."""

    def move(self, param: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        param.add_(grad / (1 + grad.square()), alpha=-group["lr"])


def test_silently_wrong_sparse_and_complex_steps_are_found() -> None:
    assert conformance.run("sparse_gradients_are_refused_or_right", TimesSparse).status == "failed"
    assert conformance.run("complex_parameters_are_refused_or_right", SquaresComplex).status == "failed"


class HardlyMoves(Momentum):
    """Takes a hundred-thousandth of its rate."""

    def move(self, param: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        param.add_(grad, alpha=-1e-5 * group["lr"])


def test_rates_are_told_in_order_and_equal_results_once() -> None:
    told = conformance.run("converges_on_a_quadratic", HardlyMoves).detail
    rates = [float(each) for each in re.findall(r"(?<= at )[\d.]+|(?<= to )[\d.]+", told)]
    assert len(rates) > 2
    assert rates == sorted(rates)
    assert len(told) <= 150
    assert " became more at 0.0001 to 1, " in conformance.run("converges_on_a_quadratic", Inverts).detail
