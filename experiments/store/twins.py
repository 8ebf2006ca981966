"""Twins: several MLflow runs of one run of ours. A server that was asked to create a run, and answered too late, leaves
one: the run was asked for again.

The one that the home mirrors to stays. A twin without a point is marked as deleted in MLflow, where it can be restored;
one that holds points is left to people.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from experiments.store.mirrored import Mirrored

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run


def twins(client: MlflowClient, state: Mirrored, run_id: str) -> list[Run]:
    """MLflow's other active runs that say they are this one."""
    from mlflow.entities import ViewType

    wanted = f"tags.`trainlab.run_id` = '{run_id}'"
    found = client.search_runs([state.experiment], wanted, run_view_type=ViewType.ACTIVE_ONLY)
    return [run for run in found if run.info.run_id != state.run]


def remove_empty(client: MlflowClient, found: list[Run]) -> list[Run]:
    """Marks those without a point as deleted; returns the others."""
    for run in found:
        if not run.data.metrics:
            client.delete_run(run.info.run_id)
    return [run for run in found if run.data.metrics]
