"""ComponentCallback: wrappers and compression of the catalogue, in a user's own Lightning loop.

    Trainer(callbacks=[ComponentCallback([Sam(rho=0.05)])])

What each point of a `Component` hangs on, in Lightning's order:

    prepare      on_fit_start: the module's own setup and configure_model have run and it is on its device; the state
                 that a checkpoint holds, which Lightning hands over earlier, is loaded right after it
    rule         on_fit_start too: the optimizer, one of the catalogue's, has neither stepped nor loaded its state
    gradient     on_before_optimizer_step: Lightning's backward pass is the first gradient; what a component asks beyond
                 it runs training_step again (`experiments.modules.oracle`). The Trainer's own clipping comes after
    direction    inside the optimizer's step, which must be one of the catalogue's
    curvature    not a component's but an optimizer's that wants it: with the gradient, at the module's weights
    updated      on_train_batch_end, after a batch whose optimizer stepped; a component's updates are those batches,
                 also where a module steps several optimizers in one
    evaluating   from on_{validation,test,predict}_start to _end, sanity check included. Lightning calls checkpoint
                 callbacks last, so where they save in on_validation_end the trained weights are back
    finalize     on_train_end: the module keeps the weights that are evaluated

Several of these callbacks are one: their components nest in the callbacks' order, innermost first, and the first of
them acts for all.

Checkpoints hold the trained weights as state_dict, so that Lightning resumes from them, and beside them, where others
are evaluated, those under "trainlab_weights", which `Trainer.test(ckpt_path=...)` with this callback loads. A
checkpoint saved after training holds the module as it is, and beside it the trained weights to resume from.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

import lightning.pytorch as pl
import torch
from lightning.pytorch.trainer.states import TrainerFn
from torch import Tensor, nn

from algos.contracts import Component, Progress, overrides
from algos.finding import InputError
from algos.gradient_descent import nested, replace_rules
from experiments.modules.oracle import ModuleBatch, ModuleOracle
from experiments.modules.refused import check_optimizers, check_trainer, evaluates_apart
from experiments.modules.share import Endless, share

WEIGHTS = "trainlab_weights"


class ComponentCallback(pl.Callback):
    """Components around Lightning's own loop, innermost first; none only switches to the evaluation weights of
    optimizers that have them.

    fraction: says how much of the budget is used, in [0, 1]; the Trainer's own share by default. gradients: how many
    gradient evaluations it caused beyond the loop's own. updates: batches whose optimizer stepped, which the first of
    these callbacks counts. Each fit begins with the components as they were given, or goes on with what the checkpoint
    that it resumes from holds. Raises InputError, at the start of a fit, for what cannot be right.
    """

    def __init__(self, components: Sequence[Component] = (), fraction: Callable[[], float] | None = None):
        self.components = list(components)
        self.gradients = 0
        self.updates = 0
        self.fraction = fraction
        self._given = _Given([copy.deepcopy(vars(component)) for component in self.components])
        self._fit: _Fit | None = None  # what the first of these callbacks has while a module is trained

    @property
    def state_key(self) -> str:
        return self._generate_state_key(components=[type(component).__name__ for component in self.components])

    def state_dict(self) -> dict[str, Any]:
        components = [each.state_dict() for each in self.components]
        return {"gradients": self.gradients, "updates": self.updates, "components": components}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """For the fit that is being set up: Lightning calls it for tests and validations of checkpoints too."""
        self._given.state = state_dict

    # A fit

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        self._given.state = None  # what a checkpoint holds for this fit is loaded after it
        if stage == TrainerFn.FITTING and self._is_first(trainer):
            everyone = [component for callback in _callbacks(trainer) for component in callback.components]
            check_trainer(trainer, pl_module, everyone)

    def on_fit_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._fit = None
        if not self._is_first(trainer):
            return
        callbacks = _callbacks(trainer)
        fit = _Fit(trainer, pl_module, [component for callback in callbacks for component in callback.components])
        check_optimizers(trainer, pl_module, fit.optimizers, fit.components)
        for callback in callbacks:
            callback._begin(pl_module)
        self.updates = max(callback.updates for callback in callbacks)
        fit.attach()
        self._fit = fit

    def _begin(self, module: pl.LightningModule) -> None:
        self.gradients = self.updates = 0
        for component, attributes in zip(self.components, self._given.attributes, strict=True):
            vars(component).clear()
            vars(component).update(copy.deepcopy(attributes))
            component.prepare(module)
        if (state := self._given.state) is not None:
            self._given.state = None
            self.gradients, self.updates = state["gradients"], state.get("updates", 0)
            for component, own in zip(self.components, state["components"], strict=True):
                component.load_state_dict(own)

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if self._fit is not None:
            given = (callback.fraction for callback in _callbacks(trainer) if callback.fraction is not None)
            self._fit.share = next(given, None) or share(trainer)

    def on_train_batch_start(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: Any, batch_idx: int
    ) -> None:
        if self._fit is not None:
            self._fit.begin(self.updates, ModuleBatch(batch, batch_idx))

    def on_before_backward(self, trainer: pl.Trainer, pl_module: pl.LightningModule, loss: Tensor) -> None:
        if self._fit is not None and self._fit.in_gradient:
            self._fit.loss = loss.detach()

    def on_before_optimizer_step(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, optimizer: torch.optim.Optimizer
    ) -> None:
        if self._fit is not None:
            self.gradients += self._fit.observe(optimizer)
            if self._fit.in_gradient:
                self.gradients += self._fit.replace_gradient()

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if self._fit is not None:
            stepped = self._fit.has_stepped()
            self.updates += stepped
            for name, value in self._fit.end(self.updates if stepped else None).items():
                pl_module.log(f"train/{name}", value, on_step=True, on_epoch=False)

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if self._fit is not None:
            self._fit.finalize()

    def on_fit_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """A fit that was resumed at its end trains nothing and has no on_train_end. The module is on the CPU now."""
        if self._fit is not None and not self._fit.finished:
            for callback in _callbacks(trainer):
                callback._given.state = copy.deepcopy(callback.state_dict())
                callback._begin(pl_module)
            self._fit.finalize()

    def on_exception(self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException) -> None:
        """The trained weights are back before a checkpoint callback saves what was lost."""
        self._leave()

    def teardown(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        self._leave()
        self._given.state = None
        if self._fit is not None and stage == TrainerFn.FITTING:
            self._fit.detach()

    # Evaluation

    def on_validation_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._enter(pl_module)

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._leave()

    on_test_start = on_predict_start = on_validation_start
    on_test_end = on_predict_end = on_validation_end

    def _enter(self, module: pl.LightningModule) -> None:
        """Only within a fit, or after one that was broken off: a finished one left the weights to evaluate, and a
        module that was never trained here has no others."""
        if self._fit is not None and self._fit.module is module:
            self._fit.enter()

    def _leave(self) -> None:
        if self._fit is not None:
            self._fit.leave()

    # Checkpoints

    def on_save_checkpoint(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        if self._fit is not None:
            self._fit.save(checkpoint)

    def on_load_checkpoint(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        wanted = "trained" if trainer.state.fn == TrainerFn.FITTING else "evaluated"
        if wanted in (kept := checkpoint.get(WEIGHTS, {})):
            _write(pl_module, kept[wanted])
        if trainer.state.fn != TrainerFn.FITTING:
            self._fit = None

    def _is_first(self, trainer: pl.Trainer) -> bool:
        return _callbacks(trainer)[0] is self


def check_evaluation_weights(trainer: pl.Trainer, optimizers: Sequence[object] | None = None) -> None:
    """Raises InputError where an optimizer (the Trainer's, unless others are given) evaluates at other weights than it
    trains and nothing switches to them. For whoever sees an evaluation begin, or an optimizer made."""
    among = trainer.optimizers if optimizers is None else optimizers
    apart = next((each for each in among if evaluates_apart(each)), None)
    if apart is not None and not _callbacks(trainer):
        raise InputError(
            f"{type(apart).__name__} evaluates at other weights than it trains, and nothing switches to them",
            "add tl.callback() to the Trainer's callbacks", rule="evaluation-weights", place="optimizer",
        )  # fmt: skip


class _Given:
    """A callback's components as they were given, and the state to go on from."""

    def __init__(self, attributes: list[dict[str, Any]]):
        self.attributes = attributes
        self.state: dict[str, Any] | None = None


class _Fit:
    """The components of all callbacks around one module while it is trained."""

    def __init__(self, trainer: pl.Trainer, module: pl.LightningModule, components: list[Component]):
        self.module, self.components = module, components
        self.optimizers: list[Any] = [getattr(each, "_optimizer", each) for each in trainer.optimizers]
        self.in_gradient = [each for each in components if overrides(each, "gradient")]
        self.finished = False
        self.share: Callable[[], float] | None = None
        self.loss: Tensor | None = None  # of the backward pass that was just run
        self._in_direction = [each for each in components if overrides(each, "direction")]
        self._after_update = [each for each in components if overrides(each, "updated")]
        self._in_evaluation = [each for each in components if overrides(each, "evaluating")]
        self._trainer = trainer
        self._oracle = ModuleOracle(trainer, module, self._trained_ids)
        self._progress = Progress(0, 0.0)
        self._batch: ModuleBatch | None = None
        self._stepped = 0  # of this batch
        self._step_before = 0  # Lightning's count before it
        self._evaluating: ExitStack | None = None
        self._trained: dict[str, Tensor] | None = None  # after training: what it ended with

    def attach(self) -> None:
        if self.optimizers:
            replace_rules(self.optimizers[0], self.components)
        if self._in_direction:
            self.optimizers[0].directing = self._direct

    def detach(self) -> None:
        if self._in_direction:
            self.optimizers[0].directing = None

    # An update

    def begin(self, update: int, batch: ModuleBatch) -> None:
        self._stepped, self._batch = 0, batch
        self._step_before = self._trainer.global_step
        if self._in_direction or self._after_update:
            self._progress = Progress(update, self.share()) if self.share else Endless(update)
        else:
            self._progress = Endless(update)

    def replace_gradient(self) -> int:
        """What is in `.grad` goes through the components. Returns the gradient evaluations that took."""
        loss, self.loss = self.loss, None
        self._stepped += 1
        if self._stepped > 1:
            raise InputError(
                f"{type(self.in_gradient[0]).__name__} changes the gradient, and {type(self.optimizers[0]).__name__} "
                "asks its closure for several in one update", "give another optimizer", place="wrappers",
            )  # fmt: skip
        oracle, before = self._oracle, self._oracle.gradients
        if loss is None:
            return 0  # training_step returned none: there is no gradient
        oracle.own = oracle.own_gradient(loss)
        grads = nested(self.in_gradient, oracle)(self._batch).grads
        oracle.own = None
        for name, parameter in oracle.named_parameters():
            parameter.grad = grads.get(name)
        return oracle.gradients - before

    def observe(self, optimizer: torch.optim.Optimizer) -> int:
        """Curvature for a step that wants it. Returns the gradient evaluations that took."""
        return self._oracle.observe(optimizer, self._batch)

    def has_stepped(self) -> bool:
        """Whether an optimizer has stepped in this batch."""
        return self._trainer.global_step > self._step_before

    def end(self, update: int | None) -> dict[str, Tensor]:
        """After a batch. update: the components' updates done; None where no optimizer stepped. Returns what the
        components have to say."""
        self._batch = None
        before, values = self._progress, dict[str, Tensor]()
        if self._after_update and update is not None:
            progress = Progress(update, before.fraction) if self.share else Endless(update)
            for component in self._after_update:
                values |= component.updated(self._oracle, progress)
        return values

    # Evaluation, and the end

    def enter(self) -> None:
        if self.finished or self._evaluating is not None:
            return
        self._evaluating = ExitStack()
        for optimizer in self.optimizers:
            if evaluates_apart(optimizer):
                self._evaluating.enter_context(optimizer.evaluating())
        for component in reversed(self._in_evaluation):  # outermost first: a mask has the last word on an average
            self._evaluating.enter_context(component.evaluating(self._oracle))

    def leave(self) -> None:
        if self._evaluating is not None:
            stack, self._evaluating = self._evaluating, None
            stack.close()

    def finalize(self) -> None:
        if not self._evaluates_apart and not any(overrides(each, "finalize") for each in self.components):
            self.finished = True
            return
        self._trained = _copied(self.module)
        self.enter()
        for component in reversed(self.components):
            component.finalize(self.module)
        kept = _copied(self.module)
        self.leave()
        _write(self.module, kept)
        self.finished = True

    def save(self, checkpoint: dict[str, Any]) -> None:
        """What a checkpoint needs so that it has both the trained weights and those that are evaluated."""
        if self.finished:
            checkpoint |= {WEIGHTS: {"trained": self._trained}} if self._trained is not None else {}
        elif self._evaluating is not None:  # saved during an evaluation
            evaluated = _copied(self.module)
            self.leave()
            trained = _copied(self.module)
            self.enter()
            checkpoint["state_dict"] = {**checkpoint["state_dict"], **_common(trained, checkpoint["state_dict"])}
            checkpoint[WEIGHTS] = {"evaluated": evaluated}
        elif self._evaluates_apart:
            self.enter()
            checkpoint[WEIGHTS] = {"evaluated": _copied(self.module)}
            self.leave()

    @property
    def _evaluates_apart(self) -> bool:
        return any(map(evaluates_apart, self.optimizers)) or any(each.replaces_weights for each in self.components)

    def _direct(
        self, params: Sequence[Tensor], grads: Sequence[Tensor], directions: Sequence[Tensor]
    ) -> Sequence[Tensor]:
        for component in self._in_direction:
            directions = component.direction(params, grads, directions, self._progress)
        return directions

    def _trained_ids(self) -> set[int]:
        return {
            id(param) for optimizer in self.optimizers for group in optimizer.param_groups for param in group["params"]
        }


def _callbacks(trainer: pl.Trainer) -> list[ComponentCallback]:
    return [each for each in trainer.callbacks if isinstance(each, ComponentCallback)]  # type: ignore[attr-defined]


def _live(module: nn.Module) -> dict[str, Tensor]:
    """Parameters, and the buffers that a checkpoint would hold, by all their names."""
    live: dict[str, Tensor] = dict(module.named_parameters(remove_duplicate=False))
    for path, part in module.named_modules(remove_duplicate=False):
        kept = dict(part.named_buffers(recurse=False, remove_duplicate=False))
        for name in kept.keys() - part._non_persistent_buffers_set:
            live[f"{path}.{name}" if path else name] = kept[name]
    return live


def _copied(module: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.detach().clone() for name, tensor in _live(module).items()}


@torch.no_grad()
def _write(module: nn.Module, values: dict[str, Tensor]) -> None:
    for name, tensor in _live(module).items():
        if name in values:
            tensor.copy_(values[name])


def _common(values: dict[str, Tensor], wanted: dict[str, Any]) -> dict[str, Tensor]:
    return {name: value for name, value in values.items() if name in wanted}
