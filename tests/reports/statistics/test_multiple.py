"""Holm's and Benjamini and Hochberg's corrections on a worked case, and their laws."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from reports.statistics.multiple import benjamini_hochberg, holm

P_VALUES = st.lists(st.floats(0, 1), max_size=12)


def test_worked_case() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert benjamini_hochberg([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.02, 0.04, 0.04, 0.02])


def test_benjamini_hochberg_is_scipys() -> None:
    p = [0.2, 0.001, 0.04, 0.04, 0.9, 0.013]
    assert benjamini_hochberg(p) == pytest.approx(stats.false_discovery_control(p).tolist())


def test_never_above_one_never_below_what_was_given() -> None:
    adjusted = holm([0.6, 0.9, 0.02])
    assert max(adjusted) <= 1
    assert all(after >= before for after, before in zip(adjusted, [0.6, 0.9, 0.02]))


@given(P_VALUES)
def test_laws(p: list[float]) -> None:
    """Found at a false discovery rate is never harder than found with any error at all; order is kept; nothing falls
    below what was given or rises above 1."""
    for given_p, rate, family in zip(p, benjamini_hochberg(p), holm(p), strict=True):
        assert given_p <= rate * (1 + 1e-12)
        assert rate <= family * (1 + 1e-12)
        assert family <= 1
    order = sorted(range(len(p)), key=p.__getitem__)
    for adjusted in (benjamini_hochberg(p), holm(p)):
        assert [adjusted[i] for i in order] == sorted(adjusted)


def test_none_and_one() -> None:
    assert holm([]) == benjamini_hochberg([]) == []
    assert holm([0.03]) == benjamini_hochberg([0.03]) == [0.03]
