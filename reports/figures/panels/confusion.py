"""Confusion matrix. A study's records hold no predictions, so it is drawn from a run's model or from counts given."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from algos.finding import InputError
from experiments.store.schema import RunRecord
from reports.figures.confusion import confusion
from reports.figures.panel import Ask, Panel, Subject, lacking
from reports.figures.style import current


def panel(subject: Subject, ask: Ask) -> Panel:
    raise lacking(
        f"the runs of study '{subject.table.name}' store no predictions",
        "give a run, whose model is asked (`trainlab figure confusion RUN`), or counts: tl.plot.confusion(matrix)",
    )


def of_counts(counts: ArrayLike, names: Sequence[str] = (), said: str = "", runs: tuple[RunRecord, ...] = ()) -> Panel:
    """counts: (true, predicted), whole numbers. names: of the classes, else 0, 1, ... said: of what they are.
    InputError for anything else."""
    try:
        matrix = np.asarray(counts, float)
    except (TypeError, ValueError):
        matrix = np.empty(0)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not len(matrix):
        raise InputError(f"a confusion matrix of shape {matrix.shape}", "give counts (true, predicted), a square")
    if not np.isfinite(matrix).all() or (matrix < 0).any() or (matrix != matrix.round()).any():
        raise InputError("a confusion matrix of values that are no counts", "give whole numbers, 0 or more")
    whole = matrix.astype(np.int64)
    classes = [str(name) for name in names] or [str(index) for index in range(len(whole))]
    if len(classes) != len(whole):
        raise InputError(f"{len(classes)} names for {len(whole)} classes", "give one a class")
    right, total = int(np.trace(whole)), int(whole.sum())
    said, ink = said or f"{total} examples", current().ink
    return Panel(
        kind="confusion",
        title="Confusion matrix",
        draw=lambda axis: confusion(axis, whole, classes, said=said),
        header=("true", "predicted", "count"),
        rows=tuple((classes[i], classes[j], int(whole[i, j])) for i, j in np.ndindex(whole.shape)),
        alt=f"Confusion matrix of {len(whole)} classes, {said}: {right} of {total} right.",
        caption=f"Counts by true and predicted class ({said})" + ("; shade: share of the true class." if ink else "."),
        square=True,
        runs=runs,
    )
