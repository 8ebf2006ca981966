"""Whatever happens between steps, the stacked form takes the steps of the loop."""

import copy
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from algos.noisy_quadratic import difference, give_gradient, train, weights
from algos.optimizers.adamw import AdamW
from algos.optimizers.muon import Muon
from algos.optimizers.schedule_free_adamw import ScheduleFreeAdamW

EVENTS = st.one_of(
    st.lists(st.sampled_from(range(6)), min_size=1, max_size=6, unique=True),  # these parameters have gradients
    st.sampled_from(["move", "reload", "copy", "evaluate", "regroup"]),
)


def happens(event: Any, optimizer: Any, params: list[nn.Parameter]) -> tuple[Any, list[nn.Parameter]]:
    if event == "move":
        for param in params[::2]:
            param.data = param.data.clone()
    elif event == "reload":
        optimizer.load_state_dict(optimizer.state_dict())
    elif event == "copy":
        params, optimizer = copy.deepcopy((params, optimizer))
    elif event == "evaluate":
        with optimizer.evaluating():
            pass
    elif event == "regroup" and len(optimizer.param_groups) < 4:
        optimizer.add_param_group({"params": [nn.Parameter(torch.ones(3, 3, dtype=torch.float64))]})
    return optimizer, params


@pytest.mark.parametrize("build", [AdamW, Muon, ScheduleFreeAdamW])
@settings(max_examples=25, deadline=None)
@given(events=st.lists(EVENTS, max_size=10))
def test_it_follows_the_loop_through_anything(build: type[Any], events: list[Any]) -> None:
    ends = []
    for form in ("stacked", "loop"):
        params = weights()
        optimizer = build(params, form=form, weight_decay=0.1)
        for step, event in enumerate(events):
            if isinstance(event, list):
                train(optimizer, params, [step], event)
            else:
                optimizer, params = happens(event, optimizer, params)
        ends.append(params)
    assert difference(*ends) < 1e-11


def test_stacks_split_only_where_gradients_were_missing() -> None:
    params = weights(shapes=[(3,)] * 6)
    optimizer = AdamW(params, form="stacked")
    train(optimizer, params, [0])
    assert len(memories(params)) == 1
    train(optimizer, params, [1], [0, 1])  # 2 to 5 missed this one
    train(optimizer, params, [2])
    assert len(memories(params[:2])) == len(memories(params[2:])) == 1
    assert memories(params[:2]) != memories(params[2:])


def test_a_reloaded_state_is_stacked_by_steps_taken() -> None:
    """After loading, parameters with equal counts are in one vector again, and the others are not."""
    params = weights(shapes=[(3,)] * 4)
    optimizer = AdamW(params, form="stacked")
    for step, some in ((0, [0]), (1, [1]), (2, [2, 3]), (3, [2, 3])):
        train(optimizer, params, [step], some)
    optimizer.load_state_dict(optimizer.state_dict())
    train(optimizer, params, [4])
    assert len(memories(params[:2])) == len(memories(params[2:])) == 1
    assert [optimizer.state[param]["step"].item() for param in params] == [2, 2, 3, 3]


def memories(params: list[nn.Parameter]) -> set[int]:
    return {param.untyped_storage().data_ptr() for param in params}


def test_gradients_of_any_layout_are_read_in_order() -> None:
    """A transposed or channels-last gradient is put where it belongs."""
    ends = []
    for form in ("stacked", "loop"):
        params = weights(shapes=[(4, 3), (2, 3, 2, 2)])
        params[1].data = params[1].data.to(memory_format=torch.channels_last)
        optimizer = AdamW(params, form=form)
        for step in range(3):
            for index, param in enumerate(params):
                give_gradient(param, index, step)
            assert params[0].grad is not None
            params[0].grad = params[0].grad.t().contiguous().t()
            optimizer.step()
        ends.append(params)
    assert difference(*ends) < 1e-14
