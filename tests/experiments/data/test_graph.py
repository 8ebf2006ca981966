"""A graph in memory."""

from __future__ import annotations

import torch

from experiments.data.graph import Graph

CPU = torch.device("cpu")


def graph() -> Graph:
    nodes = {"train": torch.tensor([7, 2, 5, 0]), "validation": torch.tensor([1, 3]), "test": torch.tensor([4, 6])}
    ring = torch.stack([torch.arange(8), torch.arange(8).roll(1)])
    return Graph(torch.eye(8), torch.cat([ring, ring.flip(0)], dim=1), torch.arange(8) % 3, nodes)


def test_a_batch_is_the_whole_graph_and_some_labelled_nodes() -> None:
    source = graph().training(3, seed=1, device=CPU)
    first, second = source.next(), source.next()
    assert [len(first.targets), len(second.targets)] == [3, 1]
    assert sorted(torch.cat([first.where, second.where]).tolist()) == [0, 2, 5, 7]  # type: ignore[list-item]
    for batch in (first, second):
        assert batch.where is not None
        assert torch.equal(batch.targets, batch.where % 3)
        assert (batch.inputs[0].shape, batch.inputs[1].shape) == ((8, 8), (2, 16))
        assert batch.inputs[1] is first.inputs[1]  # so that a model can know it again


def test_a_split_is_scored_on_its_own_nodes() -> None:
    (batch,) = graph().evaluation("test", CPU)
    assert batch.where is not None
    assert (batch.where.tolist(), batch.targets.tolist()) == ([4, 6], [1, 0])


def test_facts() -> None:
    data = graph()
    assert (data.signature.kind, data.signature.inputs, data.signature.outputs) == ("nodes", (8,), 3)
    assert dict(data.sizes) == {"train": 4, "validation": 2, "test": 2}
