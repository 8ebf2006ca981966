"""What a statistic gives back: an estimate with its interval, or a p-value with the smallest one possible."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Estimate:
    """A value with its confidence interval. low and high are None where no interval can be given. n: values used."""

    value: float
    low: float | None
    high: float | None
    n: int
    confidence: float = 0.95

    @property
    def half_width(self) -> float | None:
        return None if self.low is None or self.high is None else (self.high - self.low) / 2


@dataclass(frozen=True)
class PValue:
    """A two-sided p-value. floor: the smallest one that the test can give with these sizes and ties. n: the sizes.
    statistic: what the test weighs, less what it expects: positive where the first sample is the greater."""

    p: float
    floor: float
    n: tuple[int, ...]
    statistic: float = 0.0

    def reachable(self, alpha: float) -> bool:
        """Whether any outcome at all could have been significant at `alpha`."""
        return self.floor <= alpha
