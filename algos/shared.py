"""What all parameters of an optimizer share: 0-d tensors that come from sums over every one of them.

Learning-rate-free methods look across tensors. Their class gives, beside `direction` (which names "shared" in `needs`):

    share_init(hyper) -> shared                                 tensors by name, before the first step
    reduce(param, grad, state, hyper, shared) -> (sums, state)  a parameter's part of the sums, and its new state
    share(shared, sums, hyper) -> shared                        the new shared tensors, from the sums over parameters

and a step is: `reduce` of every parameter with the old shared tensors, `share` once, then `direction` and `update` of
every parameter with the new ones. `share_init` and `share` see the hyperparameters of the first group that has
parameters. The shared tensors are the optimizer's state["shared"]; in a population each has one value a member.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from algos.hyper_tensors import HyperTensors
from algos.units import Given, State, Unit, member_state, stacked_states


def begin(rule: Any, hyper: HyperTensors) -> State:
    """Before the first step."""
    if hyper.population is None:
        return {name: tensor.clone() for name, tensor in rule.share_init(hyper.alone).items()}
    return stacked_states([rule.share_init(values) for values in hyper.members])


def advance(rule: Any, states: Any, units: Sequence[Unit], hyper: HyperTensors) -> State:
    """The shared tensors of this step; every unit keeps the state its `reduce` gave. states: the optimizer's, whose
    "shared" they follow. hyper: the first group's."""
    return _advanced(rule, placed(states.get("shared") or begin(rule, hyper), hyper), units, hyper)


def _advanced(rule: Any, shared: State, units: Sequence[Unit], hyper: HyperTensors) -> State:
    total: State = {}
    for unit in units:
        unit.given = Given(shared=placed(shared, unit.hyper))
        for name, tensor in unit.reduce().items():
            here = tensor.to(hyper.device, hyper.dtype)
            total[name] = total[name] + here if name in total else here
    if hyper.population is None:
        return rule.share(shared, total, hyper.alone)
    each = [
        rule.share(member_state(shared, i), member_state(total, i), values) for i, values in enumerate(hyper.members)
    ]
    return stacked_states(each)


def placed(shared: State, hyper: HyperTensors) -> State:
    """Where a unit computes, in what it computes in."""
    return {name: tensor.to(hyper.device, hyper.dtype) for name, tensor in shared.items()}
