"""The public battery: what every entry must do, checked one fact at a time.

The tests run it over the whole catalogue, and so can whoever writes an entry. Today it knows optimizers
(`optimizer_checks`).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass

from algos import optimizer_checks
from algos.spec import Spec

#: Name -> check: every public function of `optimizer_checks`.
CHECKS: dict[str, Callable[[Spec], None]] = {
    name: function
    for name, function in vars(optimizer_checks).items()
    if inspect.isfunction(function) and function.__module__ == optimizer_checks.__name__ and name[0] != "_"
}


@dataclass(frozen=True)
class Result:
    """check: its name. passed: whether the fact holds. detail: what was found where it does not."""

    check: str
    passed: bool
    detail: str = ""


def battery(spec: Spec) -> list[Result]:
    """Every check on one optimizer (a few seconds).

    >>> from algos import catalogue
    >>> [result for result in battery(catalogue.load("optimizers", "sgd")) if not result.passed]
    []
    """
    return [run(name, spec) for name in CHECKS]


def run(name: str, spec: Spec) -> Result:
    """One check on one optimizer."""
    try:
        CHECKS[name](spec)
    except Exception as error:
        return Result(name, False, f"{type(error).__name__}: {error}")
    return Result(name, True)
