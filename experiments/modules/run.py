"""A run of a user's own LightningModule, in Lightning's own loop: the second of the two executors.

`experiments.training` runs the catalogue's tasks in our loop; this runs a module as it is: their callbacks, plugins and
Trainer words, their data, their validation. One callback of ours keeps it to its budget and its record (`keeper`).
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import lightning.pytorch as pl
import torch
from lightning.pytorch.utilities.exceptions import SIGTERMException
from torch import Tensor, nn
from torch.nn.parameter import UninitializedParameter

from algos import catalogue
from algos.finding import InputError
from experiments import checkpoint, devices, initial, passing
from experiments.checkpoint import Checkpoints, Found
from experiments.config import RunConfig, digest
from experiments.modules import arms, reference, settings, tracebacks
from experiments.modules.keeper import Diverged, Keeper, Pruned
from experiments.modules.logger import Logger
from experiments.modules.recording import Recording
from experiments.modules.restorer import Restorer
from experiments.modules.trainer import make_trainer
from experiments.modules.watched import canonical_test
from experiments.process_settings import preserved_settings
from experiments.progress import Listener, RunEnded, RunStarted
from experiments.quiet import quiet
from experiments.stopping import Interrupted, Stop, StopNow
from experiments.store.home import Home, RunFolder, new_run_id
from experiments.store.provenance import diff, provenance
from experiments.store.schema import Labels, RunFile, Status
from experiments.store.spool import Attempt, StoreFull, now_ms
from experiments.training import Finished, NotResumable, tell_warning
from experiments.tuned import is_tuned
from experiments.tuning.pruning import Judge
from experiments.weights import MODEL, signature_of, store_model, stored_dtype, weights_of


@dataclass
class Built:
    """A user's module and data, made for one run. fault: what their code raised instead."""

    module: pl.LightningModule | None = None
    data: pl.LightningDataModule | None = None
    fault: Exception | None = None


@dataclass
class Outcome:
    """How a run ended, and what it comes to."""

    status: Status
    reason: str = ""
    traceback: str = ""
    final: dict[str, float] = field(default_factory=dict)
    error: BaseException | None = None


def train(
    config: RunConfig,
    *,
    home: Home,
    labels: Labels,
    name: str,
    study: Mapping[str, Any],
    listener: Listener,
    stop: Stop,
    judge: Judge | None = None,
    parent: str = "",
    facts: Mapping[str, Any],
) -> Finished:
    """A new run. See `experiments.training.train`."""
    with checkpoint.preserved_random(), preserved_settings():
        device = devices.resolve(config.device)
        built = build(config)
        if built.module is not None:
            arms.check(built.module, config)
        file = RunFile(
            run_id=new_run_id(),
            name=name,
            labels=labels,
            config=config.to_json(),
            digest=digest(config),
            facts={**_facts(config, labels, built), "study": dict(study), **facts},
            provenance={**provenance(), "device": {"asked": config.device, **devices.facts(device)}},
            parent=parent or initial.parent(config.init),
            created=now_ms(),
        )
        changes = diff()
        folder = home.create(file, {"working.diff": changes} if changes else None)
        return _Run(folder, config, built, listener, stop, judge).finished()


def resume(folder: RunFolder, *, listener: Listener, stop: Stop, judge: Judge | None = None) -> Finished:
    """Go on with a run. See `experiments.training.resume`."""
    config = RunConfig.from_json(folder.file.config)
    with checkpoint.preserved_random(), preserved_settings():
        return _Run(folder, config, build(config), listener, stop, judge).finished(resumes=True)


def build(config: RunConfig) -> Built:
    """The module, then the data, from the run's seed. InputError for what the user gave wrongly; what their own code
    raises is kept: the run is to say it."""
    settings.of_kind(config.task, "task")
    if config.data:
        settings.of_kind(config.data.name, "data")
    checkpoint.seed_everything(config.seed)
    built = Built()
    try:
        built.module = settings.module(config)
        built.data = settings.datamodule(config)
    except InputError:
        raise
    except Exception as fault:
        built.fault = fault
        return built
    initial.load(built.module, config.init)
    return built


def load_model(folder: RunFolder) -> nn.Module:
    """The module a finished run left, at its selected weights, on the CPU. Layers that it makes in `configure_model`,
    or in a `setup` that needs nothing else, are made."""
    config = RunConfig.from_json(folder.file.config)
    with checkpoint.preserved_random(), preserved_settings():
        built = build(config.model_copy(update={"init": "", "data": None}))
        if built.fault:
            raise built.fault
        assert built.module
        path = str(folder.path / MODEL)
        if (dtype := stored_dtype(folder.path / MODEL)) is not None:
            built.module.to(dtype)
        for make in (built.module.configure_model, lambda: built.module.setup("fit")):
            try:
                initial.load(built.module, path)
                break
            except InputError:
                with contextlib.suppress(Exception):
                    make()
        else:
            initial.load(built.module, path)
    return built.module.eval()


class _Run:
    """One attempt at a run."""

    def __init__(
        self, folder: RunFolder, config: RunConfig, built: Built, listener: Listener, stop: Stop, judge: Judge | None
    ):
        self.folder, self.config, self.built = folder, config, built
        self.listener, self.stop, self.judge = listener, stop, judge
        self._trainer: pl.Trainer | None = None
        self._keeper: Keeper | None = None
        self._checkpoints = Checkpoints(folder.checkpoints, folder.run_id)

    def finished(self, resumes: bool = False) -> Finished:
        """resumes: whether there may be a checkpoint to go on from."""
        found = self._checkpoints.newest(trusted=True) if resumes else Found()
        update = found.state["trainlab"]["update"] if found.state else 0
        attempt = self.folder.begin(resumed_from=update)
        file = self.folder.file
        self.listener(RunStarted(file.run_id, file.name, file.labels, update))
        tell_warning(found.warning, attempt, self.listener)
        started = time.monotonic()
        outcome = self._outcome(attempt, found)
        attempt.end(outcome.status, outcome.reason, outcome.traceback)
        took = time.monotonic() - started
        self.listener(RunEnded(file.run_id, outcome.status, outcome.reason, took, outcome.final))
        if isinstance(outcome.error, (KeyboardInterrupt, GeneratorExit)):
            raise outcome.error
        model = self.built.module if outcome.status == "completed" else None
        return Finished(self.folder.record(), model, outcome.error)

    def _outcome(self, attempt: Attempt, found: Found) -> Outcome:
        try:
            if self.built.fault is not None:
                raise self.built.fault
            if attempt.number > 1:
                _tell_changes(self.folder, attempt)
            return self._trained(attempt, found)
        except (Interrupted, StopNow) as stopped:
            return Outcome("interrupted", str(stopped) if isinstance(stopped, Interrupted) else "stopped at once")
        except Diverged as diverged:
            return Outcome("diverged", str(diverged))
        except Pruned as pruned:
            return Outcome("pruned", str(pruned))
        except StoreFull as full:
            self.stop.request(str(full))
            return Outcome("interrupted", str(full))
        except InputError as error:
            return Outcome("crashed", str(error), error=error)
        except SIGTERMException:  # Lightning's own handler, where ours is not in place
            return Outcome("interrupted", "SIGTERM")
        except KeyboardInterrupt as pressed:  # where nobody listens for signals
            return Outcome("interrupted", "Ctrl-C", error=pressed)
        except BaseException as error:  # also sys.exit in their code: it ends this run, not a sweep
            if isinstance(error, SystemExit) and isinstance(error.__context__, KeyboardInterrupt):
                return Outcome("interrupted", "Ctrl-C", error=error.__context__)  # Lightning's answer to Ctrl-C
            if self._keeper is not None and self._keeper.resuming and not tracebacks.last_place(error):
                return _cannot_go_on(error)
            trace = tracebacks.trimmed(error)
            if passing.passes(error, attempt.number):
                return Outcome("interrupted", passing.said(trace.strip().splitlines()[-1]))
            return Outcome("crashed", trace.strip().splitlines()[-1], trace, error=error)

    def _trained(self, attempt: Attempt, found: Found) -> Outcome:
        config, module, data = self.config, self.built.module, self.built.data
        assert module is not None
        recording = Recording(attempt, log_every=config.log_every, divergence_bound=config.divergence_bound)
        watching: Any = {"stop": self.stop, "listener": self.listener, "judge": self.judge}
        keeper = self._keeper = Keeper(config, recording, attempt, self._checkpoints, saved=found.state, **watching)
        equipment = arms.equip(module, config, lambda: keeper.fraction(self._fitting()))
        ours = [Restorer(keeper), recording, *equipment.callbacks], [keeper]
        sink = Logger.for_recording(recording, self.folder)
        trainer = self._trainer = make_trainer(config, self.folder, sink, ours, equipment.plugins)
        with quiet():
            if not keeper.completed:
                path = str(found.path) if found.path else None
                trainer.fit(module, datamodule=data, ckpt_path=path, weights_only=False)
                if recording.diverged:
                    raise Diverged(recording.diverged)
                if not found.state and not trainer.fit_loop.epoch_progress.current.ready:
                    said = "the training data gave no batch"
                    raise InputError(
                        said, "give more of them, or a smaller batch size", rule="no-batches", place="data"
                    )
                self._validated(trainer, keeper)
                keeper.write_completed(trainer)
            return self._told(trainer, keeper, attempt)

    def _fitting(self) -> pl.Trainer:
        assert self._trainer is not None
        return self._trainer

    def _validated(self, trainer: pl.Trainer, keeper: Keeper) -> None:
        """The metric is to be that of the weights that are kept. Where the budget ended between two validations, there
        is one more. Averages that a callback puts in for validations alone are what is kept. Where something changed
        the weights after the last validation (compression, averaging at the end), they are validated without it."""
        module, data = self.built.module, self.built.data
        assert module is not None
        if keeper.watched.moment != "epoch" and trainer.enable_validation:
            if not keeper.is_evaluated(trainer):
                trainer.validate(module, datamodule=data, verbose=False)
            if self.config.select == "last" and not _same(keeper.evaluated, signature_of(module)):
                if keeper.evaluated_weights and _same(keeper.trained, signature_of(module)):
                    module.load_state_dict({**module.state_dict(), **keeper.evaluated_weights})
                else:
                    keeper.evaluate_again()
                    _validate_alone(trainer, module, data)
        if keeper.value is None:
            raise keeper.watched.absent(trainer)

    def _told(self, trainer: pl.Trainer, keeper: Keeper, attempt: Attempt) -> Outcome:
        """The selected weights, stored, and what they are worth."""
        config, module = self.config, self.built.module
        assert module is not None
        assert keeper.value is not None
        best = config.select == "best"
        value = keeper.best["value"] if best else keeper.value
        if not math.isfinite(value):
            return Outcome("diverged", f"the metric {config.metric} is not finite")
        weights = keeper.best["weights"] if best else keeper.weights or weights_of(module)
        keeper.weights = weights  # a module that is not set up yet takes them when its test begins
        if best and not keeper.resumed_completed:
            module.load_state_dict({**module.state_dict(), **weights})
        final = {"objective": value}
        if not is_tuned(self.folder.file) and config.stop != "target":
            final |= self._tested(trainer)
        if not (best and keeper.checkpoints.give_best(self.folder.path / MODEL)):
            store_model(self.folder.path / MODEL, weights)
        if keeper.resumed_completed:
            with contextlib.suppress(RuntimeError):  # layers that only a setup makes are not there
                module.load_state_dict({**module.state_dict(), **weights})
        module.eval()
        attempt.final(final)
        reason = "reached its target" if keeper.early else self._stopped_early(keeper, attempt)
        return Outcome("completed", reason, final=final)

    def _stopped_early(self, keeper: Keeper, attempt: Attempt) -> str:
        """Why the run ended before its budget, "" where it did not."""
        if keeper.used >= 1 - 1e-9:
            return ""
        reason = f"its own code stopped it at {keeper.used:.0%} of its budget"
        attempt.event("stopped_early", update=keeper.update, reason=reason)
        return reason

    def _tested(self, trainer: pl.Trainer) -> dict[str, float]:
        """What the module logs of its test split, by canonical name; {} where it has none."""
        from lightning.pytorch.utilities.model_helpers import is_overridden

        module, data = self.built.module, self.built.data
        owner: Any = data if data is not None and is_overridden("test_dataloader", data) else module
        if not (is_overridden("test_step", module) and is_overridden("test_dataloader", owner)):
            return {}
        found = trainer.test(module, datamodule=data, verbose=False)
        return {f"test/{canonical_test(name)}": float(value) for each in found for name, value in each.items()}


def _same(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and torch.equal(one, other)


def _validate_alone(trainer: pl.Trainer, module: pl.LightningModule, data: pl.LightningDataModule | None) -> None:
    """A validation of the module as it is: the user's callbacks have had their last word."""
    theirs: Any = trainer.callbacks  # type: ignore[attr-defined]
    ours = [each for each in theirs if isinstance(each, (Restorer, Recording, Keeper))]
    trainer.callbacks = ours  # type: ignore[attr-defined]
    try:
        trainer.validate(module, datamodule=data, verbose=False)
    finally:
        trainer.callbacks = theirs  # type: ignore[attr-defined]


def _cannot_go_on(error: BaseException) -> Outcome:
    refused = NotResumable.because(error)
    return Outcome("interrupted", refused.finding.said, error=refused)


def _facts(config: RunConfig, labels: Labels, built: Built) -> dict[str, Any]:
    """What a report must know of the task, the module and the entries."""
    metric, mode = settings.canonical_metric(config.metric), config.mode
    parameters = list(built.module.parameters()) if built.module is not None else []
    known = [each for each in parameters if not isinstance(each, UninitializedParameter)]
    task = {
        "name": labels.task, "metric": metric, "mode": mode, "worst": config.worst, "target": config.target,
        "target_source": "stated by the user" if config.target is not None else "", "unit": "examples",
        "select": config.select, "title": config.task, "domain": "", "cite": "", "home": "", "sizes": {}, "digest": "",
        "baselines": {}, "logged_as": config.metric, "module": reference.source(config.task),
        "data": reference.source(config.data.name) if config.data else None,
    }  # fmt: skip
    return {
        "task": task,
        "parameters": sum(parameter.numel() for parameter in known),
        "entries": {
            key: {"kind": found.kind, "name": found.name, "title": found.title, "cite": found.cite}
            for key, kind, entry in config.entries()
            if kind != "architectures" and entry.name != "own"
            for found in [catalogue.describe(kind, entry.name)]
        },
    }


def _tell_changes(folder: RunFolder, attempt: Attempt) -> None:
    """Says where the user's files are no longer those the run began with."""
    from experiments.store import module_files

    changed = [path for path, _, _ in module_files.changed([folder.record()])]
    if changed:
        attempt.event("file_changed", files=changed, attempt=attempt.number)
