"""Counter noise is normal, independent of its neighbours in position and step, and a function of nothing else."""

import math

import pytest
import torch
from torch import Tensor

from algos.formulas.counter_noise import normal_noise, uniform_noise

STEPS = [torch.tensor(float(step)) for step in (1, 2, 3, 1000, 12_345_678)]
N = 1 << 18


def wide(size: int = N) -> Tensor:
    return torch.empty(size, dtype=torch.float64)


@pytest.mark.parametrize("step", STEPS)
def test_its_moments_are_the_normal_s(step: Tensor) -> None:
    """To five standard errors: sqrt(E[z^2k] / n), with E[z^2] = 1, E[z^4] = 3, E[z^8] = 105."""
    z = normal_noise(wide(), step)
    assert abs(z.mean()) < 5 / math.sqrt(N)
    assert abs(z.square().mean() - 1) < 5 * math.sqrt(2 / N)
    assert abs(z.pow(3).mean()) < 5 * math.sqrt(15 / N)
    assert abs(z.pow(4).mean() - 3) < 5 * math.sqrt(96 / N)
    assert 4 < z.abs().max() < 5.4


@pytest.mark.parametrize("step", STEPS)
def test_its_distribution_is_uniform(step: Tensor) -> None:
    """Kolmogorov and Smirnov's distance is below 1.95/sqrt(n), as it is in 999 of 1000 samples."""
    u = uniform_noise(wide(), step).sort().values
    ranks = torch.arange(1, N + 1, dtype=torch.float64) / N
    assert (u - ranks).abs().max() < 1.95 / math.sqrt(N)
    assert u[0] > 0
    assert u[-1] < 1


def test_no_correlation_between_positions_steps_and_streams() -> None:
    """Each is below five standard errors, for z and for its sign times its square."""
    z = {
        (step, stream): normal_noise(wide(), torch.tensor(step), stream)
        for step in (1.0, 2.0, 3.0)
        for stream in (0, 1)
    }
    first = z[1.0, 0]
    pairs = [(first, other) for key, other in z.items() if key != (1.0, 0)]
    pairs += [(first[lag:], first[:-lag]) for lag in (1, 2, 3, 64, 384, 1024, 65_536)]
    pairs += [(z[1.0, 0][1:], z[2.0, 0][:-1]), (z[1.0, 0][:-1], z[2.0, 0][1:])]
    for a, b in pairs:
        assert abs((a * b).mean()) < 5 / math.sqrt(len(a))
        assert abs(((a.square() - 1) * (b.square() - 1)).mean()) < 5 * 2 / math.sqrt(len(a))


def test_a_matrix_of_it_whitens() -> None:
    """Rows of 64 numbers over many steps have the covariance I: what PSGD asks of its probes."""
    rows = torch.cat([normal_noise(torch.empty(64, 64, dtype=torch.float64), torch.tensor(s)) for s in range(1, 65)])
    covariance = rows.mT @ rows / len(rows)
    assert (covariance - torch.eye(64)).abs().max() < 6 * math.sqrt(2 / len(rows))


def test_it_is_a_function_of_step_and_position_alone() -> None:
    """Of a generator's state, dtype and batching nothing is seen; a reshaped tensor has the same numbers."""
    step = torch.tensor(7.0)
    reference = normal_noise(torch.empty(4, 6), step)
    torch.manual_seed(123)
    torch.randn(5)
    assert torch.equal(normal_noise(torch.ones(4, 6), step), reference)
    assert torch.equal(normal_noise(torch.empty(24), step).reshape(4, 6), reference)
    torch.testing.assert_close(normal_noise(torch.empty(4, 6, dtype=torch.float64), step).float(), reference)
    steps = torch.tensor([6.0, 7.0])
    batched = torch.vmap(normal_noise)(torch.empty(2, 4, 6), steps)
    assert torch.equal(batched[1], reference)
    assert not torch.equal(batched[0], reference)
    assert normal_noise(torch.empty(()), step).shape == ()
    assert normal_noise(torch.empty(0, 3), step).shape == (0, 3)
