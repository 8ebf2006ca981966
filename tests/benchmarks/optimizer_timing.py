"""One entry of the catalogue, timed beside its peers: every form of ours, every peer, and a compiled copy, in turns.

All contestants have parameters and gradients of the same shapes and values. In each round everyone takes a turn, the
first of the round another each time, so that a noisy machine is noisy for all; a turn is as many steps as it takes the
method's work to repeat (10 where something is done every tenth step); the figure is the median over the rounds of the
time per step. Filling in gradients is not timed. One thread.
"""

from __future__ import annotations

import signal
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from algos import catalogue, forms, observe
from algos.spec import Spec
from tests.benchmarks import optimizer_shapes as shapes
from tests.benchmarks.peers import BLOCKS_ONLY, OURS, PEERS, VARIANTS

#: No contestant is waited for longer than this while it warms up.
PATIENCE_S = 120
ROUNDS = (3, 25)


@dataclass
class Contestant:
    """Someone who takes steps. kind: ours, eager, fused, compiled or copy. error: the first words of why it cannot."""

    label: str
    kind: str
    build: Callable[[shapes.Params], Callable[[], Any]] = field(repr=False)
    period: int = 1
    times_s: list[float] = field(default_factory=list)
    error: str = ""
    step: Callable[[], Any] | None = None
    params: shapes.Params | None = None
    own: list[Tensor] = field(default_factory=list)

    def prepare(self, named: shapes.Shapes, gradients: list[Tensor]) -> None:
        """Build it, and take steps until everything that happens once has happened."""
        try:
            with patience(PATIENCE_S):
                self.params = shapes.make(named, gradients)
                self.own = [gradient.clone() for gradient in gradients]
                self.step = self.build(self.params)
                started = time.perf_counter()
                for _ in range(self.period + 2):
                    if self.kind != "eager" or time.perf_counter() - started < PATIENCE_S / 4:
                        self.turn(1)
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            self.error = f"{type(error).__name__}: {first_words(error)}"
            self.step = self.params = None

    def turn(self, steps: int) -> float:
        """Seconds per step."""
        assert self.step is not None
        assert self.params is not None
        spent = 0.0
        for _ in range(steps):
            self.params.give(self.own)
            started = time.perf_counter()
            self.step()
            spent += time.perf_counter() - started
        return spent / steps

    @property
    def milliseconds(self) -> float | None:
        return statistics.median(self.times_s) * 1e3 if self.times_s else None

    def result(self) -> dict[str, Any]:
        return {"label": self.label, "kind": self.kind, "ms": self.milliseconds, "error": self.error,
                "rounds": len(self.times_s)}  # fmt: skip


def first_words(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return " ".join((lines[0] if lines else "").split()[:12])


@contextmanager
def patience(seconds: float) -> Iterator[None]:
    def over(*_: Any) -> None:
        raise TimeoutError(f"over {seconds:.0f} s")

    before = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


# Ours.


def build_ours(name: str, params: shapes.Params, form: str, **more: Any) -> Any:
    """An entry over these parameters, the hidden matrices under its own rule where it leaves the rest to AdamW."""
    build = catalogue.load("optimizers", name).build
    given: Any = params.all
    if "fallback" in getattr(build, "rules", {}):
        given = [{"params": params.hidden}, {"params": params.rest, "rule": "fallback"}]
    return build(given, form=form, **OURS.get(name, {}), **more)


def stepper(optimizer: Any, params: shapes.Params) -> Callable[[], Any]:
    """A step, with whatever the optimizer needs beyond gradients at hand."""
    estimates = dict(zip(params.all, [gradient.abs() for gradient in params.gradients], strict=True))
    loss = torch.zeros(())
    curved, closure = hasattr(optimizer, "wants_curvature"), "closure" in getattr(optimizer, "needs", ())

    def step() -> None:
        if curved and optimizer.wants_curvature:
            optimizer.observe_curvature(estimates)
        optimizer.step(*([lambda: loss] if closure else []))

    return step


def period(spec: Spec) -> int:
    name = getattr(spec.build, "period", "")
    return int(spec.hyper[name].default) if name else 1


def forms_of(name: str) -> list[str]:
    """The forms that an entry can be had in."""
    found = []
    for form in forms.FORMS:
        try:
            build_ours(name, shapes.make({"0.weight": (4, 4), "0.bias": (4,)}), form)
        except ValueError:
            continue
        found.append(form)
    return [form for form in found if form != "auto"] or ["auto"]


def ours(name: str, form: str, every: int, variant: str = "") -> Contestant:
    hyper = VARIANTS[name][variant] if variant else {}
    label = f"{form}, {variant}" if variant else form
    return Contestant(label, "ours", lambda params: stepper(build_ours(name, params, form, **hyper), params), every)


def theirs(name: str, params_step: Any) -> Callable[[shapes.Params], Callable[[], Any]]:
    closure = name == "lbfgs"

    def build(params: shapes.Params) -> Callable[[], Any]:
        optimizer = params_step(params)
        loss = torch.zeros(())
        return lambda: optimizer.step(*([lambda: loss] if closure else []))

    return build


def copy_of(numbers: int) -> Contestant:
    """A compiled copy that reads `numbers` / 2 numbers and writes as many, from one tensor to another."""

    def build(params: shapes.Params) -> Callable[[], Any]:
        source, target = torch.ones(numbers // 2), torch.zeros(numbers // 2)
        copy = torch.compile(lambda a, b: b.copy_(a))
        return lambda: copy(source, target)

    return Contestant("compiled copy", "copy", build)


def least_numbers(name: str, named: shapes.Shapes) -> int:
    """What an elementwise step must read and write at least: weights and state both, the gradient once."""
    params = shapes.make({"0": (64, 64)})
    params.give([gradient.clone() for gradient in params.gradients])
    optimizer = build_ours(name, params, "loop")
    stepper(optimizer, params)()
    state = sum(value.numel() for value in tree_leaves(dict(optimizer.state)) if isinstance(value, Tensor)) // 4096
    return (3 + 2 * state) * shapes.numel(named)


# Measuring.


def contest(
    name: str, model: str, budget_s: float, *, slow_to_compile: bool, only: Sequence[str] = ()
) -> dict[str, Any]:
    """Times of all contestants on a model, and of our forms the kernels and megabytes per step.

    slow_to_compile: whether peers that compile for half a minute take part (on the first model, if so). only: the kinds
    to take.
    """
    spec = catalogue.load("optimizers", name)
    named = shapes.MODELS[model]()
    if name in BLOCKS_ONLY:
        named = {key: shape for key, shape in named.items() if key.partition(".")[0] not in shapes.NOT_HIDDEN}
    every = period(spec)
    contestants = [ours(name, form, every) for form in forms_of(name)]
    contestants += [
        ours(name, form, every, variant) for variant in VARIANTS.get(name, {}) for form in ("loop", "stacked")
    ]
    slow = slow_to_compile and model == next(iter(shapes.MODELS))
    peers = [peer for peer in PEERS.get(name, []) if slow or peer.label != "heavyball"]
    contestants += [Contestant(peer.label, peer.kind, theirs(name, peer.build), peer.period) for peer in peers]
    if spec.elementwise:
        contestants.append(copy_of(least_numbers(name, named)))
    contestants = [c for c in contestants if not only or c.kind in only]
    gradients = shapes.make(named).gradients
    for contestant in contestants:
        contestant.prepare(named, gradients)
    ready = [contestant for contestant in contestants if contestant.step is not None]
    rounds(ready, budget_s)
    counted = {c.label: count(c) for c in ready if c.kind == "ours" and c.label not in ("compiled", "auto")}
    return {"contestants": [c.result() for c in contestants], "counted": counted,
            "least_mb": least_numbers(name, named) * 4e-6 if spec.elementwise else None}  # fmt: skip


def rounds(contestants: list[Contestant], budget_s: float) -> None:
    """Turns until the time is used up: at least 3 rounds, but one for a contestant whose turn takes half the time."""
    started = time.perf_counter()
    low, high = ROUNDS if budget_s else (0, 0)
    for number in range(high):
        if number >= low and time.perf_counter() - started > budget_s:
            return
        for position in range(len(contestants)):
            contestant = contestants[(number + position) % len(contestants)]
            if contestant.times_s and contestant.times_s[0] * contestant.period > budget_s / 2:
                continue
            contestant.times_s.append(contestant.turn(contestant.period))


def count(contestant: Contestant) -> dict[str, float]:
    """Kernels and megabytes per step, over one period."""
    assert contestant.step is not None
    assert contestant.params is not None
    kernels, moved = 0, 0
    for seen in ("kernels", "bytes"):
        for _ in range(contestant.period):
            contestant.params.give(contestant.own)
            if seen == "kernels":
                kernels += observe.kernels(contestant.step).total()
            else:
                moved += observe.bytes_moved(contestant.step)
    return {"kernels": kernels / contestant.period, "mb": moved / contestant.period / 1e6}


def launches(name: str) -> list[int]:
    """Kernels of a stacked step for the transformer's 50 tensors, and for 10 of each, at width 24."""
    found = []
    for copies in (1, 10):
        params = shapes.make(shapes.transformer(24), copies=copies)
        step = stepper(build_ours(name, params, "stacked"), params)
        own = [gradient.clone() for gradient in params.gradients]
        for _ in range(2):
            params.give(own)
            kernels = observe.kernels(step).total()
        found.append(kernels)
    return found
