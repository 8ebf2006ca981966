"""Fitting: which architectures serve what a task shows. Torch-free.

An architecture's `SPEC.accepts` names the kinds of `Signature` it can be called with ("image", "tokens", "nodes").
Whoever checks a config and the constructor of a model ask here, so that the refusal reads the same.
"""

from __future__ import annotations

from algos import catalogue
from algos.finding import InputError


def serving(signature_kind: str) -> list[str]:
    """The architectures that serve a kind of signature.

    >>> serving("tokens")
    ['gpt']
    """
    entries = catalogue.listing("architectures")
    return [entry.name for entry in entries if signature_kind in entry.literals.get("accepts", ())]


def check(architecture: str, signature_kind: str) -> None:
    """InputError where the architecture does not serve this kind of signature; it names those that do."""
    accepts = catalogue.describe("architectures", architecture).literals.get("accepts", ())
    if signature_kind not in accepts:
        raise InputError(
            f"architecture '{architecture}' takes {' or '.join(accepts) or 'nothing'}, the task gives {signature_kind}",
            f"use one of: {', '.join(serving(signature_kind)) or 'none is known'}",
            rule="unfit-architecture",
            place="model.name",
        )
