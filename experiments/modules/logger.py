"""Logger: a run in our store for a Trainer that is not ours: `Trainer(logger=tl.Logger(study="x")).fit(model, data)`.

    logger = tl.Logger("x", arm="wide", metric="val/acc", mode="max")
    trainer = pl.Trainer(logger=logger, max_epochs=10)
    trainer.fit(model, data)
    trainer.test(model, data)      # belongs to the same run
    logger.run_id

Lightning tells a logger how a fit ended; what a fit counts, a `Recording` does that the logger puts first among the
trainer's callbacks.
"""

from __future__ import annotations

import atexit
import contextlib
import sys
import traceback
from collections.abc import Mapping
from types import FrameType
from typing import Any

import lightning.pytorch as pl
from lightning.pytorch.loggers.logger import DummyExperiment
from lightning.pytorch.loggers.logger import Logger as LightningLogger
from lightning.pytorch.strategies.launchers import _MultiProcessingLauncher
from lightning.pytorch.trainer.states import TrainerFn
from lightning.pytorch.utilities.rank_zero import rank_zero_only, rank_zero_warn

from algos.finding import InputError
from experiments.modules import described
from experiments.modules.fitted import Fitted
from experiments.modules.recording import Recording
from experiments.opening import check_metric
from experiments.store.home import RunFolder

#: Where these are reached, the fit's run was opened, or refused.
_BEGUN = ("_call_setup_hook", "_run_stage", "_call_teardown_hook")


class Logger(LightningLogger):
    """Every `fit` of a Trainer with this logger is a run: status, metrics under their own names, losses, counts, clock.

    study, task, arm, seed: where the run belongs; in a report, arms are compared on a task, paired by seed. An arm
    without a name is called by the module's class; a seed that is not given is what `seed_everything` was given, else
    1. metric, mode: what counts and which way ("val/acc", "max"); its last value is the run's objective. target: a
    value of it worth timing. config: more of what the run was asked, beside the module's and the DataModule's
    hyperparameters. x is the number of updates: Lightning's `global_step`, counted from the start of the fit.

    The run ends completed; diverged, where the last training loss or metric was not finite; interrupted by Ctrl-C and
    SIGTERM; crashed, with its traceback; lost by kill -9. A metric that was never logged is a warning, and the run has
    no objective. Of two values at one update the first is kept, and the objective is the last. Where the user logs
    another metric of the name `val/<metric>`, under which the metric is stored too, `fit` says so. A `test` or
    `validate` after the fit adds to the fit's run; another fit is another run. Under several processes rank zero
    writes. With `fast_dev_run` Lightning logs nothing.

    The run is mirrored to MLflow by a process of its own, and nothing waits for that one: what is left when the program
    has ended, it sends then; where it cannot, the next command does. InputError, from `fit`, for what cannot be right.
    """

    def __init__(
        self,
        study: str = "",
        *,
        task: str = "",
        arm: str = "",
        seed: int | None = None,
        metric: str = "",
        mode: str = "",
        target: float | None = None,
        name: str = "",
        config: Any = None,
    ):
        super().__init__()
        mode = check_metric(metric, mode, target)
        if metric.startswith("validation_step:"):
            raise InputError(
                f"metric='{metric}', but a logger sees only what is logged",
                f"log it in validation_step: self.log('val/{metric.partition(':')[2]}', ...)", place="metric",
            )  # fmt: skip
        self._asked = described.Asked(study, task, arm, seed, metric, mode, target, name, config)
        self._fitted: Fitted | None = None
        self._told = False

    @classmethod
    def for_recording(cls, recording: Recording, folder: RunFolder) -> Sink:
        """The logger of a run that somebody else opens and ends: what is logged goes to its recording."""
        return Sink(recording, folder)

    # What Lightning asks

    @property
    def experiment(self) -> Any:
        """The run's attempt (`experiments.store.spool.Attempt`) while a fit goes on, and after it; else None."""
        if _rank():
            return DummyExperiment()
        # Lightning asks at the start of every fit, and gives no logger its Trainer: it is the asker's. log_graph, which
        # is given the module, comes too late (ModelCheckpoint has asked for save_dir, callbacks have their state from
        # ckpt_path, the module's setup may have failed), and with enable_autolog_hparams=False not at all.
        asker = sys._getframe(1)
        trainer = _trainer_in(asker) if asker.f_code.co_name == "_call_setup_hook" else None
        if trainer is not None and not (self._fitted is not None and self._fitted.fresh):  # it asks twice
            self._begin(trainer)
        return None if self._fitted is None else self._fitted.attempt

    @property
    def run_id(self) -> str:
        """The id of the newest run; "" before the first."""
        return "" if self._fitted is None else self._fitted.folder.run_id

    @property
    def name(self) -> str:
        """ "": no folder of a name is between the run's and its checkpoints."""
        return ""

    @property
    def version(self) -> str:
        return ""

    @property
    def save_dir(self) -> str | None:
        """The run's folder; a ModelCheckpoint without a path writes to `checkpoints` in it. None before the first."""
        return None if self._fitted is None else str(self._fitted.folder.path)

    # What Lightning tells

    def log_graph(self, model: Any, input_array: Any = None) -> None:
        if not _rank():
            if self._fitted is None or not self._fitted.open or self._fitted.whole:
                self._begin(model.trainer)
            if self._fitted is not None and self._fitted.open:
                self._fitted.built(model)

    def log_hyperparams(self, params: Any, *args: Any, **kwargs: Any) -> None:
        """The run's config has them from its beginning; those that come later are told as an event."""
        if self._fitted is not None and self._fitted.open:
            self._fitted.more_config(params if isinstance(params, Mapping) else vars(params))

    def log_metrics(self, metrics: Mapping[str, Any], step: int | None = None) -> None:
        if self._fitted is not None:
            self._fitted.log(metrics)
        elif not _rank() and not self._told:
            self._told = True
            rank_zero_warn("tl.Logger records what a Trainer fits: what is logged before a fit is not stored")

    def save(self) -> None:
        """Nothing: the recording hands its points to the system in time."""

    def finalize(self, status: str) -> None:
        """Lightning's word at the end of fit, validate, test and predict, and when one of them raises."""
        if _rank() or status == "finished":  # said by Lightning under SLURM, in the middle of a run
            return
        error, failed = sys.exc_info()[1], status != "success"
        if failed and error is not None and (self._fitted is None or not self._fitted.open):
            self._begin_late(error)
        if self._fitted is not None:
            self._end(error, failed=failed)

    def _begin(self, trainer: pl.Trainer) -> None:
        if trainer.state.fn != TrainerFn.FITTING:
            return
        if self._fitted is not None:
            self._fitted.abandon()
            self._end(None, failed=False)
        self._fitted = Fitted(trainer, self._asked)
        atexit.register(self._fitted.vanish)

    def _end(self, error: BaseException | None, *, failed: bool) -> None:
        assert self._fitted is not None
        if self._fitted.open:
            self._fitted.end(error, failed=failed)
        else:
            self._fitted.amend()
        atexit.unregister(self._fitted.vanish)

    def _begin_late(self, error: BaseException) -> None:
        """The run of a fit that failed before it began: in prepare_data, say. Its Trainer is where the error passed."""
        frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
        trainer = next((found for frame in frames if (found := _trainer_in(frame)) is not None), None)
        begun = any(frame.f_code.co_name in _BEGUN for frame in frames)
        apart = trainer is None or isinstance(trainer.strategy.launcher, _MultiProcessingLauncher)  # failed elsewhere
        if trainer is not None and not begun and not apart and trainer.lightning_module is not None:
            with contextlib.suppress(InputError, OSError):  # the fit's own error is the news
                self._begin(trainer)

    def __getstate__(self) -> dict[str, Any]:
        """A copy, or another process's, opens runs of its own."""
        return {**self.__dict__, "_fitted": None}


class Sink(LightningLogger):
    """What is logged goes to a recording; the run is somebody else's to open and to end. Made by `for_recording`."""

    def __init__(self, recording: Recording, folder: RunFolder):
        super().__init__()
        self._recording, self._folder = recording, folder

    @property
    def name(self) -> str:
        return ""

    @property
    def version(self) -> str:
        return ""

    @property
    def save_dir(self) -> str:
        """The run's folder."""
        return str(self._folder.path)

    def log_metrics(self, metrics: Mapping[str, Any], step: int | None = None) -> None:
        self._recording.take(metrics, self._recording.update)

    def log_hyperparams(self, params: Any, *args: Any, **kwargs: Any) -> None:
        """Nothing: the run's config has them."""

    def save(self) -> None:
        """Nothing: the recording does."""

    def finalize(self, status: str) -> None:
        """Nothing: whoever opened the run ends it."""


def _trainer_in(frame: FrameType) -> pl.Trainer | None:
    """The Trainer that a function of Lightning's works on."""
    found = frame.f_locals.get("trainer")
    return found if isinstance(found, pl.Trainer) else None


def _rank() -> int:
    return int(getattr(rank_zero_only, "rank", None) or 0)
