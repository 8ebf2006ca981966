"""ModuleOracle: what a component may ask of a user's LightningModule while Lightning trains it: the loss is what its
training_step returns.

Lightning's own pass gives the first gradient; whatever a component asks beyond it (SAM's second pass) runs
training_step again on the same batch, under the Trainer's autocast, at weights that stand in for the module's for that
call (`torch.func.functional_call`), so that the weights are never changed. Such a pass leaves no trace: what it logs is
dropped; buffers, torchmetrics' sums and the plain attributes of the module and of every module in it are put back
(`without_trace` says which). A draw (dropout) is drawn anew.
"""

from __future__ import annotations

import math
import operator
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Literal

import lightning.pytorch as pl
import torch
from lightning.pytorch.loggers.logger import DummyLogger
from lightning.pytorch.utilities.signature_utils import is_param_in_hook_signature
from torch import Tensor, nn
from torch.func import functional_call
from torchmetrics import Metric

from algos.contracts import Buffers, Gradient, Named
from algos.curvature import twice_differentiable
from algos.finding import InputError
from algos.gradient_descent import observe
from experiments.modules.loss import InTraining

Derive = Callable[[Tensor], Sequence[Tensor]]

#: Numbers in a tensor up to which it is kept; things in a list, dict, set or deque up to which they are looked into.
SMALL, FEW = 1 << 14, 128
_BOXES = (list, dict, set, deque)
_TORCHS = frozenset(vars(nn.Module()))
#: Types of what has nothing in it that could change.
_ATOMS = frozenset({int, float, complex, bool, str, bytes, type(None)})
_LOGS = {"log", "log_dict"}


@dataclass(frozen=True)
class ModuleBatch:
    """What Lightning trains on now. index: its batch_idx."""

    batch: Any
    index: int


class ModuleOracle:
    """An `algos.contracts.Oracle`. trained: the parameters that the optimizers train. own: Lightning's gradient of the
    batch, which the first question at the module's weights is answered with. gradients: evaluations beyond that."""

    def __init__(self, trainer: pl.Trainer, module: pl.LightningModule, trained: Callable[[], set[int]]):
        self.own: Gradient | None = None
        self.gradients = 0
        self._trainer, self._module, self._which = trainer, module, trained
        self._step = _TrainingStep(module)

    @property
    def model(self) -> nn.Module:
        return self._module

    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        trained = self._which()
        return ((name, p) for name, p in self._module.named_parameters() if p.requires_grad and id(p) in trained)

    def own_gradient(self, loss: Tensor) -> Gradient:
        """What Lightning's backward pass left in `.grad`."""
        return Gradient(loss, {name: p.grad for name, p in self.named_parameters() if p.grad is not None})

    def loss(self, batch: ModuleBatch, *, at: Named | None = None, buffers: Buffers = "keep") -> Tensor:
        loss, _ = self._again(batch, dict(at or {}), buffers, lambda loss: [])
        return loss

    def predict(self, batch: Any, *, at: Named | None = None) -> Tensor:
        raise _no_predictions()

    def gradient(
        self, batch: ModuleBatch, *, at: Named | None = None, create_graph: bool = False, buffers: Buffers = "update"
    ) -> Gradient:
        own, self.own = self.own, None
        if own is not None and at is None and not create_graph:
            return own
        self.gradients += 1
        leaves = self._leaves(at)
        tensors = list(leaves.values())
        with twice_differentiable() if create_graph else nullcontext():
            loss, grads = self._again(
                batch, leaves, buffers,
                lambda loss: torch.autograd.grad(loss, tensors, create_graph=create_graph, materialize_grads=True),
            )  # fmt: skip
        if create_graph:
            return Gradient(loss, dict(zip(leaves, grads)))
        return Gradient(loss.detach(), dict(zip(leaves, self.mean(grads))))

    def product(
        self, batch: ModuleBatch, vectors: Named, *, at: Named | None = None,
        matrix: Literal["hessian", "ggn"] = "hessian",
    ) -> dict[str, Tensor]:  # fmt: skip
        if matrix == "ggn":
            raise _no_predictions()
        self.gradients += 2  # it differentiates twice
        leaves = self._leaves(at)
        tensors, given = list(leaves.values()), [vectors[name] for name in leaves]

        def curved(loss: Tensor) -> Sequence[Tensor]:
            slope = torch.autograd.grad(loss, tensors, create_graph=True, materialize_grads=True)
            return torch.autograd.grad(slope, tensors, grad_outputs=given, materialize_grads=True)

        with twice_differentiable():
            _, found = self._again(batch, leaves, "keep", curved)
        return dict(zip(leaves, self.mean(found)))

    def observe(self, optimizer: Any, batch: ModuleBatch | None) -> int:
        """Curvature for the optimizer's next step, where it wants it, Lightning optimizes and the gradient has no graph
        that the optimizer could take it from itself. Returns the gradient evaluations that took."""
        optimizer = getattr(optimizer, "_optimizer", optimizer)
        if not self._module.automatic_optimization or not getattr(optimizer, "wants_curvature", False):
            return 0
        params = [param for group in optimizer.param_groups for param in group["params"]]
        if any(param.grad is not None and param.grad.requires_grad for param in params):
            return 0
        before = self.gradients
        observe(optimizer, self, batch)
        return self.gradients - before

    def mean(self, tensors: Sequence[Tensor]) -> Sequence[Tensor]:
        if self._trainer.world_size == 1:
            return tensors
        return [self._trainer.strategy.reduce(tensor, reduce_op="mean") for tensor in tensors]

    def update(self, apply: Callable[[], None], finite: Tensor | None = None) -> None:
        apply()

    def _leaves(self, at: Named | None) -> dict[str, Tensor]:
        given = dict(at or {})
        tensors = ((name, given.get(name, parameter)) for name, parameter in self.named_parameters())
        return {name: t if t.requires_grad and not t.is_leaf else t.detach().requires_grad_() for name, t in tensors}

    def _again(
        self, batch: ModuleBatch, at: dict[str, Tensor], buffers: Buffers, derive: Derive
    ) -> tuple[Tensor, Sequence[Tensor]]:
        """training_step once more -> its loss (NaN where it returns none), and what is derived from it (nothing then).
        The derivative is taken where the weights still stand in: what is recomputed on the way back (checkpointed
        activations) must see them too."""
        arguments = [batch.batch]
        if is_param_in_hook_signature(self._module.training_step, "batch_idx", min_args=2):
            arguments.append(batch.index)
        tensors = dict(at)
        if buffers == "keep":
            tensors |= {name: buffer.clone() for name, buffer in self._module.named_buffers()}
        standing_in = {f"module.{name}": tensor for name, tensor in tensors.items()}
        autocast = self._trainer.precision_plugin.train_step_context()
        with torch.enable_grad(), without_trace(self._trainer, self._module):
            found: tuple[Tensor, Sequence[Tensor]] = functional_call(
                self._step, standing_in, (arguments, autocast, derive)
            )
        return found


class _TrainingStep(nn.Module):
    """training_step, and what is derived from its loss, as one forward pass."""

    def __init__(self, module: pl.LightningModule):
        super().__init__()
        self.module = module

    def forward(
        self, arguments: list[Any], autocast: AbstractContextManager[None], derive: Derive
    ) -> tuple[Tensor, Sequence[Tensor]]:
        step = self.module.training_step
        with step.held() if isinstance(step, InTraining) else nullcontext():
            with autocast:
                output = step(*arguments)
            loss = output.get("loss") if isinstance(output, Mapping) else output
            return (loss, derive(loss)) if isinstance(loss, Tensor) else (torch.tensor(torch.nan), [])


@contextmanager
def without_trace(trainer: pl.Trainer, module: pl.LightningModule) -> Iterator[None]:
    """Within it nothing is logged; at its end the attributes of the module, of every module in it and its metrics' sums
    are what they were: the same objects, and in lists, dicts, sets and deques, however nested, the same things.

    Tensors among them have the numbers that they had, but for those of more than SMALL numbers. Not undone: what
    happens inside other objects (a meter of one's own) and inside the things of a list, dict, set or deque of more than
    FEW, an attribute that was not there before, and whatever is outside the module (files, globals).
    """
    everyone = list(module.modules())
    parts = [part for part in everyone if isinstance(part, pl.LightningModule)]
    kept = _Kept()
    for part in everyone:
        if isinstance(part, Metric):
            kept.add(part, {*part._defaults, "_update_count", "_computed", "_forward_cache"}, math.inf)
        else:
            kept.add(part, vars(part).keys() - _TORCHS, SMALL)
    said = [{name: vars(part)[name] for name in _LOGS & {*vars(part)}} for part in parts]
    loggers = trainer.loggers
    trainer.loggers = [DummyLogger()] if loggers else []
    for part in parts:
        vars(part).update(dict.fromkeys(_LOGS, _nothing))
    try:
        yield
    finally:
        trainer.loggers = loggers
        for part, own in zip(parts, said, strict=True):
            for name in _LOGS:
                del vars(part)[name]
            vars(part).update(own)
        kept.put_back()


class _Kept:
    """Attributes of objects as they are now, and what is in the boxes and tensors among them."""

    def __init__(self) -> None:
        self._attributes: list[tuple[dict[str, Any], dict[str, Any]]] = []
        self._boxes: list[tuple[Any, Any]] = []
        self._tensors: list[tuple[Tensor, int, Tensor]] = []
        self._known: set[int] = set()

    def add(self, owner: object, names: Iterable[str], longest: float) -> None:
        """longest: numbers of a tensor attribute up to which it is kept."""
        own = vars(owner)
        if values := {name: own[name] for name in names if name in own}:
            self._attributes.append((own, values))
            for value in values.values():
                if type(value) not in _ATOMS:
                    self._look_into(value, longest)

    def _look_into(self, value: Any, longest: float) -> None:
        if id(value) in self._known:
            return
        if isinstance(value, Tensor):
            # Weights are stood in for, and an inference tensor does not change.
            if value.numel() <= longest and not isinstance(value, nn.Parameter) and not value.is_inference():
                self._known.add(id(value))
                self._tensors.append((value, value._version, value.detach().clone()))
        elif isinstance(value, (*_BOXES, tuple)):
            self._known.add(id(value))
            inside = dict(value) if isinstance(value, dict) else list(value)
            if not isinstance(value, tuple):
                self._boxes.append((value, inside))
            if len(inside) <= FEW:
                for each in inside.values() if isinstance(inside, dict) else inside:
                    if type(each) not in _ATOMS:
                        self._look_into(each, SMALL)

    @torch.no_grad()
    def put_back(self) -> None:
        for own, values in self._attributes:
            own.update(values)
        for box, inside in self._boxes:
            _refill(box, inside)
        for tensor, version, numbers in self._tensors:
            if tensor._version != version:
                tensor.copy_(numbers)


def _refill(box: Any, inside: Any) -> None:
    """What was in a box, where it is another now."""
    if isinstance(box, dict):
        if not (_same(box, inside) and _same(box.values(), inside.values())):
            box.clear()
            box.update(inside)
    elif not _same(box, inside):
        if isinstance(box, list):
            box[:] = inside
        else:
            box.clear()
            box.extend(inside) if isinstance(box, deque) else box.update(inside)


def _same(one: Any, other: Any) -> bool:
    return len(one) == len(other) and all(map(operator.is_, one, other))


def _no_predictions() -> InputError:
    return InputError("a LightningModule does not say which are its predictions", "use a component that needs none")


def _nothing(*_: Any, **__: Any) -> None:
    """In the place of `self.log`."""
