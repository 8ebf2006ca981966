"""Stratified order."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from experiments.data import stratified


@given(st.lists(st.integers(0, 4), min_size=1, max_size=80), st.integers(0, 1000))
def test_every_row_once_and_every_prefix_in_proportion(classes: list[int], seed: int) -> None:
    labels = torch.tensor(classes)
    rows = stratified.order(labels, seed)
    assert rows.sort().values.tolist() == list(range(len(classes)))
    share = labels.bincount(minlength=5) / len(labels)
    for length in range(len(classes) + 1):
        found = labels[rows[:length]].bincount(minlength=5)
        assert ((found - share * length).abs() <= 5).all()


def test_classes_come_in_turn() -> None:
    labels = torch.tensor([0] * 50 + [1] * 50)
    assert (labels[stratified.order(labels, seed=3)].view(50, 2).sum(dim=1) == 1).all()


def test_another_number_gives_another_order() -> None:
    labels = torch.zeros(50, dtype=torch.long)
    assert not torch.equal(stratified.order(labels, 0), stratified.order(labels, 1))
    assert not torch.equal(stratified.order(labels, 0), torch.arange(50))


def test_the_stream_is_the_one_numpy_promises() -> None:
    """PCG64's first raw numbers for seed 0, so that no library's version moves the splits."""
    import numpy as np

    first = np.random.PCG64(0).random_raw(3).tolist()
    assert first == [11749869230777074271, 4976686463289251617, 755828109848996024]


def test_the_first_of_each_class() -> None:
    labels, rows = torch.tensor([0, 1, 1, 0, 0, 1]), torch.tensor([5, 4, 3, 2, 1, 0])
    taken, rest = stratified.first_of_each_class(labels, rows, count=2)
    assert (taken.tolist(), rest.tolist()) == ([5, 4, 3, 2], [1, 0])
