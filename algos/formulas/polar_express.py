"""Polar Express: the odd quintics that, one after another, bring singular values from [1/1000, 1] closest to 1.

Source: Amsel et al. 2025, "The Polar Express", https://arxiv.org/abs/2505.16932, algorithm 1, with the numbers of the
authors' package (NoahAmsel/PolarExpress): greedy minimax quintics p_i for a smallest singular value of 1/1000, each
optimal on what the one before leaves, fitted on no more than a factor of 40 ("cushion").

    p(s) = a*s + b*s^3 + c*s^5
    X <- G / (1.01*|G|_F);  X <- p_i(X / 1.01)     the safety factor: rounding may lift a singular value above 1, where
                                                   p_i grows fast. All but the last polynomial have it

After eight polynomials the ninth and all others are the last, Newton-Schulz of order 5, which converges.
"""

from __future__ import annotations

SAFETY = 1.01

#: (a, b, c) as published, without the safety factor.
PUBLISHED = (
    (8.28721201814563, -23.595886519098837, 17.300387312530933),
    (4.107059111542203, -2.9478499167379106, 0.5448431082926601),
    (3.9486908534822946, -2.908902115962949, 0.5518191394370137),
    (3.3184196573706015, -2.488488024314874, 0.51004894012372),
    (2.300652019954817, -1.6689039845747493, 0.4188073119525673),
    (1.891301407787398, -1.2679958271945868, 0.37680408948524835),
    (1.8750014808534479, -1.2500016453999487, 0.3750001645474248),
    (1.875, -1.25, 0.375),
)


def polynomials(steps: int) -> tuple[tuple[float, float, float], ...]:
    """The first (a, b, c) of the series, with the safety factor.

    >>> [round(a, 4) for a, _, _ in polynomials(3)]
    [8.2052, 4.0664, 3.9096]
    """
    safe = [(a / SAFETY, b / SAFETY**3, c / SAFETY**5) for a, b, c in PUBLISHED[:-1]]
    return (*safe, *[PUBLISHED[-1]] * max(0, steps - len(safe)))[:steps]
