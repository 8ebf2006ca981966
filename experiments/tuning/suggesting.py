"""Suggesting: from a space of ours to Optuna's parameters and back, and what the queue asks of a sampler and a pruner.

Optuna sees options by their labels only, so a value may be of any kind; a run's record has the value itself. An axis
that does not hold is no parameter of a trial.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Mapping
from typing import Any

import optuna

from experiments.tuning.objectives import directions as directions
from experiments.tuning.objectives import objectives as objectives
from experiments.tuning.pruning import judge_of as judge_of
from experiments.tuning.ranges import Dimension, Options
from experiments.tuning.spaces import Space, holds
from experiments.tuning.warm_start import warm_trials as warm_trials


def seed_of(seed: int, study_name: str, number: int) -> int:
    """A trial's own seed for its sampler, from the sweep's."""
    text = f"{seed}\x1f{study_name}\x1f{number}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")


class Afresh(optuna.trial.Trial):
    """A trial that is asked all of its parameters anew. Those that a killed worker stored before are not believed: a
    sampler that finds one draws the others with other random numbers."""

    def __init__(self, study: optuna.Study, trial_id: int):
        self._stale = set(study._storage.get_trial(trial_id).params)
        super().__init__(study, trial_id)

    def _get_latest_trial(self) -> optuna.trial.FrozenTrial:
        trial = copy.copy(super()._get_latest_trial())
        trial.params = {name: value for name, value in trial.params.items() if name not in self._stale}
        trial.distributions = {name: each for name, each in trial.distributions.items() if name not in self._stale}
        return trial

    def _suggest(self, name: str, distribution: optuna.distributions.BaseDistribution) -> Any:
        value = super()._suggest(name, distribution)
        self._stale.discard(name)
        return value


def suggested(trial: optuna.trial.Trial, space: Space) -> dict[str, Any]:
    """Ask the sampler, axis by axis, each that holds given those before it. Place -> value."""
    params: dict[str, Any] = {}
    chosen: dict[str, str | None] = {}
    for axis in space.axes:
        if holds(axis, chosen):
            found = _suggested(trial, space.name(axis), axis.dimension)
            if isinstance(axis.dimension, Options):
                chosen[axis.place] = found
                found = axis.dimension.value(found)
            params[axis.place] = found
    return params


def distributions(space: Space, params: Mapping[str, Any]) -> dict[str, optuna.distributions.BaseDistribution]:
    """What Optuna is to know of the axes that some parameters have, by its name of each."""
    return {space.name(axis): distribution(axis.dimension) for axis in space.active(params)}


def internal(space: Space, params: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters under Optuna's names, options by their labels."""
    found: dict[str, Any] = {}
    for axis in space.active(params):
        value = params[axis.place]
        found[space.name(axis)] = axis.dimension.find(value) if isinstance(axis.dimension, Options) else value
    return found


def stored(space: Space, params: Mapping[str, Any]) -> dict[str, tuple[float, optuna.distributions.BaseDistribution]]:
    """Parameters as a storage holds them: a number and the distribution, by Optuna's name."""
    of = distributions(space, params)
    return {name: (of[name].to_internal_repr(value), of[name]) for name, value in internal(space, params).items()}


def external(space: Space, params: Mapping[str, Any]) -> dict[str, Any]:
    """Optuna's parameters of a trial as ours: place -> value."""
    found: dict[str, Any] = {}
    for axis in space.axes:
        name = space.name(axis)
        if name in params:
            dimension = axis.dimension
            found[axis.place] = dimension.value(params[name]) if isinstance(dimension, Options) else params[name]
    return found


def distribution(dimension: Dimension) -> optuna.distributions.BaseDistribution:
    """A range or options as Optuna has them."""
    import optuna

    if isinstance(dimension, Options):
        return optuna.distributions.CategoricalDistribution(dimension.labels)
    if dimension.whole:
        return optuna.distributions.IntDistribution(int(dimension.low), int(dimension.high), log=dimension.log)
    return optuna.distributions.FloatDistribution(dimension.low, dimension.high, log=dimension.log)


def _suggested(trial: optuna.trial.Trial, name: str, dimension: Dimension) -> Any:
    if isinstance(dimension, Options):
        return trial.suggest_categorical(name, dimension.labels)
    if dimension.whole:
        return trial.suggest_int(name, int(dimension.low), int(dimension.high), log=dimension.log)
    return trial.suggest_float(name, dimension.low, dimension.high, log=dimension.log)
