"""Neighbours: the graph that joins each example to its nearest ones."""

from __future__ import annotations

import torch
from torch import Tensor


def graph(points: Tensor, k: int) -> Tensor:
    """Edges (2, E), both ways, no loops, each once: i and j are joined where j is one of i's k nearest, or i one of
    j's.

    points: (N, F) whole numbers, so that distances are exact; of neighbours equally far, the lower row is taken. So the
    graph is the same on every machine.

    >>> graph(torch.tensor([[0], [1], [3], [7]]), k=1).tolist()
    [[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]]
    """
    count = len(points)
    exact = points.double()
    squares = exact.square().sum(dim=1)
    distances = (squares[:, None] + squares[None, :] - 2 * exact @ exact.T).long()
    keys = distances * count + torch.arange(count)
    keys.fill_diagonal_(torch.iinfo(torch.int64).max)
    nearest = keys.topk(k, dim=1, largest=False).indices
    source, target = torch.arange(count).repeat_interleave(k), nearest.flatten()
    both = torch.cat([source * count + target, target * count + source]).unique()
    return torch.stack([both // count, both % count])
