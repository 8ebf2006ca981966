"""A program is the computation it was recorded from, on any numbers; what it cannot say, it refuses."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from experiments.populations.program import NotRecorded, record


def gradients(inputs: Sequence[Tensor]) -> list[Tensor | None]:
    weights, bias, x, targets = inputs
    weights, bias = weights.detach().requires_grad_(), bias.detach().requires_grad_()

    def one(weights: Tensor, bias: Tensor, x: Tensor, targets: Tensor) -> Tensor:
        return F.cross_entropy(F.linear(x, weights, bias).relu(), targets)

    losses = torch.vmap(one)(weights, bias, x, targets)
    return [losses.detach(), *torch.autograd.grad(losses.sum(), [weights, bias])]


def numbers(seed: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    shapes = ((3, 10, 7), (3, 10), (3, 20, 7))
    floats = [torch.randn(shape, generator=generator) for shape in shapes]
    return [*floats, torch.randint(0, 10, (3, 20), generator=generator)]


def test_it_gives_what_the_computation_gives_on_other_numbers() -> None:
    program = record(gradients, numbers(1))
    given = numbers(2)
    for mine, theirs in zip(program(given), gradients(given), strict=True):
        assert mine is not None
        assert theirs is not None
        torch.testing.assert_close(mine, theirs, rtol=1e-6, atol=1e-7)
        assert mine.is_contiguous()


def test_a_member_is_the_same_to_the_bit_in_other_company() -> None:
    given = numbers(2)
    two = [each[:2] for each in given]
    for three_, two_ in zip(record(gradients, given)(given), record(gradients, two)(two), strict=True):
        assert three_ is not None
        assert two_ is not None
        assert torch.equal(three_[:2], two_)


def test_it_writes_where_the_computation_writes() -> None:
    def count(inputs: Sequence[Tensor]) -> list[Tensor]:
        return [inputs[0].add_(1) * 1]

    program = record(count, [torch.zeros(2)])
    counter = torch.full((2,), 5.0)
    (given,) = program([counter])
    assert given is not None
    counter.add_(1)
    assert given.tolist() == [6, 6]
    assert counter.tolist() == [7, 7]


def test_what_comes_from_elsewhere_or_depends_on_numbers_is_refused() -> None:
    elsewhere = torch.ones(2)
    with pytest.raises(NotRecorded, match="from elsewhere"):
        record(lambda inputs: [inputs[0] + elsewhere], [torch.ones(2)])
    with pytest.raises(NotRecorded, match="depends on numbers"):
        record(lambda inputs: [inputs[0] * inputs[0].sum().item()], [torch.ones(2)])
    with pytest.raises(NotRecorded, match="depends on numbers"):
        record(lambda inputs: [inputs[0] + torch.rand_like(inputs[0])], [torch.ones(2)])
    with pytest.raises(NotRecorded, match="one tensor"):
        record(lambda inputs: [inputs[0] + 1] * 2, [torch.ones(2)])
