"""Many runs on many tasks in one number: the interquartile mean, the optimality gap, the probability of improvement.

Source: Agarwal et al. 2021, "Deep reinforcement learning at the edge of the statistical precipice", sections 4.2 and
4.3; definitions as in its library rliable. Scores must be comparable between tasks (normalised). A diverged run is the
worst infinity: it is trimmed away like any other bad run, until there are too many of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from reports.statistics import bootstrap
from reports.statistics.result import Estimate

Array = NDArray[np.float64]


def by_task(scores: ArrayLike) -> list[Array]:
    """scores (runs, tasks), nan where a task has fewer runs -> the runs of each task. Tasks without any are refused."""
    matrix = np.asarray(scores, float)
    assert matrix.ndim == 2, "scores are (runs, tasks)"
    columns = [column[~np.isnan(column)] for column in matrix.T]
    assert columns, "no tasks"
    assert all(len(column) for column in columns), "a task without a run"
    return columns


def _middle(values: Array) -> Array:
    """The mean of the middle half along the last axis: a quarter of the values is cut at each end, rounded down."""
    cut = values.shape[-1] // 4
    return np.sort(values, axis=-1)[..., cut : values.shape[-1] - cut].mean(axis=-1)


def iqm(scores: ArrayLike) -> float:
    """The mean of the middle half of all runs x tasks. scores (runs, tasks); nan: no such run.

    >>> iqm([[1, 2], [3, 4], [5, 6], [7, 100]])
    4.5
    """
    return float(_middle(np.concatenate(by_task(scores))))


def iqm_interval(
    scores: ArrayLike, confidence: float = 0.95, resamples: int = bootstrap.RESAMPLES, seed: int = 0
) -> Estimate:
    """iqm with the interval of a stratified bootstrap, widened for few runs; without one below 5 runs on 5 tasks or 10
    on 3. It is about these tasks, not about others like them.

    Measured for 95 %, over six kinds of scores: it covers 93 to 97 % at 5 to 20 tasks with 5 to 30 runs, where the
    plain percentiles cover 89 to 95 %."""
    samples = by_task(scores)
    sizes = [len(sample) for sample in samples]
    value, total = iqm(scores), sum(sizes)
    if not bootstrap.enough(sizes):
        return Estimate(value, None, None, total, confidence)
    drawn = np.concatenate(bootstrap.resampled(samples, resamples, seed), axis=1)  # (resamples, runs x tasks)
    variances = _winsorised(samples) * sizes
    ratio = float(variances.sum() / (variances * (1 - 1 / np.array(sizes))).sum()) if variances.any() else 1.0
    level = bootstrap.widened(confidence, variances, sizes, ratio)
    low, high = bootstrap.percentiles(_middle(drawn), level)
    return Estimate(value, float(low), float(high), total, confidence)


def _winsorised(samples: Sequence[Array]) -> Array:
    """Each task's variance after the outer quarters of all runs are moved to where the middle begins: its part in the
    variance of a trimmed mean (Tukey & McLaughlin 1963). Equal parts where so many diverged that the middle is
    infinite."""
    pooled = np.sort(np.concatenate(samples))
    cut = len(pooled) // 4
    low, high = pooled[cut], pooled[len(pooled) - 1 - cut]
    if not np.isfinite([low, high]).all():
        return np.ones(len(samples))
    return np.array([np.clip(sample, low, high).var(ddof=1) for sample in samples])


def optimality_gap(scores: ArrayLike, optimum: float = 1.0) -> float:
    """By how much runs fall short of `optimum` on average, over all runs x tasks; better than it counts as it. inf
    where a run diverged.

    >>> optimality_gap([[0.5, 1.0], [0.9, 2.0]])
    0.15
    """
    values = np.concatenate(by_task(scores))
    return float(np.mean(np.maximum(optimum - values, 0.0)))


def probability_of_improvement(
    x: Sequence[ArrayLike],
    y: Sequence[ArrayLike],
    mode: str = "max",
    confidence: float = 0.95,
    resamples: int = bootstrap.RESAMPLES,
    seed: int = 0,
) -> Estimate:
    """How likely a run of x beats a run of y on a task drawn at random: the mean over tasks of P(X > Y) + P(X = Y) / 2.

    x, y: for each task, the scores of all runs; the two may have different numbers of runs. mode: which is better.

    Its interval is the stratified bootstrap's, widened for few runs; beyond 0.05 and 0.95, where a bootstrap sees too
    few losses to know their spread, a score interval. None below 5 runs on 5 tasks or 10 on 3. Runs that share a seed
    are treated as independent, which makes it wider than need be. Measured for 95 %: it covers 94 to 97 % for values
    between 0.15 and 0.85, 94 to 99.9 % nearer to 0 or 1, where the plain percentiles come down to 72 %."""
    assert len(x) == len(y) > 0
    sign = 1.0 if mode == "max" else -1.0
    better = [_wins(sign * np.asarray(a, float), sign * np.asarray(b, float)) for a, b in zip(x, y)]
    value, total = float(np.mean([w.mean() for w in better])), sum(sum(w.shape) for w in better)
    if not (bootstrap.enough([len(w) for w in better]) and bootstrap.enough([len(w.T) for w in better])):
        return Estimate(value, None, None, total, confidence)
    if abs(value - 0.5) > 0.45:
        low, high = _score_interval(value, [w.shape for w in better], confidence)
    else:
        low, high = _drawn_interval(better, confidence, resamples, seed)
    return Estimate(value, low, high, total, confidence)


def _wins(a: Array, b: Array) -> Array:
    """(len(a), len(b)): 1 where a's run is the greater, 1/2 where they tie."""
    assert len(a), "a task without a run"
    assert len(b), "a task without a run"
    return (a[:, None] > b[None, :]) + 0.5 * (a[:, None] == b[None, :])


def _drawn_interval(better: Sequence[Array], confidence: float, resamples: int, seed: int) -> tuple[float, float]:
    """Bootstrap of both methods' runs, as wide as the placements' variance where that is the greater (DeLong, DeLong &
    Clarke-Pearson 1988, Biometrics 44)."""
    sizes = [n for w in better for n in w.shape]
    drawn = bootstrap.counts(sizes, resamples, seed)
    replicates = np.zeros(resamples)
    for w, of_x, of_y in zip(better, drawn[::2], drawn[1::2]):
        replicates += ((of_x @ w) * of_y).sum(axis=1) / w.size / len(better)
    placements = [w.mean(axis=axis).var(ddof=1) / w.shape[1 - axis] for w in better for axis in (1, 0)]
    variance = float(np.sum(placements)) / len(better) ** 2
    ratio = max(1.0, variance / float(replicates.var())) if replicates.var() > 0 else 1.0
    low, high = bootstrap.percentiles(replicates, bootstrap.widened(confidence, placements, sizes, ratio))
    return float(low), float(high)


def _score_interval(value: float, shapes: Sequence[tuple[int, ...]], confidence: float) -> tuple[float, float]:
    """All probabilities that `value` is within z standard errors of, the errors being those at that probability, the
    same on every task (Newcombe 2006, Statistics in Medicine 25, p. 559, method 5; there for one task)."""
    from scipy import optimize, stats

    z = float(stats.norm.ppf((1 + confidence) / 2))

    def beyond(p: float) -> float:
        spread = (1 - p) / (2 - p) + p / (1 + p)
        variance = sum(p * (1 - p) * (1 + ((n + m) / 2 - 1) * spread) / (n * m) for n, m in shapes) / len(shapes) ** 2
        return abs(value - p) - z * float(np.sqrt(variance))

    low = optimize.brentq(beyond, 0.0, min(value, 1 - 1e-12)) if value > 0 else 0.0  # 0 and 1 always solve themselves
    high = optimize.brentq(beyond, max(value, 1e-12), 1.0) if value < 1 else 1.0
    return float(low), float(high)
