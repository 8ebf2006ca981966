"""How a threat is worded as a Finding."""

from __future__ import annotations

from collections.abc import Iterable

from algos.finding import Finding


def caution(rule: str, said: str, cure: str, where: str = "") -> Finding:
    """Something that could change the answer."""
    return Finding(rule, said, cure, where, level="caution")


def note(rule: str, said: str, cure: str, where: str = "") -> Finding:
    """Something that limits what the answer means."""
    return Finding(rule, said, cure, where, level="note")


def listed(names: Iterable[str]) -> str:
    """Names in a sentence.

    >>> listed(["a", "b", "c"])
    'a, b and c'
    """
    known = list(names)
    return known[0] if len(known) == 1 else f"{', '.join(known[:-1])} and {known[-1]}"
