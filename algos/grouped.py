"""Declared hyperparameters and parameter groups, as a torch.optim.Optimizer has them.

Groups are torch's, with `initial_lr`, `label` (for people) and, where not the class's own, `rule`. Every value is
checked where it comes in. A model's parameters are grouped by their role (`parameters.py`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from algos import parameters
from algos.finding import InputError, unknown
from algos.hyper_tensors import checked, resolved
from algos.spec import Hyper, hyperparameters


class GroupedOptimizer(torch.optim.Optimizer):
    """The base of `PerTensorOptimizer`: groups and what a state_dict holds; nothing about steps."""

    #: Other rules that a group may name in `rule`, and whose hyperparameters are declared here as `<rule>_<name>`.
    rules: ClassVar[Mapping[str, type[Any]]] = {}
    _population: int | None
    _given: dict[str, Any]  # every hyperparameter, as given to the constructor or by default

    def __init__(
        self,
        params: nn.Module | Iterable[Any],
        hyper: Mapping[str, Any],
        population: int | None,
        weights: Mapping[str, Tensor] | None,
    ):
        self._population = population
        self._given = resolved(type(self), hyper, population)
        groups = self._groups(params, weights)
        super().__init__(groups, {name: self._given[name] for name in self.declared_for("")})

    @classmethod
    def group_rules(cls, hyper: Mapping[str, Any]) -> list[parameters.GroupRule]:
        """How a model's parameters are grouped."""
        return parameters.decay_rules(hyper)

    @classmethod
    def rule_for(cls, param: Tensor, rank: int) -> str:
        """The rule of a parameter nothing else is known of. rank: its dimensions, without the members'."""
        return ""

    @classmethod
    def declared_for(cls, rule: str) -> dict[str, Hyper]:
        """The hyperparameters a group of this rule has."""
        if rule:
            return cls.rules[rule].declared_for("")
        prefixes = tuple(f"{name}_" for name in cls.rules)
        declared = hyperparameters(cls)
        return {
            name: hyper
            for name, hyper in declared.items()
            if name != "decay_all" and not (prefixes and name.startswith(prefixes))
        }

    @property
    def population(self) -> int | None:
        return self._population

    def _groups(self, params: nn.Module | Iterable[Any], weights: Mapping[str, Tensor] | None) -> list[dict[str, Any]]:
        if isinstance(params, nn.Module):
            groups = parameters.group(params, self.group_rules(self._given))
            if not groups:
                raise InputError("the model has no parameters", "give a model with parameters", rule="no-parameters")
            if self.rules and all(each.get("rule") for each in groups):
                raise InputError(
                    f"no parameter of the model is for {type(self).__name__}'s own rule, only for its fallback",
                    "give a model with hidden matrices, or the fallback's optimizer by its own name",
                    rule="only-fallback",
                )
            return parameters.standing_in(groups, weights) if weights is not None else groups
        if isinstance(params, Tensor):
            raise InputError("one tensor is not a list of parameters", "give [parameter], or the model")
        given = list(params)
        if given and isinstance(given[0], dict):
            return [dict(each) for each in given]
        return self._by_rule(given)

    def _by_rule(self, given: list[Any]) -> list[dict[str, Any]]:
        found: dict[str, list[Any]] = {}
        for item in given:
            param = item[1] if isinstance(item, tuple) else item
            rank = param.dim() - (self._population is not None) if isinstance(param, Tensor) else 0
            found.setdefault(self.rule_for(param, rank), []).append(item)
        return [{"params": items, **({"rule": rule} if rule else {})} for rule, items in found.items()] or [
            {"params": []}
        ]

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """As torch's; values are checked, and `initial_lr` is set to `lr` where it is not given."""
        name = type(self).__name__
        rule = param_group.get("rule", "")
        if rule and rule not in self.rules:
            raise unknown(f"rule of {name}", rule, self.rules, place=f"{name}.rule")
        declared = self.declared_for(rule)
        known = {*declared, "params", "param_names", "rule", "label", "initial_lr"}
        for key in param_group:
            if key not in known:
                raise unknown(f"hyperparameter of {name}", key, declared, place=f"{name}.{key}")
        prefix = f"{rule}_" if rule else ""
        for key, hyper in declared.items():
            default = self._given.get(prefix + key, hyper.default)
            value = param_group.get(key, default)
            param_group[key] = checked(hyper, value, key, name, self._population)
        param_group.setdefault("initial_lr", param_group["lr"])
        super().add_param_group(param_group)
        for key in set(param_group) - known:
            del param_group[key]
        for param in param_group["params"]:
            self._check_parameter(param, param_group)
        self._forget_units()

    def _forget_units(self) -> None:
        """Groups, state or parameters were changed from outside: what was made for them is made again."""

    def _check_parameter(self, param: Tensor, group: Mapping[str, Any]) -> None:
        if not param.is_floating_point():
            raise InputError(
                f"a parameter of dtype {param.dtype} cannot be trained", "give real floating-point parameters"
            )
        members = self._population
        if members is not None and (param.dim() == 0 or param.shape[0] != members):
            raise InputError(
                f"a parameter of shape {tuple(param.shape)} is not a population's",
                f"stack the {members} members along the first dimension",
            )

    # State.

    def state_dict(self) -> dict[str, Any]:
        """As torch's, with copies of the tensors: a snapshot, which later steps do not change."""
        packed = super().state_dict()
        packed["state"] = {key: _copied(state) for key, state in packed["state"].items() if state}
        return packed

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """As torch's, but each state keeps its own dtype, and hyperparameters the dict lacks keep their values."""
        state, own_groups = self.state, self.param_groups
        try:
            self._load(state_dict)
            self._check_loaded()
        except Exception:
            self.state, self.param_groups = state, own_groups  # all of it or nothing
            raise
        finally:
            self._forget_units()

    def _load(self, state_dict: dict[str, Any]) -> None:
        ours = [{key: value for key, value in group.items() if key != "params"} for group in self.param_groups]
        saved = state_dict["param_groups"]
        groups = [{**own, **theirs} for own, theirs in zip(ours, saved, strict=False)] + list(saved[len(ours) :])
        super().load_state_dict({**state_dict, "param_groups": groups})
        indices = [index for group in saved for index in group["params"]]
        for param, index in zip((p for group in self.param_groups for p in group["params"]), indices, strict=True):
            if index in state_dict["state"]:
                loaded = state_dict["state"][index]
                self.state[param] = {name: _own(value, param) for name, value in loaded.items() if value is not None}

    def _check_loaded(self) -> None:
        name = type(self).__name__
        for group in self.param_groups:
            for key, hyper in self.declared_for(group.get("rule", "")).items():
                value = group[key].item() if isinstance(group[key], Tensor) else group[key]
                checked(hyper, value, key, name, self._population)
            for key in ("maximize", "dampening"):
                if group.get(key):
                    raise InputError(f"the loaded state says {key}={group[key]}, which {name} has not", "leave it out")
        self._check_state()

    def _check_state(self) -> None:
        """Raises InputError where what was loaded cannot be this optimizer's."""

    def __getstate__(self) -> dict[str, Any]:
        state = defaultdict(dict, {param: _copied(values) for param, values in self.state.items()})
        kept = ("_population", "_given")
        return {**super().__getstate__(), "state": state, **{name: getattr(self, name) for name in kept}}


def _copied(state: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value.clone() if isinstance(value, Tensor) else value for name, value in state.items()}


def _own(value: Any, param: Tensor) -> Any:
    return value.detach().clone().to(param.device) if isinstance(value, Tensor) else value
