"""D-Adaptation equals a transcription of the authors' DAdaptAdam 3.0; d is one for all parameters and all groups."""

import copy
import math
from typing import Any

import pytest
import pytorch_optimizer
import torch
from torch import Tensor, nn

from algos.noisy_quadratic import difference, same, take_step, train, weights
from algos.optimizers.d_adaptation import DAdaptation
from tests.algos.parity import Case, Transcription

FORMS = ("loop", "stacked")
FAST: dict[str, Any] = {"d0": 1e-2, "betas": (0.8, 0.95), "weight_decay": 0.1}
BOUNDED: dict[str, Any] = {"d0": 1e-3, "growth_rate": 1.05, "weight_decay": 0.1}
DEFAULTS: dict[str, Any] = {
    "lr": 1.0, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.0, "d0": 1e-6, "growth_rate": math.inf,
    "bias_correction": False,
}  # fmt: skip


class Authors(Transcription):
    """Version 3.0 with decouple=True, in Python's numbers; groups whose rate is 0 are skipped."""

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        first = self.param_groups[0]
        b1, b2 = first["betas"]
        q, d, k = math.sqrt(b2), first.setdefault("d", first["d0"]), first.setdefault("k", 0)
        lr = max(group["lr"] for group in self.param_groups)
        c = math.sqrt(1 - b2 ** (k + 1)) / (1 - b1 ** (k + 1)) if first["bias_correction"] else 1.0
        a, numerator, l1 = d * lr * c, 0.0, 0.0
        moving = [param for group in self.param_groups if group["lr"] for param in group["params"]]
        moving = [param for param in moving if param.grad is not None]
        for param in moving:
            g, state = param.grad, self.state[param]
            if not state:
                state.update({name: torch.zeros_like(param) for name in "smv"})
            numerator += a * float((g * state["s"] / (state["v"].sqrt() + first["eps"])).sum())
            state["m"] = b1 * state["m"] + (1 - b1) * a * g
            state["v"] = b2 * state["v"] + (1 - b2) * g**2
            state["s"] = q * state["s"] + (1 - q) * a * g
            l1 += float(state["s"].abs().sum())
        if l1 == 0:
            return
        first["r"] = q * first.get("r", 0.0) + (1 - q) * numerator
        first["d"] = max(d, min(first["r"] / ((1 - q) * l1), d * first["growth_rate"]))
        first["k"] += 1
        for param in moving:
            state = self.state[param]
            param.mul_(1 - a * first["weight_decay"])
            param.sub_(state["m"] / (state["v"].sqrt() + first["eps"]))


def case(variant: str, form: str = "loop", **hyper: Any) -> Case:
    return Case(
        "transcription of the authors' dadaptation 3.0, DAdaptAdam",
        lambda params: DAdaptation(params, form=form, **hyper),
        lambda params: Authors(params, **{**DEFAULTS, **hyper}),
        variant=variant,
    )


PARITY = [
    case("defaults, decoupled decay"),
    case("stacked; other betas and decay", "stacked", **FAST),
    case("bias_correction=True", bias_correction=True, **FAST),
    case("growth_rate=1.05", growth_rate=1.05, **FAST),
    case("eps=0.1", eps=0.1, **FAST),
    Case(
        "pytorch_optimizer.DAdaptAdam",
        lambda params: DAdaptation(params, form="loop", **BOUNDED),
        lambda params: pytorch_optimizer.DAdaptAdam(params, weight_decouple=True, **BOUNDED),
        package="pytorch_optimizer",
        variant="growth_rate=1.05, which bounds d at every step (its sums are float32), and d0=0.001",
    ),
]


def shared(optimizer: Any) -> dict[str, Tensor]:
    """What all parameters share."""
    state: dict[str, Tensor] = optimizer.state["shared"]
    return state


@pytest.mark.parametrize("form", FORMS)
def test_two_steps_by_hand(form: str) -> None:
    """Two parameters of one number, one estimate; q = sqrt(b2) = 0.6, sqrt(1 - b2) = 0.8."""
    params = [nn.Parameter(torch.tensor([value], dtype=torch.float64)) for value in (1.0, -2.0)]
    optimizer = DAdaptation(params, betas=(0.5, 0.36), eps=1e-30, d0=0.1, weight_decay=0.2, form=form)
    grads = ((1.0, 3.0), (-1.0, -4.0))
    for param, (g, _) in zip(params, grads, strict=True):
        param.grad = torch.tensor([g], dtype=torch.float64)
    optimizer.step()  # s was 0: d stays; m = 0.05*g, sqrt(v) = 0.8*|g|
    first = [1.0 * 0.98 - 0.05 / 0.8, -2.0 * 0.98 + 0.05 / 0.8]
    assert [param.item() for param in params] == pytest.approx(first, rel=1e-13)
    for param, (_, g) in zip(params, grads, strict=True):
        param.grad = torch.tensor([g], dtype=torch.float64)
    optimizer.step()
    numerator = 0.1 * (3.0 * 0.04 / 0.8 + 4.0 * 0.04 / 0.8)  # s = 0.4*0.1*g
    l1 = (0.6 * 0.04 + 0.04 * 3) + (0.6 * 0.04 + 0.04 * 4)
    estimate = 0.4 * numerator / (0.4 * l1)
    assert estimate > 0.1
    assert shared(optimizer)["d"].item() == pytest.approx(estimate, rel=1e-13)
    for param, old, (g1, g2) in zip(params, first, grads, strict=True):
        m, v = 0.5 * 0.05 * g1 + 0.5 * 0.1 * g2, 0.36 * 0.64 * g1**2 + 0.64 * g2**2
        assert param.item() == pytest.approx(old * 0.98 - m / math.sqrt(v), rel=1e-13)


@pytest.mark.parametrize("form", FORMS)
def test_d_is_one_for_all_groups(form: str) -> None:
    """Three groups take the steps of one: an estimate for each would differ from the first steps on."""
    ours, theirs = weights(), weights()
    groups = [{"params": ours[:1]}, {"params": ours[1:4]}, {"params": ours[4:]}]
    train(DAdaptation(groups, form=form, **FAST), ours, range(30))
    train(DAdaptation(theirs, form=form, **FAST), theirs, range(30))
    assert difference(ours, theirs) < 1e-12


@pytest.mark.parametrize("form", FORMS)
def test_a_group_at_rate_zero_counts_for_nothing(form: str) -> None:
    ours, theirs = weights(), weights()
    optimizer = DAdaptation([{"params": ours[:2]}, {"params": ours[2:]}], form=form, **FAST)
    reference = Authors([{"params": theirs[:2]}, {"params": theirs[2:]}], **{**DEFAULTS, **FAST})
    for each, params in ((optimizer, ours), (reference, theirs)):
        for step in range(30):
            each.param_groups[1]["initial_lr"] = float(step >= 10)
            take_step(each, list(enumerate(params)), step)
    assert difference(ours, theirs) < 1e-12
    optimizer.param_groups[0]["initial_lr"] = 0.0
    before = [param.detach().clone() for param in ours]
    train(optimizer, ours, range(30, 33))
    assert same(ours[:2], before[:2])
    assert not same(ours[2:4], before[2:4])


@pytest.mark.parametrize("form", FORMS)
def test_parameters_that_miss_gradients_are_not_in_the_estimate(form: str) -> None:
    ours, theirs = weights(), weights()
    optimizer, reference = DAdaptation(ours, form=form, **FAST), Authors(theirs, **{**DEFAULTS, **FAST})
    for each, params in ((optimizer, ours), (reference, theirs)):
        for step in range(20):
            train(each, params, [step], [0, 2, 3] if step < 5 else [0, 1, 2, 3, 4] if step % 3 else [1, 4])
    assert difference(ours, theirs) < 1e-12


@pytest.mark.parametrize("form", FORMS)
def test_the_estimate_is_saved_loaded_and_copied(form: str) -> None:
    params = weights()
    optimizer = DAdaptation(params, form=form, **FAST)
    train(optimizer, params, range(10))
    copied, other = copy.deepcopy((params, optimizer))
    loaded = [nn.Parameter(param.detach().clone()) for param in params]
    third = DAdaptation(loaded, form=form, **FAST)
    third.load_state_dict(optimizer.state_dict())
    for each, those in ((optimizer, params), (other, copied), (third, loaded)):
        train(each, those, range(10, 20))
    assert same(params, copied)
    assert same(params, loaded)


@pytest.mark.parametrize("form", FORMS)
def test_members_have_estimates_of_their_own(form: str) -> None:
    both = weights(population=2)
    optimizer = DAdaptation(both, population=2, form=form, lr=[1.0, 0.3], d0=[1e-2, 1e-3])
    train(optimizer, both, range(20))
    for member, (lr, d0) in enumerate(((1.0, 1e-2), (0.3, 1e-3))):
        lone = weights()
        train(DAdaptation(lone, lr=lr, d0=d0, form=form), lone, range(20))
        assert difference([param[member] for param in both], lone) < 1e-12


def test_without_any_gradient_d_stays() -> None:
    params = weights()
    optimizer = DAdaptation(params)
    for param in params:
        param.grad = torch.zeros_like(param)
    optimizer.step()
    assert shared(optimizer)["d"].item() == 1e-6
    assert same(params, weights())
