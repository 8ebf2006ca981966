"""torch's version steps once, on our groups, and only where there are gradients."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.optimizer import register_optimizer_step_post_hook

from algos.noisy_quadratic import difference, same, train, weights
from algos.optimizers.adamw import AdamW
from algos.optimizers.sgd import SGD


def test_global_hooks_run_once_a_step() -> None:
    called: list[str] = []
    handle = register_optimizer_step_post_hook(lambda optimizer, *_: called.append(type(optimizer).__module__))
    try:
        params = weights()
        optimizer = AdamW(params, form="torch")
        train(optimizer, params, range(2))
    finally:
        handle.remove()
    assert called == ["algos.optimizers.adamw"] * 2


def test_without_gradients_nothing_happens() -> None:
    for build in (AdamW, SGD):
        params = weights()
        optimizer = build(params, form="torch", weight_decay=0.1)
        optimizer.step()
        assert same(params, weights())
        assert not optimizer.state_dict()["state"]


def test_decoupled_decay_of_frozen_parameters_waits() -> None:
    """A parameter without a gradient does not decay either."""
    params = weights()
    train(SGD(params, form="torch", weight_decay=0.1), params, range(3), [0])
    assert same(params[1:], weights()[1:])
    assert difference(params[:1], weights()[:1]) > 0.01
    assert not torch.equal(params[0], weights()[0])


def test_a_subclass_with_other_mathematics_does_not_run_torch_s() -> None:
    """Else its own direction would be ignored wherever torch's fused step is the fastest."""

    class Halved(SGD):
        @staticmethod
        def direction(param: Tensor, grad: Tensor, state: Any, hyper: Any) -> Any:
            return 0.5 * grad, state

    param = nn.Parameter(torch.ones(1))
    param.grad = torch.ones(1)
    optimizer = Halved([param], lr=0.5, momentum=0.0)
    assert optimizer.form != "torch"
    optimizer.step()
    assert param.item() == 0.75


def test_a_form_that_is_set_later_is_the_one_that_runs() -> None:
    """A resumed run goes on in the form it began in, whatever was asked for now."""
    params, alone = weights(), weights()
    optimizer, loop = AdamW(params, form="loop"), AdamW(alone, form="loop")
    optimizer.use_form("torch")
    train(optimizer, params, range(3))
    train(loop, alone, range(3))
    assert optimizer.form == "torch"
    assert difference(params, alone) < 1e-12
