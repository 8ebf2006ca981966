"""Provenance of a figure: from which study and runs it was drawn, as one line that is stored inside its files."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from importlib import metadata

from experiments.store.schema import RunRecord


def version() -> str:
    try:
        return metadata.version("trainlab")
    except metadata.PackageNotFoundError:
        return "unknown"


def digest(study: str, records: Iterable[RunRecord]) -> str:
    """sha256 of the study's name, trainlab's version, and of each run its id, the digest of its config, its status and
    its final values. Order does not matter."""
    runs = sorted(
        (r.run_id, r.file.digest, r.status, sorted((k, repr(v)) for k, v in r.final.items())) for r in records
    )
    told = json.dumps([study, version(), runs], ensure_ascii=True)
    return hashlib.sha256(told.encode()).hexdigest()


def provenance(study: str, records: Iterable[RunRecord]) -> str:
    """ "trainlab 0.1.0; study NAME; 12 runs; sha256:..."."""
    runs = list(records)
    return f"trainlab {version()}; study {study}; {len(runs)} runs; sha256:{digest(study, runs)}"
