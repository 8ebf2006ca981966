"""Stratified order: examples ordered so that every stretch of them holds each class in its share.

The order depends on the labels and a number only: numpy promises the raw stream of PCG64, so no version of a library
moves an example from one split to another.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor


def order(labels: Tensor, seed: int) -> Tensor:
    """(N,) class numbers -> (N,) int64 rows. Random within a class; the r-th of n in a class stands at about (r +
    1/2)/n.

    >>> labels = torch.tensor([0, 0, 0, 0, 1, 1])
    >>> labels[order(labels, seed=0)[:3]].sort().values.tolist()
    [0, 0, 1]
    """
    random = np.argsort(np.random.PCG64(seed).random_raw(len(labels)), kind="stable")
    classes = labels.numpy()[random]
    place = np.empty(len(labels))
    for number in np.unique(classes):
        members = np.flatnonzero(classes == number)
        place[members] = (np.arange(len(members)) + 0.5) / len(members)
    return torch.from_numpy(random[np.argsort(place, kind="stable")])


def first_of_each_class(labels: Tensor, rows: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Of `rows`, in their order: the first `count` of every class, and the rest."""
    taken = torch.zeros(len(rows), dtype=torch.bool)
    classes = labels[rows]
    for number in classes.unique():
        taken[(classes == number).nonzero().flatten()[:count]] = True
    return rows[taken], rows[~taken]
