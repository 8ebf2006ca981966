"""Company: a run that comes from a member of a population, as its fork or its replay, is trained in one too.

Sizes from two on agree bit for bit, a lone run only to rounding, of which training may make much. `training.resume`
trains a run whose facts tell of a population beside a copy of itself.
"""

from __future__ import annotations

from typing import Any

from experiments.config import RunConfig
from experiments.store.schema import RunFile

ALONE = "it comes from a member of a population, as which its config cannot train: alone, whose rounding is another"


def is_member(file: RunFile) -> bool:
    """Whether a run is, or was, a member of a population."""
    return bool(file.facts.get("population"))


def company(before: RunFile, config: RunConfig) -> tuple[dict[str, Any], str]:
    """The facts that make a member of a run that comes from another, {} where it trains alone; and what is to be said
    of that. before: the run it comes from. config: its own."""
    if not is_member(before):
        return {}, ""
    from experiments import population

    if not population.shape(config):
        return {}, ALONE
    return {"population": {**before.facts["population"], "size": 1}, "form": "stacked"}, ""
