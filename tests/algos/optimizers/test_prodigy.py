"""Prodigy equals the paper's steps by hand, and the authors' package; d is one for all parameters and all groups."""

import copy
import io
import math
from typing import Any

import prodigyopt
import pytest
import torch
from torch import Tensor, nn

from algos.noisy_quadratic import difference, same, take_step, train, weights
from algos.optimizers.prodigy import Prodigy
from tests.algos.parity import Case, Transcription

FORMS = ("loop", "stacked")
FAST: dict[str, Any] = {"d0": 1e-2, "betas": (0.8, 0.95), "weight_decay": 0.1}


class Paper(Transcription):
    """The Adam version as printed: no options, no scaling by d0, and d, not the new d, beside eps."""

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        (group,) = self.param_groups
        b1, b2 = group["betas"]
        q, lr, d = math.sqrt(b2), group["lr"], group.setdefault("d", group["d0"])
        numerator, l1 = q * group.setdefault("r", 0.0), 0.0
        for param in group["params"]:
            g, state = param.grad, self.state[param]
            x0 = state.setdefault("x0", param.clone())
            state["m"] = b1 * state.get("m", 0) + (1 - b1) * d * g
            state["v"] = b2 * state.get("v", 0) + (1 - b2) * d**2 * g**2
            state["s"] = q * state.get("s", 0) + (1 - q) * lr * d**2 * g
            numerator += (1 - q) * lr * d**2 * float((g * (x0 - param)).sum())
            l1 += float(state["s"].abs().sum())
            param.sub_(lr * d * state["m"] / (state["v"].sqrt() + d * group["eps"]))
        group["r"], group["d"] = numerator, max(d, numerator / l1)


def case(variant: str, form: str = "loop", **hyper: Any) -> Case:
    theirs = {**hyper, "use_bias_correction": hyper.get("bias_correction", False)}
    theirs.pop("bias_correction", None)
    return Case(
        "prodigyopt.Prodigy",
        lambda params: Prodigy(params, form=form, **hyper),
        lambda params: prodigyopt.Prodigy(params, **theirs),
        package="prodigyopt",
        variant=variant,
    )


PARITY = [
    case("defaults"),
    case("stacked; other betas and decay", "stacked", **FAST),
    case("bias_correction=True", bias_correction=True, **FAST),
    case("safeguard_warmup=True", safeguard_warmup=True, **FAST),
    case("growth_rate=1.05", growth_rate=1.05, **FAST),
    case("beta3=0.9, d_coef=0.5", beta3=0.9, d_coef=0.5, **FAST),
    case("eps=0.1", eps=0.1, **FAST),
    case("eps=0.1, bias_correction=True", eps=0.1, bias_correction=True, **FAST),
    Case(
        "transcription of Mishchenko & Defazio 2024, Adam version",
        lambda params: Prodigy(params, form="loop", eps=1e-30),
        lambda params: Paper(params, lr=1.0, betas=(0.9, 0.999), eps=1e-30, d0=1e-6),
        variant="eps too small to tell d' from d",
    ),
]


def shared(optimizer: Any) -> dict[str, Tensor]:
    """What all parameters share."""
    state: dict[str, Tensor] = optimizer.state["shared"]
    return state


@pytest.mark.parametrize("form", FORMS)
def test_two_steps_by_hand(form: str) -> None:
    """Two parameters of one number, one estimate."""
    params = [nn.Parameter(torch.tensor([value], dtype=torch.float64)) for value in (1.0, -2.0)]
    optimizer = Prodigy(params, betas=(0.5, 0.75), beta3=0.5, eps=1e-30, d0=0.1, weight_decay=0.2, form=form)
    for param, g in zip(params, (3.0, -4.0), strict=True):
        param.grad = torch.tensor([g], dtype=torch.float64)
    optimizer.step()  # r = 0, so d stays 0.1: m/sqrt(v) = 0.5*g/(0.5*|g|)
    first = [1.0 * (1 - 0.1 * 0.2) - 0.1, -2.0 * (1 - 0.1 * 0.2) + 0.1]
    assert [param.item() for param in params] == pytest.approx(first, rel=1e-13)
    for param, g in zip(params, (1.0, -1.0), strict=True):
        param.grad = torch.tensor([g], dtype=torch.float64)
    optimizer.step()
    s = [0.5 * 0.1 * 3 + 0.1 * 1, 0.5 * 0.1 * -4 + 0.1 * -1]  # (d/d0)*d = 0.1
    r = 0.1 * (1.0 * (1.0 - first[0]) - 1.0 * (-2.0 - first[1]))
    estimate = r / (abs(s[0]) + abs(s[1]))
    assert shared(optimizer)["d"].item() == pytest.approx(max(0.1, estimate), rel=1e-13)
    assert shared(optimizer)["d_step"].item() == pytest.approx(0.1)
    for param, old, (g1, g2) in zip(params, first, ((3.0, 1.0), (-4.0, -1.0)), strict=True):
        m, v = 0.25 * g1 + 0.5 * g2, 0.1875 * g1**2 + 0.25 * g2**2
        assert param.item() == pytest.approx(old * 0.98 - 0.1 * m / math.sqrt(v), rel=1e-13)


@pytest.mark.parametrize("form", FORMS)
def test_d_is_one_for_all_groups(form: str) -> None:
    """Three groups take the steps of one: an estimate for each would differ from the first steps on."""
    ours, theirs = weights(), weights()
    groups = [{"params": ours[:1]}, {"params": ours[1:4]}, {"params": ours[4:]}]
    train(Prodigy(groups, form=form, **FAST), ours, range(30))
    train(Prodigy(theirs, form=form, **FAST), theirs, range(30))
    assert difference(ours, theirs) < 1e-12


@pytest.mark.parametrize("form", FORMS)
def test_a_group_at_rate_zero_counts_for_nothing(form: str) -> None:
    """As in the package (which decays it, though): what stands still is not in the estimate, and its state is as it was
    once it moves."""
    ours, theirs = weights(), weights()
    hyper = {**FAST, "weight_decay": 0.0}
    optimizer = Prodigy([{"params": ours[:2]}, {"params": ours[2:]}], form=form, **hyper)
    reference = prodigyopt.Prodigy([{"params": theirs[:2]}, {"params": theirs[2:]}], **hyper)
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
def test_steps_at_rate_zero_leave_no_trace(form: str) -> None:
    """A warm-up from 0, and a rest in the middle."""
    ours, theirs = weights(), weights()
    for params, rates in ((ours, (0.0, 1.0, 0.5, 0.0, 0.0, 1.0)), (theirs, (1.0, 0.5, 1.0))):
        optimizer = Prodigy(params, form=form, bias_correction=True, **FAST)
        for lr in rates:
            optimizer.param_groups[0]["lr"] = lr
            for param in params:
                param.grad = param.detach() - 1
            optimizer.step()
    assert same(ours, theirs)


@pytest.mark.parametrize("form", FORMS)
def test_parameters_that_miss_gradients_are_not_in_the_estimate(form: str) -> None:
    ours, theirs = weights(), weights()
    optimizer, reference = Prodigy(ours, form=form, **FAST), prodigyopt.Prodigy(theirs, **FAST)
    for each, params in ((optimizer, ours), (reference, theirs)):
        for step in range(20):
            train(each, params, [step], [0, 2, 3] if step < 5 else [0, 1, 2, 3, 4] if step % 3 else [1, 4])
    assert difference(ours, theirs) < 1e-12


def test_the_estimate_is_saved_loaded_and_copied() -> None:
    """torch.save, deepcopy and both forms' state go on with the same d; without a state d begins anew."""
    for form in FORMS:
        params = weights()
        optimizer = Prodigy(params, form=form, **FAST)
        train(optimizer, params, range(10))
        assert shared(optimizer)["d"] > 2e-2
        file = io.BytesIO()
        torch.save(optimizer.state_dict(), file)
        file.seek(0)
        saved = torch.load(file, weights_only=True)
        copied, other = copy.deepcopy((params, optimizer))
        loaded = [nn.Parameter(param.detach().clone()) for param in params]
        third = Prodigy(loaded, form=form, **FAST)
        third.load_state_dict(saved)
        at = [param.detach().clone() for param in params]
        for each, those in ((optimizer, params), (other, copied), (third, loaded)):
            train(each, those, range(10, 20))
        assert same(params, copied)
        assert same(params, loaded)
        third.load_state_dict(saved)  # the steps in between have not changed it
        for param, value in zip(loaded, at, strict=True):
            param.data.copy_(value)
        train(third, loaded, range(10, 20))
        assert same(params, loaded)


@pytest.mark.parametrize("form", FORMS)
def test_members_have_estimates_of_their_own(form: str) -> None:
    hyper: dict[str, Any] = {"betas": (0.8, 0.95), "form": form}
    both = weights(population=2)
    optimizer = Prodigy(both, population=2, lr=[1.0, 0.3], d0=[1e-2, 1e-3], **hyper)
    train(optimizer, both, range(20))
    for member, (lr, d0) in enumerate(((1.0, 1e-2), (0.3, 1e-3))):
        lone = weights()
        single = Prodigy(lone, lr=lr, d0=d0, **hyper)
        train(single, lone, range(20))
        assert difference([param[member] for param in both], lone) < 1e-12
        torch.testing.assert_close(shared(optimizer)["d"][member], shared(single)["d"])


@pytest.mark.parametrize("form", FORMS)
def test_low_precision_weights_have_an_exact_estimate(form: str) -> None:
    """bfloat16 weights: everything but the weights is float32, and d is what float32 weights of these values find."""
    narrow = weights(torch.bfloat16)
    wide = [nn.Parameter(param.detach().float()) for param in narrow]
    optimizer, reference = Prodigy(narrow, form=form, d0=1e-2), Prodigy(wide, form=form, d0=1e-2)
    for step in range(10):
        for param, exact in zip(narrow, wide, strict=True):
            exact.data.copy_(param.detach().float())
            param.grad = param.detach() - (1 + step % 2)
            exact.grad = param.grad.float()
        optimizer.step()
        reference.step()
    assert {tensor.dtype for tensor in shared(optimizer).values()} == {torch.float32}
    torch.testing.assert_close(shared(optimizer), shared(reference), rtol=1e-4, atol=1e-6)


def test_without_any_gradient_d_stays() -> None:
    params = weights()
    optimizer = Prodigy(params)
    for param in params:
        param.grad = torch.zeros_like(param)
    optimizer.step()
    assert shared(optimizer)["d"].item() == 1e-6
    assert same(params, weights())


def test_an_empty_first_group_does_no_harm() -> None:
    ours, theirs = weights(), weights()
    train(Prodigy([{"params": []}, {"params": ours}], form="loop"), ours, range(3))
    train(Prodigy(theirs, form="loop"), theirs, range(3))
    assert same(ours, theirs)
