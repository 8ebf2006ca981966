"""A population's batches are its members' own, of their own seeds and in their own order."""

from __future__ import annotations

import pytest
import torch

from experiments.data.batch import Batch
from experiments.data.shuffled import Shuffled
from experiments.populations.sources import Separately, together
from experiments.tasks import catalogue
from experiments.training import load_data

CPU = torch.device("cpu")


@pytest.mark.parametrize(("task", "batch_size"), [("digits", 500), ("digits_graph", 30), ("python_docs", 512)])
@pytest.mark.parametrize("start", [0, 2])
def test_each_member_gets_what_it_would_get_alone(task: str, batch_size: int, start: int) -> None:
    assert task in catalogue.names()
    data = load_data(task, None)
    own, alone = ([data.training(batch_size, seed, CPU) for seed in (1, 2, 2**31)] for _ in range(2))
    for source in (*own, *alone):
        for _ in range(start):
            source.next()
    source = together(own)
    assert not isinstance(source, Separately)
    for _ in range(2 * len(own[0]) + 1):
        batch, expected = source.next(), [each.next() for each in alone]
        for index, one in enumerate(expected):
            inputs = batch.inputs if batch.shared else tuple(part[index] for part in batch.inputs)
            assert all(map(torch.equal, inputs, one.inputs))
            assert torch.equal(batch.targets[index], one.targets)
            assert one.where is None or (batch.where is not None and torch.equal(batch.where[index], one.where))
            assert batch.examples == one.examples
    source.settle(1)
    assert own[1].state_dict() == alone[1].state_dict()
    assert torch.equal(own[1].next().targets, alone[1].next().targets)


def test_a_task_s_own_way_to_take_rows_is_asked_member_by_member() -> None:
    table = torch.arange(12).view(6, 2)

    def source(seed: int) -> Shuffled:
        return Shuffled(6, 4, seed, CPU, lambda generator: lambda rows: Batch((table[rows],), rows))

    one, other = source(1), source(2)
    batch = together([source(1), source(2)]).next()
    assert torch.equal(batch.targets, torch.stack([one.next().targets, other.next().targets]))
