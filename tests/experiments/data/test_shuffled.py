"""The source of training batches: laws of order, position and state."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from algos.finding import InputError
from experiments.data.batch import Batch
from experiments.data.shuffled import Shuffled, Take, epoch_seed

CPU = torch.device("cpu")


def numbers(count: int, batch_size: int, seed: int = 1) -> Shuffled:
    """A source whose batches are the rows themselves."""

    def open_epoch(generator: torch.Generator) -> Take:
        return lambda rows: Batch((rows,), rows)

    return Shuffled(count, batch_size, seed, CPU, open_epoch)


def epoch(source: Shuffled) -> list[Tensor]:
    return [source.next().targets for _ in range(len(source))]


sizes = st.integers(1, 40).flatmap(lambda count: st.tuples(st.just(count), st.integers(1, count)))


@given(sizes, st.integers(0, 2**32 - 1))
def test_every_example_once_an_epoch_and_a_small_last_batch(size: tuple[int, int], seed: int) -> None:
    count, batch_size = size
    source = numbers(count, batch_size, seed)
    for _ in range(2):
        batches = epoch(source)
        assert torch.cat(batches).sort().values.tolist() == list(range(count))
        assert [len(batch) for batch in batches[:-1]] == [batch_size] * (len(batches) - 1)
        assert len(batches[-1]) == (count % batch_size or batch_size)


@given(sizes, st.integers(0, 60))
def test_a_restored_source_goes_on_with_the_same_batches(size: tuple[int, int], consumed: int) -> None:
    source, other = numbers(*size), numbers(*size)
    for _ in range(consumed):
        source.next()
    other.next()
    other.load_state_dict(source.state_dict())
    for _ in range(2 * len(source) + 1):
        assert source.state_dict() == other.state_dict()
        assert torch.equal(source.next().targets, other.next().targets)


def test_the_state_counts_what_was_consumed() -> None:
    source = numbers(10, 4)
    states = [source.state_dict()]
    for _ in range(4):
        source.next()
        states.append(source.state_dict())
    places = [(state["epoch"], state["position"]) for state in states]
    assert places == [(0, 0), (0, 4), (0, 8), (1, 0), (1, 4)]


def test_orders_differ_between_epochs_and_seeds_and_repeat_for_the_same() -> None:
    source = numbers(100, 100, seed=1)
    orders = [epoch(source)[0] for _ in range(3)] + [epoch(numbers(100, 100, seed=2))[0]]
    assert not any(torch.equal(a, b) for a, b in pairwise(orders))
    assert torch.equal(orders[0], epoch(numbers(100, 100, seed=1))[0])


def test_seed_and_epoch_are_not_mixed_up() -> None:
    """Torch's CPU generator reads 32 bits of a seed, so these must differ within 32."""
    seeds = {epoch_seed(seed, epoch) for seed in range(200) for epoch in range(50)}
    assert len(seeds) > 200 * 50 - 10
    assert all(0 <= seed < 2**32 for seed in seeds)


def test_the_global_generator_is_neither_read_nor_moved() -> None:
    torch.manual_seed(0)
    first, before = epoch(numbers(50, 7)), torch.get_rng_state()
    torch.manual_seed(1)
    second = epoch(numbers(50, 7))
    torch.manual_seed(0)
    epoch(numbers(50, 7))
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("batch_size", [0, 11])
def test_a_batch_larger_than_the_data_is_refused(batch_size: int) -> None:
    with pytest.raises(InputError, match=f"batch_size={batch_size} does not fit the 10 training examples; .* 1 to 10"):
        numbers(10, batch_size)


@pytest.mark.parametrize(
    "state", [{"epoch": 0, "position": 3}, {"epoch": 0, "position": 12}, {"epoch": -1, "position": 0}]
)
def test_a_state_that_cannot_be_is_refused(state: dict[str, int]) -> None:
    with pytest.raises(AssertionError, match="not a state"):
        numbers(10, 4).load_state_dict(state)
