"""Populations: runs that differ only in their seed and in real hyperparameters of the optimizer, trained as one.

Each is a run of its own, with its folder, its points, its status and its checkpoints, as if it had been trained alone;
what is shared is the time. `shape` says which runs may train together, `train_together` trains them.

    members = [Member(config, labels) for config, labels in ...]
    for finished in train_together(members, home=home): ...
"""

from __future__ import annotations

import math
import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from algos.finding import InputError
from experiments import checkpoint, training
from experiments.checkpoint import Checkpoints, Found
from experiments.config import RunConfig
from experiments.loop import Parts
from experiments.modules.settings import label
from experiments.populations import memory
from experiments.populations.eligibility import shape
from experiments.populations.loop import MemberLoop, PopulationLoop
from experiments.populations.verification import verified
from experiments.progress import Listener, RunEnded, RunNotice, RunStarted, silent
from experiments.stopping import Stop, StopNow
from experiments.store.home import Home, RunFolder
from experiments.store.provenance import diff
from experiments.store.schema import Labels, Status
from experiments.store.spool import Attempt, StoreFull, no_space
from experiments.store.troubles import is_full
from experiments.task import TaskData
from experiments.training import Finished
from experiments.tuning.pruning import Judge

__all__ = ["Member", "resume", "shape", "train_together", "verified"]

#: How a member's seconds are counted, for its record.
SHARE = "the population's seconds, divided by its members at the time"


@dataclass(frozen=True)
class Member:
    """A run to train in company. config, labels, study, judge: as in `training.train`. folder: of a run that goes on,
    which has a config of its own."""

    config: RunConfig | None = None
    labels: Labels | None = None
    study: Mapping[str, Any] = field(default_factory=dict)
    folder: RunFolder | None = None
    judge: Judge | None = None

    @property
    def run(self) -> RunConfig:
        """The run's config."""
        if self.config is None:
            assert self.folder is not None, "a new run needs a config"
            return RunConfig.from_json(self.folder.file.config)
        return self.config


@dataclass
class _Turn:
    """A member that this process trains."""

    folder: RunFolder
    attempt: Attempt
    loop: MemberLoop
    started: float
    judge: Judge | None = None
    finished: Finished | None = None


@dataclass(frozen=True)
class _Last:
    """How a member's turn ended. model, final: of a run that completed. error: what it raised."""

    status: Status
    reason: str = ""
    trace: str = ""
    final: Mapping[str, float] = field(default_factory=dict)
    model: nn.Module | None = None
    error: BaseException | None = None


class _Unbuilt(Exception):
    """A member could not be built; nothing is written yet."""


def train_together(
    members: Sequence[Member], *, home: Home | None = None, listener: Listener = silent, stop: Stop | None = None
) -> list[Finished]:
    """How each ended, in their order. Those of other shapes, and of none, train apart; so do those that go on from
    other updates. Raises InputError before anything is written where a config cannot be run here."""
    home, stop = home or Home.default(), stop or Stop()
    found: dict[int, Finished] = {}
    by_shape: dict[str, list[int]] = {}
    for index, member in enumerate(members):
        lone = member.folder is not None and not was_member(member.folder)
        by_shape.setdefault("" if lone else shape(member.run), []).append(index)
    for name, indices in by_shape.items():
        own = [members[index] for index in indices]
        together = bool(name) and verified([member.run for member in own])
        try:
            ended = _together(own, home, listener, stop) if together else _apart(own, home, listener, stop)
        except _Unbuilt:  # apart, only the one whose fault it is crashes
            ended = _apart(own, home, listener, stop)
        found.update(zip(indices, ended, strict=True))
    return [found[index] for index in range(len(members))]


def resume(
    folder: RunFolder, *, listener: Listener = silent, stop: Stop | None = None, judge: Judge | None = None
) -> Finished:
    """Go on with a run that was a member of a population, in the company of a copy of itself that is thrown away."""
    try:
        return _together([Member(folder=folder, judge=judge)], None, listener, stop or Stop())[0]
    except _Unbuilt as unbuilt:
        raise (unbuilt.__cause__ or unbuilt) from None


def was_member(folder: RunFolder) -> bool:
    """Whether a run began in a population; then it goes on in one."""
    return "population" in folder.file.facts


def _apart(members: Sequence[Member], home: Home, listener: Listener, stop: Stop) -> list[Finished]:
    told: dict[str, Any] = {"listener": listener, "stop": stop}
    return [
        training.train(each.run, home=home, labels=each.labels, study=each.study, judge=each.judge, **told)
        if each.folder is None
        else training.resume(each.folder, judge=each.judge, **told)
        for each in members
    ]


def _together(members: Sequence[Member], home: Home | None, listener: Listener, stop: Stop) -> list[Finished]:
    turns: list[_Turn] = []
    with checkpoint.preserved_random(), memory.kept():
        try:
            data = _open(members, turns, home, listener, stop)
            standing: dict[int, list[_Turn]] = {}
            for turn in (each for each in turns if each.finished is None):
                standing.setdefault(turn.loop.update, []).append(turn)
            for _, group in sorted(standing.items()):
                _train(group, data, listener, stop)
        except BaseException as raised:
            _give_up(turns, raised, listener, stop)
            raise
    return [turn.finished for turn in turns if turn.finished is not None]


def _train(turns: Sequence[_Turn], data: TaskData, listener: Listener, stop: Stop) -> None:
    """Members that stand at one update, to their ends."""
    by_loop = {id(turn.loop): turn for turn in turns}

    def leave(loop: MemberLoop) -> None:
        _conclude(by_loop[id(loop)], listener, stop)

    population = PopulationLoop([turn.loop for turn in turns], data, stop, leave)
    status: Status = "interrupted"
    try:
        population.run()
        return
    except StopNow:
        reason, trace, error = "stopped at once", "", None
    except StoreFull as full:
        stop.request(str(full))
        reason, trace, error = str(full), "", None
    except KeyboardInterrupt:  # where nobody listens for signals
        raise
    except BaseException as raised:
        left = [turn for turn in turns if turn.finished is None]
        if len(left) > 1 and not is_full(raised):  # nobody can say whose it was: alone, it shows
            _part(left, raised, listener, stop)
            return
        if is_full(raised):
            reason, trace, error = str(no_space(turns[0].folder.path)), "", None
            stop.request(reason)
        else:
            status, reason, trace, error = "crashed", training.last_line(raised), traceback.format_exc(), raised
    for turn in turns:
        if turn.finished is None:
            _end(turn, listener, stop, _Last(status, reason, trace, error=error))


def _part(turns: Sequence[_Turn], raised: BaseException, listener: Listener, stop: Stop) -> None:
    """Members whose update failed together go on apart, each from its last checkpoint: only the one whose fault it is
    then crashes."""
    text = f"the population failed together, and its members go on apart: {training.last_line(raised)}"
    for turn in turns:
        turn.attempt.event("parted", text=text, trace="".join(traceback.format_exception(raised)))
        listener(RunNotice(turn.folder.run_id, text))
        turn.attempt.end("interrupted", text)
        turn.finished = Finished(turn.folder.record())
    for turn in turns:
        turn.finished = resume(turn.folder, listener=listener, stop=stop, judge=turn.judge)


def _conclude(turn: _Turn, listener: Listener, stop: Stop) -> None:
    """A member whose loop is over: its model and final metrics, and its last word."""
    loop = turn.loop
    if loop.status == "completed":
        kept: list[tuple[dict[str, float], nn.Module]] = []
        checkpoint.restore_random_states(loop.random)
        loop.tried(lambda: kept.append(training.finish(turn.folder, loop, turn.attempt)))
        if kept:
            final, model = kept[0]
            if math.isfinite(final["objective"]):
                last = _Last("completed", loop.reason, final=final, model=model)
            else:
                last = _Last("diverged", "the validation metric is not finite", model=model)
            _end(turn, listener, stop, last)
            return
    _end(turn, listener, stop, _Last(loop.status, loop.reason, loop.trace, error=loop.error))


def _end(turn: _Turn, listener: Listener, stop: Stop, last: _Last) -> None:
    said = turn.attempt.end(last.status, last.reason, last.trace)
    if said != last.status:  # its last points found no space: it goes on from its checkpoint
        last = _Last(said, str(no_space(turn.folder.path)))
        stop.request(last.reason)
    seconds = time.monotonic() - turn.started
    listener(RunEnded(turn.folder.run_id, last.status, last.reason, seconds, last.final))
    turn.finished = Finished(turn.folder.record(), last.model, last.error)


def _give_up(turns: Sequence[_Turn], raised: BaseException, listener: Listener, stop: Stop) -> None:
    """What goes wrong outside the members' training ends it for all that are left, resumable."""
    reason = "Ctrl-C" if isinstance(raised, KeyboardInterrupt) else f"stopped: {training.last_line(raised)}"
    for turn in turns:
        if turn.finished is None:
            _end(turn, listener, stop, _Last("interrupted", reason))


def _open(members: Sequence[Member], turns: list[_Turn], home: Home | None, listener: Listener, stop: Stop) -> TaskData:
    """Every member's folder and loop, new or loaded. All are built before anything is written."""
    ready: list[tuple[Member, Parts, dict[str, Any]]] = []
    for member in members:
        try:
            parts, data = training.build(member.run)
        except InputError:
            raise
        except Exception as error:
            raise _Unbuilt from error
        ready.append((member, parts, checkpoint.random_states()))
    for member, parts, random in ready:
        folder = member.folder or _created(member, parts, data, len(members), home or Home.default())
        checkpoints = Checkpoints(folder.checkpoints, folder.run_id)
        found = checkpoints.newest(parts.device) if member.folder else Found()
        state = training.first_state(folder, found)
        attempt = folder.begin(resumed_from=state["update"] if state else 0)
        checkpoint.restore_random_states(random)
        loop = MemberLoop(parts, attempt, listener, stop, folder.run_id, checkpoints, member.judge)
        turn = _Turn(folder, attempt, loop, time.monotonic(), member.judge)
        turns.append(turn)
        listener(RunStarted(folder.run_id, folder.file.name, folder.file.labels, state["update"] if state else 0))
        training.tell_warning(found.warning, attempt, listener)
        training.tell_taken_over(folder, attempt, listener)
        if state is not None:
            try:
                training.go_on(loop, state)
                loop.random = checkpoint.random_states()
            except training.NotResumable as refused:
                _end(turn, listener, stop, _Last("interrupted", str(refused), error=refused))
    return data


def _created(member: Member, parts: Parts, data: TaskData, size: int, home: Home) -> RunFolder:
    config = member.run
    labels = member.labels or Labels(task=label(config.task), seed=config.seed)
    told: dict[str, Any] = {"study": dict(member.study), "form": "stacked"}
    told["population"] = {"size": size, "share": SHARE}
    name = training.run_name(config, labels)
    changes = diff()
    file = training.run_file(config, parts, data, labels=labels, name=name, **told)
    return home.create(file, {"working.diff": changes} if changes else None)
