"""Fork: a new run from the full state that another, its trunk, had after an update.

The trunk's state is read where a checkpoint of it stands at that update; else its own config is computed up to there
again from the nearest checkpoint before, in a folder that is thrown away, which on the CPU gives the same bits. What of
it goes on under the fork's config is in `experiments.carried`. It becomes the fork's first checkpoint, from which the
fork is resumed as any run is, a population's member as one. A fork holds the points after that update only; what it
shares with its trunk is in facts["fork"], so that it is counted once.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from algos.finding import InputError
from experiments import checkpoint, training
from experiments.carried import Carried, carried
from experiments.checkpoint import LAST, PREVIOUS, Checkpoints
from experiments.company import company, is_member
from experiments.config import RunConfig, resolve
from experiments.partway import Partway
from experiments.progress import Event, Listener, RunNotice, RunStarted, silent
from experiments.stopping import Stop, StopNow
from experiments.store.home import Home, RunFolder
from experiments.store.provenance import diff
from experiments.store.schema import Labels, RunFile
from experiments.tuned import tuned, untested

State = dict[str, Any]


@dataclass(frozen=True)
class Point:
    """Where a fork begins. update: None for the newest checkpoint."""

    trunk: RunFolder
    update: int | None

    @property
    def config(self) -> RunConfig:
        return RunConfig.from_json(self.trunk.file.config)

    def changed(self, layer: Mapping[str, Any]) -> RunConfig:
        """The trunk's config with overrides on top, resolved as those of any run. InputError for another task."""
        if layer.get("task", self.config.task) != self.config.task:
            said = f"a fork goes on with its trunk's task, {self.config.task}, not with {layer['task']}"
            raise InputError(said, "start a new run", rule="fork-task", place="task")
        return resolve({key: value for key, value in self.trunk.file.config.items() if key != "schema"}, layer)


@dataclass(frozen=True)
class Prepared:
    """A fork that can begin: its first state and what it says of itself. company: the facts of a population's member,
    {} where it trains alone."""

    point: Point
    config: RunConfig
    first: Carried
    name: str
    notes: tuple[str, ...] = ()
    company: Mapping[str, Any] = field(default_factory=dict)


def find(home: Home, text: str) -> Point:
    """The point that RUN@UPDATE or RUN@last names; RUN is an id, the start of one, or a name."""
    from experiments.store import queries
    from experiments.store.sources.home import HomeSource

    name, _, place = text.rpartition("@")
    if place == "best" and name:
        said = "the best weights are weights only, without an optimizer's state to go on from"
        raise InputError(said, f"start a new run from them: init=run:{name}@best", rule="fork-best", place=text)
    if not name or not (place == "last" or (place.isdecimal() and int(place) > 0)):
        said = f"'{text}' does not say where to fork"
        raise InputError(said, "give RUN@UPDATE, e.g. 20261130-104212-7f3a2c@4000, or RUN@last", rule="fork-point")
    folder = home.folder(queries.find(HomeSource(home), name).run_id)
    if folder.file.facts.get("recorded"):
        said = f"run {folder.run_id} was recorded from a loop that is not trainlab's: it has no state"
        raise InputError(said, "run that code again", rule="fork-recorded")
    if RunConfig.from_json(folder.file.config).of_module:
        said = f"run {folder.run_id} trained a module of yours in Lightning's own loop, whose place cannot be moved"
        raise InputError(said, f"start a new run from its weights: init=run:{folder.run_id}", rule="fork-module")
    return Point(folder, None if place == "last" else int(place))


def prepare(
    point: Point, configs: Sequence[tuple[RunConfig, str]], *, before: RunFile | None = None,
    listener: Listener = silent, stop: Stop | None = None,
) -> list[Prepared]:  # fmt: skip
    """The forks of one point, all of them, before the first runs; the trunk's state is found once. configs: each with
    what tells it from its trunk, for its name. before: the fork that is made once more, and its company with it.
    InputError where one of them cannot be."""
    state, note = state_at(point, listener, stop or Stop())
    found = []
    for config, differs in configs:
        facts, alone = company(before or point.trunk.file, config)
        first = _first(point, state, config, member=bool(facts))
        name = " ".join(part for part in (f"{point.trunk.file.name}@{state['update']}", differs) if part)
        notes = tuple(text for text in (note, alone, untested(point.trunk.file), *first.notes) if text)
        found.append(Prepared(point, config, first, name, notes, facts))
    return found


def begin(
    fork: Prepared, home: Home, *, parent: str = "", name: str = "", listener: Listener = silent,
    stop: Stop | None = None,
) -> training.Finished:  # fmt: skip
    """Makes the fork's folder with its first checkpoint in it, whole or not at all, and runs it to its end. parent,
    name: of the run, where it is to be told otherwise than as a fork."""
    config, trunk, state = fork.config, fork.point.trunk, fork.first.state
    told = {"trunk": trunk.run_id, "update": state["update"], "shared": _shared(state), "notes": list(fork.notes)}
    with checkpoint.preserved_random():
        file = training.run_file(
            config, *training.build(config), labels=Labels(task=trunk.file.labels.task, seed=config.seed),
            name=name or fork.name, parent=parent or f"{trunk.run_id}@{state['update']}", fork=told,
            **{**fork.company, **tuned(trunk.file)},
        )  # fmt: skip
    changes = diff()

    def fill(folder: Path) -> None:
        Checkpoints(folder / "checkpoints", file.run_id).save(state)

    folder = home.create(file, {"working.diff": changes} if changes else None, fill)
    return training.resume(folder, listener=_telling(fork.notes, listener), stop=stop)


def first_state(folder: RunFolder) -> State:
    """A fork's first state once more, where its checkpoints are lost."""
    told = folder.file.facts["fork"]
    home = Home(folder.path.parents[1])
    try:
        trunk = home.folder(told["trunk"])
    except InputError as error:
        said = f"fork {folder.run_id} has no checkpoint left, and its trunk is gone ({error.finding.said})"
        raise InputError(said, "put the trunk's folder back", rule="fork-trunk", source=folder.run_id) from None
    point = Point(trunk, told["update"])
    state, _ = state_at(point, silent, Stop())
    return _first(point, state, RunConfig.from_json(folder.file.config), member=is_member(folder.file)).state


def _first(point: Point, state: State, config: RunConfig, *, member: bool) -> Carried:
    with checkpoint.preserved_random():
        before, _ = training.build(point.config)
        try:
            parts, _ = training.build(config, weights=state["model"])
        except InputError as error:
            if error.finding.place != "init":
                raise
            said = f"the trunk's weights do not fit this model ({error.finding.said})"
            raise InputError(
                said, "leave model as it is, or start a new run", rule="fork-model", place="model"
            ) from None
        found = carried(state, point.config, config, parts, before)
        if member:  # a population has one form
            found.state["algorithm"]["form"] = "stacked"
        return found


# The trunk's state


def state_at(point: Point, listener: Listener, stop: Stop) -> tuple[State, str]:
    """The trunk's full state after the point's update, and how it was found where that was not a checkpoint."""
    stored = list(_stored(point.trunk))
    if point.update is None:
        if not stored:
            said = f"run {point.trunk.run_id} has no checkpoint that can be read"
            raise InputError(said, "give RUN@UPDATE, which computes it again", rule="fork-point")
        return stored[0], ""
    for state in stored:
        if state["update"] == point.update:
            return state, ""
    reached = max([state["update"] for state in stored] + [max(line.updates) for line in point.trunk.series()] + [0])
    if point.update > reached:
        said = f"run {point.trunk.run_id} got to update {reached}"
        raise InputError(said, f"give an update up to {reached}", rule="fork-point", place=f"@{point.update}")
    return _recomputed(point, stored, listener, stop)


def _stored(folder: RunFolder) -> list[State]:
    """The states in the run's checkpoints, the newest first; what cannot be read is left out."""
    found = []
    for name in (LAST, PREVIOUS):
        try:
            found.append(checkpoint.load(folder.checkpoints / name, run_id=folder.run_id))
        except InputError:
            continue
    return found


def _recomputed(point: Point, stored: Sequence[State], listener: Listener, stop: Stop) -> tuple[State, str]:
    trunk, update = point.trunk, point.update
    start = next((state for state in stored if state["update"] < update), None)  # type: ignore[operator]
    if start is None and "fork" in trunk.file.facts:
        start = first_state(trunk)
        if start["update"] > update:  # type: ignore[operator]
            said = f"run {trunk.run_id} is itself a fork, from update {start['update']} on"
            raise InputError(said, f"fork its trunk, {trunk.file.parent}", rule="fork-point", place=f"@{update}")
    place = f"its checkpoint at update {start['update']}" if start else "its start"
    note = f"no checkpoint of {trunk.run_id} stands at update {update}: computed again from {place}"
    listener(RunNotice(trunk.run_id, note))
    with tempfile.TemporaryDirectory(prefix="trainlab-fork-") as temporary:
        again = Home(temporary).create(trunk.file)
        if start is not None:
            Checkpoints(again.checkpoints, again.run_id).save(start)
        finished = training.resume(again, stop=Partway(update, stop))
        if stop.requested:
            raise StopNow(stop.reason)
        if finished.record.status != "interrupted":
            reason = finished.record.reason or finished.record.status
            said = f"run {trunk.run_id}, computed again, did not get to update {update}: {reason}"
            raise InputError(said, "see what differs with `trainlab replay`", rule="fork-point") from finished.error
        return checkpoint.load(again.checkpoints / LAST), note


def _shared(state: State) -> State:
    return {
        "updates": state["update"], "gradients": state["gradients"], "examples": state["examples"],
        "seconds": state["clock"]["train"],
    }  # fmt: skip


def _telling(notes: Sequence[str], listener: Listener) -> Listener:
    """The notes, as soon as the run has begun."""

    def heard(event: Event) -> None:
        listener(event)
        if isinstance(event, RunStarted):
            for note in notes:
                listener(RunNotice(event.run_id, note))

    return heard
