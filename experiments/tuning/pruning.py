"""Pruning: somebody who looks at each validation of a tuning run and may end the run there. Torch-free.

The judge tells the trial what was measured and asks Optuna's pruner; both live in the storage, so the decision is the
same whatever the storage is and in however many processes the runs are.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import optuna

    from experiments.study import StudyConfig

#: (update, value of the task's metric) -> whether the run is to end here, as pruned. Asked once an evaluation; after a
#: resume perhaps again about an update that was asked before.
Judge = Callable[[int, float], bool]


def judge_of(study: optuna.Study, trial: optuna.trial.FrozenTrial | int, config: StudyConfig) -> Judge | None:
    """Who may prune a trial's run; None where the study prunes nothing. trial: its id in the storage will do."""
    from experiments.tuning import samplers

    pruner = samplers.pruner(config.tune) if config.tune else None
    if pruner is None:
        return None
    return _Judge(study, trial if isinstance(trial, int) else trial._trial_id, pruner)


class _Judge:
    """waiting: what could not be told while the storage was away: it is told with the next."""

    def __init__(self, study: optuna.Study, trial_id: int, pruner: optuna.pruners.BasePruner):
        self._study, self._trial_id, self._pruner = study, trial_id, pruner
        self._waiting: dict[int, float] = {}

    def __call__(self, update: int, value: float) -> bool:
        """A run that went on from an earlier checkpoint is not judged again where it was judged before. Nothing is
        pruned while the storage does not answer: training goes on."""
        self._waiting[update] = float(value)
        try:
            return self._decided(update)
        except _away():
            return False

    def _decided(self, update: int) -> bool:
        storage = self._study._storage
        trial = storage.get_trial(self._trial_id)
        if trial.state.is_finished():  # another worker has taken it over
            return False
        for step in sorted(self._waiting):
            if step not in trial.intermediate_values:
                storage.set_trial_intermediate_value(self._trial_id, step, self._waiting[step])
        self._waiting.clear()
        trial = storage.get_trial(self._trial_id)
        if trial.last_step != update:
            return False
        return bool(self._pruner.prune(self._study, trial))


def _away() -> tuple[type[Exception], ...]:
    """What a storage raises that does not answer."""
    import optuna

    grpc = sys.modules.get("grpc")
    return (optuna.exceptions.StorageInternalError, OSError, *([grpc.RpcError] if grpc else []))
