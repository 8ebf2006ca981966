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

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from algos import forms
from algos import shared as shared_tensors
from algos.autocast import without_autocast
from algos.curvature import diagonal
from algos.directing import Directing, directed_step
from algos.evaluation_weights import evaluated, exchanged
from algos.finding import InputError
from algos.forms import Form
from algos.grouped import GroupedOptimizer
from algos.hyper_tensors import HyperTensors, HyperValues
from algos.native import Native
from algos.stacking import Stacks
from algos.units import (
    Alone,
    Given,
    Member,
    State,
    Unit,
    check_gradient,
    check_state,
    steps_taken,
    working_dtype,
)

ROUNDINGS = ("nearest", "stochastic")
RuleFor = Callable[["type[PerTensorOptimizer]", Tensor, torch.Size], "type[PerTensorOptimizer]"]


def _descend(param: Tensor, direction: Tensor, state: State, hyper: HyperValues) -> tuple[Tensor, State]:
    return param - hyper.lr * hyper.weight_decay * param - hyper.lr * direction, state


class PerTensorOptimizer(GroupedOptimizer):
    """The base of optimizers whose mathematics looks at one tensor at a time.

    params: a model (parameters are then grouped by their role: no decay for norms, biases and embeddings unless
    `decay_all`), or what torch takes: parameters, (name, parameter) pairs, or dicts of groups, used as they are.
    form: see `algos.forms`. rounding: of bfloat16 weights, "nearest" or "stochastic"; what is computed with is float32
    and state is. population: how many members; every parameter then has them along its first dimension, and
    a real hyperparameter may be a sequence of one value a member. weights: with a model, other tensors of the same
    names to train. Groups are torch's, with `initial_lr`, `label` (for people) and, where not the class's own, `rule`.
    Raises InputError (a ValueError) naming argument, value and range.
    """

    elementwise: ClassVar[bool] = False
    #: Whether torch's version (`native`) applies the decoupled decay itself.
    native_decays: ClassVar[bool] = True
    own_update: ClassVar[bool] = False
    needs: ClassVar[tuple[str, ...]] = ()
    #: The whole-number hyperparameter that says every how many steps the phase is "due", or curvature is wanted.
    period: ClassVar[str] = ""
    #: Whether decay multiplies the weights by 1 - lr*wd, apart from the direction.
    decoupled: ClassVar[bool] = True
    #: Settings under which multiplying every gradient by a number changes nothing: {"eps": 0.0}.
    scale_free: ClassVar[Mapping[str, Any] | None] = None
    #: Settings under which a hyperparameter matters, where the defaults leave it idle: {"alpha": {"warmup": 3}}.
    idle_unless: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    #: Of the state: what is never negative, and what must not be stored in 8 bits (weights, bases, factors).
    unsigned_state: ClassVar[tuple[str, ...]] = ()
    exact_state: ClassVar[tuple[str, ...]] = ()

    _units: Alone | Stacks | None
    _seen: tuple[int, ...]
    _native: Native | None
    _hyper_tensors: dict[tuple[int, torch.device, torch.dtype], HyperTensors]
    _curvature: Mapping[Tensor, Tensor] | None

    def __init__(
        self,
        params: nn.Module | Iterable[Any],
        *,
        form: str = "auto",
        rounding: str = "nearest",
        population: int | None = None,
        weights: Mapping[str, Tensor] | None = None,
        **hyper: Any,
    ):
        self._directing: Directing | None = None
        self._replaced: RuleFor | None = None
        self._curvature, self._evaluates, self._expected = None, False, 0
        self._forget_units()
        super().__init__(params, hyper, population, weights)
        self.rounding = rounding
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

    @classmethod
    def phase(cls, steps: int, group: Mapping[str, Any]) -> str:
        """Of a parameter's next step, after so many: "first", "due" or "between"."""
        if steps == 0:
            return "first"
        return "between" if (steps + 1) % group[cls.period] else "due"

    @staticmethod
    def native(groups: list[dict[str, Any]]) -> torch.optim.Optimizer:
        """torch's own version, over the parameters of these groups, if there is one that equals ours."""
        raise NotImplementedError

    def __init_subclass__(cls) -> None:
        cls.own_update = cls.update is not PerTensorOptimizer.update
        if "native" not in vars(cls) and {"init", "direction", "update"}.intersection(vars(cls)):
            cls.native = PerTensorOptimizer.native  # type: ignore[method-assign]  # torch's is of other mathematics

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
        if hook is not None and self.form in ("torch", "compiled"):
            try:
                self.form = forms.choose(self.asked_form, self._situation())
            except InputError:
                self._directing = before
                raise

    @property
    def rounding(self) -> str:
        """How bfloat16 weights are rounded after a step."""
        return self._rounding

    @rounding.setter
    def rounding(self, rounding: str) -> None:
        if rounding not in ROUNDINGS:
            place = f"{type(self).__name__}.rounding"
            raise InputError(f"{rounding!r} is not valid", f"give one of {', '.join(ROUNDINGS)}", place=place)
        self._rounding = rounding
        self._forget_units()

    def expect(self, updates: int) -> None:
        """How many steps are to come: `auto` compiles where they pay for it. Changes nothing once a step was taken."""
        self._expected = updates
        if self.asked_form == "auto" and not any(self.state.values()):
            self.form = forms.choose(self.asked_form, self._situation())

    def use_form(self, form: str) -> None:
        """Compute in this form from now on."""
        self.form = forms.choose(form, self._situation())
        self._forget_units()

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:  # type: ignore[override]
        """One update. closure: computes the loss and the gradients; its loss is returned."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        if self._evaluates:
            raise RuntimeError("step() inside evaluating(): the parameters hold evaluation weights; leave it first")
        if torch._C._is_any_autocast_enabled():
            with without_autocast(param for group in self.param_groups for param in group["params"]):
                self._apply()
        else:
            self._apply()
        return loss

    def _apply(self) -> None:
        try:
            if self.form == "torch":
                self._native_step()
            else:
                self._unit_step()
        except RuntimeError:
            for group in self.param_groups:
                for param in group["params"]:
                    check_gradient(param)  # torch's own words for a sparse one name an operator
            raise

    def _unit_step(self) -> None:
        units = self._ready_units()
        shared = self._give(units)
        if self._directing is None:
            for unit in units:
                unit.advance()
        else:
            directed_step(units, self._directing)
        if shared is not None:
            self.state["shared"] = shared  # type: ignore[index]

    def _give(self, units: Sequence[Unit]) -> State | None:
        """What this step needs beyond gradients. Returns what all parameters share from now on, if anything."""
        if not self.needs or not units:
            return None
        curvature, self._curvature = self._curvature, None
        if curvature is None and self.wants_curvature:
            curvature = diagonal([param for unit in units for param in unit.params], type(self).__name__)
        shared = None
        if "shared" in self.needs:
            index = next(i for i, group in enumerate(self.param_groups) if group["params"])
            first = self._hyper(index, self.param_groups[index]["params"][0])
            shared = shared_tensors.advance(self, self.state, units, first)
        for unit in units:
            unit.given = Given(curvature, None if shared is None else shared_tensors.placed(shared, unit.hyper))
        return shared

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
        if self._native is None or not self._native.intact() or self._seen != self._outside():
            self._forget_units()
            asked = "auto" if self.asked_form == "auto" else "torch"  # the parameters may have changed
            self.form = forms.choose(asked, self._situation())
            if self.form != "torch":
                self._unit_step()
                return
            self._seen = self._outside()
            self._native = Native(
                self.native(self.param_groups), self.param_groups, self._members(), self.state, self.declared_for(""),
                decays=self.native_decays,
            )  # fmt: skip
        self._native.step()

    # Units: made when first needed, and again whenever groups, state or parameters were changed from outside.

    def _forget_units(self) -> None:
        self._units, self._seen = None, ()
        self._hyper_tensors = {}
        self._native = None

    def _hyper(self, index: int, param: Tensor) -> HyperTensors:
        key = (index, param.device, working_dtype(param.dtype))
        if key not in self._hyper_tensors:
            group = self.param_groups[index]
            declared = self.declared_for(group.get("rule", ""))
            self._hyper_tensors[key] = HyperTensors(group, declared, key[1], key[2], self._population)
        return self._hyper_tensors[key]

    def replace_rule(self, replaced: RuleFor | None) -> None:
        """Another rule in the place of the optimizer's own, and of its fallback rules. None: its own again.

        replaced: (rule, param, shape) -> rule, the same class at each call. shape: the parameter's, without the
        members' dimension. Comes before the first step and before state is loaded; pickle and deepcopy keep it.
        Raises InputError where the rule cannot be replaced, or the form asked for cannot compute another.
        """
        before, self._replaced = self._replaced, replaced
        try:
            self._check_state()
            self.form = forms.choose(self.asked_form, self._situation())
        except InputError:
            self._replaced = before
            raise
        self._forget_units()

    def _rule(self, group: Mapping[str, Any], param: Tensor) -> type[PerTensorOptimizer]:
        rule = self.rules[group["rule"]] if group.get("rule") else type(self)
        shape = param.shape if self._population is None else param.shape[1:]
        return rule if self._replaced is None else self._replaced(rule, param, shape)

    def _ready_units(self) -> Sequence[Unit]:
        if self._units is None or self._seen != self._outside() or not self._units.intact():
            self._forget_units()
            self._seen = self._outside()
            members = self._members()
            compiles = self.form == "compiled"
            self._units = Stacks(members, compiles=compiles) if compiles or self.form == "stacked" else Alone(members)
        for hyper in self._hyper_tensors.values():
            before = hyper.structure
            hyper.refresh()
            if hyper.structure != before:
                self._check_everything()
        return self._units.ready()

    def _outside(self) -> tuple[int, ...]:
        """What whoever holds the optimizer may have exchanged: its groups, their parameters, its state."""
        groups = self.param_groups
        return (id(self.state), *map(id, groups), *(id(param) for group in groups for param in group["params"]))

    def _check_everything(self) -> None:
        """After a change of what the mathematics branches on."""
        for group in self.param_groups:
            for param in group["params"]:
                self._check_parameter(param, group)
        self._check_state()

    def _members(self) -> list[Member]:
        return [
            Member(
                param,
                self._rule(group, param),
                self._hyper(i, param),
                self.state,
                self._population,
                stochastic=self.rounding == "stochastic" and param.dtype == torch.bfloat16,
            )
            for i, group in enumerate(self.param_groups)
            for param in group["params"]
        ]

    def _situation(self) -> forms.Situation:
        params = [param for group in self.param_groups for param in group["params"]]
        native = type(self).native is not PerTensorOptimizer.native and self._replaced is None
        return forms.Situation(
            type(self).__name__, params, native, self._population, self._directing is not None,
            elementwise=self.elementwise and self._replaced is None, updates=self._expected,
        )  # fmt: skip

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
        if self._evaluates:
            yield
            return
        having = [
            (param, self._rule(group, param), self._hyper(index, param))
            for index, group in enumerate(self.param_groups)
            for param in group["params"]
            if self.has_evaluation_weights and self.state.get(param)
        ]
        self._evaluates = True
        try:
            with exchanged(
                [(param, evaluated(rule, param, self.state[param], hyper)) for param, rule, hyper in having]
            ):
                yield
        finally:
            self._evaluates = False

    # State.

    def _check_state(self) -> None:
        for member in self._members():
            check_state(member, type(self).__name__)

    def __getstate__(self) -> dict[str, Any]:
        if self._evaluates:
            raise RuntimeError("a copy inside evaluating() would train the evaluation weights; leave it first")
        kept = ("_replaced", "_rounding", "asked_form", "form")
        return {**super().__getstate__(), **{name: getattr(self, name) for name in kept}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        defaults = {"_directing": None, "_replaced": None, "_evaluates": False, "_curvature": None}
        for name, value in {**defaults, "_expected": 0, "_rounding": "nearest"}.items():
            self.__dict__.setdefault(name, value)
        self._forget_units()
