"""What is changed from outside between two steps counts from the next step on, in every form."""

from __future__ import annotations

import copy
from collections import defaultdict
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from algos.noisy_quadratic import difference, train, weights
from algos.optimizers.adamw import AdamW
from algos.optimizers.lion import Lion
from algos.optimizers.normuon import NorMuon
from algos.optimizers.schedule_free_adamw import ScheduleFreeAdamW
from algos.optimizers.sgd import SGD
from algos.per_tensor import PerTensorOptimizer

FORMS = ("loop", "stacked", "torch")
SHAPES = ((6, 6), (6, 6), (5,))


def _started(form: str, steps: int = 3) -> tuple[list[nn.Parameter], AdamW]:
    params = weights(shapes=SHAPES)
    optimizer = AdamW(params, form=form)
    train(optimizer, params, range(steps))
    return params, optimizer


def _step(optimizer: torch.optim.Optimizer, params: list[nn.Parameter]) -> list[Tensor]:
    """How far each parameter moves in one step of gradients of one."""
    before = [param.detach().clone() for param in params]
    for param in params:
        param.grad = torch.ones_like(param)
    optimizer.step()
    return [param.detach() - old for param, old in zip(params, before, strict=True)]


@pytest.mark.parametrize("form", FORMS)
def test_parameters_taken_out_or_put_in(form: str) -> None:
    params, optimizer = _started(form)
    optimizer.param_groups[0]["params"].pop()
    extra = nn.Parameter(torch.ones(4, dtype=torch.float64))
    optimizer.param_groups[0]["params"].append(extra)
    moved = _step(optimizer, [*params, extra])
    assert [bool(each.any()) for each in moved] == [True, True, False, True]


@pytest.mark.parametrize("form", FORMS)
def test_another_group_in_a_group_s_place(form: str) -> None:
    params, optimizer = _started(form)
    optimizer.param_groups[0] = {**optimizer.param_groups[0], "lr": 0.0, "weight_decay": 0.0}
    assert not any(each.any() for each in _step(optimizer, params))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("how", ["another", "cleared", "exchanged"])
def test_another_state(form: str, how: str) -> None:
    """Moments forgotten: the next step is a first step, of lr for gradients of one."""
    params, optimizer = _started(form)
    if how == "another":
        optimizer.state = defaultdict(dict)
    elif how == "cleared":
        optimizer.state.clear()
    else:
        for param in params:
            for name, tensor in list(optimizer.state[param].items()):
                optimizer.state[param][name] = torch.zeros_like(tensor)
    optimizer.param_groups[0]["lr"], optimizer.param_groups[0]["weight_decay"] = 1e-3, 0.0
    for each in _step(optimizer, params):
        torch.testing.assert_close(each, torch.full_like(each, -1e-3), rtol=1e-6, atol=0.0)


@pytest.mark.parametrize("form", FORMS)
def test_a_parameter_turned_in_place(form: str) -> None:
    params, optimizer = _started(form)
    params[0].data = params[0].data.t()
    expected, loop = _started("loop")
    expected[0].data = expected[0].data.t()
    train(optimizer, params, range(3, 6))
    train(loop, expected, range(3, 6))
    assert difference(params, expected) < 1e-12


@pytest.mark.parametrize("form", ["loop", "stacked"])
def test_a_rate_that_is_a_tensor_filled_anew(form: str) -> None:
    params, optimizer = _started(form)
    optimizer.param_groups[0]["lr"] = lr = torch.tensor(0.01)
    optimizer.param_groups[0]["weight_decay"] = 0.0
    _step(optimizer, params)
    lr.fill_(0.0)
    assert not any(each.any() for each in _step(optimizer, params))


@pytest.mark.parametrize("form", ["auto", "loop", "stacked"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_a_model_cast_in_mid_run(form: str, dtype: torch.dtype) -> None:
    """The state is what the new weights are computed with: float32."""
    params = weights(torch.float64, SHAPES)
    optimizer = AdamW(params, form=form)
    train(optimizer, params, range(3))
    for param in params:
        param.data, param.grad = param.data.to(dtype), None
    train(optimizer, params, range(3, 6))
    assert {tensor.dtype for param in params for tensor in optimizer.state[param].values()} == {torch.float32}
    assert all(torch.isfinite(param).all() for param in params)


@pytest.mark.parametrize("build", [AdamW, lambda ps, **hyper: SGD(ps, momentum=0.9, **hyper)])
@pytest.mark.parametrize("shape", ["weight", "gradient", "state"])
def test_torch_s_fused_step_is_right_where_memory_formats_differ(build: Any, shape: str) -> None:
    """Its kernels walk weights, gradient and state number by number."""
    weight = torch.randn(2, 3, 4, 5, generator=torch.Generator().manual_seed(1))
    grads = [torch.randn(2, 3, 4, 5, generator=torch.Generator().manual_seed(seed)) for seed in range(4)]
    found = []
    for form in ("torch", "loop"):
        own = weight.clone(memory_format=torch.channels_last if shape == "weight" else torch.contiguous_format)
        param = nn.Parameter(own)
        optimizer = build([param], form=form)
        for step, grad in enumerate(grads):
            last = shape in ("gradient",)
            param.grad = grad.clone(memory_format=torch.channels_last if last else torch.contiguous_format)
            optimizer.step()
            if shape == "state" and step == 1:
                saved = copy.deepcopy(optimizer.state_dict())
                for state in saved["state"].values():
                    for name, tensor in state.items():
                        if tensor.dim() == 4:
                            state[name] = tensor.contiguous(memory_format=torch.channels_last)
                optimizer.load_state_dict(saved)
        found.append(param.detach().contiguous())
    torch.testing.assert_close(*found, rtol=1e-6, atol=1e-7)


def test_a_view_with_gaps_is_never_walked_over() -> None:
    base = torch.zeros(4, 4)
    view = base[:, :2].detach().requires_grad_()
    optimizer = AdamW([view])
    assert optimizer.form != "torch"
    view.grad = torch.ones(4, 2)
    optimizer.step()
    assert not base[:, 2:].any()
    assert bool((base[:, :2] != 0).all())
    with pytest.raises(ValueError, match="a parameter is a view with gaps"):
        AdamW([view], form="torch")


@pytest.mark.parametrize("form", ["loop", "stacked"])
def test_channels_last_stays(form: str) -> None:
    param = nn.Parameter(torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last))
    param.grad = torch.ones_like(param)
    optimizer = Lion([param, nn.Parameter(torch.ones(2))], form=form)
    optimizer.step()
    assert param.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("wrong", ["state", "lr", "maximize"])
def test_a_state_that_is_refused_changes_nothing(form: str, wrong: str) -> None:
    params, optimizer = _started(form)
    expected, other = _started(form)
    saved = copy.deepcopy(optimizer.state_dict())
    saved["param_groups"][0]["weight_decay"] = 0.7
    if wrong == "state":
        del saved["state"][0]["exp_avg"]
    else:
        saved["param_groups"][0][wrong] = {"lr": -1.0, "maximize": True}[wrong]
    with pytest.raises(ValueError, match=r"lacks exp_avg|lr: -1.0 is not valid|maximize=True"):
        optimizer.load_state_dict(saved)
    train(optimizer, params, range(3, 6))
    train(other, expected, range(3, 6))
    assert difference(params, expected) == 0.0


def test_no_copy_is_made_of_evaluation_weights() -> None:
    params = weights(shapes=SHAPES)
    optimizer = ScheduleFreeAdamW(params)
    train(optimizer, params, range(3))
    with optimizer.evaluating(), pytest.raises(RuntimeError, match="a copy inside evaluating"):
        copy.deepcopy(optimizer)


@pytest.mark.parametrize("form", ["loop", "stacked"])
def test_a_choice_that_needs_another_state_is_refused_at_the_next_step(form: str) -> None:
    params = weights(shapes=((6, 4), (6, 4)))
    optimizer: PerTensorOptimizer = NorMuon(params, form=form)
    train(optimizer, params, range(2))
    optimizer.param_groups[0]["parts"] = 2
    with pytest.raises(ValueError, match="has the shape"):
        train(optimizer, params, range(2, 3))
