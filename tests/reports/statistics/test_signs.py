"""Exact paired tests: their smallest p-value, and what diverged runs do to them."""

import numpy as np
import pytest
from scipy import stats

from reports.statistics.signs import sign_flip, signed_rank


@pytest.mark.parametrize(("n", "floor"), [(3, 0.25), (5, 0.0625), (6, 0.03125)])
def test_smallest_p_value(n: int, floor: float) -> None:
    """All differences on one side: nothing can be more extreme."""
    result = sign_flip(np.arange(1.0, n + 1))
    assert result.p == result.floor == floor
    assert result.reachable(0.05) == (floor <= 0.05)


def test_signed_rank_is_wilcoxons() -> None:
    d = [0.3, -0.1, 0.7, 0.2, -0.4, 0.9, 1.1]
    assert signed_rank(d).p == pytest.approx(stats.wilcoxon(d, method="exact").pvalue)


def test_sign_flip_is_scipys_permutation_test() -> None:
    d = np.array([0.3, -0.1, 0.7, 0.2, -0.4])
    reference = stats.permutation_test((d,), np.mean, permutation_type="samples", n_resamples=10**6)
    assert sign_flip(d).p == pytest.approx(reference.pvalue)


def test_diverged_runs_count_as_the_largest_differences() -> None:
    """Better on three seeds and lost on two: no p-value worth a word, where the three alone look perfect."""
    dropped, kept = signed_rank([0.02, 0.03, 0.01]), signed_rank([0.02, 0.03, 0.01, -np.inf, -np.inf])
    assert dropped.p == dropped.floor
    assert kept.p > 0.5


def test_all_ties_say_nothing() -> None:
    assert sign_flip([0.0, 0.0, 0.0]).p == 1.0


def test_many_seeds_agree_with_the_exact_distribution() -> None:
    """Above 16 a normal approximation; at 17 it must be near what 2^17 patterns give."""
    d = np.random.default_rng(0).normal(0.4, 1, 17)
    signs = 1 - 2 * ((np.arange(2**17)[:, None] >> np.arange(17)) & 1)
    exact = np.mean(np.abs(signs @ np.abs(d)) >= abs(d.sum()) - 1e-9)
    assert sign_flip(d).p == pytest.approx(exact, abs=0.02)


@pytest.mark.parametrize("n", [17, 30])
def test_signed_ranks_stay_exact_with_many_seeds(n: int) -> None:
    d = np.random.default_rng(n).normal(0.3, 1, n)
    assert signed_rank(d).p == pytest.approx(stats.wilcoxon(d, method="exact").pvalue)
    assert signed_rank(np.arange(1.0, n + 1)).p == signed_rank(d).floor == 2.0 / 2.0**n


def test_signed_ranks_with_ties_are_counted_as_they_are() -> None:
    """Seventeen, against all of their patterns."""
    d = np.array([1.0, 1, -1, 2, 2, 3, -3, 3, 4, np.inf, -np.inf, 5, 6, 6, -2, 7])
    patterns = 1 - 2 * ((np.arange(2**17)[:, None] >> np.arange(17)) & 1)
    more = np.append(d, 2.0)
    ranks = stats.rankdata(np.abs(more)) * np.sign(more)
    exact = np.mean(np.abs(patterns @ np.abs(ranks)) >= abs(ranks.sum()) - 1e-9)
    assert signed_rank(more).p == pytest.approx(exact)
