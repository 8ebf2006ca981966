"""Do intervals cover what they say, and do tests err as rarely as they say? Measured by simulation, one task.

Every interval is within 1.5 points of 95 %, or is not given at that n; every test errs in at most 5.5 % of cases at
5 %. The seeds are fixed. 20,000 repetitions where a case is cheap (0.15 points of Monte Carlo error at 95 %), 6,000
where the function itself is called for each (0.3 points). Statistics of counts and ranks cannot be at 95 % everywhere:
they are held to it on average over the truth, as Wilson's interval is known to be. Vectorised transcriptions are
compared with the function they stand for on the first rows. Many tasks: test_coverage_many.py."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import special, stats

from reports.statistics import empirical
from reports.statistics.effect import hedges, hedges_paired
from reports.statistics.failures import worst_rank
from reports.statistics.friedman import friedman
from reports.statistics.proportion import wilson
from reports.statistics.ranks import probability_better, rank_sum
from reports.statistics.resampled import corrected_t
from reports.statistics.result import Estimate, PValue
from reports.statistics.signs import sign_flip, signed_rank
from reports.statistics.student import mean_interval, paired, welch
from reports.statistics.survival import kaplan_meier, log_rank, mantel, median, restricted_mean, time_ratio

pytestmark = pytest.mark.slow

Array = NDArray[np.float64]
SIZES = (3, 5, 10, 30)
MANY, SOME = 20_000, 6_000
ALPHA = 0.05
each_size = pytest.mark.parametrize("n", SIZES)


def near(covered: float) -> bool:
    return abs(covered - 0.95) <= 0.015


def inside(estimate: Estimate, truth: float) -> bool:
    assert estimate.low is not None
    assert estimate.high is not None
    return bool(estimate.low <= truth <= estimate.high)


def alike(function: Callable[..., float], found: Array, *samples: NDArray[Any], rows: int = 100) -> None:
    """The vectorised p-values are those of the function, on the first rows."""
    known = [function(*(sample[row] for sample in samples)) for row in range(rows)]
    assert found[:rows] == pytest.approx(known, rel=1e-6, abs=1e-12)


def t_p(d: Array) -> Array:
    """Student's p-values of rows (repetitions, n)."""
    t = d.mean(axis=1) / d.std(axis=1, ddof=1) * math.sqrt(d.shape[1])
    return np.asarray(2 * special.stdtr(d.shape[1] - 1, -np.abs(t)))


def welch_p(a: Array, b: Array) -> Array:
    u, v = a.var(axis=1, ddof=1) / a.shape[1], b.var(axis=1, ddof=1) / b.shape[1]
    degrees = (u + v) ** 2 / (u**2 / (a.shape[1] - 1) + v**2 / (b.shape[1] - 1))
    return np.asarray(2 * special.stdtr(degrees, -np.abs(a.mean(axis=1) - b.mean(axis=1)) / np.sqrt(u + v)))


# Intervals. An interval covers the truth where the test of the truth does not reject; `alike` ties the two together.


def mean_coverage(n: int) -> float:
    x = np.random.default_rng(n).normal(0, 2, (MANY, n))
    p = t_p(x)
    for row in range(100):
        assert inside(mean_interval(x[row]), 0.0) == (p[row] >= ALPHA)
    return float(np.mean(p >= ALPHA))


def paired_coverage(n: int) -> float:
    """Seeds that move both arms alike, and a true difference of 0.7."""
    rng = np.random.default_rng(10 + n)
    seeds = rng.normal(0, 5, (MANY, n))
    d = (seeds + rng.normal(0.7, 1, (MANY, n))) - (seeds + rng.normal(0, 2, (MANY, n))) - 0.7
    alike(lambda row: paired(row)[1], t_p(d), d)
    for row in range(100):
        assert inside(paired(d[row])[0], 0.0) == (paired(d[row])[1] >= ALPHA)
    return float(np.mean(t_p(d) >= ALPHA))


def welch_coverage(n: int, spread: float) -> float:
    rng = np.random.default_rng(20 + n)
    a, b = rng.normal(0, spread, (MANY, n)), rng.normal(0, 1, (MANY, n))
    p = welch_p(a, b)
    alike(lambda x, y: welch(x, y)[1], p, a, b)
    for row in range(100):
        assert inside(welch(a[row], b[row])[0], 0.0) == (p[row] >= ALPHA)
    return float(np.mean(p >= ALPHA))


def hedges_coverage(n: int, effect: float, pairs: bool) -> float:
    rng = np.random.default_rng(30 + n)
    a, b = rng.normal(effect, 1, (SOME, n)), rng.normal(0, 1, (SOME, n))
    found = [hedges_paired(x) for x in a] if pairs else [hedges(x, y) for x, y in zip(a, b)]
    return float(np.mean([inside(estimate, effect) for estimate in found]))


def better_coverage(n: int, spread: float, fails: tuple[float, float], theta: tuple[float, float] = (0, 1)) -> float:
    """Averaged over the probability, evenly between `theta` among runs that do not fail. spread: of a's values, b's is
    1; fails: how often each arm diverges."""
    rng, rows = np.random.default_rng(40 + n), SOME if n < 30 else SOME // 2
    p = rng.uniform(*theta, rows)
    a = rng.normal(0, spread, (rows, n)) + (stats.norm.ppf(p) * math.hypot(spread, 1))[:, None]
    b = rng.normal(0, 1, (rows, n))
    a[rng.random(a.shape) < fails[0]] = -math.inf
    b[rng.random(b.shape) < fails[1]] = -math.inf
    truth = (1 - fails[0]) * (1 - fails[1]) * p + (1 - fails[0]) * fails[1] + fails[0] * fails[1] / 2
    return float(np.mean([inside(probability_better(*row), true) for *row, true in zip(a, b, truth)]))


def times_to_target(rng: np.random.Generator, spread: float, size: tuple[int, int]) -> Array:
    """Lognormal with this spread of the logs; 0: exponential."""
    return np.exp(spread * rng.normal(size=size)) if spread else rng.exponential(1, size)


def horizon_and_mean(spread: float, share: float) -> tuple[float, float]:
    """The horizon that this share of runs reaches, and the restricted mean there: the integral of the survival."""
    law = stats.lognorm(spread) if spread else stats.expon()
    horizon = float(law.ppf(share))
    grid = np.linspace(0, horizon, 20_001)
    return horizon, float(np.trapezoid(law.sf(grid), grid))


def restricted_coverage(n: int, spread: float, share: float) -> float:
    horizon, truth = horizon_and_mean(spread, share)
    times = np.minimum(times_to_target(np.random.default_rng(50 + n), spread, (SOME, n)), horizon)
    limit = float(stats.chi2.ppf(0.95, 1))
    same = np.ptp(times, axis=1) == 0
    covered = (empirical.ratio(np.where(same[:, None], np.arange(n), times), truth) <= limit) & ~same
    for row in range(50):
        estimate = restricted_mean(times[row], times[row] < horizon, horizon)
        assert inside(estimate, truth) == covered[row]
    return float(covered.sum() / (~same).sum())


def median_coverage(n: int, spread: float) -> float:
    """Four in five reach within the horizon."""
    horizon, _ = horizon_and_mean(spread, 0.8)
    truth = math.log(2) if not spread else 1.0
    times = np.minimum(times_to_target(np.random.default_rng(60 + n), spread, (SOME, n)), horizon)
    return float(np.mean([inside(median(row, row < horizon), truth) for row in times]))


def wilson_coverage(n: int) -> float:
    """Exact: over the binomial, averaged evenly over the share."""
    share = np.linspace(0.0005, 0.9995, 1000)
    chances = [
        stats.binom.pmf(events, n, share) * [inside(wilson(events, n), p) for p in share] for events in range(n + 1)
    ]
    return float(np.sum(chances, axis=0).mean())


def ratio_coverage(n: int, spread: float) -> float:
    """Lognormal times of two arms on shared seeds, one 1.5 times slower."""
    rng = np.random.default_rng(70 + n)
    seeds = rng.normal(0, 1, (SOME, n))
    a, b = (np.exp(seeds + rng.normal(shift, spread, (SOME, n))) for shift in (math.log(1.5), 0.0))
    return float(np.mean([inside(time_ratio(x, y), 1.5) for x, y in zip(a, b)]))


def resampled_coverage(k: int) -> float:
    """Normal scores of k splits with the correlation that 5 folds are taken to have: 1/5."""
    rng = np.random.default_rng(80 + k)
    d = math.sqrt(0.2) * rng.normal(size=(SOME, 1)) + math.sqrt(0.8) * rng.normal(size=(SOME, k))
    return float(np.mean([inside(corrected_t(row, 0.25)[0], 0.0) for row in d]))


@each_size
def test_mean_and_paired(n: int) -> None:
    assert near(mean_coverage(n))
    assert near(paired_coverage(n))


@each_size
def test_welch(n: int) -> None:
    """On average over spreads alike, twice and three times; alike at n = 3 it covers 96.6 %, so more than it says."""
    covered = [welch_coverage(n, spread) for spread in (1.0, 2.0, 3.0)]
    assert near(float(np.mean(covered)))
    assert min(covered) >= 0.935
    assert max(covered) <= 0.97


@each_size
@pytest.mark.parametrize("pairs", [True, False])
def test_hedges(n: int, pairs: bool) -> None:
    assert all(near(hedges_coverage(n, effect, pairs)) for effect in (0.0, 0.8, 2.0))


@each_size
@pytest.mark.parametrize(
    ("spread", "fails"), [(1.0, (0.0, 0.0)), (3.0, (0.0, 0.0)), (1.0, (0.1, 0.3)), (1.0, (0.3, 0.3))]
)
def test_probability_better(n: int, spread: float, fails: tuple[float, float]) -> None:
    """With three runs and failures it covers a little more, for it may not exclude 0.5 there."""
    covered = better_coverage(n, spread, fails)
    assert near(covered) or (n == 3 and any(fails) and 0.95 <= covered <= 0.975)


@each_size
def test_probability_better_where_there_is_no_difference(n: int) -> None:
    assert better_coverage(n, 1.0, (0.0, 0.0), theta=(0.5, 0.5)) >= 0.94


@pytest.mark.parametrize("n", [10, 30])
@pytest.mark.parametrize("share", [0.6, 0.8, 0.9])
@pytest.mark.parametrize("spread", [0.0, 0.3, 0.6])
def test_restricted_mean(n: int, share: float, spread: float) -> None:
    assert near(restricted_coverage(n, spread, share))


@pytest.mark.parametrize(("spread", "share"), [(0.3, 0.5), (0.0, 0.999), (0.6, 0.999)])
def test_restricted_mean_where_half_or_all_reach(spread: float, share: float) -> None:
    """Beyond its assumptions, as its docstring says: 10 runs fall short by up to 4 points, 30 do not."""
    assert 0.905 <= restricted_coverage(10, spread, share) <= 0.935
    assert near(restricted_coverage(30, spread, share))


@pytest.mark.parametrize("n", [3, 5, 9])
def test_restricted_mean_has_no_interval_where_none_would_hold(n: int) -> None:
    """Student's t on times cut at the horizon, half of them, would be the one to give: it falls short by more, even of
    the samples that have any spread."""
    horizon, truth = horizon_and_mean(0.3, 0.5)
    times = np.minimum(times_to_target(np.random.default_rng(n), 0.3, (MANY, n)), horizon)
    assert restricted_mean(times[0], times[0] < horizon, horizon).low is None
    times = times[np.ptp(times, axis=1) > 0]
    assert np.mean(t_p(times - truth) >= ALPHA) < 0.93


@each_size
@pytest.mark.parametrize("spread", [0.0, 0.3, 1.0])
def test_median(n: int, spread: float) -> None:
    if n < 6:
        assert median(np.arange(1.0, n + 1), np.ones(n, bool)).low is None
    else:
        assert near(median_coverage(n, spread))


@each_size
def test_wilson_on_average(n: int) -> None:
    assert near(wilson_coverage(n))


@each_size
@pytest.mark.parametrize("spread", [0.1, 1.0])
def test_time_ratio(n: int, spread: float) -> None:
    assert near(ratio_coverage(n, spread))


@each_size
def test_corrected_resampled_t(n: int) -> None:
    assert near(resampled_coverage(n))


@pytest.mark.parametrize(("n", "percentile"), [(3, 0.76), (5, 0.84), (10, 0.91)])
def test_a_percentile_bootstrap_would_not(n: int, percentile: float) -> None:
    """Why none of these is one: of the mean of n normal values it covers this much."""
    rng = np.random.default_rng(90 + n)
    x = rng.normal(0, 1, (4000, n))
    means = np.sort(x[:, rng.integers(n, size=(1000, n))].mean(axis=2), axis=1)
    covered = np.mean((means[:, 25] <= 0) & (means[:, 974] >= 0))
    assert covered == pytest.approx(percentile, abs=0.02)


# False positives at 5 %.


def rank_sum_errors(n: int) -> float:
    """Exact ranks without ties, at random. A p-value belongs to a sum, so each is computed once."""
    rng = np.random.default_rng(100 + n)
    orders = rng.permuted(np.broadcast_to(np.arange(2 * n), (MANY, 2 * n)), axis=1)
    sums = orders[:, :n].sum(axis=1)
    known = {}
    for place in np.unique(sums, return_index=True)[1]:
        known[sums[place]] = rank_sum(orders[place, :n], orders[place, n:]).p
    return float(np.mean([known[total] <= ALPHA for total in sums]))


def signed_errors(n: int, test: Callable[[Array], PValue], rows: int = SOME) -> float:
    d = np.random.default_rng(110 + n).normal(0, 1, (rows, n))
    if n > 16 and test is sign_flip:  # its normal approximation, transcribed
        d = np.random.default_rng(110 + n).normal(0, 1, (MANY, n))
        p = 2 * special.ndtr(-np.abs(d.sum(axis=1)) / np.sqrt((d**2).sum(axis=1)))
        alike(lambda row: test(row).p, p, d)
        return float(np.mean(p <= ALPHA))
    return float(np.mean([test(row).p <= ALPHA for row in d]))


def log_rank_errors(n: int, share: float) -> tuple[float, float]:
    """Of log_rank and of Mantel's form; exponential times of which this share reaches the target."""
    rng = np.random.default_rng(120 + n)
    horizon = -math.log1p(-share) if share < 1 else math.inf
    t = np.minimum(rng.exponential(1, (MANY, 2 * n)), horizon)
    hit = t < horizon
    order = np.argsort(t, axis=1, kind="stable")
    events, first = np.take_along_axis(hit, order, axis=1), order < n  # in the order of time; few ties, at the horizon
    at_risk = np.arange(2 * n, 0, -1)
    share_a = first[:, ::-1].cumsum(axis=1)[:, ::-1] / at_risk
    observed = (events * (first - share_a)).sum(axis=1)
    variance = (events * share_a * (1 - share_a)).sum(axis=1)
    with np.errstate(invalid="ignore"):
        textbook = np.where(variance > 0, 2 * special.ndtr(-np.abs(observed) / np.sqrt(variance)), 1.0)
    alike(lambda x, h: mantel(x[:n], h[:n], x[n:], h[n:]).p, textbook, t, hit, rows=50)
    scores = events - (events / at_risk).cumsum(axis=1)  # with their sum over the first arm = observed
    if math.comb(2 * n, n) > 200_000:
        error = np.sqrt(n / 2 * scores.var(axis=1, ddof=1))
        p = 2 * special.ndtr(-np.abs(observed) / error)
    else:
        p = exact_p(scores, observed, n)
    alike(lambda x, h: log_rank(x[:n], h[:n], x[n:], h[n:]).p, p, t, hit, rows=20)
    return float(np.mean(p <= ALPHA)), float(np.mean(textbook <= ALPHA))


def exact_p(scores: Array, observed: Array, n: int) -> Array:
    """Over all splits. The scores depend only on how the reached and the others lie in time, so equal rows share their
    splits."""
    rows, which, often = np.unique(scores.round(9), axis=0, return_inverse=True, return_counts=True)
    p = np.ones(len(scores))
    chosen = np.array(list(itertools.combinations(range(scores.shape[1]), n)))
    for index in np.argsort(-often):
        distances = np.sort(np.abs(rows[index][chosen].sum(axis=1)))
        mine = which == index
        p[mine] = 1 - np.searchsorted(distances, np.abs(observed[mine]) - 1e-7) / len(distances)
    return p


def worst_rank_errors(n: int, pairs: bool, rows: int) -> float:
    """Three in ten fail in either arm."""
    rng = np.random.default_rng(130 + n)
    a, b = rng.normal(0, 1, (2, rows, n))
    a[rng.random(a.shape) < 0.3] = math.nan
    b[rng.random(b.shape) < 0.3] = math.nan
    return float(np.mean([worst_rank(x, y, paired=pairs).p <= ALPHA for x, y in zip(a, b)]))


def friedman_errors(tasks: int, methods: int) -> float:
    draws = np.random.default_rng(140 + tasks).normal(0, 1, (4000, tasks, methods))
    return float(np.mean([friedman(scores, "max").p <= ALPHA for scores in draws]))


@each_size
def test_t_tests(n: int) -> None:
    assert 1 - paired_coverage(n) <= 0.055
    assert all(1 - welch_coverage(n, spread) <= 0.055 for spread in (1.0, 2.0, 3.0))


@each_size
def test_rank_sum(n: int) -> None:
    assert rank_sum_errors(n) <= 0.055


@each_size
@pytest.mark.parametrize("test", [sign_flip, signed_rank])
def test_signs(n: int, test: Callable[[Array], PValue]) -> None:
    errors = signed_errors(n, test)
    assert errors <= 0.055
    assert (errors == 0) == (n < 6)  # below 6 neither can reach 5 % at all


@pytest.mark.parametrize(
    ("n", "share"),
    [(3, 0.5), (3, 0.8), (3, 1.0), (5, 0.5), (5, 0.8), (5, 1.0), (10, 1.0), (30, 0.5), (30, 0.8), (30, 1.0)],
)
def test_log_rank(n: int, share: float) -> None:
    """Of 10 against 10 only one pattern of reached and not: each has 184,756 splits to count."""
    ours, textbook = log_rank_errors(n, share)
    assert ours <= 0.055
    if n <= 5:
        assert textbook > 0.055  # why the other is there


@each_size
@pytest.mark.parametrize("pairs", [True, False])
def test_worst_rank(n: int, pairs: bool) -> None:
    assert worst_rank_errors(n, pairs, SOME if n < 30 or pairs else 3000) <= 0.055


@pytest.mark.parametrize(("n", "methods"), [(3, 3), (5, 3), (3, 4), (5, 4), (10, 4), (30, 4)])
def test_friedman(n: int, methods: int) -> None:
    assert friedman_errors(n, methods) <= 0.055


def test_kaplan_meier_is_unbiased() -> None:
    """Exponential times with one horizon: the mean of the survival at 1 is exp(-1)."""
    t = np.random.default_rng(150).exponential(1, (SOME, 5))
    found = []
    for row in t:
        curve = kaplan_meier(np.minimum(row, 2), row < 2)
        passed = curve.survival[curve.times <= 1]
        found.append(passed[-1] if len(passed) else 1.0)
    assert np.mean(found) == pytest.approx(math.exp(-1), abs=0.01)
