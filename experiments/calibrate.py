"""Calibrate: whether a population pays here, and of what size. Real updates are timed, alone and together."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from algos.contracts import Progress
from experiments import checkpoint
from experiments.config import RunConfig
from experiments.populations import memory
from experiments.populations.eligibility import shape
from experiments.populations.stack import Stack
from experiments.populations.verification import doubt
from experiments.store.locks import Lock

#: What a population must gain to be chosen: times as many updates a second.
PAYS = 1.2
#: Seconds that timing takes at most, about: a larger size is tried only where it fits.
MOST_S = 1.0
#: Updates before the clock is read, and those that are timed, at most.
WARM, TIMED = 3, 24


@dataclass(frozen=True)
class Choice:
    """size: members of a population, 1 for none. gain: how many times as many updates a second, measured; None where
    nothing was. reason: in words."""

    size: int
    gain: float | None
    reason: str

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def of_json(cls, data: Mapping[str, Any]) -> Choice:
        return cls(int(data["size"]), None if data["gain"] is None else float(data["gain"]), str(data["reason"]))


def choose(configs: Sequence[RunConfig], *, most: int) -> Choice:
    """The size that trains runs of one shape fastest on this machine with these threads; powers of two up to `most`.
    configs: one or more of the shape."""
    if most < 2:
        return Choice(1, None, "there are no others to train with")
    if why := doubt(configs):
        return Choice(1, None, why)
    with checkpoint.preserved_random(), memory.kept():
        return _timed(configs, most)


def decided(path: Path, config: RunConfig, *, most: int, asked: str) -> Choice:
    """A study's choice for runs of this shape. path: its population.json, where the choice is read, or made and stored.
    asked: "off", "auto", or a number."""
    if asked == "off":
        return Choice(1, None, "population is off")
    if asked.isdigit():
        size = min(int(asked), most)
        why = "" if size < 2 else doubt([config])
        return Choice(1, None, why) if why else Choice(size, None, f"population={asked} was asked for")
    name = shape(config)
    if not name:
        return Choice(1, None, "runs like this one train alone")
    path.parent.mkdir(parents=True, exist_ok=True)
    with Lock(path.with_name(f"{path.name}.lock")).take(wait_s=60.0):
        stored: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {"schema": 1, "shapes": {}}
        if name not in stored["shapes"]:
            choice = choose([config], most=most)
            stored["shapes"][name] = {**choice.to_json(), "most": most, "threads": torch.get_num_threads()}
            temporary = path.with_name(f".{path.name}.{os.getpid()}")
            temporary.write_text(json.dumps(stored, indent=1))
            os.replace(temporary, path)
    choice = Choice.of_json(stored["shapes"][name])
    return Choice(min(choice.size, max(most, 1)), choice.gain, choice.reason)


def _timed(configs: Sequence[RunConfig], most: int) -> Choice:
    from experiments import training

    first = configs[0]
    parts, data = training.build(first)
    clock = _clock(parts.device)
    started = clock()
    alone_s = _seconds(lambda update: _update(parts, update), MOST_S / 4, clock)
    best = Choice(1, 1.0, f"alone: {1 / alone_s:.0f} updates a second")
    gains: list[float] = []
    for size in sizes(most):
        left_s = MOST_S - (clock() - started)
        if gains and 8 * size * alone_s / max(gains[-1], 1.0) > left_s:
            break
        members = [training.build(first.model_copy(update={"seed": (first.seed + i) % 2**32}))[0] for i in range(size)]
        stack = Stack(members, data)
        limit_s = max(left_s, 0.1) / 2
        together_s = _seconds(lambda update, stack=stack: _update(stack, update), limit_s, clock)  # type: ignore[misc]
        gains.append(size * alone_s / together_s)
        if gains[-1] > max(PAYS, best.gain or 1.0):
            best = Choice(size, round(gains[-1], 2), f"{gains[-1]:.1f} times as many updates a second as alone")
        elif len(gains) > 1:
            break
    if best.size == 1:
        return Choice(1, round(max(gains, default=1.0), 2), "together they are no faster")
    return best


def sizes(most: int) -> list[int]:
    """Those to try, smallest first.

    >>> sizes(32), sizes(5), sizes(2)
    ([8, 16, 32], [4], [2])
    """
    powers = [2**power for power in range(1, most.bit_length()) if 2**power <= most]
    return [size for size in powers if size >= 8] or powers[-1:]


def _update(parts: Any, update: int) -> None:
    parts.algorithm.step(parts.oracle, parts.source.next(), Progress(update, 0.5))


def _clock(device: torch.device) -> Callable[[], float]:
    """Seconds of this thread's own on the processor, where they tell all: other workers and programs are then not in
    the figures, which long updates would suffer from more than short ones."""
    alone = device.type == "cpu" and torch.get_num_threads() == 1
    return time.thread_time if alone else time.perf_counter


def _seconds(act: Callable[[int], None], limit_s: float, clock: Callable[[], float]) -> float:
    """Seconds an update takes where nothing disturbs it: the lower quartile of what fits into the limit."""
    taken: list[float] = []
    deadline = clock() + limit_s
    for update in range(WARM + TIMED):
        started = clock()
        act(update)
        ended = clock()
        if update >= WARM or ended > deadline:
            taken.append(ended - started)
        if ended > deadline:
            break
    return sorted(taken)[len(taken) // 4]
