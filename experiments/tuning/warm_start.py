"""Warm start: the trials of another study, as history that a sampler begins with.

They are no trials of this study: they cost it nothing, cannot win, and are marked in Optuna with `warm_start`, the run
that each was.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from algos.finding import InputError, unknown
from experiments.store.schema import RunRecord
from experiments.tuning import objectives, samplers
from experiments.tuning.drawing import params_of
from experiments.tuning.ranges import Options, Range
from experiments.tuning.spaces import Space

if TYPE_CHECKING:
    import optuna

    from experiments.study import StudyConfig

MARK = "warm_start"


@dataclass(frozen=True)
class Warm:
    """A trial of another study. params: place -> value, in this study's space."""

    params: Mapping[str, Any]
    values: tuple[float, ...]
    run_id: str


def usable(records: Iterable[RunRecord], study: StudyConfig, task: str, arm: str) -> list[Warm]:
    """The trials of the study that `tune.warm_start` names: of the same task and arm (or its only arm there), that
    ended or diverged, with settings that lie in this arm's space. In order of their numbers.

    Raises InputError for a study that is not there, and where none of its trials can be used.
    """
    assert study.tune is not None
    records, other = list(records), study.tune.warm_start
    own = [r for r in records if r.labels.study == other and not r.file.facts.get("recorded")]
    if not own:
        names = dict.fromkeys(r.labels.study for r in records if r.labels.study not in ("", study.name))
        raise unknown("study", other, names, place="tune.warm_start")
    tuned = [r for r in own if r.labels.phase == "tune" and r.labels.task == task]
    arms = list(dict.fromkeys(r.labels.arm for r in tuned))
    chosen = arm if arm in arms else arms[0] if len(arms) == 1 else ""
    space, found = study.space(task, arm), []
    for record in sorted(tuned, key=lambda r: (r.labels.number, r.file.created)):
        if record.labels.arm == chosen and record.status in ("completed", "diverged"):
            params = _inside(space, record)
            if params is not None:
                found.append(Warm(params, tuple(objectives.objectives(record, study)), record.run_id))
    if not found:
        raise InputError(
            f"no trial of {other} can warm {arm} on {task}: "
            + ("none has settings in its space" if chosen else f"it has trials of {', '.join(arms) or 'no arm there'}"),
            "name a study of the same task and arm, or leave it out", rule="no-warm-start", place="tune.warm_start",
        )  # fmt: skip
    if study.tune.sampler.name == "cmaes" and len(found) < samplers.WARMING:
        said = f"cmaes begins with the best tenth of another study's trials, and {other} has {len(found)} for {arm}"
        said += f" on {task}"
        cure = f"name a study with {samplers.WARMING} or more, or give another sampler, e.g. tpe"
        raise InputError(said, cure, rule="no-warm-start", place="tune.warm_start")
    return found


def warm_trials(
    records: Iterable[RunRecord], study: StudyConfig, task: str, arm: str
) -> list[optuna.trial.FrozenTrial]:
    """The same as Optuna's trials, to be added to its study; [] where the study names none to start from. Its own
    trials are numbered from there on."""
    import optuna

    from experiments.tuning import suggesting

    if study.tune is None or not study.tune.warm_start:
        return []
    space = study.space(task, arm)
    return [
        optuna.trial.create_trial(
            values=list(warm.values),
            params=suggesting.internal(space, warm.params),
            distributions=suggesting.distributions(space, warm.params),
            user_attrs={MARK: warm.run_id},
        )
        for warm in usable(records, study, task, arm)
    ]


def history(study: optuna.Study) -> list[optuna.trial.FrozenTrial]:
    """The trials that an Optuna study was warmed with."""
    return [trial for trial in study.get_trials(deepcopy=False) if MARK in trial.user_attrs]


def _inside(space: Space, record: RunRecord) -> dict[str, Any] | None:
    """A run's settings in the space; None where one lies outside, or is not there."""
    try:
        params = params_of(space, record.config, {})
    except (KeyError, TypeError, StopIteration):
        return None
    for axis in space.active(params):
        value, dimension = params[axis.place], axis.dimension
        if isinstance(dimension, Options) and dimension.find(value) is None:
            return None
        if isinstance(dimension, Range) and not _within(dimension, value):
            return None
    return params


def _within(dimension: Range, value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return dimension.low <= value <= dimension.high and (not dimension.whole or float(value).is_integer())
