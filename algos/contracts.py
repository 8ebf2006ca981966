"""The contracts between algorithms and whatever trains with them: Oracle, TrainingAlgorithm, Component, and the small
kinds.

An algorithm never sees a Trainer, a strategy or a data loader: it asks the Oracle. What each kind's `SPEC.build` takes:

    optimizers      build(params_or_model, **hyper) -> torch.optim.Optimizer
    wrappers, compression, instruments
                    build(**hyper) -> Component
    schedules       build(**hyper) -> Schedule
    losses          build(**hyper) -> Loss
    architectures   build(signature, **hyper) -> torch.nn.Module
    precision       build(**hyper) -> Precision
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol, runtime_checkable

from torch import Tensor, nn

Named = Mapping[str, Tensor]
Buffers = Literal["update", "keep"]


@dataclass(frozen=True)
class Progress:
    """How far the run is. update: updates completed before this one. fraction: of the budget, in [0, 1]."""

    update: int
    fraction: float


@dataclass(frozen=True)
class Signature:
    """What a task shows a model. kind: "image" (inputs (C, H, W)), "tokens" (inputs (T,), T the context length) or
    "nodes" (inputs (F,), features per node; the model is called with (x, edge_index)). outputs: classes or
    vocabulary."""

    kind: Literal["image", "tokens", "nodes"]
    inputs: tuple[int, ...]
    outputs: int


@dataclass(frozen=True)
class Gradient:
    """A whole batch's loss and gradient. loss: 0-d, mean over the batch. grads: by parameter name, unscaled. finite:
    0-d bool on the device where the precision scales losses (`Scaling`), else None (nothing can have overflowed by
    scaling)."""

    loss: Tensor
    grads: dict[str, Tensor]
    finite: Tensor | None = None


class Oracle(Protocol):
    """What an algorithm may ask of a task. Made by the loop; hides autocast, accumulation, ranks and populations.

    batch is opaque. at: other weights to evaluate at (by name; missing ones are the model's own). buffers: whether the
    pass moves BatchNorm statistics and the like.
    """

    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]: ...

    @property
    def model(self) -> nn.Module: ...

    def loss(self, batch: Any, *, at: Named | None = None, buffers: Buffers = "keep") -> Tensor: ...

    def predict(self, batch: Any, *, at: Named | None = None) -> Tensor: ...

    def gradient(
        self, batch: Any, *, at: Named | None = None, create_graph: bool = False, buffers: Buffers = "update"
    ) -> Gradient:
        """Over all micro-batches by weight, mean over ranks. Counts one gradient evaluation.

        Without `at` and `create_graph` it is a plain backward pass and also leaves the gradients in `.grad`.
        """
        ...

    def product(
        self, batch: Any, vectors: Named, *, at: Named | None = None, matrix: Literal["hessian", "ggn"] = "hessian"
    ) -> dict[str, Tensor]:
        """The curvature matrix of the batch's mean loss times vectors, by parameter name. Counts two gradient
        evaluations. vectors: the same on all ranks."""
        ...

    def mean(self, tensors: Sequence[Tensor]) -> Sequence[Tensor]:
        """The mean over ranks."""
        ...

    def update(self, apply: Callable[[], None], finite: Tensor | None = None) -> None:
        """Apply one update and count it. Where `finite` is false it is counted, so that budget and schedule move on,
        and not applied: weights, the optimizer's state and its steps stay as they are."""
        ...


class TrainingAlgorithm(Protocol):
    """One update of training. Written only for what is not one gradient and one update (MAML, PES, L-BFGS)."""

    def step(self, oracle: Oracle, batch: Any, progress: Progress) -> dict[str, Tensor]:
        """Train on one batch; returns 0-d tensors to record, among them "loss"."""
        ...

    def evaluating(self, oracle: Oracle) -> AbstractContextManager[None]:
        """Within it, the model holds the weights to evaluate."""
        ...

    def finalize(self, model: nn.Module) -> None:
        """Once, at the end of training, inside `evaluating`: leave in the model what is to be kept."""
        ...

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: dict[str, Any]) -> None: ...


class InnerGradient(Protocol):
    def __call__(self, batch: Any, *, at: Named | None = None, buffers: Buffers = "update") -> Gradient: ...


class Component:
    """A part that wraps training: overrides only the points it needs. Components nest, innermost first.

    State must survive: what a component remembers between updates goes through state_dict as tensors, ints, floats,
    strings, lists and dicts of them (checkpoints load with weights_only=True).
    """

    #: Whether `evaluating` puts other weights in the place of those that are trained (averages do).
    replaces_weights: ClassVar[bool] = False
    #: Whether `gradient` bounds the gradient's size (clipping does): a loop that bounds it too would do so twice.
    clips: ClassVar[bool] = False
    #: Whether BatchNorm's statistics are to be collected anew, from training batches, at the weights it evaluates at.
    recollects: bool = False

    def prepare(self, model: nn.Module) -> None:
        """Once, before the optimizer is built and before any state is loaded; the model is on its device."""

    def rule(self, rule: type[Any], param: Tensor, shape: Sequence[int]) -> type[Any]:
        """The rule (`algos.per_tensor`) in the place of the optimizer's own for a parameter, the same class at each
        call; asked before the first step. shape: the parameter's, without a population's members."""
        return rule

    def gradient(self, oracle: Oracle, batch: Any, inner: InnerGradient) -> Gradient:
        return inner(batch)

    def direction(
        self, params: Sequence[Tensor], grads: Sequence[Tensor], directions: Sequence[Tensor], progress: Progress
    ) -> Sequence[Tensor]:
        """Directions before the rate and decay are applied: w <- w - lr*(direction) - lr*wd*w."""
        return directions

    def check_rules(self, optimizer: Any) -> None:
        """Once, after the rules are replaced. Raises InputError where the component would do nothing."""

    def updated(self, oracle: Oracle, progress: Progress) -> dict[str, Tensor]:
        """After each update (progress.update counts it already, progress.fraction is the budget's share before it).
        Returns 0-d tensors to record, if any."""
        return {}

    def evaluating(self, oracle: Oracle) -> AbstractContextManager[None]:
        return nullcontext()

    def finalize(self, model: nn.Module) -> None:
        """Once, at the end of training, inside `evaluating`."""

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        assert not state, f"{type(self).__name__} was given state it does not keep: {sorted(state)}"


class Schedule(Protocol):
    """A pure function of progress: the factor on every group's learning rate."""

    def __call__(self, progress: Progress) -> float: ...


class Loss(Protocol):
    """predictions (..., classes), targets (...) -> (mean loss, weight); weight is what the mean is over (targets
    counted), so that uneven micro-batches add up to the whole batch's mean."""

    def __call__(self, predictions: Tensor, targets: Tensor) -> tuple[Tensor, Tensor | float]: ...


class Precision(Protocol):
    """How the loss is computed: the context around the forward pass and the loss, and nothing else. One that also
    scales losses is a `Scaling` too."""

    def autocast(self, device_type: str) -> AbstractContextManager[Any]: ...


@runtime_checkable
class Storing(Protocol):
    """A precision that stores weights in another way: `store` before the optimizer is made, `round` after."""

    def store(self, model: nn.Module) -> None: ...

    def round(self, optimizer: Any) -> None: ...


@runtime_checkable
class Scaling(Protocol):
    """What a precision has beyond `autocast` where it differentiates a multiple of the loss, so that small numbers do
    not vanish on the way back. Nothing here reads a number from the device."""

    @property
    def scale(self) -> Tensor:
        """0-d: what the loss is multiplied by now."""
        ...

    def scaled(self, loss: Tensor) -> Tensor: ...

    def unscaled(self, tensors: Sequence[Tensor]) -> tuple[list[Tensor], Tensor]:
        """Derivatives of a scaled loss -> those of the loss (in place, unless they have a graph), and whether all are
        finite: 0-d bool."""
        ...

    def updated(self, finite: Tensor) -> None:
        """After each update: choose the scale of the next. finite: whether this one's gradients were."""
        ...

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: dict[str, Any]) -> None: ...


def overrides(component: Component, point: str) -> bool:
    """Whether a component overrides a point, so that the loop can skip what nobody asked for.

    >>> overrides(Component(), "gradient")
    False
    """
    return getattr(type(component), point) is not getattr(Component, point)
