"""Precision: bfloat16 weights, an fp16 scaler, and autocast around a step."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import nn

from algos import observe
from algos.checks.subject import NotApplicable, Refused, Subject, give_curvature
from algos.noisy_quadratic import same, train


def bfloat16_weights_are_rounded_once(subject: Subject) -> None:
    """The first step of bfloat16 weights is float32's step, rounded: once for ours, to 8 units of the last place for
    others."""
    allowed = 1 if subject.ours else 8
    rates = dict.fromkeys(subject.rates, 0.1)
    for form in subject.forms:
        if form == "torch":
            continue
        narrow = subject.weights(torch.bfloat16)
        wide = [nn.Parameter(param.detach().float()) for param in narrow]
        for params in (narrow, wide):
            optimizer = subject.build(params, form, **rates)
            for param, start in zip(params, subject.weights(torch.bfloat16), strict=True):
                param.grad = (start.detach() * 3 - 1).to(param.dtype)
            give_curvature(optimizer, params)
            grads = [param.grad for param in params]
            optimizer.step(*[lambda grads=grads: grads[0].sum()] * subject.closure)
        for param, exact, start in zip(narrow, wide, subject.weights(torch.bfloat16), strict=True):
            unit = torch.maximum(exact.detach().abs(), start.detach().float().abs()).clamp(min=2**-6) * 2**-7
            off = ((param.detach().float() - exact.detach()).abs() / unit).max().item() if param.numel() else 0.0
            assert off <= allowed, f"{subject.label(form)}shape {tuple(param.shape)} is off by {off:.1f} units"


def an_fp16_scaler_skips_what_is_not_finite(subject: Subject) -> None:
    """Under torch.amp.GradScaler a step with a non-finite gradient leaves weights and state as they are, and the others
    are taken as if it had not been there."""
    for form in subject.forms:
        models, optimizers = [], []
        for _ in range(2):
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(0)
                models.append(nn.Linear(4, 6, bias=False))
            optimizers.append(subject.build(list(models[-1].parameters()), form))
        scalers = [torch.amp.GradScaler("cpu", init_scale=2.0**10, growth_interval=1000) for _ in range(2)]
        for step in range(6):
            if step == 2:
                before = [param.detach().clone() for param in models[0].parameters()], _state(optimizers[0])
                _scaled_step(subject, models[0], optimizers[0], scalers[0], step, spoiled=True)
                assert same(list(models[0].parameters()), before[0]), f"{form or 'it'} moved weights at a skipped step"
                assert _equal(_state(optimizers[0]), before[1]), f"{form or 'it'} changed its state at a skipped step"
                scalers[1].update(2.0**9)
                continue
            for model, optimizer, scaler in zip(models, optimizers, scalers, strict=True):
                _scaled_step(subject, model, optimizer, scaler, step)
        assert scalers[0].get_scale() == 2.0**9, "the scaler did not see the step that it had to skip"
        both = [list(model.parameters()) for model in models]
        assert same(*both), f"{form or 'it'} goes on differently after a skipped step"


def _scaled_step(
    subject: Subject, model: nn.Module, optimizer: Any, scaler: Any, step: int, *, spoiled: bool = False
) -> None:
    inputs = torch.randn(5, 4, generator=torch.Generator().manual_seed(step))
    if spoiled:
        inputs[0, 0] = float("inf")

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = model(inputs).square().mean()
        scaler.scale(loss).backward()
        return loss.detach()

    give_curvature(optimizer, list(model.parameters()))
    if subject.closure:
        said = ""
        try:
            scaler.step(optimizer, closure=closure)
        except (RuntimeError, ValueError) as error:
            said = str(error)
        if "closure" in said.lower() or "scaler" in said.lower():
            raise Refused(said)
        raise AssertionError(said or "a closure's gradients are scaled, and nothing refuses")
    closure()
    scaler.step(optimizer)
    scaler.update()


def a_step_ignores_autocast(subject: Subject) -> None:
    """A step inside an autocast region is the step outside it, whatever it multiplies."""
    for form in subject.forms:
        inside, outside = subject.weights(torch.float32), subject.weights(torch.float32)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            train(subject.build(inside, form), inside, range(3))
        train(subject.build(outside, form), outside, range(3))
        assert same(inside, outside), f"{form or 'it'} computes in lower precision under autocast"


def the_host_never_waits(subject: Subject) -> None:
    """No step after the first reads a number from the device, also when the rate changes."""
    if subject.closure:
        raise NotApplicable("what it does next depends on the losses of its closure")
    if not subject.ours:
        try:
            waits = observe.imagined_synchronisations(lambda device: _imagined(subject, device))
        except RuntimeError as error:
            if "not linked with support" not in str(error):
                raise
            raise NotApplicable(
                "this build of torch cannot imagine the step on a device it has no support for"
            ) from error
        assert waits == 0, f"{waits:g} numbers a step are read from the device"
        return
    for form in subject.forms:
        params, optimizer = subject.started(form, 2, torch.float32)
        for step in range(2, 12):
            train(optimizer, params, [step])
            give_curvature(optimizer, params)
            waits = observe.host_synchronisations(optimizer.step)
            assert waits == 0, f"form {form} reads {waits} numbers at a step"


def _imagined(subject: Subject, device: str) -> Any:
    """A step to be watched, of parameters on a device that need not exist."""
    params = [nn.Parameter(torch.ones(shape, device=device)) for shape in subject.shapes]
    optimizer = subject.build(params)

    def step() -> None:
        for param in params:
            param.grad = torch.ones_like(param)
        optimizer.step()

    step()
    return step


def _state(optimizer: Any) -> Any:
    return copy.deepcopy(optimizer.state_dict()["state"])


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, torch.Tensor):
        return isinstance(b, torch.Tensor) and a.dtype == b.dtype and torch.equal(a, b)
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(_equal(a[key], b[key]) for key in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(_equal, a, b))
    return bool(a == b)
