"""The digits as a graph."""

from __future__ import annotations

import torch

from experiments.tasks import catalogue

DATA = catalogue.load("digits_graph").load(None)


def test_ten_labels_a_class_and_no_node_in_two_splits() -> None:
    batch = DATA.training(100, seed=1, device=torch.device("cpu")).next()
    assert batch.targets.bincount().tolist() == [10] * 10
    held_out = [next(iter(DATA.evaluation(split, torch.device("cpu")))).where for split in ("validation", "test")]
    together = torch.cat([batch.where, *held_out])  # type: ignore[list-item]
    assert together.sort().values.tolist() == list(range(1797))
    assert dict(DATA.sizes) == {"train": 100, "validation": 500, "test": 1197}


def test_every_node_has_at_least_ten_neighbours_and_they_are_mutual() -> None:
    _, edges = DATA.training(100, seed=1, device=torch.device("cpu")).next().inputs
    assert edges[0].bincount(minlength=1797).min() >= 10
    assert {tuple(pair) for pair in edges.T.tolist()} == {tuple(pair) for pair in edges.flip(0).T.tolist()}


def test_the_graph_is_the_same_at_every_load() -> None:
    assert catalogue.load("digits_graph").load(None).digest == DATA.digest
