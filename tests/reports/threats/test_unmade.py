"""What could not be looked for is said, so that its absence among the threats shows nothing."""

from __future__ import annotations

from typing import Any

from reports.table import read
from reports.threats.unmade import unmade

NAME = "sgd-or-adam"


def test_a_study_that_tells_everything_had_every_check(clean: Any) -> None:
    """All but the models' sizes, which the runs of this one do not tell."""
    (said,) = unmade(read(clean, NAME))
    assert said == "the models' sizes (28 of 28 runs do not tell)"


def test_runs_that_tell_nothing_are_not_found_clean(clean: Any) -> None:
    clean.with_file(clean.records, provenance={})
    clean.points = {}
    said = "; ".join(unmade(read(clean, NAME)))
    for words in ("devices", "threads", "commits", "versions of packages", "uncommitted changes"):
        assert f"{words} (28 of 28 runs do not tell)" in said
    assert "whether a longer budget would help sgd and adam" in said
    assert "whether sgd and adam reached the target" in said
    assert "edge" not in said
