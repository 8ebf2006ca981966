"""Stochastic rounding keeps the mean, and what is bfloat16 already."""

import pytest
import torch

from algos.formulas.stochastic_rounding import stochastic_round


def test_it_takes_one_of_the_two_neighbours_with_the_right_frequency() -> None:
    """1 + 0.3*2^-7 lies three tenths of the way from 1 to its upper neighbour 1 + 2^-7."""
    torch.manual_seed(0)
    rounded = stochastic_round(torch.full((100_000,), 1 + 0.3 * 2**-7)).float()
    assert set(rounded.tolist()) == {1.0, 1 + 2**-7}
    assert float((rounded > 1).float().mean()) == pytest.approx(0.3, abs=0.006)  # four standard errors


@pytest.mark.parametrize("sign", [1, -1])
def test_the_mean_is_kept_over_many_sizes(sign: int) -> None:
    torch.manual_seed(0)
    values = sign * torch.logspace(-30, 30, 61).repeat(4000, 1)
    mean = stochastic_round(values).double().mean(0)
    torch.testing.assert_close(mean, values[0].double(), rtol=5e-4, atol=0.0)


def test_what_bfloat16_has_stays_itself() -> None:
    own = torch.randn(1000).to(torch.bfloat16)
    assert torch.equal(stochastic_round(own.float()), own)
    odd = torch.tensor([float("inf"), -float("inf"), float("nan"), 0.0, -0.0])
    assert torch.equal(stochastic_round(odd)[:2], odd[:2].to(torch.bfloat16))
    assert torch.isnan(stochastic_round(odd)[2])
    assert stochastic_round(odd)[3:].float().tolist() == [0.0, 0.0]
