"""Eligibility: which runs may train together.

What a config says decides most of it; whether the forward pass draws random numbers, and whether the optimizer has a
form for populations, shows on a built run. `verification` then compares real updates.
"""

from __future__ import annotations

import functools
import json

import torch

from algos import catalogue
from algos.per_tensor import PerTensorOptimizer
from experiments import checkpoint
from experiments.config import RunConfig

#: Wrappers that treat each number alone, whoever's it is.
WRAPPERS = ("ema", "lawa", "lookahead", "swa")
#: What an optimizer may ask for; a population has no closure and no curvature.
NEEDS = ("names", "phase", "shared")


def shape(config: RunConfig) -> str:
    """Runs of equal shapes may train together; "" for one that never may. Equal but for the seed and for real
    hyperparameters of the optimizer; one that is none, or zero, is so for all (decay decides how weights are
    grouped)."""
    key = _key(config)
    return key if key and _fits(key, _Hidden(config)) else ""


@functools.lru_cache(maxsize=4096)
def _key(config: RunConfig) -> str:
    if not _may(config):
        return ""
    plain = config.to_json()
    del plain["seed"]
    declared = catalogue.describe("optimizers", config.optimizer.name).hyper
    for name, value in plain["optimizer"].items():
        if name in declared and declared[name].kind in ("real", "pair") and value is not None:
            plain["optimizer"][name] = "zero" if value == 0 else "number"
    return json.dumps(plain, sort_keys=True)


def _may(config: RunConfig) -> bool:
    """Whether a config alone rules it out. A budget in seconds would be another for each size of the population."""
    return (
        not config.of_module
        and config.budget.unit != "seconds"
        and config.accumulate == 1
        and config.precision.name == "fp32"
        and not config.compression
        and all(entry.name in WRAPPERS for entry in config.wrappers)
        and not config.trainer
        and config.form in ("auto", "stacked")
        and set(catalogue.describe("optimizers", config.optimizer.name).needs) <= set(NEEDS)
    )


class _Hidden:
    """A config that a cache does not look at."""

    def __init__(self, config: RunConfig):
        self.config = config

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Hidden)

    def __hash__(self) -> int:
        return 0


@functools.lru_cache(maxsize=256)
def _fits(key: str, hidden: _Hidden) -> bool:
    """Whether a built run can be a member: an optimizer of ours, and no randomness in the forward pass."""
    from experiments import training

    with checkpoint.preserved_random():
        try:
            parts, _ = training.build(hidden.config)
        except Exception:
            return False  # its own training says why
        if not isinstance(getattr(parts.algorithm, "optimizer", None), PerTensorOptimizer):
            return False
        state = parts.source.state_dict()
        before = _random(parts.device)
        with torch.no_grad():
            parts.oracle.loss(parts.source.next())
        parts.source.load_state_dict(state)
        return all(map(torch.equal, before, _random(parts.device)))


def _random(device: torch.device) -> list[torch.Tensor]:
    states = checkpoint.random_states()
    _, keys, position, *_ = states["numpy"]
    return [states["torch"], *states["cuda"], keys, torch.tensor([position]), torch.tensor(states["python"][1])]
