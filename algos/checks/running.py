"""Running: all forms take the same steps, populations the steps of lone runs, and components see the directions."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from algos import observe
from algos.checks.subject import NotApplicable, Subject, give_curvature
from algos.noisy_quadratic import Tensors, difference, same, train, weights


def forms_agree(subject: Subject) -> None:
    """Every form takes the steps of the loop: after 30, to 1e-12 in float64 and 1e-5 in float32 (1e-9 and 1e-3 where
    the mathematics is of matrices)."""
    subject.needs_ours("forms")
    for dtype, tolerance in _tolerances(subject):
        reference, _ = subject.started("loop", 30, dtype)
        for form in subject.forms:
            params, _ = subject.started(form, 30, dtype)
            found = difference(params, reference)
            assert found < tolerance, f"form {form}, {dtype}: differs by {found:.1e}"


def _tolerances(subject: Subject) -> list[tuple[torch.dtype, float]]:
    """Rounding: kernels sum in another order, and decompositions and inverse roots enlarge it."""
    elementwise = bool(getattr(subject.kind, "elementwise", False)) and not subject.across
    return [(torch.float64, 1e-12 if elementwise else 1e-9), (torch.float32, 1e-5 if elementwise else 1e-3)]


def stacks_have_constant_kernels(subject: Subject) -> None:
    """A stacked step runs as many kernels for 100 tensors of one shape as for 10."""
    subject.needs_ours("stacks")
    for shape in ((4, 3), (5,)):
        counts = []
        for number in (10, 100):
            params = weights(torch.float32, [shape] * number)
            optimizer = subject.build(params, "stacked")
            train(optimizer, params, range(2))
            give_curvature(optimizer, params)
            counts.append(observe.kernels(optimizer.step))
        more = {name: count - counts[0][name] for name, count in counts[1].items() if count != counts[0][name]}
        assert counts[0] == counts[1], f"100 tensors of shape {shape} have more of {more} than 10"


def members_equal_lone_runs(subject: Subject) -> None:
    """A population's members, with rates of their own, take the steps of lone runs, and those of another population bit
    for bit."""
    subject.needs_ours("populations")
    rates = [subject.hyper["lr"].default * factor for factor in (1.0, 0.5, 0.2)]
    for form in ("loop", "stacked"):
        for dtype, tolerance in _tolerances(subject):
            found = {size: _population(subject, form, dtype, rates[:size]) for size in (2, 3)}
            for member, lr in enumerate(rates):
                lone = subject.weights(dtype)
                train(subject.build(lone, form, lr=lr), lone, range(20))
                differs = difference([param[member] for param in found[3]], lone)
                assert differs < tolerance, f"form {form}, {dtype}: member {member} differs by {differs:.1e}"
            assert same([param[:2] for param in found[3]], found[2]), f"form {form}, {dtype}: sizes 2 and 3 differ"


def _population(subject: Subject, form: str, dtype: torch.dtype, rates: list[float]) -> Tensors:
    params = subject.weights(dtype, population=len(rates))
    train(subject.build(params, form, population=len(rates), lr=rates), params, range(20))
    return params


def evaluation_weights_come_and_go(subject: Subject) -> None:
    """Evaluation weights differ where the entry says so, a step at them raises, and training weights come back."""
    subject.needs_ours("evaluation weights")
    for form in subject.forms:
        params, optimizer = subject.started(form)
        before = [param.detach().clone() for param in params]
        with optimizer.evaluating():
            assert same(params, before) != optimizer.has_evaluation_weights, f"form {form}"
            try:
                optimizer.step()
            except RuntimeError:
                pass
            else:
                raise AssertionError("step() inside evaluating() was taken")
        assert same(params, before), f"form {form}: the training weights did not come back"


def directions_can_be_changed(subject: Subject) -> None:
    """`directing` sees every parameter's gradient and direction; without decay, doubled directions double a step."""
    subject.needs_ours("directions")
    if getattr(subject.kind, "on_a_sphere", False):
        raise NotApplicable("its step is not proportional to its direction")
    decay = {name: 0.0 for name in subject.hyper if name.endswith("weight_decay")}
    for form in ("loop", "stacked"):
        plain, doubled, start = (subject.weights() for _ in range(3))
        seen: list[tuple[torch.Size, ...]] = []

        def hook(params: Any, grads: Any, directions: Any, seen: Any = seen) -> list[Tensor]:
            seen.extend((p.shape, g.shape, d.shape) for p, g, d in zip(params, grads, directions, strict=True))
            return [2 * direction for direction in directions]

        for params, directing in ((plain, None), (doubled, hook)):
            optimizer = subject.build(params, form, **decay)
            optimizer.directing = directing
            train(optimizer, params, [1])
        assert sorted(seen) == sorted((param.shape,) * 3 for param in start), f"form {form}"
        expected = [begin + 2 * (end - begin) for begin, end in zip(start, plain, strict=True)]
        assert difference(doubled, expected) < 1e-12, f"form {form}"


def declarations_agree(subject: Subject) -> None:
    """SPEC says of elementwise what the class says; there are a citation, costs, and a search space for the rate."""
    subject.needs_ours("declarations")
    if subject.spec is None:
        return
    assert subject.spec.elementwise == subject.kind.elementwise, "elementwise: SPEC and class differ"  # type: ignore[attr-defined]
    assert "@" in subject.spec.cite, "no BibTeX"
    assert subject.hyper["lr"].search, "no search space for lr"
