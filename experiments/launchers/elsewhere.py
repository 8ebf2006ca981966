"""What a worker on another machine is to know of the process that sends it there. Torch-free."""

from __future__ import annotations

import os

_OURS = ("MLFLOW_", "TRAINLAB_")
_NOT = ("TRAINLAB_HOME", "MLFLOW_RUN_ID")


def environment(uri: str, threads: int | None) -> dict[str, str]:
    """The variables that it takes along: MLflow's and ours, its place (`uri`) whole, its share of the cores."""
    kept = {name: value for name, value in os.environ.items() if name.startswith(_OURS) and name not in _NOT}
    return {**kept, "MLFLOW_TRACKING_URI": uri, **({"OMP_NUM_THREADS": str(threads)} if threads else {})}
