"""Holm's correction on a worked case."""

import pytest

from reports.statistics.multiple import holm


def test_worked_case() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])


def test_never_above_one_never_below_what_was_given() -> None:
    adjusted = holm([0.6, 0.9, 0.02])
    assert max(adjusted) <= 1
    assert all(after >= before for after, before in zip(adjusted, [0.6, 0.9, 0.02]))


def test_none_and_one() -> None:
    assert holm([]) == []
    assert holm([0.03]) == [0.03]
