"""Gradients: late, missing, in parts, of a tied weight, in a closure; and those the mathematics may not know."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from algos.checks.subject import NotApplicable, Refused, Subject, give_curvature
from algos.noisy_quadratic import difference, same, train


def a_closure_is_called(subject: Subject) -> None:
    """step(closure) computes gradients in it, returns its loss, and equals the step without it."""
    for form in subject.forms:
        params, reference = subject.weights(), subject.weights()
        optimizer, plain = subject.build(params, form), subject.build(reference, form)
        losses: list[Tensor] = []

        def closure(params: Sequence[nn.Parameter] = params, losses: list[Tensor] = losses) -> Tensor:
            for param in params:
                param.grad = None
            loss = torch.stack([param.square().sum() for param in params]).sum()
            assert loss.requires_grad, "the closure is called without autograd: call it under torch.enable_grad()"
            loss.backward()  # type: ignore[no-untyped-call]
            losses.append(loss)
            return loss

        give_curvature(optimizer, params)
        loss = optimizer.step(closure)
        assert losses, f"{form or 'it'} never called the closure"
        assert loss is not None, f"{form or 'step'} returned nothing, where it should be the closure's loss"
        assert float(loss.detach()) == float(losses[0].detach()), (
            f"{form or 'step'} returned another loss than the closure's first"
        )
        if not subject.closure:
            closure(reference)
            give_curvature(plain, reference)
            plain.step()
            assert same(params, reference), f"{form or 'it'} differs from the step without a closure"


def missing_gradients_are_skipped(subject: Subject) -> None:
    """A parameter frozen at first and thawed later, or missing steps in between, counts its own steps only."""
    having = {step: ([0, 2, 3] if step < 4 else [0, 1, 2, 3, 4] if step % 3 else [0, 1, 4]) for step in range(12)}
    for form in subject.forms:
        params, alone = subject.weights(), subject.weights()
        start = [param.detach().clone() for param in params]
        optimizer = subject.build(params, form)
        for step, some in having.items():
            train(optimizer, params, [step], some)
            if step == 3:
                assert same([params[1], params[4]], [start[1], start[4]]), f"{form or 'it'} moved what is frozen"
        if subject.across:
            reference = subject.build(alone, subject.reference)
            for step, some in having.items():
                train(reference, alone, [step], some)
        for index in () if subject.across else range(len(params) - 1):
            lone = subject.build(alone, subject.reference)
            for step in [step for step, some in having.items() if index in some]:
                train(lone, alone, [step], [index])
        found = difference(params[:-1], alone[:-1])
        assert found < 1e-12, (
            f"{subject.label(form)}what was frozen or missed steps is elsewhere than alone, by {found:.1e}"
        )


def no_gradients_no_step(subject: Subject) -> None:
    """Where no parameter has a gradient nothing moves and nothing is raised, before and after the first real step."""
    for form in subject.forms:
        params = subject.weights()
        optimizer = subject.build(params, form)
        for step in range(2):
            before = [param.detach().clone() for param in params]
            for param in params:
                param.grad = None
            optimizer.step(*[lambda: torch.zeros(())] * subject.closure)
            assert same(params, before), f"{form or 'it'} moved weights without gradients"
            train(optimizer, params, [step])


def gradients_are_left_alone(subject: Subject) -> None:
    """A step does not write into .grad: who looks at it later sees what autograd gave."""
    if subject.closure:
        raise NotApplicable("its closure writes them")
    decay = {"weight_decay": 0.1} if "weight_decay" in subject.hyper else {}
    for form in subject.forms:
        params = subject.weights()
        optimizer = subject.build(params, form, **decay)
        for _ in range(2):
            given = [param.detach() * 0.3 + 0.1 for param in params]
            for param, grad in zip(params, given, strict=True):
                param.grad = grad.clone()
            give_curvature(optimizer, params)
            optimizer.step()
            for param, grad in zip(params, given, strict=True):
                assert param.grad is not None
                assert torch.equal(param.grad, grad), f"{form or 'it'} changed .grad"


def accumulation_equals_the_whole_batch(subject: Subject) -> None:
    """Micro-batches of 8, 8 and 3 examples, weighted, give the steps of the whole batch of 19."""
    random = torch.Generator().manual_seed(3)
    inputs = torch.randn(19, 4, generator=random, dtype=torch.float64)
    targets = torch.randn(19, 6, generator=random, dtype=torch.float64)
    bias = (7,) in subject.shapes
    for form in subject.forms:
        reached = []
        for sizes in ([19], [8, 8, 3]):
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(0)
                model = nn.Linear(4, 6, bias=bias).double()
            optimizer = subject.build(list(model.parameters()), form)
            for _ in range(10):
                _step_on(optimizer, model, inputs.split(sizes), targets.split(sizes), closure=subject.closure)
            reached.append(list(model.parameters()))
        found = difference(*reached)
        assert found < 1e-7, f"{form or 'it'} differs by {found:.1e}"


def _step_on(
    optimizer: Any, model: nn.Module, inputs: Sequence[Tensor], targets: Sequence[Tensor], *, closure: bool
) -> None:
    examples = sum(map(len, inputs))

    def backward() -> Tensor:
        model.zero_grad()
        losses = [(model(x) - y).square().mean() * len(x) / examples for x, y in zip(inputs, targets, strict=True)]
        for loss in losses:
            loss.backward()  # type: ignore[no-untyped-call]
        return torch.stack(losses).sum().detach()

    if closure:
        optimizer.step(backward)
        return
    backward()
    give_curvature(optimizer, list(model.parameters()))
    optimizer.step()


class Tied(nn.Module):
    """An embedding that is also the output layer, and a matrix between."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.inner, self.head = (
            nn.Embedding(6, 4),
            nn.Linear(4, 4, bias=False),
            nn.Linear(4, 6, bias=False),
        )
        self.head.weight = self.tokens.weight

    def forward(self, tokens: Tensor) -> Tensor:
        inner: Tensor = self.head(self.inner(self.tokens(tokens)))
        return inner


def tied_weights_are_stepped_once(subject: Subject) -> None:
    """A weight used in two places is one parameter, moved once a step by the sum of both gradients, and stays tied."""
    if subject.closure:
        raise NotApplicable("the closure's gradients are summed by autograd, whatever the optimizer")
    for form in subject.forms:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            model = Tied().double()
        reference = copy.deepcopy(model)
        optimizers = [
            subject.build(each if subject.ours else each.parameters(), form, **dict.fromkeys(subject.rates, 0.01))
            for each in (model, reference)
        ]
        grown = sum(len(group["params"]) for group in optimizers[0].param_groups)
        assert grown == 2, f"{form or 'it'} has {grown} parameters of a model of 2"
        tokens = torch.tensor([0, 3, 5])
        for _ in range(5):
            model.zero_grad()
            model(tokens).square().sum().backward()
            _untied_gradients(reference, tokens)
            for each, optimizer in zip((model, reference), optimizers, strict=True):
                give_curvature(optimizer, list(each.parameters()))
                optimizer.step()
        assert model.head.weight is model.tokens.weight
        found = difference(list(model.parameters()), list(reference.parameters()))
        assert found < 1e-9, f"{form or 'it'} differs by {found:.1e}"


def _untied_gradients(model: Tied, tokens: Tensor) -> None:
    """Both uses apart, and their sum."""
    first, inner, last = (
        weight.detach().clone().requires_grad_()
        for weight in (model.tokens.weight, model.inner.weight, model.head.weight)
    )
    loss = (nn.functional.embedding(tokens, first) @ inner.T @ last.T).square().sum()
    one, middle, two = torch.autograd.grad(loss, [first, inner, last])
    model.tokens.weight.grad, model.inner.weight.grad = one + two, middle


def sparse_gradients_are_refused_or_right(subject: Subject) -> None:
    """A sparse gradient, first or later, gives the step of the same gradient written out, or a clear refusal."""
    shape = (6, 4)
    dense = torch.zeros(shape, dtype=torch.float64).index_fill_(0, torch.tensor([1, 4]), 0.5)
    said = ""
    for form in subject.forms:
        for before in (0, 2):
            params, reference = ([each] for each in (subject.weights()[0], subject.weights()[0]))
            optimizers = [subject.build(each, form) for each in (params, reference)]
            for optimizer, those in zip(optimizers, (params, reference), strict=True):
                train(optimizer, those, range(before))
            start = params[0].detach().clone()
            params[0].grad, reference[0].grad = dense.to_sparse_coo(), dense.clone()
            failure = _failure(lambda: _take(optimizers[0], params, closure=subject.closure))  # noqa: B023
            if failure:
                assert "sparse gradient" in failure.lower(), f"{form or 'it'} fails obscurely: {failure}"
                assert same(params, [start]), f"{form or 'it'} had moved weights before it refused"
                said = failure
                continue
            _take(optimizers[1], reference, closure=subject.closure)
            found = difference(params, reference)
            assert found < 1e-12, f"{form or 'it'} after {before} steps differs from the dense step by {found:.1e}"
    if said:
        raise Refused(said)


def complex_parameters_are_refused_or_right(subject: Subject) -> None:
    """A complex weight is moved as its real and imaginary parts are (torch's convention), or clearly refused."""
    random = torch.Generator().manual_seed(2)
    real = nn.Parameter(torch.randn(6, 4, 2, generator=random, dtype=torch.float64))
    whole = nn.Parameter(torch.view_as_complex(real.detach().clone()))
    comparable = not subject.complaint((6, 4, 2))

    def steps() -> None:
        optimizer = subject.build([whole])
        parts = subject.build([real]) if comparable else None
        for _ in range(5 if comparable else 0):
            grad = torch.randn(6, 4, 2, generator=random, dtype=torch.float64)
            whole.grad, real.grad = torch.view_as_complex(grad.clone()), grad
            _take(optimizer, [whole], closure=subject.closure)
            _take(parts, [real], closure=subject.closure)

    failure = _failure(steps)
    if failure:
        clear = any(word in failure.lower() for word in ("complex", "floating"))
        assert clear, f"it fails obscurely: {failure}"
        raise Refused(failure)
    if not comparable:
        raise NotApplicable("real and imaginary parts, together, are no shape that it takes")
    found = difference([torch.view_as_real(whole.detach())], [real])
    assert found < 1e-12, f"it differs from the parts' step by {found:.1e}, and raises nothing"


def _failure(step: Callable[[], None]) -> str:
    """What a step says where it fails."""
    try:
        step()
    except (ValueError, RuntimeError, NotImplementedError, TypeError) as error:
        return f"{type(error).__name__}: {error}"
    return ""


def _take(optimizer: Any, params: list[nn.Parameter], *, closure: bool) -> None:
    """A step on the gradients that are there."""
    give_curvature(optimizer, params)
    optimizer.step(*[lambda: torch.ones(())] * closure)
