"""Verification: whether a population of a shape computes what lone runs compute. Two real updates and an evaluation,
alone, two together and three together, on copies: alone they agree to rounding, together bit for bit."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from algos.contracts import Progress
from algos.gradient_descent import GradientDescent
from experiments import checkpoint
from experiments.config import RunConfig
from experiments.data.batch import Batch
from experiments.loop import Parts
from experiments.populations.eligibility import shape
from experiments.populations.stack import Stack
from experiments.task import TaskData
from experiments.tasks.metrics import evaluate_batch

#: How far a member may be from the lone run, relative to a tensor's norm.
AGREEMENT = 1e-5
UPDATES = 2
#: ... and where a rule does some work every so many steps, two beyond the first time, at most this many.
MOST_UPDATES = 14
#: ... or to how far it moved: where entries of a gradient nearly cancel, an optimizer that divides by their size makes
#: much of their rounding.
OF_MOVEMENT = 1e-3
#: Targets of the validation split that are looked at, about.
TARGETS = 1024
#: A tensor whose numbers are smaller is compared as if they were this.
SMALL = 1e-3
#: A gradient so small beside the model's largest is rounding: an optimizer that divides by its size makes any step of
#: it (attention's key biases have a gradient of zero).
NOISE = 1e-5
#: Shape -> what is wrong with a population of it; "" where nothing.
_known: dict[tuple[str, int], str] = {}


def verified(configs: Sequence[RunConfig]) -> bool:
    """Whether runs of one shape may be trained together. Found out once a process."""
    return not doubt(configs)


def doubt(configs: Sequence[RunConfig]) -> str:
    """What speaks against training runs of one shape together, in words; "" where nothing does."""
    name = shape(configs[0])
    if not name:
        return "runs like this one train alone"
    key = (name, torch.get_num_threads())
    if key not in _known:
        with checkpoint.preserved_random(), warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            try:
                _known[key] = _difference(configs)
            except Exception as error:
                _known[key] = f"together they fail: {type(error).__name__}: {' '.join(str(error).split())[:200]}"
        if any("batching rule" in str(each.message) for each in said):
            _known[key] = _known[key] or "torch.vmap takes an operation of it one by one"
    return _known[key]


def three(configs: Sequence[RunConfig]) -> list[RunConfig]:
    """Three of a shape, of seeds of their own."""
    given = list(configs[:3])
    return given + [given[0].model_copy(update={"seed": given[0].seed + 1 + len(given)})] * (3 - len(given))


def _difference(configs: Sequence[RunConfig]) -> str:
    from experiments import training

    members = three(configs)
    alone = [_alone(*training.build(config)) for config in members]
    threefold = _together(*_built(members))
    twofold = _together(*_built(members[:2]))
    for two, three_ in zip(twofold, threefold, strict=False):
        if not all(torch.equal(two[name], three_[name]) for name in two):
            return "members would round otherwise in other company"
    shaken = _alone(*_shaken(members[0])).found
    for own, member in zip([*alone, alone[0]], [*threefold, shaken], strict=True):
        for name, tensor in own.found.items():
            apart = (member[name].double() - tensor.double()).abs()
            apart = apart.masked_fill(own.noise[name], 0) if name in own.noise else apart
            size = max(float(tensor.double().norm()), SMALL * tensor.numel() ** 0.5)
            if not float(apart.norm()) <= max(AGREEMENT * size, OF_MOVEMENT * own.moved.get(name, 0.0)):
                what = "other rounding" if member is shaken else "a member"
                return f"{what} is {float(apart.norm()) / size:.1e} from the run alone in {name}"
    return ""


def _shaken(config: RunConfig) -> tuple[Parts, TaskData]:
    """The run with every weight rounded otherwise: what makes much of that may agree by chance today, and not later."""
    from experiments import training

    parts, data = training.build(config)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for param in parts.oracle.model.parameters():
            signs = torch.randint(0, 2, param.shape, generator=generator).mul_(2).sub_(1).to(param)
            param.mul_(1 + signs * torch.finfo(param.dtype).eps)
    return parts, data


def _built(configs: Sequence[RunConfig]) -> tuple[list[Parts], TaskData]:
    from experiments import training

    built = [training.build(config) for config in configs]
    return [parts for parts, _ in built], built[0][1]


@dataclass(frozen=True)
class _Alone:
    """What a lone run comes to, by name. moved: how far each weight went. noise: where it followed only rounding."""

    found: dict[str, Tensor]
    moved: dict[str, float]
    noise: dict[str, Tensor]


def _alone(parts: Parts, data: TaskData) -> _Alone:
    named = dict(parts.oracle.named_parameters())
    start = {name: param.detach().clone() for name, param in named.items()}
    losses: list[Tensor] = []
    largest = {name: torch.zeros_like(param, requires_grad=False) for name, param in named.items()}
    for update in range(_updates(parts)):
        losses.append(_step(parts.algorithm, parts.oracle, parts.source.next(), update))
        for name, param in named.items():
            if param.grad is not None:
                torch.maximum(largest[name], param.grad.abs(), out=largest[name])
    most = max(float(tensor.max()) for tensor in largest.values())
    batch = _evaluated(data, parts.device)
    with parts.evaluator.at_evaluation_weights(parts.algorithm):
        found = evaluate_batch(parts.task.metrics, parts.oracle.predict(batch), batch.targets)
    weights = {name: tensor.detach().clone() for name, tensor in parts.oracle.model.state_dict().items()}
    metrics = _metrics({name: total for name, (total, _) in found.items()})
    return _Alone(
        {"the losses": torch.stack(losses), **metrics, **weights},
        {name: float((param.detach() - start[name]).norm()) for name, param in named.items()},
        {name: tensor <= NOISE * most for name, tensor in largest.items()},
    )


def _evaluated(data: TaskData, device: torch.device) -> Batch:
    """The beginning of the validation split."""
    batch = next(iter(data.evaluation("validation", device)))
    return next(batch.split(max(1, batch.targets.numel() // TARGETS)))


def _together(parts: Sequence[Parts], data: TaskData) -> list[dict[str, Tensor]]:
    stack = Stack(parts, data)
    losses = [_step(stack.algorithm, stack.oracle, stack.source.next(), update) for update in range(_updates(parts[0]))]
    batch = _evaluated(data, parts[0].device)
    with stack.evaluator.at_evaluation_weights(stack.algorithm), torch.no_grad():
        totals = stack.evaluator.totals(batch)
    return [
        {
            "the losses": torch.stack(losses)[:, index],
            **_metrics({name: total[index] for name, total in totals.items()}),
            **stack.model.weights(index),
        }
        for index in range(stack.model.size)
    ]


def _updates(parts: Parts) -> int:
    """How many are compared."""
    optimizer = parts.algorithm.optimizer  # type: ignore[attr-defined]
    every = max((int(group.get(optimizer.period, 0)) for group in optimizer.param_groups), default=0)
    return min(UPDATES + every, MOST_UPDATES)


def _step(algorithm: Any, oracle: Any, batch: Any, update: int) -> Tensor:
    assert isinstance(algorithm, GradientDescent)
    return algorithm.step(oracle, batch, Progress(update, 0.5))["loss"].detach()


def _metrics(totals: dict[str, Tensor]) -> dict[str, Tensor]:
    return {f"the validation {name}": total for name, total in totals.items()}
