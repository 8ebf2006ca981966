"""bf16 weights: what is stored how, and that small updates are not lost."""

import pytest
import torch
from torch import nn

from algos import catalogue
from algos.optimizers.adamw import AdamW
from algos.optimizers.sgd import SGD
from algos.precision.bf16_weights import Bf16Weights


def test_matrices_are_bfloat16_and_the_rest_is_not() -> None:
    model = nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), nn.Flatten(), nn.Linear(3, 2))
    model[3].weight.requires_grad_(False)
    Bf16Weights().store(model)
    dtypes = {name: tensor.dtype for name, tensor in model.state_dict().items() if tensor.is_floating_point()}
    assert {name for name, dtype in dtypes.items() if dtype == torch.bfloat16} == {"0.weight"}


@pytest.mark.parametrize("form", ["loop", "stacked"])
@pytest.mark.parametrize(("rounding", "kept"), [("stochastic", True), ("nearest", False)])
def test_updates_below_half_a_step_of_the_format_are_kept_in_the_mean(form: str, rounding: str, kept: bool) -> None:
    """1 - 2^-10 rounds to 1 in bfloat16, whose next number below 1 is 1 - 2^-8: 100 such updates are all lost, or add
    up to a drift of 100 * 2^-10."""
    torch.manual_seed(0)
    param = nn.Parameter(torch.ones(100, 100, dtype=torch.bfloat16))
    optimizer = SGD([param], lr=2.0**-10, momentum=0.0, form=form)
    Bf16Weights(rounding=rounding).round(optimizer)
    for _ in range(100):
        param.grad = torch.ones_like(param)
        optimizer.step()
    drift = 1 - float(param.detach().double().mean())
    assert drift == pytest.approx(100 * 2.0**-10, rel=0.02) if kept else drift == 0.0


def test_the_state_is_float32_and_a_pickled_optimizer_rounds_as_before() -> None:
    import pickle

    param = nn.Parameter(torch.ones(3, 2, dtype=torch.bfloat16))
    param.grad = torch.ones_like(param)
    optimizer = AdamW([param], rounding="stochastic")
    optimizer.step()
    assert {tensor.dtype for tensor in optimizer.state[param].values()} == {torch.float32}
    assert pickle.loads(pickle.dumps(optimizer)).rounding == "stochastic"


def test_what_cannot_round_is_refused() -> None:
    with pytest.raises(ValueError, match="needs an optimizer that keeps its state in float32, and SGD does not"):
        Bf16Weights().round(torch.optim.SGD([nn.Parameter(torch.ones(1))], lr=0.1))
    with pytest.raises(ValueError, match=r"AdamW.rounding: 'up' is not valid; give one of nearest, stochastic"):
        AdamW([nn.Parameter(torch.ones(1))], rounding="up")


def test_it_is_in_the_catalogue() -> None:
    assert catalogue.load("precision", "bf16_weights").build is Bf16Weights
