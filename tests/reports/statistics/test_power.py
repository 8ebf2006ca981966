"""How many seeds it takes: published tables, scipy's noncentral t, and floors that exact tests confirm."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from reports.statistics.power import detectable, least_seeds, noether, power, seeds_needed, smallest_p
from reports.statistics.ranks import rank_sum
from reports.statistics.signs import sign_flip, signed_rank
from reports.statistics.survival import log_rank


@pytest.mark.parametrize(("effect", "n"), [(0.2, 393), (0.5, 64), (0.8, 26)])
def test_cohens_table_of_two_samples(effect: float, n: int) -> None:
    """Cohen 1992, Psychological Bulletin 112, table 2: a small, medium and large effect at power 0.80, alpha 0.05.
    His 393 for the small one is of the normal distribution; the noncentral t asks for one more."""
    assert seeds_needed(sd=1.0, difference=effect, paired=False) in (n, n + 1)


@pytest.mark.parametrize(("effect", "n"), [(0.5, 34), (0.8, 15), (1.0, 10)])
def test_published_numbers_of_pairs(effect: float, n: int) -> None:
    """As G*Power 3 gives for matched pairs at power 0.80, alpha 0.05, two-sided."""
    assert seeds_needed(sd=1.0, difference=effect) == n


def test_power_is_the_noncentral_ts() -> None:
    critical = stats.t.ppf(0.975, 8)
    shift = 1.5 / 1.2 * math.sqrt(5 / 2)
    expected = stats.nct.sf(critical, 8, shift) + stats.nct.cdf(-critical, 8, shift)
    assert power(sd=1.2, difference=1.5, n=5, paired=False) == pytest.approx(expected, rel=1e-6)


def test_power_is_what_simulated_studies_find() -> None:
    draws = np.random.default_rng(0).normal(1.2, 1.0, (20_000, 5))
    found = np.mean(stats.ttest_1samp(draws, 0, axis=1).pvalue < 0.05)
    assert power(sd=1.0, difference=1.2, n=5) == pytest.approx(found, abs=0.01)


@pytest.mark.parametrize("paired", [True, False])
@pytest.mark.parametrize("n", [2, 3, 9, 30])
def test_power_rises_to_one_however_large_the_difference(n: int, paired: bool) -> None:
    found = [power(1.0, difference, n, paired=paired) for difference in np.arange(0.0, 60, 0.25)]
    assert found == pytest.approx(sorted(found), abs=1e-9)
    assert found[-1] > 0.99


def test_without_a_difference_power_is_alpha() -> None:
    assert power(sd=1.0, difference=0.0, n=7) == pytest.approx(0.05, abs=1e-6)


@given(st.floats(0.3, 5), st.floats(0.3, 5), st.sampled_from([0.5, 0.8, 0.95]), st.booleans())
def test_seeds_needed_are_the_fewest(sd: float, difference: float, wanted: float, paired: bool) -> None:
    n = seeds_needed(sd, difference, power=wanted, paired=paired)
    assert power(sd, difference, n, paired=paired) >= wanted
    assert n == 2 or power(sd, difference, n - 1, paired=paired) < wanted


@given(st.floats(0.1, 10), st.integers(2, 60), st.booleans())
def test_detectable_is_found_as_often_as_said(sd: float, n: int, paired: bool) -> None:
    difference = detectable(sd, n, paired=paired)
    assert power(sd, difference, n, paired=paired) == pytest.approx(0.8, abs=1e-5)
    assert seeds_needed(sd, difference * 1.0001, paired=paired) == n


def test_detectable_shrinks_with_seeds_and_grows_with_spread() -> None:
    shrinking = [detectable(1.0, n) for n in (2, 3, 5, 10, 30)]
    assert shrinking == sorted(shrinking, reverse=True)
    assert detectable(2.0, 5) == pytest.approx(2 * detectable(1.0, 5))
    assert detectable(1.0, 1) == math.inf


def test_what_cannot_be_found() -> None:
    with pytest.raises(ValueError, match="no number of seeds"):
        seeds_needed(sd=1.0, difference=0.0)
    with pytest.raises(ValueError, match="over 1,000,000"):
        seeds_needed(sd=1.0, difference=1e-6)
    assert seeds_needed(sd=0.0, difference=1.0) == 2


def test_noethers_worked_case() -> None:
    """Bouthillier et al. 2021: 29 for P(A > B) = 0.75 with both errors at 5 %."""
    assert noether(0.75, 0.05, 0.05) == 29
    assert noether(0.25, 0.05, 0.05) == 29
    assert noether(0.6, 0.05, 0.05) > noether(0.9, 0.05, 0.05)
    with pytest.raises(ValueError, match="no difference"):
        noether(0.5, 0.05, 0.05)


def test_noethers_n_keeps_its_word() -> None:
    """Normal values with P(A > B) = 0.75, 29 of each: a one-sided rank sum at 5 % finds it in about 95 %."""
    rng = np.random.default_rng(0)
    a, b = rng.normal(math.sqrt(2) * stats.norm.ppf(0.75), 1, (2000, 29)), rng.normal(0, 1, (2000, 29))
    found = stats.mannwhitneyu(a, b, alternative="greater", method="asymptotic", axis=1).pvalue <= 0.05
    assert np.mean(found) == pytest.approx(0.95, abs=0.02)


@pytest.mark.parametrize(
    ("test", "n", "m", "p"),
    [
        ("sign flip", 5, None, 0.0625),
        ("sign flip", 6, None, 0.03125),
        ("signed ranks", 5, None, 0.0625),
        ("signed ranks", 6, None, 0.03125),
        ("rank sum", 3, 3, 0.1),
        ("rank sum", 4, 4, 0.0286),
        ("rank sum", 5, 5, 0.0079),
        ("sign flip", 0, None, 1.0),
    ],
)
def test_smallest_p_values(test: str, n: int, m: int | None, p: float) -> None:
    assert smallest_p(test, n, m) == pytest.approx(p, abs=5e-5)


@pytest.mark.parametrize("n", [2, 3, 4, 5, 6])
def test_smallest_p_is_what_the_tests_give_at_their_clearest(n: int) -> None:
    clear = np.arange(1.0, n + 1)
    all_reached = np.ones(n, bool)
    assert sign_flip(clear).p == signed_rank(clear).p == smallest_p("sign flip", n)
    assert rank_sum(clear, clear - 100).p == pytest.approx(smallest_p("rank sum", n))
    assert log_rank(clear, all_reached, clear + 100, all_reached).p == pytest.approx(smallest_p("log-rank", n))


def test_fewest_seeds_that_can_reach() -> None:
    assert least_seeds("sign flip") == 6
    assert least_seeds("rank sum") == 4
    assert least_seeds("sign flip", comparisons=3) == 7  # 3 * 2 / 2^7 = 0.047


def test_unknown_tests_are_named() -> None:
    with pytest.raises(ValueError, match="rank sum"):
        smallest_p("paired t", 3)
