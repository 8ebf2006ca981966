"""Which hyperparameters mattered among a study's tuning trials, and how wide the good range of one is.

Source: Hutter, Hoos & Leyton-Brown 2014, ICML (fANOVA: share of the variance of a random forest's prediction that each
hyperparameter explains alone); Watanabe, Bansal & Hutter 2023, IJCAI (PED-ANOVA: how unlike its whole distribution
that of the best tenth of the trials is). Both as implemented in Optuna, on a study made in memory.

Limits. Shares are of the hyperparameters tuned and the ranges searched: widen a range and they change. A forest fits
noise as well: of values that depend on nothing, three hyperparameters explained 80 % together at 20 trials and 52 % at
100, so compare with `by_chance`. fANOVA weighs the whole range, so that the region where training diverges decides.
PED-ANOVA's shares sum to 1 also where nothing matters, and at 20 trials rest on the best two. Trials of samplers that
learn (tpe) gather near the optimum, which biases both."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from algos.finding import InputError

if TYPE_CHECKING:
    import optuna

Array = NDArray[np.float64]
Method = Literal["fanova", "pedanova"]


class Range(Protocol):
    """A range as it was searched (reports.tuning.Span is one)."""

    @property
    def low(self) -> float: ...
    @property
    def high(self) -> float: ...
    @property
    def log(self) -> bool: ...


#: The fewest trials for each hyperparameter, and twice that in all.
FEWEST = 5


def importance(
    trials: Sequence[tuple[Mapping[str, Any], float]],
    mode: str = "min",
    ranges: Mapping[str, Range] | None = None,
    method: Method = "fanova",
    seed: int = 0,
) -> dict[str, float]:
    """Each hyperparameter's share, largest first. fanova: what it explains alone of the forest's variance; the rest of
    1 is interplay. pedanova: its part of the divergence of them all; they sum to 1.

    trials: (its hyperparameters, its value); an infinite value (diverged) counts as the worst finite one. ranges: as
    searched; where not given, from the least to the greatest value tried; the options tried for what is no number. Only
    hyperparameters that all trials have and that vary. InputError for fewer than FEWEST trials for each."""
    return _shares(trials, np.array([value for _, value in trials], float), mode, ranges, method, seed)


def by_chance(
    trials: Sequence[tuple[Mapping[str, Any], float]],
    mode: str = "min",
    ranges: Mapping[str, Range] | None = None,
    method: Method = "fanova",
    seed: int = 0,
    permutations: int = 19,
) -> dict[str, float]:
    """The largest share that each hyperparameter reaches when the values are dealt anew to the trials, `permutations`
    times: with 19, a hyperparameter that does nothing is above it in 1 study of 20. Takes that often as long as
    `importance` (0.1 s at 20 trials, 0.5 s at 100)."""
    rng = np.random.default_rng(seed)
    values = np.array([value for _, value in trials], float)
    dealt = [_shares(trials, rng.permutation(values), mode, ranges, method, seed) for _ in range(permutations)]
    return {name: max(shares[name] for shares in dealt) for name in dealt[0]}


def _shares(
    trials: Sequence[tuple[Mapping[str, Any], float]],
    values: Array,
    mode: str,
    ranges: Mapping[str, Range] | None,
    method: Method,
    seed: int,
) -> dict[str, float]:
    names = _varied(trials)
    fewest = FEWEST * max(2, len(names))
    if len(trials) < fewest:
        raise InputError(
            f"{len(trials)} trials are too few for the importance of {len(names)} hyperparameters",
            f"tune with {fewest} or more",
            rule="too-few-trials",
            place="trials",
        )
    values = _finite(values, mode)
    if not names or np.ptp(values) == 0:
        return dict.fromkeys(names, 0.0)
    columns = {name: _Column.of(name, trials, (ranges or {}).get(name)) for name in names}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PED-ANOVA's, where all trials tie with the best tenth: the shares are 0 then
        shares = _evaluator(method, seed).evaluate(_study(columns, values, mode))
    total = sum(shares.values()) if method == "pedanova" else 1.0
    shares = {name: share / total if total else 0.0 for name, share in shares.items()}
    return dict(sorted(shares.items(), key=lambda pair: -pair[1]))


def _varied(trials: Sequence[tuple[Mapping[str, Any], float]]) -> list[str]:
    if not trials:
        return []
    first = trials[0][0]
    return [
        name
        for name in first
        if all(name in tried for tried, _ in trials) and len({repr(tried[name]) for tried, _ in trials}) > 1
    ]


def _finite(values: Array, mode: str) -> Array:
    assert not np.isnan(values).any()
    finite = values[np.isfinite(values)]
    if not len(finite):
        return np.zeros_like(values)
    worst = finite.max() if mode == "min" else finite.min()
    return np.where(np.isfinite(values), values, worst)


@dataclass(frozen=True)
class _Column:
    """A hyperparameter's values as Optuna is given them: logarithms where searched on a log scale (Optuna's fANOVA
    weighs a log range by its linear length, so that the top decade would be 90 % of it); labels where no numbers."""

    values: list[Any]
    distribution: optuna.distributions.BaseDistribution

    @staticmethod
    def of(name: str, trials: Sequence[tuple[Mapping[str, Any], float]], searched: Range | None) -> _Column:
        from optuna.distributions import CategoricalDistribution, FloatDistribution

        tried = [params[name] for params, _ in trials]
        if any(isinstance(value, bool) or not isinstance(value, (int, float)) for value in tried):
            labels = [repr(value) for value in tried]
            return _Column(labels, CategoricalDistribution(sorted(set(labels))))
        log = searched is not None and searched.log
        numbers = [math.log(value) if log else float(value) for value in tried]
        ends = [math.log(end) if log else end for end in (searched.low, searched.high)] if searched else []
        return _Column(numbers, FloatDistribution(min([*numbers, *ends]), max([*numbers, *ends])))


def _evaluator(method: Method, seed: int) -> Any:
    from optuna.importance import FanovaImportanceEvaluator, PedAnovaImportanceEvaluator

    return FanovaImportanceEvaluator(seed=seed) if method == "fanova" else PedAnovaImportanceEvaluator()


def _study(columns: Mapping[str, _Column], values: Array, mode: str) -> optuna.Study:
    """A study in memory with these trials. Optuna's log line about its making is not printed."""
    import optuna

    storage = optuna.storages.InMemoryStorage()
    direction = optuna.study.StudyDirection.MINIMIZE if mode == "min" else optuna.study.StudyDirection.MAXIMIZE
    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        storage.create_new_study([direction], "importance")
    finally:
        optuna.logging.set_verbosity(verbosity)
    study = optuna.load_study(study_name="importance", storage=storage)
    distributions = {name: column.distribution for name, column in columns.items()}
    study.add_trials(
        optuna.trial.create_trial(
            params={name: column.values[row] for name, column in columns.items()},
            distributions=distributions,
            value=float(value),
        )
        for row, value in enumerate(values)
    )
    return study


@dataclass(frozen=True)
class Sensitivity:
    """Where a hyperparameter was good: from the least to the greatest value of a trial within the tolerance of the
    best.

    width: of that range, in factors of 10 where log. best: where the best trial was. open_low, open_high: the range
    reaches the least or greatest value tried, so it may go on there. good: trials within the tolerance; inside: trials
    in the range: where more, other hyperparameters or the seed decide as well."""

    low: float
    high: float
    width: float
    best: float
    open_low: bool
    open_high: bool
    good: int
    inside: int


def sensitivity(x: ArrayLike, y: ArrayLike, mode: str, tolerance: float, log: bool = False) -> Sensitivity:
    """x: values of one hyperparameter, > 0 where log; y: what the trials came to, infinite where diverged, one finite
    at least; tolerance: in y's units, >= 0.

    >>> found = sensitivity([1e-4, 1e-3, 1e-2, 1e-1], [0.9, 0.32, 0.3, float("inf")], "min", 0.05, log=True)
    >>> found.low, found.high, round(found.width, 6), found.open_high
    (0.001, 0.01, 1.0, False)
    """
    at, values = np.asarray(x, float), np.asarray(y, float) * (1.0 if mode == "min" else -1.0)
    assert at.shape == values.shape
    assert not np.isnan(values).any()
    assert np.isfinite(values.min()), "no trial with a finite value"
    assert tolerance >= 0
    good = values <= values.min() + tolerance
    low, high = float(at[good].min()), float(at[good].max())
    width = math.log10(high / low) if log else high - low
    best = float(at[int(np.argmin(values))])
    inside = int(((low <= at) & (at <= high)).sum())
    ends = bool(low == at.min()), bool(high == at.max())
    return Sensitivity(low, high, width, best, *ends, int(good.sum()), inside)
