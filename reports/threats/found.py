"""How a threat is worded as a Finding."""

from __future__ import annotations

from collections.abc import Iterable

from algos.finding import Finding

_SINGULAR = {"were": "was", "have": "has"}


def caution(rule: str, said: str, cure: str, where: str = "") -> Finding:
    """Something that could change the answer."""
    return Finding(rule, said, cure, where, level="caution")


def note(rule: str, said: str, cure: str, where: str = "") -> Finding:
    """Something that limits what the answer means."""
    return Finding(rule, said, cure, where, level="note")


def counted(n: int, what: str, did: str = "") -> str:
    """A number of things; did: what they did, in the plural.

    >>> counted(1, "run", "were pruned"), counted(2, "run", "were pruned"), counted(1, "seed")
    ('1 run was pruned', '2 runs were pruned', '1 seed')
    """
    if n == 1:
        verb, _, rest = did.partition(" ")
        did = f"{_SINGULAR.get(verb, verb)} {rest}" if rest else did
    return f"{n:,} {what}{'' if n == 1 else 's'}{f' {did}' if did else ''}"


def listed(names: Iterable[str]) -> str:
    """Names in a sentence.

    >>> listed(["a", "b", "c"])
    'a, b and c'
    """
    known = list(names)
    return known[0] if len(known) == 1 else f"{', '.join(known[:-1])} and {known[-1]}"
