"""Training: a RunConfig becomes a run. Everything that can be refused is refused before the run exists."""

from __future__ import annotations

import functools
import math
import os
import time
import traceback
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from algos import catalogue
from algos.contracts import Component, Scaling, Storing, overrides
from algos.finding import InputError
from algos.gradient_descent import GradientDescent, scaled_closure
from experiments import checkpoint, devices, initial, passing
from experiments.checkpoint import Checkpoints, Found
from experiments.clock import Clock
from experiments.config import Entry, RunConfig
from experiments.evaluation import Evaluator
from experiments.identity import run_file as run_file
from experiments.identity import run_name as run_name
from experiments.loop import Loop, Parts
from experiments.modules.reference import is_reference
from experiments.modules.settings import label
from experiments.oracle import TaskOracle
from experiments.progress import Listener, RunEnded, RunNotice, RunStarted, silent
from experiments.stopping import Stop, StopNow
from experiments.store.home import Home, RunFolder
from experiments.store.provenance import diff
from experiments.store.schema import Labels, RunRecord, Status
from experiments.store.spool import Attempt, StoreFull, no_space
from experiments.store.troubles import is_full
from experiments.task import TaskData
from experiments.tasks import catalogue as tasks
from experiments.tuned import is_tuned
from experiments.tuning.pruning import Judge
from experiments.weights import MODEL, store_model


@dataclass(frozen=True)
class Finished:
    """A run that ended, however it did. model: at the selected evaluation weights, or None where there are none. error:
    what a crashed run raised."""

    record: RunRecord
    model: nn.Module | None = None
    error: BaseException | None = None


@dataclass(frozen=True)
class Built:
    """What a run is made of. fault: what its own code raised instead; the run is to say it."""

    parts: Parts | None = None
    data: TaskData | None = None
    fault: BaseException | None = None


def train(
    config: RunConfig,
    *,
    home: Home | None = None,
    labels: Labels | None = None,
    study: Mapping[str, Any] | None = None,
    listener: Listener = silent,
    stop: Stop | None = None,
    differs: str = "",
    judge: Judge | None = None,
    parent: str = "",
    facts: Mapping[str, Any] | None = None,
) -> Finished:
    """A new run. labels: where it belongs (a single run by default). study: facts of the study, kept with the run.
    differs: what tells it from others of its command, for its name. judge: who may prune it. parent: what it comes
    from, where that is not the run of its init. facts: besides those of its parts.

    Raises InputError before anything is written where the config cannot be run here. Whatever else is raised while the
    run is built crashes that run.
    """
    home = home or Home.default()
    labels = labels or Labels(task=label(config.task), seed=config.seed)
    if is_reference(config.task):
        from experiments.modules import run

        name = run_name(config, labels, differs)
        return run.train(
            config, home=home, labels=labels, name=name, study=study or {}, listener=listener, stop=stop or Stop(),
            judge=judge, parent=parent, facts=facts or {},
        )  # fmt: skip
    with checkpoint.preserved_random():
        built = _tried(config)
        told: dict[str, Any] = {"name": run_name(config, labels, differs), "parent": parent, "study": dict(study or {})}
        file = run_file(config, built.parts, built.data, labels=labels, **told, **(facts or {}))
        changes = diff()
        folder = home.create(file, {"working.diff": changes} if changes else None)
        return _run(folder, built, listener, stop or Stop(), judge, resume=False)


def resume(
    folder: RunFolder, *, listener: Listener = silent, stop: Stop | None = None, judge: Judge | None = None
) -> Finished:
    """Go on with a run that was interrupted or lost, from its last checkpoint, or from the start where it has none.

    Raises NotResumable, an InputError, before anything is written where that checkpoint does not fit.
    """
    if is_reference(folder.file.config["task"]):
        from experiments.modules import run

        return run.resume(folder, listener=listener, stop=stop or Stop(), judge=judge)
    if "population" in folder.file.facts:  # sizes from 2 on agree bit for bit, and 1 does not
        from experiments import population

        return population.resume(folder, listener=listener, stop=stop, judge=judge)
    with checkpoint.preserved_random():
        built = _tried(RunConfig.from_json(folder.file.config))
        return _run(folder, built, listener, stop or Stop(), judge, resume=True)


def build(config: RunConfig, weights: Mapping[str, Any] | None = None) -> tuple[Parts, TaskData]:
    """The moving parts of a run: data, model, algorithm, oracle. Draws the model's weights from the config's seed.
    weights: those to begin with instead."""
    assert config.batch_size is not None, "a task of the catalogue has one"
    device = devices.resolve(config.device)
    task = tasks.load(config.task)
    data = load_data(config.task, os.environ.get("TRAINLAB_DATA"))
    checkpoint.seed_everything(config.seed)
    model = _built("architectures", config.model, data.signature).to(device)
    if weights is None:
        initial.load(model, config.init)
    else:
        initial.give(model, weights)
    precision = _built("precision", config.precision)
    if isinstance(precision, Storing):
        precision.store(model)
    components = _components(config, model)
    directed = any(overrides(component, "direction") for component in components)
    directed = directed and "closure" not in catalogue.describe("optimizers", config.optimizer.name).needs
    form = "stacked" if directed and config.form == "auto" else config.form
    optimizer = _built("optimizers", config.optimizer, model, form=form)
    algorithm = GradientDescent(optimizer, components, _built("schedules", config.schedule))
    if isinstance(precision, Storing):
        precision.round(optimizer)
    if algorithm.needs_closure and isinstance(precision, Scaling):
        raise scaled_closure(optimizer)
    loss = _built("losses", config.loss)
    oracle = TaskOracle(model, loss, precision, accumulate=config.accumulate, device=device)
    evaluator = Evaluator(task, data, oracle, device, config.batch_size, config.seed)
    source = data.training(config.batch_size, config.seed, device)
    if hasattr(optimizer, "expect"):
        optimizer.expect(_updates(config, len(source)))
    model.train()
    return Parts(config, task, oracle, algorithm, source, evaluator, Clock(device), device), data


def _tried(config: RunConfig) -> Built:
    """The parts, or what raised instead of them; InputError passes."""
    try:
        return Built(*build(config))
    except InputError:
        raise
    except (Exception, SystemExit) as fault:  # also an entry's sys.exit: it ends this run, not a sweep
        return Built(fault=fault)


def check(config: RunConfig) -> None:
    """InputError where what a config names does not go together, which shows when it is built (a line search under
    fp16's scaling, a wrapper of directions around an optimizer that shows none). Built on the CPU, in milliseconds."""
    with checkpoint.preserved_random(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the run says it, and what its own code raises
        _tried(config.model_copy(update={"device": "cpu"}))


def _updates(config: RunConfig, batches: int) -> int:
    """How many updates are to come, as far as the budget tells. batches: of an epoch."""
    amount, batch_size = config.budget.amount, config.batch_size or 1
    by_unit = {"updates": amount, "gradients": amount, "epochs": amount * batches, "examples": amount / batch_size}
    return int(by_unit.get(config.budget.unit, 0))


@functools.lru_cache(maxsize=8)
def load_data(task: str, root: str | None) -> TaskData:
    """A task's data, read once a process."""
    return tasks.load(task).load(Path(root).expanduser() if root else None)


def load_model(folder: RunFolder) -> nn.Module:
    """The model a finished run left, at its selected weights, on the CPU."""
    config = RunConfig.from_json(folder.file.config)
    if is_reference(config.task):
        from experiments.modules import run

        return run.load_model(folder)
    with checkpoint.preserved_random():
        signature = load_data(config.task, os.environ.get("TRAINLAB_DATA")).signature
        model: nn.Module = _built("architectures", config.model, signature)
    initial.load(model, str(folder.path / MODEL))
    return model.eval()


def _run(
    folder: RunFolder, built: Built, listener: Listener, stop: Stop, judge: Judge | None, *, resume: bool
) -> Finished:
    from experiments.trainer import fit

    checkpoints = Checkpoints(folder.checkpoints, folder.run_id)
    found, state, loop = Found(), None, None
    if built.parts is not None:
        found = checkpoints.newest(built.parts.device) if resume else found
        state = first_state(folder, found)
        loop = Loop(built.parts, None, listener, stop, folder.run_id, checkpoints, judge)
        if state is not None:
            go_on(loop, state)
    random = checkpoint.random_states()
    attempt = folder.begin(resumed_from=state["update"] if state else 0)
    listener(RunStarted(folder.run_id, folder.file.name, folder.file.labels, state["update"] if state else 0))
    tell_warning(found.warning, attempt, listener)
    tell_taken_over(folder, attempt, listener)
    started = time.monotonic()
    model: nn.Module | None = None
    error: BaseException | None = None
    final: dict[str, float] = {}
    status: Status
    try:
        if built.fault is not None:
            raise built.fault
        assert loop is not None
        checkpoint.restore_random_states(random)  # whatever those who heard of it drew
        loop.begin(attempt)
        fit(loop, loop.parts.config.trainer)
        status, reason, trace = loop.status, loop.reason, ""
        if status == "completed":
            final, model = finish(folder, loop, attempt)
            if not math.isfinite(final["objective"]):
                status, reason, final = "diverged", "the validation metric is not finite", {}
    except StopNow:
        status, reason, trace = "interrupted", "stopped at once", ""
    except StoreFull as full:
        stop.request(str(full))
        status, reason, trace = "interrupted", str(full), ""
    except KeyboardInterrupt:  # where nobody listens for signals
        attempt.end("interrupted", "Ctrl-C")
        raise
    except BaseException as raised:  # also an entry's sys.exit: it ends this run, not a sweep
        if is_full(raised):  # in some library's own words
            reason = str(no_space(folder.path))
            stop.request(reason)
            status, trace, final, model = "interrupted", "", {}, None
        elif passing.passes(raised, attempt.number):
            status, reason, trace, final, model = "interrupted", passing.said(last_line(raised)), "", {}, None
        else:
            status, reason, trace, error = "crashed", last_line(raised), traceback.format_exc(), raised
    said = attempt.end(status, reason, trace)
    if said != status:  # its last points found no space: it goes on from its checkpoint
        status, reason, final, model = said, str(no_space(folder.path)), {}, None
        stop.request(reason)
    listener(RunEnded(folder.run_id, status, reason, time.monotonic() - started, final))
    return Finished(folder.record(), model, error)


class NotResumable(InputError):
    """What a checkpoint holds does not fit what the run is made of now; it stays as it was."""

    @classmethod
    def because(cls, why: BaseException) -> NotResumable:
        said = f"the run cannot be gone on with: {' '.join(str(why).split())[:300]}"
        cure = "put back the code and the packages it was begun with, or start a new run"
        return cls(said, cure, rule="not-resumable")


def first_state(folder: RunFolder, found: Found) -> dict[str, Any] | None:
    """What a run goes on from; a fork without a checkpoint goes on from its trunk again."""
    if found.state is None and "fork" in folder.file.facts:
        from experiments import fork

        return fork.first_state(folder)
    return found.state


def go_on(loop: Loop, state: Mapping[str, Any]) -> None:
    try:
        loop.load_state_dict(state)
    except Exception as why:
        raise NotResumable.because(why) from why


def tell_fork(folder: RunFolder, attempt: Attempt) -> None:
    """That what came before is another run's too."""
    if told := folder.file.facts.get("fork"):
        trunk, update = told["trunk"], told["update"]
        text = f"shares its first {update} updates with run {trunk} and its other forks: not an independent seed"
        attempt.event("forked", update=update, trunk=trunk, text=text)


def tell_taken_over(folder: RunFolder, attempt: Attempt, listener: Listener) -> None:
    """That a run begins where another got to; or that another worker had begun its trial, in a home whose checkpoints
    are out of reach."""
    tell_fork(folder, attempt)
    place = folder.file.facts["study"].get("taken_over", "")
    if place and attempt.number == 1:
        text = f"taken over from {place}, whose files are not here: starts from zero"
        attempt.event("taken_over", place=place, text=text)
        listener(RunNotice(attempt.run_id, text))


def tell_warning(text: str, attempt: Attempt, listener: Listener) -> None:
    """To whoever watches, and to the record; nothing where there is none."""
    if text:
        attempt.event("warning", text=text, attempt=attempt.number)
        listener(RunNotice(attempt.run_id, text))


def finish(folder: RunFolder, loop: Loop, attempt: Attempt) -> tuple[dict[str, float], nn.Module]:
    """The selected weights, stored, and what they are worth: the objective is theirs, also where finalizing changed
    them. Tuning runs, and what comes from them, never see the test split; a run that stopped at its target reports no
    final metric."""
    parts, config = loop.parts, loop.parts.config
    model = parts.oracle.model
    measured = _measured_last(loop)
    with parts.evaluator.at_evaluation_weights(parts.algorithm):
        parts.algorithm.finalize(model)
        selected = {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}
    if config.select == "best":
        selected = loop.best.weights
    model.load_state_dict(selected)
    model.eval()
    if measured is None:
        measured = parts.evaluator.measure("validation")[parts.task.metric]
    final = {"objective": measured}
    if not is_tuned(folder.file) and config.stop != "target":
        final |= {f"test/{name}": value for name, value in parts.evaluator.measure("test").items()}
    if not (config.select == "best" and loop.checkpoints.give_best(folder.path / MODEL)):
        store_model(folder.path / MODEL, selected)
    attempt.final(final)
    return final, model


def _measured_last(loop: Loop) -> float | None:
    """The metric of the last validation, where it was of the very weights that are selected."""
    components = getattr(loop.parts.algorithm, "components", None)
    same = loop.parts.config.select == "last" and loop.evaluated_here
    if components is None or not same or any(overrides(each, "finalize") for each in components):
        return None
    return loop.last_metrics.get(f"val/{loop.parts.task.metric}")


def _built(kind: str, entry: Entry, *arguments: Any, **more: Any) -> Any:
    return catalogue.load(kind, entry.name).build(*arguments, **more, **entry.hyper)


def _components(config: RunConfig, model: nn.Module) -> list[Component]:
    """Compression innermost, then the wrappers in their order, each prepared on the model."""
    if config.compression and config.select == "best":
        raise InputError(
            "compression with select=best could test weights from before they were compressed",
            "set select=last", place="select",
        )  # fmt: skip
    components: list[Component] = [_built("compression", entry) for entry in config.compression]
    components += [_built("wrappers", entry) for entry in config.wrappers]
    for component in components:
        component.prepare(model)
    return components


def last_line(error: BaseException) -> str:
    return traceback.format_exception_only(error)[-1].strip()
