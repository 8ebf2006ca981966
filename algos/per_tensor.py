"""Per-tensor mathematics, written once, as a torch.optim.Optimizer.

A subclass declares its hyperparameters in the class body and gives static, pure functions:

    init(param, hyper) -> state                                 tensors by name; among them, where needed, the step
    direction(param, grad, state, hyper) -> (direction, state)  for one tensor; decay and rate are applied outside
    update(param, direction, state, hyper) -> (param, state)    only where the paper moves weights in another way
    evaluate(param, state, hyper) -> weights                    only where the weights to evaluate are others

and this class does the rest: w <- w - lr*wd*w - lr*direction, parameter groups, state, populations, evaluation weights.
In `hyper` real numbers are 0-d tensors and everything else is Python's. What `direction` needs beyond these (the phase
of now-and-then work, curvature, what all tensors share) the class names in `needs`: see `units` and `shared`.

How a step is computed, one parameter after another or many at once, is its form: see `forms`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from algos import forms, parameters
from algos import shared as shared_tensors
from algos.curvature import diagonal
from algos.finding import InputError, unknown
from algos.forms import Form
from algos.hyper_tensors import HyperTensors, HyperValues, checked, resolved
from algos.native import Native
from algos.spec import Hyper, hyperparameters
from algos.stacked import Stacks
from algos.units import Alone, Given, Member, State, Unit, example_state, steps_taken, widened, working_dtype

Directing = Callable[[Sequence[Tensor], Sequence[Tensor], Sequence[Tensor]], Sequence[Tensor]]


def _descend(param: Tensor, direction: Tensor, state: State, hyper: HyperValues) -> tuple[Tensor, State]:
    return param - hyper.lr * hyper.weight_decay * param - hyper.lr * direction, state


class PerTensorOptimizer(torch.optim.Optimizer):
    """The base of optimizers whose mathematics looks at one tensor at a time.

    params: a model (parameters are then grouped by their role: no decay for norms, biases and embeddings unless
    `decay_all`), or what torch takes: parameters, (name, parameter) pairs, or dicts of groups, used as they are.
    form: see `algos.forms`. population: how many members; every parameter then has them along its first dimension, and
    a real hyperparameter may be a sequence of one value a member. weights: with a model, other tensors of the same
    names to train. Groups are torch's, with `initial_lr`, `label` (for people) and, where not the class's own, `rule`.
    Raises InputError (a ValueError) naming argument, value and range.
    """

    elementwise: ClassVar[bool] = False
    #: Other rules that a group may name in `rule`, and whose hyperparameters are declared here as `<rule>_<name>`.
    rules: ClassVar[Mapping[str, type[PerTensorOptimizer]]] = {}
    #: Whether torch's version (`native`) applies the decoupled decay itself.
    native_decays: ClassVar[bool] = True
    own_update: ClassVar[bool] = False
    needs: ClassVar[tuple[str, ...]] = ()
    #: The whole-number hyperparameter that says every how many steps the phase is "due", or curvature is wanted.
    period: ClassVar[str] = ""
    #: Whether decay multiplies the weights by 1 - lr*wd, apart from the direction.
    decoupled: ClassVar[bool] = True
    #: Settings under which a hyperparameter matters, where the defaults leave it idle: {"alpha": {"warmup": 3}}.
    idle_unless: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    #: Of the state: what is never negative, and what must not be stored in 8 bits (weights, bases, factors).
    unsigned_state: ClassVar[tuple[str, ...]] = ()
    exact_state: ClassVar[tuple[str, ...]] = ()

    _units: Alone | Stacks | None
    _native: Native | None
    _hyper_tensors: dict[tuple[int, torch.device, torch.dtype], HyperTensors]
    _kept: list[Tensor] | None  # the training weights, within `evaluating`
    _curvature: Mapping[Tensor, Tensor] | None

    def __init__(
        self,
        params: nn.Module | Iterable[Any],
        *,
        form: str = "auto",
        population: int | None = None,
        weights: Mapping[str, Tensor] | None = None,
        **hyper: Any,
    ):
        self._population = population
        self._given = resolved(type(self), hyper, population)
        self._directing: Directing | None = None
        self._kept = self._curvature = None
        self._forget_units()
        groups = self._groups(params, weights)
        super().__init__(groups, {name: self._given[name] for name in self.declared_for("")})
        self.asked_form = form
        self.form: Form = forms.choose(form, self._situation())

    # The mathematics: what a subclass gives.

    init: ClassVar[Callable[..., State]]
    direction: ClassVar[Callable[..., tuple[Tensor, State]]]
    share_init: ClassVar[Callable[..., State]]
    reduce: ClassVar[Callable[..., tuple[State, State]]]
    share: ClassVar[Callable[..., State]]
    update: ClassVar[Callable[..., tuple[Tensor, State]]] = staticmethod(_descend)

    @staticmethod
    def evaluate(param: Tensor, state: State, hyper: HyperValues) -> Tensor:
        return param

    @staticmethod
    def native(groups: list[dict[str, Any]]) -> torch.optim.Optimizer:
        """torch's own version, over the parameters of these groups, if there is one that equals ours."""
        raise NotImplementedError

    def __init_subclass__(cls) -> None:
        cls.own_update = cls.update is not PerTensorOptimizer.update

    @classmethod
    def group_rules(cls, hyper: Mapping[str, Any]) -> list[parameters.GroupRule]:
        """How a model's parameters are grouped."""
        return parameters.decay_rules(hyper)

    @classmethod
    def rule_for(cls, param: Tensor, rank: int) -> str:
        """The rule of a parameter nothing else is known of. rank: its dimensions, without the members'."""
        return ""

    # Groups and hyperparameters.

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

    # A step.

    @property
    def directing(self) -> Directing | None:
        """What components do to the directions before they are applied: (params, grads, directions) -> directions,
        lists over the parameters that have a gradient. None: nothing. Setting it leaves the `torch` form where `auto`
        had chosen it, and raises InputError where it was asked for. It is not kept by pickle and deepcopy."""
        return self._directing

    @directing.setter
    def directing(self, hook: Directing | None) -> None:
        before, self._directing = self._directing, hook
        if hook is not None and self.form == "torch":
            try:
                self.form = forms.choose(self.asked_form, self._situation())
            except InputError:
                self._directing = before
                raise

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:  # type: ignore[override]
        """One update. closure: computes the loss and the gradients; its loss is returned."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        if self._kept is not None:
            raise RuntimeError("step() inside evaluating(): the parameters hold evaluation weights; leave it first")
        if torch._C._is_any_autocast_enabled():
            with self._without_autocast():
                self._apply()
        else:
            self._apply()
        return loss

    def _apply(self) -> None:
        if self.form == "torch":
            self._native_step()
        else:
            self._unit_step()

    @contextmanager
    def _without_autocast(self) -> Iterator[None]:
        """A step inside an autocast region (manual optimization) is the step outside it, whatever it multiplies."""
        devices = {param.device.type for group in self.param_groups for param in group["params"]}
        with ExitStack() as stack:
            for device in filter(torch.amp.is_autocast_available, devices):
                stack.enter_context(torch.autocast(device, enabled=False))
            yield
        torch.clear_autocast_cache()  # it holds the weights from before the step, cast

    def _unit_step(self) -> None:
        units = self._ready_units()
        self._give(units)
        if self._directing is None:
            for unit in units:
                unit.apply(unit.direction())
            return
        directions = [unit.direction() for unit in units]
        split = [part for unit, direction in zip(units, directions, strict=True) for part in unit.split(direction)]
        params = [param for unit in units for param in unit.params]
        grads = [grad for unit in units for grad in unit.grads]
        changed = list(self._directing(params, grads, split))
        assert len(changed) == len(split), "the hook must return one direction for each it was given"
        for unit in units:
            unit.apply(unit.join(changed[: len(unit.params)]))
            del changed[: len(unit.params)]

    def _give(self, units: Sequence[Unit]) -> None:
        """What this step needs beyond gradients."""
        if not self.needs or not units:
            return
        curvature, self._curvature = self._curvature, None
        if curvature is None and self.wants_curvature:
            curvature = diagonal([param for unit in units for param in unit.params], type(self).__name__)
        shared = None
        if "shared" in self.needs:
            first = self._hyper(0, self.param_groups[0]["params"][0])
            everything: dict[Any, Any] = self.state
            old = everything.get("shared") or shared_tensors.begin(self, first)
            everything["shared"] = shared = shared_tensors.advance(self, old, units, first)
        for unit in units:
            unit.given = Given(curvature, None if shared is None else shared_tensors.placed(shared, unit.hyper))

    # Curvature, for optimizers that need it.

    @property
    def wants_curvature(self) -> bool:
        """Whether the next step uses an estimate of the curvature."""
        if "curvature" not in self.needs:
            return False
        taken = max(map(steps_taken, self._members()), default=0) if self._units is None else self._units.steps()
        return taken % self.param_groups[0][self.period] == 0

    def observe_curvature(self, estimates: Mapping[Tensor, Tensor]) -> None:
        """An estimate of the Hessian's diagonal for the next step: one tensor of its shape for every parameter that
        has a gradient."""
        self._curvature = estimates

    def _native_step(self) -> None:
        if self._native is None:
            theirs, declared = self.native(self.param_groups), self.declared_for("")
            self._native = Native(
                theirs, self.param_groups, self._members(), self.state, declared, decays=self.native_decays
            )
        self._native.step()

    # Units: made when first needed, and again whenever groups, state or parameters were changed from outside.

    def _forget_units(self) -> None:
        self._units = None
        self._hyper_tensors = {}
        self._native = None

    def _hyper(self, index: int, param: Tensor) -> HyperTensors:
        key = (index, param.device, working_dtype(param.dtype))
        if key not in self._hyper_tensors:
            group = self.param_groups[index]
            declared = self.declared_for(group.get("rule", ""))
            self._hyper_tensors[key] = HyperTensors(group, declared, key[1], key[2], self._population)
        return self._hyper_tensors[key]

    def _rule(self, group: Mapping[str, Any]) -> type[PerTensorOptimizer]:
        return self.rules[group["rule"]] if group.get("rule") else type(self)

    def _ready_units(self) -> Sequence[Unit]:
        if self._units is None or not self._units.intact():
            self._forget_units()
            members = self._members()
            self._units = Stacks(members) if self.form == "stacked" else Alone(members)
        for hyper in self._hyper_tensors.values():
            hyper.refresh()
        return self._units.ready()

    def _members(self) -> list[Member]:
        return [
            Member(param, self._rule(group), self._hyper(i, param), self.state, self._population)
            for i, group in enumerate(self.param_groups)
            for param in group["params"]
        ]

    def _situation(self) -> forms.Situation:
        params = [param for group in self.param_groups for param in group["params"]]
        native = type(self).native is not PerTensorOptimizer.native
        return forms.Situation(type(self).__name__, params, native, self._population, self._directing is not None)

    # Evaluation weights.

    @property
    def has_evaluation_weights(self) -> bool:
        """Whether the weights to evaluate differ from those that are trained."""
        return any(rule.evaluate is not PerTensorOptimizer.evaluate for rule in (type(self), *self.rules.values()))

    @contextmanager
    def evaluating(self) -> Iterator[None]:
        """Within it the parameters hold the weights to evaluate; then the training weights come back bit for bit.

        `step` inside it raises. Entering it again inside changes nothing.
        """
        if self._kept is not None:
            yield
            return
        everyone = [(param, index) for index, group in enumerate(self.param_groups) for param in group["params"]]
        having = [each for each in everyone if self.state.get(each[0])] if self.has_evaluation_weights else []
        self._kept = [param.detach().clone() for param, _ in having]
        try:
            with torch.no_grad():
                for param, index in having:
                    param.copy_(self._evaluated(param, self._rule(self.param_groups[index]), self._hyper(index, param)))
            yield
        finally:
            with torch.no_grad():
                for (param, _), kept in zip(having, self._kept, strict=True):
                    param.copy_(kept)
            self._kept = None

    def _evaluated(self, param: Tensor, rule: type[PerTensorOptimizer], hyper: HyperTensors) -> Tensor:
        hyper.refresh()
        state, weights = self.state[param], widened(param.detach())
        if self._population is None:
            return rule.evaluate(weights, state, hyper.alone)
        members = [{name: tensor[i] for name, tensor in state.items()} for i in range(self._population)]
        return torch.stack([rule.evaluate(weights[i], members[i], hyper.members[i]) for i in range(self._population)])

    # State.

    def state_dict(self) -> dict[str, Any]:
        """As torch's, with copies of the tensors: a snapshot, which later steps do not change."""
        packed = super().state_dict()
        packed["state"] = {key: _copied(state) for key, state in packed["state"].items() if state}
        return packed

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """As torch's, but each state keeps its own dtype, and hyperparameters the dict lacks keep their values."""
        ours = [{key: value for key, value in group.items() if key != "params"} for group in self.param_groups]
        saved = state_dict["param_groups"]
        groups = [{**own, **theirs} for own, theirs in zip(ours, saved, strict=False)] + list(saved[len(ours) :])
        super().load_state_dict({**state_dict, "param_groups": groups})
        indices = [index for group in saved for index in group["params"]]
        for param, index in zip((p for group in self.param_groups for p in group["params"]), indices, strict=True):
            if index in state_dict["state"]:
                loaded = state_dict["state"][index]
                self.state[param] = {name: _own(value, param) for name, value in loaded.items() if value is not None}
        self._check_state()
        self._forget_units()

    def _check_state(self) -> None:
        for index, group in enumerate(self.param_groups):
            for param in group["params"]:
                shape = param.shape if self._population is None else param.shape[1:]
                needed = example_state(self._rule(group), shape, self._hyper(index, param)).keys()
                if self.state[param] and not self.state[param].keys() >= needed:
                    missing = ", ".join(sorted(needed - self.state[param].keys()))
                    raise InputError(f"the loaded state lacks {missing}", f"load a state of {type(self).__name__}")

    def __getstate__(self) -> dict[str, Any]:
        kept = ("_population", "_given", "asked_form", "form")
        state = defaultdict(dict, {param: _copied(values) for param, values in self.state.items()})
        return {**super().__getstate__(), "state": state, **{name: getattr(self, name) for name in kept}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.__dict__.setdefault("_directing", None)
        self.__dict__.setdefault("_kept", None)
        self.__dict__.setdefault("_curvature", None)
        self._forget_units()


def _copied(state: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value.clone() if isinstance(value, Tensor) else value for name, value in state.items()}


def _own(value: Any, param: Tensor) -> Any:
    return value.detach().clone().to(param.device) if isinstance(value, Tensor) else value
