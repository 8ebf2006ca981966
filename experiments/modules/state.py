"""State: what a run of a user's module must keep beside what Lightning's own checkpoints hold, to go on as if never
stopped.

Lightning keeps weights, persistent buffers, optimizers, schedulers, loops and what callbacks say in `state_dict`. It
loses attributes (a counter, an average, a generator, torchmetrics' sums), which layers are frozen or evaluating, what
was logged so far in the epoch, gradients that wait, and what others changed on the Trainer. All of that is pickled here
as one graph, in which what a new process makes itself (modules, parameters, optimizers, the Trainer) stands as a name,
so that references stay references.
"""

from __future__ import annotations

import functools
import io
import pickle
import types
from collections.abc import Iterator, Mapping
from typing import Any

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import StochasticWeightAveraging
from lightning.pytorch.utilities.model_helpers import is_overridden
from torch import Tensor, nn
from torch.utils.data import Dataset

Found = dict[str, dict[str, Any]]
#: Attributes that torch and Lightning make and keep themselves.
_INNER = frozenset([*vars(pl.LightningModule()), *vars(pl.LightningDataModule()), "_trainer", "trainer"]) - {"training"}
_INNER |= {"_hparams_initial", "_hparams_name", "_log_hyperparams"}
#: What changes nothing by itself.
_CODE = (types.FunctionType, types.MethodType, types.BuiltinFunctionType, types.ModuleType, type, functools.partial)
#: Of data, only what is small is kept: a counter, a generator, an order; never the data themselves.
_SMALL = 10_000
#: Lightning itself goes on with these in mid-epoch as if their epoch had not begun.
_NOT_RESUMED = (StochasticWeightAveraging,)


def take(trainer: pl.Trainer) -> dict[str, Any]:
    """Everything that Lightning would lose, as it is now; and the names of what cannot be kept."""
    module, connector = trainer.lightning_module, trainer._logger_connector
    found: Found = {name: dict(_attributes(owner)) for name, owner in _owners(trainer)}
    found["the epoch's metrics"] = {"results": dict(trainer.fit_loop.epoch_loop._results)}
    found["the last metrics"] = {name: getattr(connector, name) for name in _METRICS}
    graph, lost = _pickled(_Live(trainer), found)
    waits = not module.automatic_optimization or any(map(functools.partial(_changed, module), _STEPPING))
    return {
        "graph": graph,
        "lost": sorted([*lost, *_not_resumed(trainer)]),
        "trained": {name: parameter.requires_grad for name, parameter in module.named_parameters()},
        "gradients": _gradients(module) if waits else {},
        "buffers": dict(_passing_buffers(module)),
        "accumulate_grad_batches": trainer.accumulate_grad_batches,
        "reloaded": trainer.fit_loop._last_train_dl_reload_epoch,
        "batches_that_stepped": trainer.fit_loop.epoch_loop._batches_that_stepped,
        "schedulers": [config.scheduler.state_dict() for config in trainer.lr_scheduler_configs],
        "rates": [[group["lr"] for group in optimizer.param_groups] for optimizer in trainer.optimizers],
    }


def give_metrics(trainer: pl.Trainer, state: Mapping[str, Any]) -> None:
    """Puts back what was logged last: schedulers and early stopping look at it before the first batch."""
    for name, value in _graph(trainer, state)["the last metrics"].items():
        setattr(trainer._logger_connector, name, value)


def give(trainer: pl.Trainer, state: Mapping[str, Any], mid_epoch: bool) -> None:
    """Puts back what `take` took, at the start of the first batch after a resume."""
    module, found = trainer.lightning_module, _graph(trainer, state)
    for name, owner in _owners(trainer):
        vars(owner).update(found.get(name, {}))
    parameters = dict(module.named_parameters())
    for name, trained in state["trained"].items():
        parameters[name].requires_grad_(trained)
    for name, gradient in state["gradients"].items():
        parameters[name].grad = gradient.to(parameters[name].device)
    for name, buffer in _passing_buffers(module):
        if name in state["buffers"]:
            buffer.copy_(state["buffers"][name])
    trainer.accumulate_grad_batches = state["accumulate_grad_batches"]
    loop = trainer.fit_loop
    loop._last_train_dl_reload_epoch = state["reloaded"]
    loop._restarting = False  # it would leave schedulers that wait for a metric unstepped at this epoch's end
    loop.epoch_loop._batches_that_stepped = state["batches_that_stepped"]
    _give_rates(trainer, state)
    give_metrics(trainer, state)
    loop.epoch_loop._results.update(found["the epoch's metrics"].get("results", {}))
    if mid_epoch:
        trainer._logger_connector._first_loop_iter = False  # this is not the epoch's first batch


_METRICS = ("_callback_metrics", "_logged_metrics", "_progress_bar_metrics")
#: With these a module of automatic optimization may keep gradients between two batches.
_STEPPING = ("optimizer_zero_grad", "optimizer_step")


def _changed(module: pl.LightningModule, method: str) -> bool:
    return bool(is_overridden(method, module))


def _give_rates(trainer: pl.Trainer, state: Mapping[str, Any]) -> None:
    """Lightning steps schedulers once more on its way to the first batch."""
    for config, scheduler in zip(trainer.lr_scheduler_configs, state["schedulers"], strict=False):
        config.scheduler.load_state_dict(scheduler)
    for optimizer, rates in zip(trainer.optimizers, state["rates"], strict=False):
        for group, rate in zip(optimizer.param_groups, rates, strict=False):
            group["lr"] = rate


def _owners(trainer: pl.Trainer) -> Iterator[tuple[str, object]]:
    """Whose attributes are kept, by name: every module, the data, and callbacks that do not keep their own state."""
    module = trainer.lightning_module
    for name, inner in module.named_modules():
        yield f"{type(module).__name__}{f'.{name}' if name else ''}", inner
    data = getattr(trainer, "datamodule", None)
    if data is not None:
        yield f"{type(data).__name__} (data)", data
    for index, dataset in enumerate(_datasets(trainer)):
        yield f"{type(dataset).__name__} (dataset {index})", dataset
    for index, callback in enumerate(_callbacks(trainer)):
        kind = type(callback)
        silent = kind.state_dict is pl.Callback.state_dict and kind.on_save_checkpoint is pl.Callback.on_save_checkpoint
        if silent and not kind.__module__.startswith("experiments."):
            yield f"{kind.__name__} (callback {index})", callback


def _callbacks(trainer: pl.Trainer) -> list[pl.Callback]:
    callbacks: list[pl.Callback] = trainer.callbacks  # type: ignore[attr-defined]
    return callbacks


def _datasets(trainer: pl.Trainer) -> list[Any]:
    """The training and validation datasets that this process itself reads, and those inside them."""
    loaders: list[Any] = []
    for combined in (trainer.fit_loop._combined_loader, trainer.fit_loop.epoch_loop.val_loop._combined_loader):
        loaders += combined.flattened if combined is not None else []
    found: list[Any] = []
    for loader in loaders:
        dataset = getattr(loader, "dataset", None) if not getattr(loader, "num_workers", 0) else None
        while isinstance(dataset, Dataset) and not any(dataset is each for each in found):
            found.append(dataset)
            dataset = getattr(dataset, "dataset", None)
    return found


def _attributes(owner: object) -> Iterator[tuple[str, Any]]:
    of_data = isinstance(owner, (Dataset, pl.LightningDataModule))
    for attribute, value in vars(owner).items():
        if attribute in _INNER or isinstance(value, _CODE):
            continue
        if not of_data or _is_small(value):
            yield attribute, value


def _is_small(value: Any) -> bool:
    if isinstance(value, (Dataset, nn.Module)):
        return False
    size = getattr(value, "numel", None) or getattr(value, "__len__", None)
    if isinstance(value, (str, bytes)) or size is None:
        return True
    try:
        return int(size()) <= _SMALL
    except TypeError:
        return int(getattr(value, "size", 0)) <= _SMALL


def _passing_buffers(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Buffers that a state_dict leaves out."""
    for path, inner in module.named_modules():
        for name in inner._non_persistent_buffers_set:
            buffer = inner._buffers.get(name)
            if buffer is not None:
                yield f"{path}.{name}", buffer


def _gradients(module: nn.Module) -> dict[str, Tensor]:
    return {name: p.grad for name, p in module.named_parameters() if p.grad is not None}


def _not_resumed(trainer: pl.Trainer) -> list[str]:
    return [type(callback).__name__ for callback in _callbacks(trainer) if isinstance(callback, _NOT_RESUMED)]


# The graph


class _Live:
    """What every process makes itself, by name."""

    def __init__(self, trainer: pl.Trainer):
        module = trainer.lightning_module
        self.named: dict[str, Any] = {"trainer": trainer, "strategy": trainer.strategy}
        for kind, found in (
            ("module", module.named_modules()), ("parameter", module.named_parameters()),
            ("buffer", module.named_buffers()), ("optimizer", enumerate(trainer.optimizers)),
            ("scheduler", enumerate(config.scheduler for config in trainer.lr_scheduler_configs)),
            ("callback", enumerate(_callbacks(trainer))), ("logger", enumerate(trainer.loggers)),
            ("dataset", enumerate(_datasets(trainer))), ("data", [(0, getattr(trainer, "datamodule", None))]),
        ):  # fmt: skip
            self.named |= {f"{kind} {name}": value for name, value in found if value is not None}
        self.names = {id(value): name for name, value in self.named.items()}


class _Pickler(pickle.Pickler):
    def __init__(self, file: io.BytesIO, live: _Live):
        super().__init__(file, protocol=pickle.HIGHEST_PROTOCOL)
        self._names = live.names

    def persistent_id(self, value: Any) -> str | None:
        return self._names.get(id(value))


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, live: _Live):
        super().__init__(file)
        self._named = live.named

    def persistent_load(self, name: str) -> Any:
        return self._named[name]


def _pickled(live: _Live, found: Found) -> tuple[bytes, list[str]]:
    """The graph, without the attributes that cannot be in it; and their names."""
    try:
        return _bytes(live, found), []
    except Exception:
        lost = [(name, key) for name, inner in found.items() for key, value in inner.items() if not _can(live, value)]
    for name, key in lost:
        del found[name][key]
    return _bytes(live, found), [f"{name.partition(' (')[0]}.{key}" for name, key in lost]


def _can(live: _Live, value: Any) -> bool:
    try:
        _bytes(live, value)
    except Exception:
        return False
    return True


def _bytes(live: _Live, value: Any) -> bytes:
    file = io.BytesIO()
    _Pickler(file, live).dump(value)
    return file.getvalue()


def _graph(trainer: pl.Trainer, state: Mapping[str, Any]) -> Found:
    found: Found = _Unpickler(io.BytesIO(state["graph"]), _Live(trainer)).load()
    return found


def random_generators(loaders: Any) -> list[torch.Generator]:
    """The generators that loaders and their samplers own, each once."""
    found: dict[int, torch.Generator] = {}
    for loader in loaders:
        owners = [loader, getattr(loader, "sampler", None), getattr(loader, "batch_sampler", None)]
        owners.append(getattr(owners[2], "sampler", None))
        for owner in owners:
            generator = getattr(owner, "generator", None)
            if isinstance(generator, torch.Generator):
                found.setdefault(id(generator), generator)
    return list(found.values())
