"""Predictions of a run's model on its task's validation split, counted by class."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from algos.finding import InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from trainlab.run_handle import Run

#: A matrix of more classes shows nothing to an eye.
_MOST = 200


def counted(run: Run) -> NDArray[np.int64]:
    """(true, predicted) counts over the validation split, by the weights that were tested, in float32 on the CPU.
    InputError where a run has no model, its task is a user's own module, or it does not tell classes apart."""
    import torch

    from experiments.modules.reference import is_reference
    from experiments.training import load_data

    task = run.record.labels.task
    given = run.record.config.get("task", task)
    if run.record.file.facts.get("recorded") or is_reference(str(given)):
        said = f"what run {run.run_id} predicts is not ours to ask: its data are its maker's own"
        raise InputError(
            said, "count it yourself and give the matrix: tl.plot.confusion(matrix)", rule="no-predictions"
        )
    if not (run.path / "model.safetensors").exists():
        raise InputError(f"run {run.run_id} ({run.status}) left no model", "name one that completed", rule="no-model")
    model, data = run.model, load_data(str(given), os.environ.get("TRAINLAB_DATA"))
    counts: Any = None
    with torch.no_grad():
        for batch in data.evaluation("validation", torch.device("cpu")):
            scores = model(*batch.inputs)
            scores = scores if batch.where is None else scores[batch.where]
            classes = scores.shape[-1]
            if classes > _MOST:
                said = f"task '{task}' tells {classes} classes apart"
                raise InputError(said, f"a confusion matrix is drawn of at most {_MOST}", rule="too-many-classes")
            pairs = batch.targets.reshape(-1) * classes + scores.reshape(-1, classes).argmax(dim=-1)
            found = torch.bincount(pairs, minlength=classes * classes)
            counts = found if counts is None else counts + found
    assert counts is not None
    side = int(len(counts) ** 0.5)
    matrix: NDArray[np.int64] = counts.reshape(side, side).numpy()
    return matrix
