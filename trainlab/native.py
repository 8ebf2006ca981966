"""The native objects behind a run and a study: MLflow's run, Optuna's studies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from algos.finding import InputError
from experiments.store.home import Home

if TYPE_CHECKING:
    import mlflow.entities
    import optuna


def mlflow_run(run_id: str) -> mlflow.entities.Run:
    """MLflow's run that mirrors ours; InputError where it is not there (yet)."""
    from mlflow import MlflowClient

    from experiments.store.tracking import shown, tracking_uri

    uri = tracking_uri()
    client = MlflowClient(tracking_uri=uri)
    everywhere = [experiment.experiment_id for experiment in client.search_experiments()]
    found = client.search_runs(everywhere, filter_string=f"tags.`trainlab.run_id` = '{run_id}'", max_results=1)
    if not found:
        raise InputError(f"run {run_id} is not in {shown(uri)}", "it is mirrored when the store can be reached")
    return found[0]


def optuna_studies(home: Home, study: str) -> Mapping[str, optuna.Study]:
    """Optuna's studies of one of ours, by what follows its name: "task/arm", "task/arm/final"."""
    import optuna

    from experiments.sweeps.journal import open_journal

    storage = open_journal(home.path)
    names = [each.study_name for each in optuna.get_all_study_summaries(storage=storage)]
    return {
        name.removeprefix(f"{study}/"): optuna.load_study(study_name=name, storage=storage)
        for name in names
        if name.startswith(f"{study}/")
    }
