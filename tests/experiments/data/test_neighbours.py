"""The graph of nearest neighbours."""

from __future__ import annotations

import torch
from sklearn.neighbors import NearestNeighbors

from experiments.data import neighbours


def test_it_is_scikit_learns_where_no_two_are_equally_far() -> None:
    points = torch.randint(0, 1000, (60, 5), generator=torch.Generator().manual_seed(0))
    found = NearestNeighbors(n_neighbors=4).fit(points.numpy()).kneighbors_graph(mode="connectivity").toarray() > 0
    edges = neighbours.graph(points, k=4)
    ours = torch.zeros(60, 60, dtype=torch.bool)
    ours[edges[0], edges[1]] = True
    assert torch.equal(ours, torch.from_numpy(found | found.T))


def test_edges_go_both_ways_once_without_loops() -> None:
    edges = neighbours.graph(torch.zeros(9, 2, dtype=torch.long), k=3)  # all equally far
    pairs = {tuple(pair) for pair in edges.T.tolist()}
    assert len(pairs) == edges.shape[1]
    assert all((b, a) in pairs and a != b for a, b in pairs)
    assert {b for a, b in pairs if a == 8} == {0, 1, 2}
