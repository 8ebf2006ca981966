"""Seconds: whether the times that arms trained for can be compared at all, and what makes them doubtful.

A second is the machine's, not the algorithm's. Arms on unlike machines cannot be told apart by it, nor can runs that
ended before a machine had settled. Where the same work took one arm very different times, or runs share one clock, a
difference in seconds may be of the machine: that is said beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from experiments.store.queries import flatten
from experiments.store.schema import RunRecord
from reports.judged import recorded
from reports.table import Cell
from reports.threats.found import listed

#: Below so many seconds of training, starting up and what else the machine does weigh as much as the algorithm.
SHORT = 1.0
#: The slowest run of an arm takes at most so many times as long for an update as its fastest.
SPREAD = 1.5
#: Who else executed runs, on machines that the records do not tell.
_UNSEEN = ("imported", "algoperf")
#: What tells machines apart, among what is known of them.
_MACHINE = ("type", "name", "processor", "threads")

#: Arm -> (updates, seconds of training) of each of its completed runs.
Spent = Mapping[str, Sequence[tuple[float, float]]]


def incomparable(cells: Sequence[Cell], spent: Spent) -> str:
    """Why seconds of these arms do not compare; "" where they may."""
    return unlike(cells) or short(spent)


def unlike(cells: Sequence[Cell]) -> str:
    """In what the arms' machines are not known to be alike; "" where nothing says so."""
    known = [cell for cell in cells if cell.ended]
    unseen = {cell.arm: {recorded(record) in _UNSEEN for record in cell.ended} for cell in known}
    if {True, False} <= set().union(*unseen.values()):
        arms = [arm for arm, told in unseen.items() if True in told]
        return f"runs of {listed(arms)} were made elsewhere, and nothing says on what machine they trained"
    machines = {cell.arm: {key: _told(cell.ended, key) for key in _MACHINE} for cell in known}
    for key in _MACHINE:
        told = {arm: values for arm, of in machines.items() if (values := of[key])}
        if len({frozenset(values) for values in told.values()}) > 1:
            what = "numbers of threads" if key == "threads" else "devices"
            shown = "; ".join(f"{arm}: {listed(sorted(values))}" for arm, values in told.items())
            return f"arms were trained on different {what} ({shown})"
    return ""


def short(spent: Spent) -> str:
    """The arms whose runs trained for less than about a second."""
    medians = {arm: float(np.median([s for _, s in runs])) for arm, runs in spent.items() if runs}
    told = [f"{arm} for {median:.2g} s" for arm, median in medians.items() if median < SHORT]
    if not told:
        return ""
    return f"runs trained for less than about a second ({listed(told)}), where the machine weighs as much as the arms"


def scattered(spent: Spent) -> str:
    """The arms whose runs took very different times for an update: the same work, so the machine was not the same."""
    told = []
    for arm, runs in spent.items():
        paces = [1000 * seconds / updates for updates, seconds in runs if updates > 0 and seconds > 0]
        if len(paces) > 1 and max(paces) > SPREAD * min(paces):
            told.append(f"{min(paces):.2g} to {max(paces):.2g} ms for {arm}")
    return f"the same update took very different times ({listed(told)})" if told else ""


def shared(cells: Sequence[Cell]) -> str:
    """The arms whose runs trained together as a population, so that one clock ran for several of them."""
    arms = [cell.arm for cell in cells if any(map(_members, cell.ended))]
    if not arms:
        return ""
    return f"runs of {listed(arms)} trained together as a population, and each is told its share of one clock"


def doubts(cells: Sequence[Cell], spent: Spent) -> tuple[str, ...]:
    """What makes seconds doubtful that can be compared."""
    return tuple(said for said in (scattered(spent), shared(cells)) if said)


def _members(record: RunRecord) -> bool:
    told = record.file.facts.get("population")
    size = told.get("size") if isinstance(told, Mapping) else None
    return isinstance(size, (int, float)) and size > 1


def _told(records: Sequence[RunRecord], key: str) -> set[str]:
    """What runs say of their device by a key; threads stand there or by themselves."""
    found = set()
    for record in records:
        device = record.file.provenance.get("device")
        told = flatten(dict(device)) if isinstance(device, Mapping) else {}
        value = told.get(key, record.file.provenance.get("threads") if key == "threads" else None)
        if value not in (None, ""):
            found.add(str(value))
    return found
