"""State: what a run of a user's module must keep beside what Lightning's own checkpoints hold, to go on as if never
stopped.

Lightning keeps weights, buffers, optimizers, schedulers, loops and what callbacks say in `state_dict`. It does not
keep attributes (a counter, a moving average in a dict), torchmetrics' sums, the sums behind what is logged once an
epoch, or gradients that wait under manual optimization. These are kept here, where they are plain data.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Iterator, Mapping
from typing import Any

import lightning.pytorch as pl
import torch
from torch import Tensor, nn

_ATOMS = (int, float, complex, str, bytes, bool, type(None), torch.Size, torch.dtype, torch.device)
_BOXES = (dict, list, tuple, set, frozenset, OrderedDict, defaultdict, deque, Counter)
#: Attributes of Lightning and torch that are theirs to keep.
_INNER = frozenset(
    name
    for owner in (pl.LightningModule(), pl.LightningDataModule())
    for name in [*vars(owner), "_trainer", "trainer", "_hparams", "_hparams_initial"]
)


def take(trainer: pl.Trainer) -> dict[str, Any]:
    """Everything that Lightning would lose, as it is now."""
    module = trainer.lightning_module
    return {
        "attributes": {name: plain_attributes(owner) for name, owner in _owners(trainer)},
        "metrics": {name: _metric_state(metric) for name, metric in _metrics(module)},
        "epoch_sums": _epoch_sums(trainer),
        "gradients": {} if module.automatic_optimization else _gradients(module),
    }


def give(trainer: pl.Trainer, state: Mapping[str, Any]) -> None:
    """Puts back what `take` took, but for the epoch's sums (see `EpochSums`)."""
    for name, owner in _owners(trainer):
        for attribute, value in state["attributes"].get(name, {}).items():
            vars(owner)[attribute] = value
    for name, metric in _metrics(trainer.lightning_module):
        if name in state["metrics"]:
            _give_metric(metric, state["metrics"][name])
    parameters = dict(trainer.lightning_module.named_parameters())
    for name, gradient in state["gradients"].items():
        parameters[name].grad = gradient.to(parameters[name].device)


def lost(trainer: pl.Trainer, before: Mapping[str, Mapping[str, int]]) -> list[str]:
    """Attributes that have changed since `identities` was asked and cannot be kept: "EMACallback.shadow"."""
    now = identities(trainer)
    return sorted(
        f"{owner.partition(' ')[0]}.{attribute}"
        for owner, attributes in now.items()
        for attribute, identity in attributes.items()
        if before.get(owner, {}).get(attribute) != identity
    )


def identities(trainer: pl.Trainer) -> dict[str, dict[str, int]]:
    """The attributes that cannot be kept, and which objects they are now."""
    return {
        name: {
            attribute: id(value)
            for attribute, value in _own(owner)
            if not _is_plain(value) and not isinstance(value, (nn.Module, pl.Trainer))
        }
        for name, owner in _owners(trainer)
    }


def plain_attributes(owner: object) -> dict[str, Any]:
    """The attributes of a user's object that are plain data: numbers, text, tensors, and boxes of them."""
    return {attribute: value for attribute, value in _own(owner) if _is_plain(value)}


class EpochSums:
    """What has been logged so far in an epoch that was interrupted: added to what is logged in the rest of it."""

    def __init__(self, sums: Mapping[str, Mapping[str, Any]]):
        self._left = dict(sums)

    def add(self, trainer: pl.Trainer) -> None:
        """After each batch, until all are added; what is not logged in the rest of the epoch is dropped with it."""
        results = trainer.fit_loop.epoch_loop._results
        for key in [key for key in self._left if key in results]:
            _merge(results[key], self._left.pop(key))

    def __bool__(self) -> bool:
        return bool(self._left)


def _owners(trainer: pl.Trainer) -> Iterator[tuple[str, object]]:
    """Whose attributes are kept: the module, the data, and callbacks that do not keep their own state."""
    yield type(trainer.lightning_module).__name__, trainer.lightning_module
    data = getattr(trainer, "datamodule", None)
    if data is not None:
        yield f"{type(data).__name__} data", data
    for index, callback in enumerate(trainer.callbacks):  # type: ignore[attr-defined]
        kind = type(callback)
        theirs = not kind.__module__.startswith(("lightning.", "pytorch_lightning.", "experiments."))
        silent = kind.state_dict is pl.Callback.state_dict and kind.on_save_checkpoint is pl.Callback.on_save_checkpoint
        if theirs and silent:
            yield f"{kind.__name__} {index}", callback


def _own(owner: object) -> Iterator[tuple[str, Any]]:
    for attribute, value in vars(owner).items():
        if attribute not in _INNER and not callable(value):
            yield attribute, value


def _is_plain(value: Any, depth: int = 0) -> bool:
    if isinstance(value, _ATOMS):
        return True
    if isinstance(value, Tensor):
        return not isinstance(value, nn.Parameter)
    if type(value) not in _BOXES or depth > 6:
        return False
    inside = [*value.keys(), *value.values()] if isinstance(value, dict) else value
    return all(_is_plain(part, depth + 1) for part in inside)


def _metrics(module: nn.Module) -> Iterator[tuple[str, Any]]:
    from torchmetrics import Metric

    for name, inner in module.named_modules():
        if isinstance(inner, Metric):
            yield name, inner


def _metric_state(metric: Any) -> dict[str, Any]:
    return {
        "values": {name: getattr(metric, name) for name in metric._defaults},
        "count": metric._update_count,
    }


def _give_metric(metric: Any, state: Mapping[str, Any]) -> None:
    for name, value in state["values"].items():
        setattr(metric, name, value)
    metric._update_count, metric._computed = state["count"], None


def _gradients(module: nn.Module) -> dict[str, Tensor]:
    return {name: p.grad for name, p in module.named_parameters() if p.grad is not None}


def _epoch_sums(trainer: pl.Trainer) -> dict[str, dict[str, Any]]:
    """By key: what a value that is logged once an epoch has added up to so far. torchmetrics' are kept with them."""
    loop = trainer.fit_loop.epoch_loop
    if loop.batch_progress.current.completed == 0:
        return {}
    return {
        key: {"value": result.value, "size": getattr(result, "cumulated_batch_size", 0), "count": result._update_count}
        for key, result in loop._results.items()
        if result.is_tensor and result.meta.on_epoch
    }


def _merge(result: Any, earlier: Mapping[str, Any]) -> None:
    if not result.is_tensor:
        return
    meta = result.meta
    before = earlier["value"].to(result.value.device)
    if meta.is_max_reduction:
        result.value = torch.maximum(before, result.value)
    elif meta.is_min_reduction:
        result.value = torch.minimum(before, result.value)
    else:
        result.value = before + result.value
    if meta.is_mean_reduction:
        result.cumulated_batch_size = earlier["size"] + result.cumulated_batch_size
    result._update_count += earlier["count"]
    result._computed = None
