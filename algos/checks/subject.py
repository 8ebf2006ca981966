"""What is checked: an optimizer of the catalogue or anybody's torch.optim.Optimizer, built and stepped alike."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import nn

from algos import forms
from algos.checks.wording import sentence
from algos.finding import InputError, unknown
from algos.noisy_quadratic import SHAPES, Tensors, needs_closure, take_step, train, weights
from algos.per_tensor import PerTensorOptimizer
from algos.spec import Hyper, Spec, hyperparameters

#: Arguments of torch's constructors that say how a step is computed, and must change nothing.
IMPLEMENTATION = frozenset({"foreach", "fused", "capturable", "differentiable"})
RATES = ("lr", "learning_rate")
#: The rate of a plain optimizer that has no default.
_RATE = 1e-2


class NotApplicable(Exception):
    """The fact is not asked of this optimizer; the message says why."""


class Refused(Exception):
    """The optimizer clearly refuses what the fact is about; the message is its own."""


@dataclass(frozen=True)
class Subject:
    """An optimizer to be checked.

    name: for people. make: (params, **hyper) -> optimizer. kind: its class. hyper: its hyperparameters, declared or, of
    a plain class, as far as its constructor's defaults tell. settings: what it is always built with. compiled: check
    the compiled form against the loop, which takes minutes, and no other.
    """

    name: str
    make: Callable[..., torch.optim.Optimizer]
    kind: type[torch.optim.Optimizer]
    hyper: Mapping[str, Hyper]
    spec: Spec | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    compiled: bool = False

    @property
    def ours(self) -> bool:
        """Whether it is per-tensor mathematics, which has forms, populations and evaluation weights."""
        return issubclass(self.kind, PerTensorOptimizer)

    @property
    def declared(self) -> bool:
        """Whether it declares its hyperparameters, so that their ranges are known."""
        return bool(hyperparameters(self.kind))

    @property
    def closure(self) -> bool:
        """Whether a step needs a closure."""
        return needs_closure(self.kind)

    @property
    def across(self) -> bool:
        """Whether one parameter's step may depend on the others: shared tensors, L-BFGS, or the class says so."""
        shared = "shared" in getattr(self.kind, "needs", ())
        return shared or issubclass(self.kind, torch.optim.LBFGS) or bool(getattr(self.kind, "looks_across", False))

    @property
    def forms(self) -> list[str]:
        """The ways of running it; one without a name for a plain optimizer."""
        if not self.ours:
            return [""]
        if self.compiled:
            return ["loop", "compiled"]
        native = self.kind.native is not PerTensorOptimizer.native  # type: ignore[attr-defined]
        left_out = {"auto", "compiled", *(() if native else ("torch",))}
        return sorted(set(forms.FORMS) - left_out)

    @property
    def rates(self) -> list[str]:
        """The hyperparameters that are learning rates."""
        return [name for name in self.hyper if name.endswith("lr") or name in RATES]

    @property
    def reference(self) -> str:
        """The form that the others must equal."""
        return "loop" if self.ours else ""

    @property
    def rounding(self) -> float:
        """How far two runs in float64 may be apart that differ in the order of sums only."""
        return 1e-5 if self.closure else 1e-7 if self.across else 1e-12

    def label(self, form: str) -> str:
        """What a message begins with: the form, where there are several."""
        return f"{form}: " if form else ""

    def needs_ours(self, what: str) -> None:
        if not self.ours:
            raise NotApplicable(f"not per-tensor mathematics, so no {what}")

    def build(self, params: Any, form: str = "", **hyper: Any) -> Any:
        """The optimizer, ready to train (some have a mode to switch on)."""
        optimizer = self.make(params, **{**self.settings, **hyper}, **({"form": form} if form else {}))
        if not self.ours and callable(getattr(optimizer, "train", None)):
            optimizer.train()  # type: ignore[attr-defined]
        return optimizer

    @functools.cached_property
    def shapes(self) -> Sequence[tuple[int, ...]]:
        """Six shapes that it takes: those of `noisy_quadratic` where it takes them all."""
        accepted = [shape for shape in SHAPES if self.complaint(shape) == ""]
        if not accepted:
            raise _fault(self)
        if len(accepted) == len(SHAPES):
            return SHAPES
        full = [shape for shape in accepted if 0 not in shape]
        empty = [shape for shape in accepted if 0 in shape]
        return tuple((full * len(SHAPES))[: len(SHAPES) - len(empty)] + empty)

    def complaint(self, shape: tuple[int, ...]) -> str:
        """What it says of a parameter of a shape; empty where it takes a step."""
        try:
            params = weights(shapes=[shape, (3,)] if self.across else [shape])
            train(self.build(params, self.reference), params, [0])
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        return ""

    def weights(self, dtype: torch.dtype = torch.float64, population: int | None = None) -> Tensors:
        return weights(dtype, self.shapes, population)

    def started(self, form: str, steps: int = 10, dtype: torch.dtype = torch.float64, **hyper: Any) -> Any:
        """(parameters, optimizer) after some steps of the noisy quadratic."""
        params = self.weights(dtype)
        optimizer = self.build(params, form, **hyper)
        train(optimizer, params, range(steps))
        return params, optimizer

    def alone(self, param: nn.Parameter, index: int, steps: Sequence[int], **hyper: Any) -> None:
        """Train one parameter, without others, on the noise of an index."""
        optimizer = self.build([param], self.reference, **hyper)
        for step in steps:
            take_step(optimizer, [(index, param)], step)

    @contextmanager
    def evaluating(self, optimizer: Any) -> Iterator[None]:
        """The weights to evaluate, where it has others than those it trains."""
        if self.ours:
            with optimizer.evaluating():
                yield
            return
        modes = [getattr(optimizer, name, None) for name in ("eval", "train")]
        if all(map(callable, modes)):
            modes[0]()  # type: ignore[misc]
        yield
        if all(map(callable, modes)):
            modes[1]()  # type: ignore[misc]


def subject(what: Subject | Spec | type[torch.optim.Optimizer], **settings: Any) -> Subject:
    """The subject that a Spec or a class is. settings: what it is always built with.

    Raises InputError for what is no optimizer, where the constructor needs an argument that is not given, and for
    settings that it does not know.

    >>> subject(torch.optim.Adagrad).rates
    ['lr']
    """
    if isinstance(what, Subject):
        return replace(what, settings={**what.settings, **settings})
    if isinstance(what, Spec):
        kind = what.build
        _refuse_other(kind)
        assert isinstance(kind, type)
        name = what.name or kind.__name__
        return Subject(name, kind, kind, what.hyper or hyperparameters(kind), what, settings)
    _refuse_other(what)
    known = hyperparameters(what)
    if not known:
        known, settings = _read_constructor(what, settings)
    return Subject(what.__name__, what, what, known, None, settings)


def give_curvature(optimizer: Any, params: Sequence[nn.Parameter]) -> None:
    """Ones, to an optimizer that needs curvature: the quadratic's own."""
    if "curvature" in getattr(optimizer, "needs", ()):
        optimizer.observe_curvature({param: torch.ones_like(param) for param in params})


def _refuse_other(what: Any) -> None:
    if not (isinstance(what, type) and issubclass(what, torch.optim.Optimizer)):
        shown = what.__name__ if isinstance(what, type) else f"a {type(what).__name__}"
        cure = "give a subclass of torch.optim.Optimizer (the class, not an object of it), or a Spec that builds one"
        raise InputError(f"{shown} is no optimizer's class", cure, rule="no-optimizer")


def _fault(subject: Subject) -> InputError:
    """Why it takes no step on any shape: the settings, where it takes one without them; else its own code."""
    said = subject.complaint(SHAPES[0])
    ours = said.startswith("InputError: ")
    said = said.removeprefix("InputError: ") if ours else sentence(said)
    settings = subject.settings
    for blamed in (*([name] for name in settings), list(settings)):
        rates = {name: _RATE for name in blamed if name in RATES}
        without = replace(subject, settings={**{k: v for k, v in settings.items() if k not in blamed}, **rates})
        if blamed and any(without.complaint(shape) == "" for shape in SHAPES):
            shown = ", ".join(f"{name}={settings[name]!r}" for name in blamed)
            cure = "" if ours else "give another value"
            return InputError(f"{subject.name} takes no step with {shown}: {said}", cure, rule="bad-setting")
    return InputError(f"{subject.name} takes no step: {said}", "mend its constructor or its step", rule="their-code")


def _read_constructor(
    kind: type[torch.optim.Optimizer], settings: Mapping[str, Any]
) -> tuple[dict[str, Hyper], dict[str, Any]]:
    """What a plain class's constructor tells of its hyperparameters, and settings with a rate where it needs one."""
    _, *arguments = inspect.signature(kind).parameters.values()
    named = [each for each in arguments if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)]
    names = [each.name for each in named]
    for name in settings:
        if name not in names and not any(each.kind is each.VAR_KEYWORD for each in arguments):
            raise unknown("setting", name, names, place=kind.__name__)
    missing = [each.name for each in named if each.default is each.empty and each.name not in settings]
    given = {**dict.fromkeys(set(missing).intersection(RATES), _RATE), **settings}
    needed = [name for name in missing if name not in given]
    if needed:
        cure = f"give check({kind.__name__}, {', '.join(f'{name}=...' for name in needed)})"
        raise InputError(f"{kind.__name__} cannot be built without {', '.join(needed)}", cure, rule="no-default")
    values = {each.name: given.get(each.name, each.default) for each in named if each.name not in IMPLEMENTATION}
    found = {name: _inferred(value) for name, value in values.items()}
    return {name: hyper for name, hyper in found.items() if hyper is not None}, given


def _inferred(value: Any) -> Hyper | None:
    """A hyperparameter from its default; None where it says too little."""
    if isinstance(value, bool):
        return Hyper("flag", value)
    if isinstance(value, int) and value > 1:
        return Hyper("int", value, low=1)
    if isinstance(value, (int, float)):
        return Hyper("real", float(value))
    if isinstance(value, tuple) and len(value) == 2 and all(isinstance(part, (int, float)) for part in value):
        return Hyper("pair", (float(value[0]), float(value[1])))
    return None
