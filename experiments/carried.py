"""Carried: what of a run's full state goes on in a fork of it, where the fork's config says something else.

Weights, counts, clock and the source's position always go on. The optimizer's state does where the rule is the same and
takes it, each component's where the component is there again; hyperparameters are the fork's own. Whatever does not go
on is said, in `notes`.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from algos.contracts import Progress
from algos.finding import InputError
from experiments import checkpoint
from experiments.config import Entry, RunConfig
from experiments.loop import Parts

State = dict[str, Any]


@dataclass
class Carried:
    """A fork's first state, and what its maker should know of it."""

    state: State
    notes: list[str] = field(default_factory=list)


def carried(state: Mapping[str, Any], trunk: RunConfig, config: RunConfig, parts: Parts, before: Parts) -> Carried:
    """The first state of a fork. parts: the fork's, built on the trunk's weights, and used up here. before: the
    trunk's, as built. InputError where the fork cannot go on from the state."""
    refuse(state, trunk, config, len(parts.source))
    found = Carried({**state, "completed": False, "reason": ""})
    fresh: State = copy.deepcopy(parts.algorithm.state_dict())
    found.state["algorithm"] = {
        "form": _form(state, trunk, config, fresh, before),
        "components": _components(state, trunk, config, parts, fresh, found.notes),
        "optimizer": _optimizer(state, trunk, config, fresh, before, found.notes),
    }
    if config.precision.name != trunk.precision.name:
        found.state["oracle"] = parts.oracle.state_dict()
        found.notes.append(f"precision changed from {trunk.precision.name} to {config.precision.name}")
    if config.model != trunk.model:
        found.notes.append("the model is changed, and takes the trunk's weights")
    found.state["source"] = _source(state, trunk, config, found.notes)
    found.state["window"] = _window(state, trunk, config)
    found.state["best"] = _best(state, config, found.notes)
    if config.seed != trunk.seed:
        with checkpoint.preserved_random():
            checkpoint.seed_everything(config.seed)
            found.state["random"] = checkpoint.random_states()
        said = f"seed {config.seed} orders the data and draws from here on; the weights are those of seed {trunk.seed}"
        found.notes.append(said)
    _try(found, trunk, config, parts, fresh)
    return found


def refuse(state: Mapping[str, Any], trunk: RunConfig, config: RunConfig, batches: int) -> None:
    """InputError where a fork cannot be what its config says. batches: of an epoch of the fork's."""
    if config.init != trunk.init:
        said = "a fork starts from its trunk's state, and init from weights of their own"
        raise InputError(said, "leave init out, or start a new run", rule="fork-init", place="init")
    update, unit, amount = state["update"], config.budget.unit, config.budget.amount
    used = {
        "updates": update, "epochs": update / batches, "examples": state["examples"], "gradients": state["gradients"],
        "seconds": state["clock"]["train"],
    }[unit]  # fmt: skip
    if used >= amount:
        said = f"the budget of {config.budget} is used up at update {update} ({used:g} {unit})"
        raise InputError(said, f"give budget.{unit} above {used:g}", rule="fork-budget", place=f"budget.{unit}")
    if config.batch_size != trunk.batch_size and unit == "epochs":
        said = "epochs cannot be counted across batches of another size"
        raise InputError(said, "give the budget in updates or examples", rule="fork-budget", place="budget.epochs")
    if config.stop == "target" and state["reached"]:
        said = f"the trunk had reached its target by update {update}"
        raise InputError(said, "leave stop=target out", rule="fork-budget", place="stop")


def _named(config: RunConfig) -> Iterator[tuple[str, Entry]]:
    """Every component, in the order of their states."""
    for key in ("compression", "wrappers"):
        for entry in getattr(config, key):
            yield f"{key}.{entry.name}", entry


def _form(state: Mapping[str, Any], trunk: RunConfig, config: RunConfig, fresh: State, before: Parts) -> str:
    """How the optimizer computes: as in the trunk, unless the fork would choose otherwise than the trunk did."""
    chosen = before.algorithm.state_dict()["form"]
    return str(state["algorithm"]["form"] if config.form == trunk.form and chosen == fresh["form"] else fresh["form"])


def _components(
    state: Mapping[str, Any], trunk: RunConfig, config: RunConfig, parts: Parts, fresh: State, notes: list[str]
) -> list[State]:
    had = dict(zip((name for name, _ in _named(trunk)), state["algorithm"]["components"], strict=True))
    built: Any = parts.algorithm
    found = []
    for (name, _), component, new in zip(_named(config), built.components, fresh["components"], strict=True):
        taken = copy.deepcopy(had.pop(name, None))
        if taken is None:
            notes.append(f"{name} begins here")
        elif not _takes(component, taken):
            taken = None
            notes.append(f"{name} begins here: its state does not fit its settings")
        found.append(new if taken is None else taken)
    notes.extend(f"{name} ends here" for name in had)
    return found


def _takes(component: Any, state: State) -> bool:
    try:
        component.load_state_dict(copy.deepcopy(state))
    except Exception:
        return False
    return True


def _optimizer(
    state: Mapping[str, Any], trunk: RunConfig, config: RunConfig, fresh: State, before: Parts, notes: list[str]
) -> State:
    """The trunk's where the rule is the same, with the hyperparameters that the fork changes."""
    old, new = trunk.optimizer, config.optimizer
    kept: State = state["algorithm"]["optimizer"]
    if old.name != new.name:
        notes.append(f"weights only: optimizer changed from {old.name} to {new.name}")
        return fresh["optimizer"]  # type: ignore[no-any-return]
    if old == new:
        return kept
    then, now = before.algorithm.state_dict()["optimizer"]["param_groups"], fresh["optimizer"]["param_groups"]
    if not len(kept["param_groups"]) == len(then) == len(now):
        notes.append(f"weights only: {new.name} groups the parameters in another way")
        return fresh["optimizer"]  # type: ignore[no-any-return]
    groups = [
        {**group, **{key: value for key, value in after.items() if key != "params" and value != was.get(key)}}
        for group, was, after in zip(kept["param_groups"], then, now, strict=True)
    ]
    return {**kept, "param_groups": groups}


def _source(state: Mapping[str, Any], trunk: RunConfig, config: RunConfig, notes: list[str]) -> State:
    """Where the data go on. An epoch that is read in another order, or in batches that do not fit where it stands, is
    left as it is, and the next one begins."""
    place: State = dict(state["source"])
    position, size = place.get("position", 0), config.batch_size or 1
    fits = config.seed == trunk.seed and position % size == 0
    if (config.batch_size == trunk.batch_size and config.seed == trunk.seed) or fits or not position:
        return place
    notes.append(f"epoch {place['epoch']} is left after {position} examples, and the next one begins")
    return {**place, "epoch": place["epoch"] + 1, "position": 0}


def _window(state: Mapping[str, Any], trunk: RunConfig, config: RunConfig) -> list[float]:
    """Losses since the last one that was recorded."""
    if config.loss != trunk.loss:
        return []
    waiting = state["update"] % config.log_every
    return list(state["window"])[-waiting:] if waiting else []


def _best(state: Mapping[str, Any], config: RunConfig, notes: list[str]) -> State:
    best: State = state["best"]
    if config.select == "last":
        return {**best, "weights": {}}
    if best["value"] is not None and not best["weights"]:
        notes.append("the best counts from here on: the trunk kept no best weights")
        return {"value": None, "update": 0, "weights": {}}
    return best


def _try(found: Carried, trunk: RunConfig, config: RunConfig, parts: Parts, fresh: State) -> None:
    """Takes one update with the state, where anything that shapes it has changed; an optimizer that cannot take it
    begins anew."""
    same = all(getattr(trunk, key) == getattr(config, key) for key in ("optimizer", "precision", "form", "model"))
    if same and list(_named(trunk)) == list(_named(config)):
        return
    algorithm: State = found.state["algorithm"]
    if algorithm["optimizer"] is fresh["optimizer"]:
        return
    try:
        with checkpoint.preserved_random():
            parts.algorithm.load_state_dict(copy.deepcopy(algorithm))
            if algorithm["form"] != "compiled":  # it would take longer than a fork should
                parts.algorithm.step(parts.oracle, parts.source.next(), Progress(found.state["update"], 0.5))
    except Exception as error:
        why = " ".join(str(error).split())[:150]
        found.notes.append(f"weights only: the state of {config.optimizer.name} does not fit ({why})")
        algorithm |= {"optimizer": fresh["optimizer"], "form": fresh["form"]}
