"""Several methods on several tasks by rank: do they differ at all, and which from which.

Source: Friedman 1937, Journal of the American Statistical Association 32; Demsar 2006, JMLR 7 (Nemenyi's test and
critical difference for methods over data sets; Holm's steps over pairs). Scores are (tasks, methods): one value a task
and method, e.g. the mean over seeds. nan is refused; a diverged method is the worst infinity. mode: "max" or "min",
which is better; rank 1 is the best."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from reports.statistics.multiple import holm
from reports.statistics.result import PValue
from reports.statistics.signs import signed_rank

Array = NDArray[np.float64]
Pairs = Literal["holm", "nemenyi"]

_EXACT_METHODS, _EXACT_TASKS = 3, 100


def ranks(scores: ArrayLike, mode: str) -> Array:
    """Each method's rank on each task, 1 for the best; ties share the mean of theirs. (tasks, methods)."""
    from scipy import stats

    matrix = np.asarray(scores, float)
    assert matrix.ndim == 2, "scores are (tasks, methods)"
    assert not np.isnan(matrix).any()
    ranked: Array = stats.rankdata(-matrix if mode == "max" else matrix, axis=1)
    return ranked


def mean_ranks(scores: ArrayLike, mode: str) -> Array:
    """Mean over tasks of each method's rank. (methods,).

    >>> mean_ranks([[0.9, 0.8, 0.8], [0.7, 0.5, 0.6]], "max").tolist()
    [1.0, 2.75, 2.25]
    """
    averaged: Array = ranks(scores, mode).mean(axis=0)
    return averaged


def friedman(scores: ArrayLike, mode: str) -> PValue:
    """p-value of "all methods rank alike", with the statistic corrected for ties; 2 tasks and 2 methods at least.

    Exact for 2 and 3 methods on up to 100 tasks, with the ties as they are; else by chi-squared with methods - 1
    degrees of freedom, which is careful with few tasks (at 5 % it errs in 1 to 5 %; for 2 methods it would in 14).
    floor: where all tasks rank the methods in one order."""
    from scipy import stats

    ranked = ranks(scores, mode)
    n, k = ranked.shape
    assert n >= 2
    assert k >= 2
    statistic, most = _chi_squared(ranked), _chi_squared(np.sort(ranked, axis=1))
    if k <= _EXACT_METHODS and n <= _EXACT_TASKS:
        p, floor = _exact(ranked)
    else:
        p, floor = (float(stats.chi2.sf(value, k - 1)) for value in (statistic, most))
    return PValue(p, floor, (n, k), statistic)


def _chi_squared(ranked: Array) -> float:
    """Rank sums' squares over the variance of the ranks as they are, which is where ties enter; 0 where all tie."""
    n, k = ranked.shape
    variance = float(((ranked - (k + 1) / 2) ** 2).sum()) / (n * (k - 1))
    return float(n * ((ranked.mean(axis=0) - (k + 1) / 2) ** 2).sum() / variance) if variance else 0.0


def _exact(ranked: Array) -> tuple[float, float]:
    """The probability, where each task's ranks stand in any order alike, of rank sums as far apart as these; and as far
    apart as can be. Task by task, over all values of the first k - 1 rank sums, doubled to whole numbers."""
    n, k = ranked.shape
    doubled = np.rint(2 * ranked).astype(int)
    chance = np.zeros((2 * k * n + 1,) * (k - 1))
    chance[(0,) * (k - 1)] = 1.0
    for row in doubled:
        orders = list(itertools.permutations(row.tolist()))
        after = np.zeros_like(chance)
        for order in orders:
            moved, kept = [slice(step, None) for step in order[:-1]], [slice(None, -step) for step in order[:-1]]
            after[tuple(moved)] += chance[tuple(kept)] / len(orders)
        chance = after
    sums = np.indices(chance.shape)
    middle = n * (k + 1)
    apart = ((sums - middle) ** 2).sum(axis=0) + (sums.sum(axis=0) - (k - 1) * middle) ** 2
    seen, most = (int(((sorted_.sum(axis=0) - middle) ** 2).sum()) for sorted_ in (doubled, np.sort(doubled, axis=1)))
    return min(1.0, float(chance[apart >= seen].sum())), min(1.0, float(chance[apart >= most].sum()))


def nemenyi(scores: ArrayLike, mode: str) -> Array:
    """Two-sided p-values of all pairs by their distance in mean rank, corrected for all pairs (methods, methods).

    By the studentised range, right for many tasks and near enough from 3 methods on; two methods have friedman's p."""
    from scipy import stats

    n, k = np.shape(scores)
    if k == 2:
        return _of_pairs(k, lambda _i, _j: friedman(scores, mode).p)
    averaged = mean_ranks(scores, mode)
    error = math.sqrt(k * (k + 1) / (12 * n))
    return _of_pairs(
        k, lambda i, j: float(stats.studentized_range.sf(abs(averaged[i] - averaged[j]) / error, k, np.inf))
    )


def critical_difference(k: int, n: int, alpha: float = 0.05) -> float:
    """By how much the mean ranks of two of k methods must differ over n tasks, by Nemenyi's test. Not for two methods
    on few tasks: it then errs in 12 % for 5.

    >>> round(critical_difference(4, 14), 2)
    1.25
    """
    from scipy import stats

    return float(stats.studentized_range.ppf(1 - alpha, k, np.inf)) * math.sqrt(k * (k + 1) / (12 * n))


def holm_pairs(scores: ArrayLike, mode: str) -> Array:
    """Two-sided p-values of all pairs, corrected for all pairs by Holm's steps (methods, methods).

    Each pair by Wilcoxon's signed ranks over tasks, exact up to 16 tasks and with ties: all sign patterns. So scores
    must be comparable between tasks: a difference of 0.1 is larger than one of 0.05 on whatever tasks. A method that
    diverged on a task lost by more than any finite difference; both diverged: a tie."""
    better = np.asarray(scores, float) * (1.0 if mode == "max" else -1.0)
    pairs = list(itertools.combinations(range(better.shape[1]), 2))
    adjusted = dict(zip(pairs, holm([signed_rank(_differences(better[:, i], better[:, j])).p for i, j in pairs])))
    return _of_pairs(better.shape[1], lambda i, j: adjusted[i, j])


def _differences(a: Array, b: Array) -> Array:
    return np.subtract(a, b, out=np.zeros_like(a), where=a != b)


def _of_pairs(k: int, p: Callable[[int, int], float]) -> Array:
    matrix = np.eye(k)
    for i, j in itertools.combinations(range(k), 2):
        matrix[i, j] = matrix[j, i] = min(1.0, p(i, j))
    return matrix


def cliques(averaged: ArrayLike, difference: float) -> list[tuple[int, ...]]:
    """Groups of methods whose mean ranks all lie within `difference`, none inside another, best first: the bars of a
    critical-difference picture. averaged (methods,); groups of one are left out.

    >>> cliques([3.9, 1.2, 3.0, 1.9], 1.25)
    [(1, 3), (3, 2), (2, 0)]
    """
    values = np.asarray(averaged, float)
    return _groups(values, lambda i, j: abs(values[i] - values[j]) <= difference)


def cliques_by_p(averaged: ArrayLike, p: ArrayLike, alpha: float = 0.05) -> list[tuple[int, ...]]:
    """The same from p-values of pairs (methods, methods), e.g. holm_pairs': groups next to each other in mean rank of
    which no pair differs at `alpha`."""
    matrix = np.asarray(p, float)
    return _groups(np.asarray(averaged, float), lambda i, j: bool(matrix[i, j] > alpha))


def alike(scores: ArrayLike, mode: str, pairs: Pairs = "holm", alpha: float = 0.05) -> list[tuple[int, ...]]:
    """The groups of methods that are not shown to differ, best first, by one of the two tests of all pairs: "holm" on
    signed ranks (`holm_pairs`: scores must be comparable between tasks) or "nemenyi" on mean ranks.

    >>> alike([[1, 2, 3, 4]] * 9, "min"), alike([[1, 2, 3, 4]] * 9, "min", "nemenyi")
    ([], [(0, 1), (1, 2), (2, 3)])
    """
    tests = {"holm": holm_pairs, "nemenyi": nemenyi}
    assert pairs in tests, f"{pairs!r} is no test of all pairs: holm or nemenyi"
    return cliques_by_p(mean_ranks(scores, mode), tests[pairs](scores, mode), alpha)


def _groups(averaged: Array, alike: Callable[[int, int], bool]) -> list[tuple[int, ...]]:
    order = [int(i) for i in np.argsort(averaged, kind="stable")]
    groups: list[tuple[int, ...]] = []
    reached = 0
    for start in range(len(order)):
        stop = start + 1
        while stop < len(order) and _all(order[start:stop], order[stop], alike):
            stop += 1
        if stop - start > 1 and stop > reached:
            groups.append(tuple(order[start:stop]))
            reached = stop
    return groups


def _all(group: Sequence[int], method: int, alike: Callable[[int, int], bool]) -> bool:
    return all(alike(member, method) for member in group)
