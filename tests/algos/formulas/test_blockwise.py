"""8-bit numbers by blocks: the values are those of dynamic tree quantization, each number goes to the nearest."""

import pytest
import torch

from algos.formulas.blockwise import decode, encode, values


def test_the_values_are_those_of_the_tree() -> None:
    """By hand: the highest decade has 64 middles of [0.1, 1] with a sign, 128 without; the lowest 1 and 2."""
    signed, unsigned = values(True), values(False)
    assert len(signed) == len(unsigned) == len(set(signed)) == len(set(unsigned)) == 256
    assert signed[0] == pytest.approx(-(1 - 0.9 / 128))
    assert signed[-1] == unsigned[-1] == 1.0
    assert min(abs(each) for each in signed if each) == pytest.approx(0.55e-6)
    assert unsigned[1:3] == pytest.approx((0.325e-6, 0.775e-6))
    assert sum(each > 0.1 for each in signed) == 64 + 1
    assert sum(each > 0.1 for each in unsigned) == 128 + 1


@pytest.mark.parametrize("signed", [True, False])
def test_each_number_goes_to_the_nearest_value(signed: bool) -> None:
    random = torch.Generator().manual_seed(1)
    numbers = torch.randn(3, 50, generator=random).exp() * (
        torch.randn(3, 50, generator=random).sign() if signed else 1
    )
    codes, largest = encode(numbers, 64, signed=signed)
    assert codes.dtype == torch.uint8
    assert codes.shape == numbers.shape
    assert largest.shape == (3,)
    table = torch.tensor(values(signed))
    flat = numbers.reshape(-1)
    for i, got in enumerate(decode(codes, largest, 64, signed=signed).reshape(-1)):
        scale = flat[i // 64 * 64 : i // 64 * 64 + 64].abs().max()
        assert abs(got - flat[i]) <= (table * scale - flat[i]).abs().min() + 1e-6 * scale


def test_the_largest_of_a_block_and_zeros_are_exact() -> None:
    numbers = torch.tensor([0.0, 3.5, -1.0, 0.0])
    got = decode(*encode(numbers, 256, signed=True), 256, signed=True)
    assert got[1] == 3.5
    assert got[0] == got[3] == 0.0
    zeros = torch.zeros(2, 300)
    assert torch.equal(decode(*encode(zeros, 256, signed=False), 256, signed=False), zeros)


def test_a_large_number_in_one_block_does_not_coarsen_another() -> None:
    """What blocks are for."""
    numbers = torch.cat([torch.full((256,), 1e-3), torch.full((256,), 1e6)])
    got = decode(*encode(numbers, 256, signed=True), 256, signed=True)
    torch.testing.assert_close(got, numbers)


def test_without_a_sign_what_is_above_zero_stays_above_zero() -> None:
    numbers = torch.tensor([1.0, 1e-9, 1e-20, 0.0])
    got = decode(*encode(numbers, 256, signed=False), 256, signed=False)
    assert got.tolist() == pytest.approx([1.0, 3.25e-7, 3.25e-7, 0.0])
