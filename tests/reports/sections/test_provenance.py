"""Provenance says whose commit and whose changes each fact is of."""

from __future__ import annotations

from typing import Any

from reports.document import Table
from reports.sections.provenance import provenance
from reports.table import read


def test_the_folders_changes_are_told_apart_from_trainlabs(clean: Any) -> None:
    own = {"commit": "b" * 40, "dirty": True, "diff_sha256": "ab"}
    clean.with_file(clean.records, provenance={"commit": "", "dirty": False, "diff_sha256": "", "trainlab": own})
    (table,) = [block for block in provenance(read(clean, "sgd-or-adam")) if isinstance(block, Table)]
    told = {str(row[0][0]): row[1][0] for row in table.rows}
    assert told["folder: uncommitted changes"] == "no"
    assert told["trainlab: uncommitted changes"] == "yes"
    assert told["trainlab: commit"] == "b" * 40
    assert "dirty" not in " ".join(told)
