"""Laws that hold of every optimizer, whatever the numbers (hypothesis)."""

from __future__ import annotations

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from algos import catalogue, conformance
from algos.checks.subject import Subject, give_curvature
from algos.noisy_quadratic import difference, take_step, train, weights
from tests.algos import tables

NAMES = tables.names()
LAW = settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
#: Of every rank; from 2 on, for a matrix of one number has no direction on a sphere (muon_hyperball).
SHAPES = st.lists(st.lists(st.integers(2, 4), min_size=0, max_size=4).map(tuple), min_size=1, max_size=5)


def subject(name: str) -> Subject:
    return conformance.subject(catalogue.load("optimizers", name))


@pytest.mark.parametrize("name", NAMES)
@LAW
@given(shapes=SHAPES, data=st.data())
def test_permuting_parameters_permutes_the_result(
    name: str, shapes: list[tuple[int, ...]], data: st.DataObject
) -> None:
    about = subject(name)
    order = data.draw(st.permutations(range(len(shapes))))
    one, other = weights(shapes=shapes), weights(shapes=shapes)
    first = about.build(one, about.reference)
    second = about.build([other[index] for index in order], about.reference)
    for step in range(2):
        take_step(first, list(enumerate(one)), step)
        take_step(second, list(enumerate(other)), step)
    assert difference(other, one) < about.rounding


@pytest.mark.parametrize("name", NAMES)
@LAW
@given(shapes=SHAPES, form=st.sampled_from(["loop", "stacked"]))
def test_a_rate_of_zero_changes_nothing(name: str, shapes: list[tuple[int, ...]], form: str) -> None:
    about = subject(name)
    params, start = weights(shapes=shapes), weights(shapes=shapes)
    optimizer = about.build(params, form if about.ours else "")
    for group in optimizer.param_groups:
        group["initial_lr"] = 0.0
    train(optimizer, params, range(3))
    with about.evaluating(optimizer):
        assert difference(params, start) < 1e-15


@pytest.mark.parametrize("name", [name for name in NAMES if getattr(subject(name).kind, "decoupled", False)])
@LAW
@given(
    shapes=SHAPES, form=st.sampled_from(["loop", "stacked"]), lr=st.floats(1e-4, 1.0), decay=st.floats(1e-4, 0.9)
)  # fmt: skip
def test_decay_alone_shrinks_by_one_minus_rate_times_decay(
    name: str, shapes: list[tuple[int, ...]], form: str, lr: float, decay: float
) -> None:
    about = subject(name)
    decays = {each: decay for each in about.hyper if each.endswith("weight_decay")}
    if not decays:
        pytest.skip("it has no weight decay")
    params = weights(shapes=shapes)
    optimizer = about.build(params, form, **decays)
    for group in optimizer.param_groups:
        group["lr"] = lr
    before = [param.detach().clone() for param in params]
    for param in params:
        param.grad = torch.zeros_like(param)
    give_curvature(optimizer, params)
    optimizer.step()
    assert difference(params, [param * (1 - lr * decay) for param in before]) < 1e-15
