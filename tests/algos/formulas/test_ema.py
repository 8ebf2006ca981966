"""The averages' weights are exact where float32 would lose them."""

import math

import pytest
import torch

from algos.formulas.ema import ema, gathered_weight


@pytest.mark.parametrize("decay", [0.0, 0.5, 0.9, 0.999, 0.999999])
@pytest.mark.parametrize("step", [1, 2, 10, 100_000])
def test_gathered_weight_keeps_its_digits_in_float32(decay: float, step: int) -> None:
    given = torch.tensor(decay)
    exact = -math.expm1(step * math.log(given.item())) if decay else 1.0
    assert gathered_weight(given, torch.tensor(float(step))).item() == pytest.approx(exact, rel=1e-6)


def test_an_average_over_its_gathered_weight_is_the_mean_of_a_constant() -> None:
    decay, average = torch.tensor(0.9, dtype=torch.float64), torch.zeros(3, dtype=torch.float64)
    value = torch.tensor([1.0, -2.0, 5.0], dtype=torch.float64)
    for step in range(1, 6):
        average = ema(average, value, decay)
        torch.testing.assert_close(average / gathered_weight(decay, torch.tensor(float(step))), value)
