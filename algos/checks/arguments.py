"""Arguments: every hyperparameter matters, and what is not valid is refused by name."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

from algos.checks.subject import NotApplicable, Subject
from algos.checks.values import invalid_values, other_values
from algos.finding import InputError
from algos.noisy_quadratic import same, train


class Everything(nn.Module):
    """Something of everything: embedding, fused and plain matrices, convolution, norm, biases, head."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(7, 4)
        self.qkv = nn.Linear(4, 12)
        self.norm = nn.LayerNorm(4)
        self.conv = nn.Conv2d(2, 4, 2)
        self.up = nn.Linear(4, 6)
        self.head = nn.Linear(6, 5)


def every_hyperparameter_matters(subject: Subject) -> None:
    """Each, changed alone to another valid value, changes where some steps lead."""
    problems = _problems(subject)
    idle = {}
    for name, hyper in subject.hyper.items():
        own = subject.settings.get(name, hyper.default)
        if hyper.kind != "text" and not any(
            _changes(problem, steps, base, name, base.get(name, own), subject)
            for problem, steps in problems
            for base in _bases(subject, name)
        ):
            idle[name] = f"{name} (as {own})"
    assert not idle, f"nothing depends on {', '.join(idle.values())}"


Problem = Callable[[dict[str, Any]], list[Any]]


def _problems(subject: Subject) -> list[tuple[Problem, int]]:
    """Where it may matter: some tensors; the parameters of a model, which are grouped by their role; and for longer."""
    remembered: dict[tuple[str, int], list[Any]] = {}

    def tensors(steps: int) -> Problem:
        def run(hyper: dict[str, Any]) -> list[Any]:
            params = subject.weights()
            train(subject.build(params, subject.reference, **hyper), params, range(steps), curved="wanted")
            return params

        return _remembering(run, remembered, f"tensors {steps}")

    def model(hyper: dict[str, Any]) -> list[Any]:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            module = Everything().double()
        params = list(module.parameters())
        optimizer = subject.build(module if subject.ours else params, subject.reference, **hyper)
        train(optimizer, params, range(6), curved="wanted")
        return params

    found: list[tuple[Problem, int]] = [(tensors(6), 6)]
    if len(set(subject.shapes)) > 2:
        found.append((_remembering(model, remembered, "model"), 6))
    return [*found, (tensors(40), 40)]


def _remembering(run: Problem, remembered: dict[Any, list[Any]], what: str) -> Problem:
    def once(hyper: dict[str, Any]) -> list[Any]:
        key = (what, repr(sorted(hyper.items())))
        if key not in remembered:
            remembered[key] = run(hyper)
        return remembered[key]

    return once


def _bases(subject: Subject, name: str) -> Iterator[dict[str, Any]]:
    """The settings it is changed under: the entry's own word for it, or zeros at 0.1, all of them or one alone."""
    idle_unless = getattr(subject.kind, "idle_unless", {})
    if name in idle_unless:
        yield dict(idle_unless[name])
        return
    zeros = [each for each, hyper in subject.hyper.items() if hyper.kind == "real" and hyper.default == 0]
    yield {each: next(other_values(each, subject.hyper[each], 0.0)) for each in zeros}
    yield {}
    if not subject.declared:
        yield from ({each: 0.1} for each in zeros if each != name)


def _changes(problem: Problem, steps: int, base: dict[str, Any], name: str, value: Any, subject: Subject) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            reference = problem(base)
        except ValueError:
            return False
        for other in other_values(name, subject.hyper[name], value):
            try:
                if not same(problem({**base, name: other}), reference):
                    return True
            except ValueError:
                continue  # the two do not go together
    return False


def bad_values_are_refused(subject: Subject) -> None:
    """A value of the wrong type or out of range raises ValueError naming argument, value and range."""
    if not subject.declared:
        _plain_refusals(subject)
        return
    for name, hyper in subject.hyper.items():
        for bad in invalid_values(hyper):
            shown = "/".join(map(str, bad)) if isinstance(bad, tuple) else repr(bad)
            said = _complaint(subject, **{name: bad})
            assert said, f"{name}={shown} is taken"
            for part in (name, shown, hyper.range()):
                assert part in said, f"{name}={shown}: {part!r} is not in {said!r}"


def _plain_refusals(subject: Subject) -> None:
    """What no rate, decay or pair of averages can be."""
    impossible = {"lr": -1.0, "learning_rate": -1.0, "eps": -1.0, "weight_decay": -1.0, "betas": (1.5, 0.9)}
    tried = {name: bad for name, bad in impossible.items() if name in subject.hyper}
    if not tried:
        raise NotApplicable("no argument whose range is known")
    taken = [f"{name}={bad}" for name, bad in tried.items() if not _complaint(subject, **{name: bad})]
    assert not taken, f"{', '.join(taken)}: taken, where a ValueError should name it"


def unknown_names_are_refused(subject: Subject) -> None:
    """A hyperparameter that is not there is not ignored."""
    said = ""
    try:
        subject.build(subject.weights(), subject.reference, weight_decays=0.1)
    except (TypeError, ValueError) as error:
        said = str(error)
    assert said, "weight_decays=0.1 is taken"
    assert "weight_decays" in said, f"'weight_decays' is not in {said!r}"


def _complaint(subject: Subject, **hyper: Any) -> str:
    """What is said of these hyperparameters; empty where they are taken."""
    try:
        subject.build(subject.weights(), subject.reference, **hyper)
    except InputError as error:
        return str(error)
    except ValueError as error:
        return "" if subject.declared else str(error)
    return ""
