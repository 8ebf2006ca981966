"""Groups: parameters come in any order and number, early or late, each under its own group's numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from algos.checks.subject import NotApplicable, Subject
from algos.checks.values import other_values
from algos.finding import InputError
from algos.noisy_quadratic import difference, same, take_step, train


def groups_are_independent(subject: Subject) -> None:
    """Two groups with two rates take the steps of two optimizers."""
    _lone_parameters(subject)
    for form in subject.forms:
        params, alone = subject.weights(), subject.weights()
        both = subject.build([{"params": params[:2], "lr": 0.01}, {"params": params[2:3], "lr": 0.002}], form)
        train(both, params[:3], range(10))
        first = subject.build(alone[:2], subject.reference, lr=0.01)
        train(first, alone[:2], range(10))
        subject.alone(alone[2], 2, range(10), lr=0.002)
        found = difference(params[:3], alone[:3])
        assert found < 1e-12, f"{form or 'it'} differs by {found:.1e}"


def a_group_can_be_added(subject: Subject) -> None:
    """Parameters added after 5 steps begin their own count then, and the others go on."""
    for form in subject.forms:
        params, alone = subject.weights(), subject.weights()
        optimizer = subject.build(params[:1], form)
        take = [(0, params[0])]
        for step in range(10):
            if step == 5:
                optimizer.add_param_group({"params": params[2:3]})
                take.append((1, params[2]))
            take_step(optimizer, take, step)
        assert not same([params[2]], [alone[2]]), f"{subject.label(form)}the added parameter does not move"
        if subject.across:
            continue
        subject.alone(alone[0], 0, range(10))
        subject.alone(alone[2], 1, range(5, 10))
        for index in (0, 2):
            found = difference([params[index]], [alone[index]])
            said = "is not stepped as from its first step" if index else "does not go on as before"
            assert found < 1e-12, f"{subject.label(form)}parameter {index} {said}, by {found:.1e}"


def permuted_parameters_permute_the_result(subject: Subject) -> None:
    """The order in which parameters are given changes nothing else."""
    steps = 2 if subject.closure else 10  # a line search enlarges rounding
    for form in subject.forms:
        params, _ = subject.started(form, steps)
        others = subject.weights()
        order = [3, 0, 5, 4, 2, 1]
        optimizer = subject.build([others[index] for index in order], form)
        for step in range(steps):
            take_step(optimizer, list(enumerate(others)), step)
        found = difference(others, params)
        assert found < subject.rounding, f"{form or 'it'} differs by {found:.1e}"


def hyperparameters_change_between_steps(subject: Subject) -> None:
    """Real numbers set in a group between steps count from the next step on, in every form alike."""
    for form in subject.forms:
        params, optimizer = subject.started(form, 5)
        reference, loop = subject.started(subject.reference, 5)
        unchanged, _ = subject.started(form, 10)
        for each, those in ((optimizer, params), (loop, reference)):
            for group in each.param_groups:
                group.update(_changed(subject, each, group))
            train(each, those, range(5, 10))
        found = difference(params, reference)
        assert found < 1e-12, f"{form or 'it'} differs by {found:.1e}"
        assert not same(params, unchanged), f"{form or 'it'} did not see the change"


def _changed(subject: Subject, optimizer: Any, group: Mapping[str, Any]) -> dict[str, Any]:
    declared = optimizer.declared_for(group.get("rule", "")) if subject.ours else subject.hyper
    reals = {name: hyper for name, hyper in declared.items() if name in group and hyper.kind in ("real", "pair")}
    if subject.ours:
        reals = {name: hyper for name, hyper in reals.items() if group[name] is not None}
        return {name: next(other_values(name, hyper, group[name])) for name, hyper in reals.items() if name != "lr"}
    return {"lr": group["lr"] * 0.5, "initial_lr": group["initial_lr"] * 0.5} if "lr" in group else {}


def _lone_parameters(subject: Subject) -> None:
    if subject.across:
        raise NotApplicable("a parameter's step depends on the others")
    if not set(subject.rates) & {"lr"}:
        raise NotApplicable("its rate is not called lr")


def unknown_groups_are_refused(subject: Subject) -> None:
    """A hyperparameter that is not there, or a value out of range, in a group is not ignored."""
    subject.needs_ours("list of what a group may say")
    params = subject.weights()
    for wrong, part in (({"weight_decays": 0.1}, "weight_decays"), ({"lr": -1.0}, "lr")):
        said = ""
        try:
            subject.build([{"params": params, **wrong}], subject.reference)
        except InputError as error:
            said = str(error)
        assert said, f"a group with {wrong} is taken"
        assert part in said, f"{part!r} is not in {said!r}"
