"""TaskSpec: what a task is. A file `experiments/tasks/<domain>/<name>.py` holds one `TASK = TaskSpec(load=..., ...)`.

Everything but `load=` is literal, so that listing and checking a config import neither torch nor the data
(`experiments.tasks.catalogue` reads them with ast).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    import torch

    from algos.contracts import Signature
    from experiments.data.batch import Batch

Split = Literal["validation", "test"]


class BatchSource(Protocol):
    """The training batches: sized, endless, stateful, shuffled by (seed, epoch) alone.

    `next()` crosses epochs by itself; a batch counts as consumed when it was returned. The last batch of an epoch may
    be smaller. state_dict holds ints only and says exactly where the source stands; two sources with one seed and one
    state give the same batches bit for bit.
    """

    def __len__(self) -> int:
        """Batches an epoch."""
        ...

    def next(self) -> Batch: ...

    def state_dict(self) -> dict[str, int]: ...

    def load_state_dict(self, state: Mapping[str, int]) -> None: ...


class TaskData(Protocol):
    """A task's data, in memory. sizes: examples by split ("train", "validation", "test"). digest: sha256 over the
    tensors, in hex. baselines: named reference values of the task's metric that a model must beat (e.g. {"unigram":
    3.3})."""

    signature: Signature
    sizes: Mapping[str, int]
    digest: str
    baselines: Mapping[str, float]

    def training(self, batch_size: int, seed: int, device: torch.device) -> BatchSource: ...

    def evaluation(self, split: Split, device: torch.device) -> Iterable[Batch]:
        """The split's batches in a fixed order; re-iterable."""
        ...


@dataclass(frozen=True)
class TaskSpec:
    """What a task is.

    load(root): reads the data; root is $TRAINLAB_DATA or None; raises InputError naming file and where to get it when
        data are missing, truncated or corrupt.
    model, loss, optimizer, schedule: default entries, `{"name": ..., **hyper}`; an arm may replace each. Where an arm
        names the same entry, the hyperparameters given here are its defaults.
    metric: what is reported and selected on: "accuracy", "loss", "bits_per_character"; mode "max" or "min" is better.
    metrics: every validation metric computed, the metric included.
    worst: what a diverged run is worth to a tuner. target: the validation value to reach, target_source: where it is
    from. unit: an example's unit (images, tokens, nodes). budget: default, e.g. {"updates": 600}. batch_size: in
    sequences for text. evaluate_every: in updates. select: which weights are tested, "last" or "best" on validation.
    title, domain, cite, home: for people: domain is "cv", "nlp" or "gnn"; home says where the data come from.
    """

    load: Callable[[Path | None], TaskData]
    model: Mapping[str, Any]
    metric: str
    mode: Literal["max", "min"]
    worst: float
    target: float
    target_source: str
    unit: str
    budget: Mapping[str, float]
    batch_size: int
    evaluate_every: int
    loss: Mapping[str, Any] = field(default_factory=lambda: {"name": "cross_entropy"})
    optimizer: Mapping[str, Any] = field(default_factory=lambda: {"name": "adamw"})
    schedule: Mapping[str, Any] = field(default_factory=lambda: {"name": "constant"})
    metrics: tuple[str, ...] = ("loss",)
    select: Literal["last", "best"] = "last"
    cite: str = ""
    home: str = ""
    name: str = ""
    domain: str = ""
    title: str = ""
