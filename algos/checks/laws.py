"""Laws: what the mathematics promises whatever the problem."""

from __future__ import annotations

from typing import Any

import torch

from algos.checks.subject import NotApplicable, Subject
from algos.noisy_quadratic import curvature, difference, give_gradient, train


def no_rate_no_change(subject: Subject) -> None:
    """With every rate at 0 from the beginning nothing moves, whatever the decay."""
    if not any("lr" in group for group in subject.build(subject.weights(), subject.reference).param_groups):
        raise NotApplicable("its groups have no lr")
    decay = {"weight_decay": 0.1} if "weight_decay" in subject.hyper else {}
    for form in subject.forms:
        params, reference = subject.weights(), subject.weights()
        optimizer = subject.build(params, form, **decay)
        for group in optimizer.param_groups:
            group["initial_lr"] = 0.0
        train(optimizer, params, range(5))
        with subject.evaluating(optimizer):
            found = difference(params, reference)
        assert found < 1e-15, f"{form or 'it'} moves by {found:.1e} at lr 0"


def decay_is_decoupled(subject: Subject) -> None:
    """Without a gradient a step of decay alone multiplies every weight by 1 - lr*wd, exactly."""
    if not getattr(subject.kind, "decoupled", False):
        undeclared = "it declares no decoupled decay (a class attribute `decoupled = True` does)"
        raise NotApplicable("its decay is inside the direction" if subject.ours else undeclared)
    decays = {name: 0.1 for name in subject.hyper if name.endswith("weight_decay")}
    if not decays:
        raise NotApplicable("it has no weight decay")
    for form in subject.forms:
        params = subject.weights()
        optimizer = subject.build(params, form, **decays)
        for group in optimizer.param_groups:
            group["lr"] = 0.5
        for step in range(2):
            before = [param.detach().clone() for param in params]
            for param in params:
                param.grad = torch.zeros_like(param)
            _observe(optimizer, params, step)
            optimizer.step()
            found = difference(params, [param * (1 - 0.5 * 0.1) for param in before])
            assert found < 1e-15, f"{form or 'it'} differs by {found:.1e} at step {step}"


def declared_scale_freedom_holds(subject: Subject) -> None:
    """Where the class says so (`scale_free`), multiplying every gradient by 1024 or 1/1024 changes nothing."""
    settings = getattr(subject.kind, "scale_free", None)
    if settings is None:
        raise NotApplicable("it declares no invariance to the gradients' scale")
    reached = {}
    for scale in (1.0, 1024.0, 1 / 1024):
        params = subject.weights()
        optimizer = subject.build(params, subject.reference, **settings)
        for step in range(10):
            for index, param in enumerate(params):
                give_gradient(param, index, step)
                assert param.grad is not None
                param.grad *= scale
            _observe(optimizer, params, step, scale)
            optimizer.step()
        reached[scale] = params
    for scale in (1024.0, 1 / 1024):
        found = difference(reached[scale], reached[1.0])
        assert found < 1e-9, f"gradients times {scale:g} change the weights by {found:.1e}"


def _observe(optimizer: Any, params: list[Any], step: int, scale: float = 1.0) -> None:
    if "curvature" in getattr(optimizer, "needs", ()):
        estimates = {param: scale * curvature(param, index, step) for index, param in enumerate(params)}
        optimizer.observe_curvature(estimates)
