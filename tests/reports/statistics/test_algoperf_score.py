"""AlgoPerf's score: the published one of every submission of v0.5, and cases small enough to be worked by hand."""

from __future__ import annotations

import io
import itertools
import math
import tarfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.store.sources.algoperf_targets import V05
from reports.statistics import algoperf

INF, NAN = math.inf, math.nan
#: Median times to target in seconds, of v0.5 (external tuning), in the order of V05's base and held-out workloads, and
#: the published score. From the logs of mlcommons/submissions_algorithms; "" where a submission has none.
PUBLISHED = """
amos inf 2940.569 inf 50496.199 43292.978 31735.311 11070.926 32832.632 inf 4303.856 34759.934 34652.529 16355.946 17722.196 0.4918
baseline 7222.520 2030.443 inf 70196.778 54769.414 36023.788 7696.546 41188.847 610.684 4508.623 59225.245 50446.975 12504.551 16832.496 0.5707
caspr_adaptive nan 1119.303 inf 44673.050 inf 41824.546 2191.666 32044.784 nan 1359.509 inf 36123.747 2194.650 nan 0.4722
cyclic_lr 5163.490 2200.435 inf 62445.272 57567.217 38985.607 6947.535 23562.417 605.618 3866.230 inf 56128.651 9334.265 16850.512 0.6301
generalized_adam 6402.855 1580.746 61256.878 64739.505 inf 37495.628 5784.780 30284.092 383.520 3427.519 55656.525 50467.362 11785.523 16002.869 0.6383
lawa_ema 5302.865 2556.071 inf 61885.636 inf inf 10596.675 43033.883 719.331 5026.564 inf inf 13558.039 18908.291 0.3384
lawa_queue inf 1970.533 inf 51188.583 inf inf 4642.905 27170.582 1053.211 4862.699 inf inf 4463.855 10521.411 0.3699
nadamp 6162.496 1979.691 inf 68105.418 57675.264 33171.103 7944.483 38683.875 502.987 4300.394 56673.293 51916.128 13705.694 22725.174 0.5909
schedule_free_adamw 5163.937 1161.916 inf 44005.155 56121.355 43256.352 5275.197 16012.730 365.831 3604.427 inf 34536.250 11242.092 5946.886 0.7077
schedule_free_prodigy nan 1880.770 inf inf inf inf 11243.209 inf nan 5777.152 inf inf inf 19390.107 0.0
shampoo_submission 5042.694 1321.268 inf 33093.980 47444.840 34623.611 3362.597 38656.074 246.416 1949.328 58545.563 41695.353 3601.267 11813.124 0.7784
"""  # noqa: E501
WORKLOADS = (*V05.base, *V05.held_out)


@dataclass(frozen=True)
class Trial:
    submission: str
    workload: str
    study: int = 0
    evaluation: float = 1.0
    seconds: float = 1.0


def published() -> tuple[algoperf.Times, list[float]]:
    rows = [line.split() for line in PUBLISHED.strip().splitlines()]
    seconds = np.array([[float(word) for word in row[1:-1]] for row in rows])
    return algoperf.Times(tuple(row[0] for row in rows), WORKLOADS, seconds), [float(row[-1]) for row in rows]


def of(*trials: Trial, base: tuple[str, ...] = ("w",), held_out: tuple[str, ...] = ()) -> dict[str, float]:
    """Exact scores by submission."""
    found = algoperf.scores(trials, base, held_out)
    return dict(zip(found.submissions, found.exact.tolist()))


def test_the_published_scores_follow_from_the_published_times():
    times, scores = published()
    ratios = algoperf.profile_ratios(times, V05.base, V05.held_out)
    assert algoperf.on_grid(ratios).round(4).tolist() == scores


def test_the_published_speedup_of_shampoo():
    """compute_speedups.py: 0.7211, where a missed target counts as the whole budget and a second."""
    times, _ = published()
    budgets = [V05.workloads[name].budget_s for name in V05.base]
    mine, theirs = (times.row(name, V05.base) for name in ("shampoo_submission", "baseline"))
    found = algoperf.time_ratio(mine, theirs, budgets)
    assert found.value == pytest.approx(0.7211, abs=5e-5)
    assert found.n == 8
    only = algoperf.time_ratio(mine, theirs)  # by hand: exp of the mean of seven logs, imagenet_resnet left out
    assert only.n == 7
    assert only.value == pytest.approx(0.721119300 ** (8 / 7), rel=1e-6)
    assert only.low < only.value < only.high < 1


def test_the_times_and_scores_of_the_raw_logs(logs):
    """All 3,700 trials: every median time as it was published, and from them every score."""
    from experiments.store.sources.algoperf import AlgoPerfSource

    source = AlgoPerfSource(logs)
    found = algoperf.scores(source.trials(), source.targets.base, source.targets.held_out)
    times, scores = published()
    assert found.submissions == times.submissions
    np.testing.assert_allclose(found.times.seconds, times.seconds, atol=6e-4, rtol=0)
    assert found.official.round(4).tolist() == scores
    assert found.corrected.round(4).tolist() != found.exact.round(4).tolist()  # the fastest trial is not always taken
    assert len(found.choices) == 10
    assert source.ruleset == "external"
    assert ["18 logs" in str(finding) for finding in source.findings] == [True]


@pytest.fixture(scope="module")
def logs(tmp_path_factory) -> Path:
    import os

    if "TRAINLAB_DATA" not in os.environ:
        pytest.skip("TRAINLAB_DATA is not set: the raw logs are not part of the project")
    packed = Path(os.environ["TRAINLAB_DATA"]) / "algoperf" / "algoperf-v0.5-external_tuning.tar.xz"
    folder = tmp_path_factory.mktemp("algoperf")
    with tarfile.open(fileobj=io.BytesIO(packed.read_bytes())) as archive:
        archive.extractall(folder, filter="data")
    return folder


def test_the_trial_in_the_fewest_evaluations_counts_though_another_was_faster():
    slow, fast = Trial("a", "w", 0, 3, 50.0), Trial("a", "w", 0, 4, 40.0)
    times = algoperf.medians([slow, fast], ["a"], ["w"], "evaluations")
    assert times.of("a", "w") == 50.0
    assert algoperf.medians([slow, fast], ["a"], ["w"], "seconds").of("a", "w") == 40.0
    found = algoperf.scores([slow, fast, Trial("b", "w", 0, 1, 40.0)], ["w"], [])
    assert found.exact.tolist() == [pytest.approx((4 - 50 / 40) / 3), 1.0]
    assert found.corrected.tolist() == [1.0, 1.0]


def test_of_trials_at_one_evaluation_the_first_counts():
    first, second = Trial("a", "w", 0, 3, 50.0), Trial("a", "w", 0, 3, 40.0)
    assert algoperf.medians([first, second], ["a"], ["w"], "evaluations").of("a", "w") == 50.0


def test_the_median_over_studies_counts_a_miss_as_later_than_all():
    def times(*seconds: float) -> float:
        trials = [Trial("a", "w", study, INF if s == INF else 1, s) for study, s in enumerate(seconds)]
        return algoperf.medians(trials, ["a"], ["w"], "evaluations").of("a", "w")

    assert times(1, 2, 3, INF, INF) == 3
    assert times(1, 2, INF, INF, INF) == INF
    assert times(1, 3) == 2
    assert times(1, INF) == INF


def test_four_times_the_fastest_is_still_in_time():
    at, over = Trial("a", "w", 0, 1, 40.0), Trial("b", "w", 0, 1, 40.001)
    ratios = algoperf.scores([Trial("c", "w", 0, 1, 10.0), at, over], ["w"], []).ratios
    assert ratios[:, 0].tolist() == [4.0, INF, 1.0]


@pytest.mark.parametrize("variant", [[], [Trial("a", "w_tanh", 0, INF, INF)], [Trial("a", "w_tanh", 0, 1, 81.0)]])
def test_a_missed_or_late_or_absent_variant_takes_its_base_away(variant):
    """81 s is more than 4 times b's 20 s."""
    both = [Trial("a", "w"), Trial("b", "w", 0, 1, 2.0), Trial("b", "w_tanh", 0, 1, 20.0)]
    assert of(*both, *variant, base=("w",), held_out=("w_tanh",)) == {"a": 0.0, "b": 1.0}


def test_who_loses_a_base_does_not_set_its_pace():
    """a is twice as fast, and its variant is missing: b is the fastest of those that are left."""
    assert of(Trial("a", "w"), Trial("b", "w", 0, 1, 2.0), Trial("b", "w_tanh"), base=("w",), held_out=("w_tanh",)) == {
        "a": 0.0, "b": 1.0,
    }  # fmt: skip


def test_a_variant_of_a_base_that_was_missed_sets_no_pace():
    """a is first on the variant but missed its base: b's 5 s there are not too late."""
    trials = [Trial("a", "w", 0, INF, INF), Trial("a", "w_tanh"), Trial("b", "w"), Trial("b", "w_tanh", 0, 1, 5.0)]
    assert of(*trials, base=("w",), held_out=("w_tanh",)) == {"a": 0.0, "b": 1.0}


def test_workloads_without_logs_count_in_the_denominator():
    assert of(Trial("a", "w"), base=("w", "v", "u", "t")) == {"a": 0.25}


def test_nobody_reaches_a_target():
    assert of(Trial("a", "w", 0, INF, INF), Trial("b", "w", 0, INF, INF)) == {"a": 0.0, "b": 0.0}


def test_no_trials_give_no_scores():
    found = algoperf.scores([Trial("a", "elsewhere")], ["w"], [])
    assert found.submissions == ()
    assert found.official.shape == (0,)


def test_subsets_of_studies_are_odd():
    assert [len(algoperf.choices(list(range(n)))[0]) for n in (1, 2, 3, 4, 5, 6)] == [1, 1, 1, 3, 3, 5]


TIMES = st.lists(
    st.lists(st.one_of(st.floats(1, 1e5), st.just(INF), st.just(NAN)), min_size=3, max_size=3), min_size=1, max_size=5
)


@settings(deadline=None, max_examples=60)
@given(TIMES)
def test_laws_of_the_score(rows):
    times = algoperf.Times(tuple("abcde"[: len(rows)]), ("u", "v", "w"), np.array(rows))
    ratios = algoperf.profile_ratios(times, ("u", "v", "w"), ())
    exact, grid = algoperf.exact(ratios), algoperf.on_grid(ratios)
    assert ((exact >= 0) & (exact <= 1 + 1e-12)).all()
    assert np.abs(exact - grid).max() <= 1 / (algoperf.POINTS - 1)  # a step is blurred by less than a cell
    fine = np.linspace(1, algoperf.LIMIT, 30_001)
    middle = algoperf.profile(ratios, (fine[1:] + fine[:-1]) / 2).mean(axis=1)
    np.testing.assert_allclose(exact, middle, atol=1e-4)
    scaled = algoperf.Times(times.submissions, times.workloads, times.seconds * 8)  # in other units of time
    np.testing.assert_array_equal(algoperf.profile_ratios(scaled, ("u", "v", "w"), ()), ratios)


@settings(deadline=None, max_examples=40)
@given(st.permutations(range(6)))
def test_the_order_of_submissions_does_not_matter(order):
    trials = [Trial(f"s{i}", w, 0, 1, 10.0 + 3 * i) for i, w in itertools.product(range(3), ("w", "v"))]
    assert of(*(trials[i] for i in order), base=("w", "v")) == of(*trials, base=("w", "v"))


def test_a_ratio_of_one_workload_has_no_interval_and_of_none_no_value():
    assert algoperf.time_ratio([1.0, INF], [2.0, 3.0]).low is None
    assert algoperf.time_ratio([INF], [2.0]) is None


def test_two_workloads_and_ratios_without_spread_have_no_interval():
    assert algoperf.time_ratio([1.0, 2.0], [2.0, 3.0]).low is None
    assert algoperf.time_ratio([1.0, 2.0, 3.0], [2.0, 4.0, 6.0]).low is None
    assert algoperf.time_ratio([1.0, 2.0, 3.0], [2.0, 4.0, 5.0]).low is not None
