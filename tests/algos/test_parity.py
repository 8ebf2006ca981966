"""Every optimizer takes the steps of its named reference, and docs/parity.md says so of every case."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.algos import tables
from tests.algos.parity import TOLERANCE, Case, error

CASES = [
    pytest.param(name, case, id=f"{name}-{index}-{case.variant}")
    for name in tables.names()
    for index, case in enumerate(tables.cases(name))
]


@pytest.mark.parametrize("name", tables.names())
def test_every_optimizer_has_a_case(name: str) -> None:
    assert tables.cases(name), f"tests/algos/optimizers/test_{name}.py has no PARITY"


@pytest.mark.parametrize(("name", "case"), CASES)
def test_the_steps_are_the_reference_s(name: str, case: Case) -> None:
    found = error(case)
    assert found < TOLERANCE
    stored = {row.case: row.bound for row in tables.stored_rows()}
    bound = stored.get(tables.row(name, case).case, TOLERANCE)  # a row that is missing is the next test's matter
    other_machine = max(100 * bound, 1e-12)  # rounding differs from one processor to the next
    assert found <= other_machine, f"docs/parity.md says less than {bound:.0e}; run `make tables`"


def test_the_table_is_not_stale() -> None:
    expected = Counter(tables.row(name, case).case for name, case in tables.every_case())
    stored = Counter(row.case for row in tables.stored_rows())
    assert not expected - stored, "docs/parity.md lacks cases; run `make tables`"
    assert not stored - expected, "docs/parity.md has cases that are no more; run `make tables`"
