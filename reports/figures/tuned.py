"""Tuned: the arms of a task that tuned a hyperparameter, for the pictures of tuning."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from algos.finding import InputError, closest, unknown
from experiments.store.schema import RunRecord
from reports.figures.panel import Ask, Subject, lacking
from reports.judged import Array, TaskFacts
from reports.tuning import OWN, Tuning, tuning


def arms(subject: Subject, task: TaskFacts, ask: Ask) -> list[Tuning]:
    """All arms that were tuned on a task, or the one asked for. InputError where there is none."""
    found = [one for cell in subject.cells(task) if (one := tuning(cell)) is not None and one.hypers]
    if ask.arm and found:
        names = [one.cell.arm for one in found]
        if ask.arm not in names:
            raise unknown("tuned arm", ask.arm, names, place="arm")
        found = [one for one in found if one.cell.arm == ask.arm]
    if not found:
        raise lacking(f"no arm was tuned on task '{task.name}'", "study one with tune: {trials: 20}")
    return found


def tuned(subject: Subject, task: TaskFacts, ask: Ask) -> tuple[str, list[Tuning]]:
    """The hyperparameter asked for (else the first tuned), and the arms that tuned it."""
    found = arms(subject, task, ask)
    known = list(dict.fromkeys(hyper for one in found for hyper in one.hypers))
    if ask.by and ask.by not in known:
        raise no_such(ask.by, known)
    hyper = ask.by or known[0]
    return hyper, [one for one in found if hyper in one.hypers]


def no_such(asked: str, known: Sequence[str]) -> InputError:
    """The error for a hyperparameter that was not tuned: with that of which it is the last word, as `lr` is of
    `optimizer.lr`.

    >>> print(no_such("lr", ["optimizer.lr", "model.width"]))
    by: unknown tuned hyperparameter 'lr'; did you mean 'optimizer.lr'? (valid: model.width, optimizer.lr)
    """
    error, ends = unknown("tuned hyperparameter", asked, known, place="by"), [name.split(".")[-1] for name in known]
    end = asked if asked in ends else closest(asked, ends)
    if end is None or "did you mean" in error.finding.cure:
        return error
    meant = " or ".join(f"'{name}'" for name, last in zip(known, ends) if last == end)
    cure = f"did you mean {meant}? ({error.finding.cure})"
    return InputError(error.finding.said, cure, rule=error.finding.rule, place="by")


def judged(found: Sequence[Tuning], task: TaskFacts) -> tuple[str, str]:
    """What tuning went by, as an axis says it, and whether better is "up" or "down". InputError where arms went by
    different things: their trials have no axis in common."""
    told = {(one.metric, one.mode) for one in found}
    if len(told) > 1:
        names = ", ".join(sorted(metric if metric != OWN else f"validation {task.words}" for metric, _ in told))
        raise InputError(f"the arms were tuned by different objectives ({names})", "say one: --arm", place="arm")
    metric, mode = told.pop()
    return f"validation {task.words}" if metric == OWN else metric, "up" if mode == "max" else "down"


def values(one: Tuning, records: Sequence[RunRecord], hyper: str) -> Array:
    """Of a hyperparameter, nan where a trial had none."""
    return np.array([np.nan if (v := one.value(r, hyper)) is None else v for r in records], float)


def objectives(one: Tuning, records: Sequence[RunRecord]) -> Array:
    """nan where a trial gave none."""
    return np.array([np.nan if (v := one.objective(r)) is None else v for r in records], float)


def is_log(found: Sequence[Tuning], hyper: str) -> bool:
    """Whether a hyperparameter was searched on a log scale; unknown, whether its values look like it."""
    for one in found:
        if one.spans.get(hyper):
            return one.spans[hyper][0].log
    seen = np.concatenate([values(one, one.trials, hyper) for one in found])
    return spread([float(v) for v in seen[np.isfinite(seen)]])


def spread(seen: Sequence[float]) -> bool:
    return bool(seen) and min(seen) > 0 and max(seen) > 20 * min(seen)
