"""Polar Express: its numbers are the minimax quintics they are said to be, and eight of them give the polar factor."""

from __future__ import annotations

import math

import pytest
import torch

from algos.formulas.newton_schulz import orthogonalize
from algos.formulas.polar_express import PUBLISHED, SAFETY, polynomials


def quintic(smallest: float, largest: float) -> tuple[float, float, float]:
    """The odd quintic nearest to 1 on an interval, by the exchange of Remez: its error alternates at four points."""
    q, r = (3 * smallest + largest) / 4, (smallest + 3 * largest) / 4
    for _ in range(60):
        points = torch.tensor([smallest, q, r, largest], dtype=torch.float64)
        signs = torch.tensor([1.0, -1.0, 1.0, -1.0], dtype=torch.float64)
        system = torch.stack([points, points**3, points**5, signs], dim=1)
        a, b, c, _ = torch.linalg.solve(system, torch.ones(4, dtype=torch.float64)).tolist()
        middle, spread = -3 * b / (10 * c), math.sqrt(9 * b * b - 20 * a * c) / (10 * c)
        q, r = math.sqrt(middle - spread), math.sqrt(middle + spread)
    return a, b, c


def test_the_numbers_are_greedy_minimax_quintics() -> None:
    """Refitted here, from singular values of 1/1000 on, with the authors' cushion and what each leaves for the next."""
    smallest, largest = 1e-3, 1.0
    for published in PUBLISHED[:5]:
        cushion = 0.02407327424182761 * largest
        a, b, c = quintic(max(smallest, cushion), largest)
        if cushion > smallest:
            ends = [a * s + b * s**3 + c * s**5 for s in (smallest, largest)]
            a, b, c = (2 / sum(ends) * each for each in (a, b, c))
        assert (a, b, c) == pytest.approx(published, rel=2e-6)
        smallest = a * smallest + b * smallest**3 + c * smallest**5
        largest = 2 - smallest


def test_eight_steps_bring_every_singular_value_to_one() -> None:
    """From a thousandth of the norm on; five steps, to within a third."""
    s = torch.logspace(-3, 0, 400, dtype=torch.float64) / SAFETY
    for steps, error in ((5, 0.35), (8, 1e-3)):
        x = s
        for a, b, c in polynomials(steps):
            x = a * x + b * x**3 + c * x**5
        assert (x - 1).abs().max() < error


def test_the_polar_factor_is_that_of_the_svd() -> None:
    matrix = torch.randn(2, 7, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    u, _, v = torch.linalg.svd(matrix, full_matrices=False)
    torch.testing.assert_close(orthogonalize(matrix, 10, coefficients="polar_express"), u @ v, rtol=0, atol=1e-6)
