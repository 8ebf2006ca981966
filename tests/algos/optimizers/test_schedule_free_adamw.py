"""Schedule-Free AdamW equals the paper's algorithm with x, y, z kept apart, and the authors' package."""

from typing import Any

import pytest
import schedulefree
import torch
from torch import nn

from algos.noisy_quadratic import Tensors, difference, train, weights
from algos.optimizers.schedule_free_adamw import ScheduleFreeAdamW
from tests.algos.parity import Case

HYPER: dict[str, dict[str, Any]] = {
    "defaults": {},
    "r=1, weight_lr_power=1, every other hyperparameter changed": {
        "lr": 0.01,
        "betas": (0.8, 0.95),
        "eps": 1e-3,
        "weight_decay": 0.1,
        "r": 1.0,
        "weight_lr_power": 1.0,
    },
}


def package_s(params: Tensors, **hyper: Any) -> torch.optim.Optimizer:
    optimizer = schedulefree.AdamWScheduleFree(params, foreach=False, **hyper)
    optimizer.train()
    return optimizer


PARITY = [
    Case(
        reference="schedulefree.AdamWScheduleFree",
        package="schedulefree",
        variant=variant,
        ours=lambda params, hyper=hyper: ScheduleFreeAdamW(params, form="loop", **hyper),
        theirs=lambda params, hyper=hyper: package_s(params, **hyper),
    )
    for variant, hyper in HYPER.items()
]


def test_two_steps_by_hand() -> None:
    """Algorithm 1 with x, y and z kept apart, for one number, at a constant rate: c = 1/t."""
    w = nn.Parameter(torch.tensor([1.0], dtype=torch.float64))
    optimizer = ScheduleFreeAdamW([w], lr=0.1, betas=(0.9, 0.99), eps=0.0, weight_decay=0.5, form="loop")
    x = y = z = 1.0
    v = 0.0
    for t, g in ((1, 3.0), (2, -1.0)):
        w.grad = torch.tensor([g], dtype=torch.float64)
        optimizer.step()
        v = 0.99 * v + 0.01 * g**2
        z = z - 0.1 * (g / (v / (1 - 0.99**t)) ** 0.5 + 0.5 * y)
        x = (1 - 1 / t) * x + 1 / t * z
        y = 0.1 * z + 0.9 * x
        assert w.item() == pytest.approx(y, rel=1e-13)
        with optimizer.evaluating():
            assert w.item() == pytest.approx(x, rel=1e-13)
        assert w.item() == pytest.approx(y, rel=1e-13)


@pytest.mark.parametrize("form", ["loop", "stacked"])
@pytest.mark.parametrize(("r", "power"), [(0.0, 2.0), (1.0, 1.0)])
def test_a_hundred_steps_equal_the_authors_package(form: str, r: float, power: float) -> None:
    ours, theirs = weights(), weights()
    hyper = {"betas": (0.8, 0.95), "weight_decay": 0.1, "r": r, "weight_lr_power": power}
    optimizer = ScheduleFreeAdamW(ours, form=form, lr=0.01, **hyper)
    train(optimizer, ours, range(100))
    reference = schedulefree.AdamWScheduleFree(theirs, lr=0.01, foreach=False, **hyper)
    reference.train()
    train(reference, theirs, range(100))
    assert difference(ours, theirs) < 1e-12
    reference.eval()
    with optimizer.evaluating():
        assert difference(ours, theirs) < 1e-12


def test_a_schedule_is_the_package_s_warm_up() -> None:
    """Its warm-up multiplies lr by (k+1)/n over n steps, as a schedule does here."""
    ours, theirs = weights(), weights()
    optimizer = ScheduleFreeAdamW(ours, form="loop", lr=0.01)
    reference = schedulefree.AdamWScheduleFree(theirs, lr=0.01, warmup_steps=10, foreach=False)
    reference.train()
    for step in range(30):
        optimizer.param_groups[0]["lr"] = 0.01 * min(1.0, (step + 1) / 10)
        for params in (ours, theirs):
            for param in params:
                param.grad = param.detach() - 1
        optimizer.step()
        reference.step()
    assert difference(ours, theirs) < 1e-12


@pytest.mark.parametrize(("dtype", "short"), [(torch.float32, 1), (torch.float64, 0)])
def test_a_float32_sum_of_weights_stands_still_at_last(dtype: torch.dtype, short: int) -> None:
    """a = lr^2 = 2^-4; after 2^24 steps a is half of the last bit of S = 2^20, and the sum is rounded to S."""
    w = nn.Parameter(torch.ones(1, dtype=dtype))
    optimizer = ScheduleFreeAdamW([w], lr=0.25)
    w.grad = torch.zeros_like(w)
    optimizer.step()
    assert optimizer.state[w]["weight_sum"].item() == 2.0**-4
    optimizer.state[w]["weight_sum"].fill_(2.0**20)
    optimizer.step()
    assert optimizer.state[w]["weight_sum"].item() == 2.0**20 + (1 - short) * 2.0**-4


def test_a_first_step_at_rate_zero_leaves_no_nan() -> None:
    params = weights()
    optimizer = ScheduleFreeAdamW(params)
    for lr in (0.0, 0.01):
        optimizer.param_groups[0]["lr"] = lr
        for param in params:
            param.grad = torch.ones_like(param)
        optimizer.step()
    assert all(torch.isfinite(param).all() for param in params)


def test_the_first_beta_cannot_be_zero() -> None:
    with pytest.raises(ValueError, match=r"betas.*0.0/0.9.*\(0, 1\)"):
        ScheduleFreeAdamW(weights(), betas=(0.0, 0.9))
