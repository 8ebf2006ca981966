"""Compared: two runs of one config, point by point and weight by weight, and what they were made with. Torch is loaded
where weights are read."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from experiments.store.queries import flatten
from experiments.store.schema import RunFile, RunRecord
from experiments.store.sources import Series

if TYPE_CHECKING:
    from torch import Tensor

Ruling = Literal["identical", "within", "not"]
#: What of the provenance decides a result, by how its dotted key begins; the rest tells who and where.
_TOLD = (
    "commit", "dirty", "diff_sha256", "trainlab.", "packages.", "python", "platform", "machine", "device.",
    "environment.",
)  # fmt: skip
_NOT_TOLD = (
    "environment.TRAINLAB_HOME", "environment.SLURM_JOB_ID", "environment.SLURM_PROCID", "device.cores",
    "environment.PYTORCH_NVML_BASED_CUDA_CHECK",  # Lightning sets it when it is imported
)  # fmt: skip


@dataclass(frozen=True)
class Verdict:
    """ruling: "identical" bit for bit, "within" the tolerance, or "not". points, weights: how many numbers of each were
    compared. largest: the largest relative difference, and where it is; parted: the first update at which a point
    differs in any bit, None where none does. said: why it is not, where no number says it."""

    ruling: Ruling
    points: int
    weights: int
    largest: float = 0.0
    where: str = ""
    parted: int | None = None
    said: str = ""


@dataclass
class _Tally:
    points: int = 0
    weights: int = 0
    largest: float = 0.0
    where: str = ""
    parted: int | None = None
    same: bool = True

    def take(self, difference: float, where: str, update: int | None = None) -> None:
        if difference == 0:
            return
        self.same = False
        if difference > self.largest or math.isnan(difference):
            self.largest, self.where = difference, where
        if update is not None and (self.parted is None or update < self.parted):
            self.parted = update


def compare(
    one: tuple[RunRecord, Sequence[Series]], other: tuple[RunRecord, Sequence[Series]], tolerance: float,
    weights: tuple[Mapping[str, Tensor], Mapping[str, Tensor]] | None = None, until: int | None = None,
) -> Verdict:  # fmt: skip
    """until: the update that both were to get to, where that is not their end: then how they ended says nothing.
    weights: what both left at the same update."""
    tally, said = _Tally(), ""
    lacking = _points(one[1], other[1], tally, until)
    if until is None:
        _finals(one[0], other[0], tally)
        if one[0].status != other[0].status:
            said = f"it was {one[0].status}, and is {other[0].status} now"
    if lacking:
        metric, update = lacking
        said = said or f"{metric} at update {update} is in one of them only"
        tally.parted = update if tally.parted is None else min(tally.parted, update)
    for name, own, its in _tensors(*weights) if weights else ():
        tally.weights += own.numel()
        if own.shape != its.shape:
            said = said or f"the weight {name} has another shape"
        else:
            tally.take(_apart(own, its), f"weight {name}")
    within = not said and not math.isnan(tally.largest) and tally.largest <= tolerance
    ruling: Ruling = "identical" if tally.same and not said else "within" if within else "not"
    return Verdict(ruling, tally.points, tally.weights, tally.largest, tally.where, tally.parted, said)


def _points(one: Iterable[Series], other: Iterable[Series], tally: _Tally, until: int | None) -> tuple[str, int] | None:
    """Takes the points that both have; returns the first that only one has. Seconds are another each time."""
    ours, theirs = _table(one, until), _table(other, until)
    alone = []
    for metric in sorted(ours.keys() | theirs.keys()):
        left, right = ours.get(metric, {}), theirs.get(metric, {})
        for update in sorted(left.keys() & right.keys()):
            tally.points += 1
            tally.take(relative(left[update], right[update]), f"{metric} at update {update}", update)
        alone += [(update, metric) for update in left.keys() ^ right.keys()]
    return (min(alone)[1], min(alone)[0]) if alone else None


def _table(series: Iterable[Series], until: int | None) -> dict[str, dict[int, float]]:
    return {
        line.metric: {u: v for u, v in zip(line.updates, line.values, strict=True) if until is None or u <= until}
        for line in series
        if not line.metric.startswith(("time/", "test/", "objective"))
    }


def _finals(one: RunRecord, other: RunRecord, tally: _Tally) -> None:
    for metric in sorted(one.final.keys() & other.final.keys()):
        tally.points += 1
        tally.take(relative(one.final[metric], other.final[metric]), f"final {metric}")


def relative(one: float, other: float) -> float:
    """The difference in units of the larger of the two.

    >>> relative(2.0, 1.0), relative(0.0, 0.0)
    (0.5, 0.0)
    """
    return 0.0 if one == other else abs(one - other) / max(abs(one), abs(other))


def _tensors(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> Iterator[tuple[str, Tensor, Tensor]]:
    import torch

    for name in sorted(one.keys() | other.keys()):
        nothing = torch.zeros(0)
        yield name, one.get(name, nothing), other.get(name, nothing)


def _apart(one: Tensor, other: Tensor) -> float:
    """The largest difference of two tensors in units of the larger one's largest number; 0 only for the same bits."""
    import torch

    same = one.dtype == other.dtype and torch.equal(_bits(one), _bits(other))
    if same or not one.numel():
        return 0.0
    left, right = one.detach().cpu().double(), other.detach().cpu().double()
    difference = float((left - right).abs().max() / torch.maximum(left.abs().max(), right.abs().max()))
    return difference or 5e-324


def _bits(tensor: Tensor) -> Tensor:
    import torch

    return tensor.detach().cpu().contiguous().view(-1).view(torch.uint8)


def differences(then: RunFile, now: RunFile) -> list[str]:
    """What two runs of one config were made with that is not the same: code, packages, machine, data, form, files."""
    one, other = _made_with(then), _made_with(now)
    return [
        f"{key}: {_shown(one.get(key))} -> {_shown(other.get(key))}"
        for key in sorted(one.keys() | other.keys())
        if one.get(key) != other.get(key)
    ]


def _made_with(file: RunFile) -> dict[str, Any]:
    told = flatten(file.provenance)
    found = {key: value for key, value in told.items() if key.startswith(_TOLD) and key not in _NOT_TOLD}
    task = file.facts.get("task", {})
    found |= {"data digest": task.get("digest"), "form": file.facts.get("form")}
    for role in ("module", "data"):
        files = (task.get(role) or {}).get("files") or {}
        found |= {f"file {name}": sha256 for name, sha256 in files.items()}
    return found


def _shown(value: Any) -> str:
    text = "nothing" if value in (None, "") else str(value)
    return text if len(text) <= 24 or " " in text else f"{text[:12]}..."
