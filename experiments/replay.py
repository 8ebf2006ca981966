"""Replay: a run's stored config once more, as a new run, and what came of it beside what had.

The new run is nobody's seed: it belongs to no study, and no report counts it. One that was interrupted or pruned is
replayed up to where it got; a fork from its trunk's state; a member of a population in a population; a run of a user's
module from the files as they are now.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from algos.finding import InputError
from experiments import checkpoint, compared, fork, training
from experiments.checkpoint import Checkpoints
from experiments.company import company, is_member
from experiments.compared import Verdict
from experiments.config import RunConfig
from experiments.partway import Partway
from experiments.progress import Listener, silent
from experiments.stopping import Stop, StopNow
from experiments.store.home import Home, RunFolder
from experiments.store.provenance import diff
from experiments.store.schema import Labels, RunRecord
from experiments.tuned import tuned, untested
from experiments.weights import MODEL

if TYPE_CHECKING:
    from torch import Tensor

TOLERANCE = 1e-6
#: How far a member of a population is from the run alone: sums are taken in another order.
OF_POPULATIONS = 1e-5


@dataclass(frozen=True)
class Replayed:
    """then, now: the run and its replay. until: the update they are compared up to, None for their ends. differs: what
    they were made with that is not the same. notes: what bears on the verdict."""

    then: RunRecord
    now: RunRecord
    verdict: Verdict
    tolerance: float
    until: int | None
    differs: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def agrees(self) -> bool:
        return self.verdict.ruling != "not"

    def to_json(self) -> dict[str, Any]:
        return {
            "run": self.then.run_id, "replay": self.now.run_id, "verdict": self.verdict.ruling,
            "points": self.verdict.points, "weights": self.verdict.weights, "largest": self.verdict.largest,
            "where": self.verdict.where, "parted": self.verdict.parted, "said": self.verdict.said,
            "tolerance": self.tolerance, "until": self.until, "differs": list(self.differs), "notes": list(self.notes),
        }  # fmt: skip

    def lines(self) -> list[str]:
        """The answer in words, a line each."""
        to = "" if self.until is None else f", up to update {self.until}"
        made = [f"  {line}" for line in self.differs] or ["  nothing that is recorded"]
        return [
            f"{self.then.run_id} ({self.then.status}), replayed as {self.now.run_id}{to}",
            "what differs between then and now:", *made, *self.notes, f"verdict: {self._ruled()}",
        ]  # fmt: skip

    def _ruled(self) -> str:
        found = self.verdict
        weights = f"{found.weights:,} weights" if found.weights else "no weights that both left"
        what = f"{found.points:,} points and {weights}"
        if found.ruling == "identical":
            return f"identical, bit for bit ({what})"
        largest = f"largest relative difference {found.largest:.2g}, {found.where}" if found.where else found.said
        if found.ruling == "within":
            return f"within tolerance {self.tolerance:g}: {largest} ({what})"
        parted = "" if found.parted is None else f"they part at update {found.parted}; "
        said = f"; {found.said}" if found.said and found.where else ""
        return f"not the same: {parted}{largest}{said} ({what}, tolerance {self.tolerance:g})"


def replay(
    folder: RunFolder, home: Home, *, tolerance: float | None = None, listener: Listener = silent,
    stop: Stop | None = None,
) -> Replayed:  # fmt: skip
    """Runs the config of a run that is over, or stopped, again. tolerance: relative; None for the one that fits how
    the run was made. InputError where it cannot be run again; StopNow where it was asked to stop on the way."""
    then, stop = folder.record(), stop or Stop()
    check(then)
    config = RunConfig.from_json(then.config)
    until = _until(folder, then)
    partway = Partway(until, stop)
    if "fork" in then.file.facts:
        finished = _forked(folder, config, home, listener, partway)
    else:
        finished = _trained(then, config, home, listener, partway)
    if stop.requested:
        raise StopNow(stop.reason)
    if isinstance(finished.error, InputError):
        raise finished.error
    again = home.folder(finished.record.run_id)
    now = again.record()
    alone = is_member(then.file) and not is_member(now.file)
    notes = _notes(then, config, alone)
    allowed = tolerance if tolerance is not None else OF_POPULATIONS if alone else TOLERANCE
    verdict = compared.compare(
        (then, folder.series()), (now, again.series()), allowed, _weights(folder, again, until), until
    )
    missing = sorted(name for name in then.final.keys() - now.final.keys() if until is None)
    if missing and not verdict.said:
        verdict = replace(verdict, ruling="not", said=f"{missing[0]} was measured then, and is not now")
    differs = tuple(compared.differences(then.file, now.file))
    return Replayed(then, now, verdict, allowed, until, differs, tuple(notes))


def check(then: RunRecord) -> None:
    """InputError for a run that cannot be replayed, before anything runs."""
    if then.file.facts.get("recorded"):
        said = f"run {then.run_id} was recorded from a loop that is not trainlab's"
        raise InputError(said, "run that code again; it records a new run", rule="not-replayable")
    if then.status == "running":
        raise InputError(f"run {then.run_id} is still running", "wait for it, or stop it", rule="not-replayable")


def _until(folder: RunFolder, then: RunRecord) -> int | None:
    """Where the run got, if that is not an end of its own."""
    if then.status not in ("interrupted", "lost", "pruned"):
        return None
    stored = _state(folder)
    reached = [max(line.updates) for line in folder.series()] + [stored["update"] if stored else 0]
    if not max(reached):
        said = f"run {then.run_id} made no update before it was {then.status}"
        raise InputError(said, "there is nothing to replay", rule="not-replayable")
    return max(reached)


def _state(folder: RunFolder) -> dict[str, Any] | None:
    """What we keep in the run's newest checkpoint, with the weights under "model"."""
    trusted = RunConfig.from_json(folder.file.config).of_module
    state = Checkpoints(folder.checkpoints, folder.run_id).newest(trusted=trusted).state
    if state is None or not trusted:
        return state
    return {**state["trainlab"], "model": {k: v for k, v in state["state_dict"].items() if hasattr(v, "numel")}}


def _weights(
    one: RunFolder, other: RunFolder, until: int | None
) -> tuple[Mapping[str, Tensor], Mapping[str, Tensor]] | None:
    """What both left: the weights that were tested, or those of their checkpoints where these are of one update."""
    from safetensors.torch import load_file

    paths = [each.path / MODEL for each in (one, other)]
    if until is None:
        return (load_file(paths[0]), load_file(paths[1])) if all(path.exists() for path in paths) else None
    left, right = _state(one), _state(other)
    return (left["model"], right["model"]) if left and right and left["update"] == right["update"] else None


def _trained(then: RunRecord, config: RunConfig, home: Home, listener: Listener, stop: Stop) -> training.Finished:
    """A run once more from its start, in a population where it was a member of one."""
    labels, again = Labels(task=then.labels.task, seed=config.seed), f"replay of {then.run_id}"
    facts, _ = company(then.file, config)
    if not facts:
        return training.train(
            config, home=home, labels=labels, differs=again, parent=again, facts=tuned(then.file), listener=listener,
            stop=stop,
        )  # fmt: skip
    with checkpoint.preserved_random():
        name = training.run_name(config, labels, again)
        facts |= tuned(then.file)
        file = training.run_file(config, *training.build(config), labels=labels, name=name, parent=again, **facts)
    changes = diff()
    return training.resume(
        home.create(file, {"working.diff": changes} if changes else None), listener=listener, stop=stop
    )


def _forked(folder: RunFolder, config: RunConfig, home: Home, listener: Listener, stop: Stop) -> training.Finished:
    """A fork once more, from its trunk's state; it carries over what it did."""
    told = folder.file.facts["fork"]
    point = fork.find(home, f"{told['trunk']}@{told['update']}")
    (prepared,) = fork.prepare(point, [(config, "")], before=folder.file, listener=listener, stop=stop)
    again = f"replay of {folder.run_id}"
    return fork.begin(prepared, home, parent=again, name=again, listener=listener, stop=stop)


def _notes(then: RunRecord, config: RunConfig, alone: bool) -> list[str]:
    """alone: whether a member of a population was replayed outside one."""
    notes = []
    if alone:
        notes.append(
            "it was trained in a population, as which its config cannot train now: replayed alone, whose sums are "
            f"taken in another order, so equal within {OF_POPULATIONS:g} at first and not bit for bit"
        )
    if said := untested(then.file):
        notes.append(f"{said}, as it was not then")
    if config.budget.unit == "seconds":
        notes.append("its budget is in seconds, so where it ends, and its schedule, hang on the clock")
    if not math.isclose(then.attempts, 1):
        notes.append(f"it was made in {then.attempts} attempts")
    return notes
