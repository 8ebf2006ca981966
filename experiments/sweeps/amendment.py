"""Amendment: how a study may grow under its name. What has run stays what it was; everything else is another study.

Seeds, arms and tasks may be added, trials raised where the sampler goes on from any number, the question reworded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from algos.finding import InputError
from experiments.config import canonical
from experiments.store.schema import RunRecord
from experiments.study import StudyConfig, difference

#: Their trials are a whole that is laid out for its number.
_LAID_OUT = ("grid", "qmc")


def amended(old: StudyConfig, new: StudyConfig, runs: Sequence[RunRecord]) -> list[str]:
    """What the new study changes of the old one, a line each; InputError where that would change what has run."""
    before, after = old.definition(), new.definition()
    return [*_seeds(old, new), *_trials(old, new, runs), *_added(before, after), *_words(old, new)]


def _seeds(old: StudyConfig, new: StudyConfig) -> list[str]:
    if new.seeds == old.seeds:
        return []
    if new.seeds[: len(old.seeds)] != old.seeds:
        raise _refused(f"seeds {list(old.seeds)} became {list(new.seeds)}", "seeds may only be added, at the end")
    if old.tune is not None and new.tuning_seed(0) != old.tuning_seed(0):
        said = f"with the seed {max(new.seeds)}, tuning runs would have other seeds than they had"
        raise _refused(said, f"add seeds below {old.tuning_seed(0)}")
    return [f"seeds: {_listed(new.seeds[len(old.seeds) :])} added"]


def _trials(old: StudyConfig, new: StudyConfig, runs: Sequence[RunRecord]) -> list[str]:
    before = old.tune.definition() if old.tune else {}
    after = new.tune.definition() if new.tune else {}
    count, more = before.pop("trials", 0), after.pop("trials", 0)
    if canonical(before) != canonical(after):
        changes = difference({"tune": before}, {"tune": after})
        raise _refused("; ".join(changes), "how arms are tuned stays what it was")
    if count == more:
        return []
    assert new.tune is not None
    if more < count:
        raise _refused(f"trials {count} became {more}", "trials may only be raised")
    if new.tune.sampler.name in _LAID_OUT:
        why = f"the points of {new.tune.sampler.name} are laid out for a number"
        raise _refused(f"trials {count} became {more}", why)
    finals = [run for run in runs if _is_final_of_tuned(old, run)]
    if finals:
        said = f"trials {count} became {more}, and {finals[0].labels.arm} on {finals[0].labels.task} has final runs"
        raise _refused(said, "more trials could choose another winner than those ran")
    return [f"tune.trials: {count} -> {more}"]


def _is_final_of_tuned(old: StudyConfig, run: RunRecord) -> bool:
    task, arm = run.labels.task, run.labels.arm
    known = task in old.tasks and arm in old.arms
    return run.labels.study == old.name and run.labels.phase == "final" and known and bool(old.space(task, arm))


def _added(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Arms and tasks: those that were there are what they were."""
    tasks, now = before["tasks"], after["tasks"]
    for task, arms in tasks.items():
        for arm, what in arms.items():
            if arm not in now.get(task, {}):
                raise _refused(f"{arm} on {task} is gone", "arms and tasks may only be added")
            changes = difference({f"tasks.{task}.{arm}": what}, {f"tasks.{task}.{arm}": now[task][arm]})
            if changes:
                raise _refused("; ".join(changes), "an arm stays what it was")
    if before["design"] != after["design"]:
        raise _refused(f"design: {before['design']} -> {after['design']}", "a design stays what it was")
    old_arms = list(next(iter(tasks.values())))
    arms = [arm for arm in next(iter(now.values())) if arm not in old_arms]
    added = [f"arms: {_listed(arms)} added"] if arms else []
    return added + ([f"tasks: {_listed(new)} added"] if (new := [task for task in now if task not in tasks]) else [])


def _words(old: StudyConfig, new: StudyConfig) -> list[str]:
    said = [f"question: {old.question or 'none'} -> {new.question or 'none'}"] if old.question != new.question else []
    if old.population != new.population:
        said.append(f"population: {old.population} -> {new.population}")
    return said


def _refused(said: str, why: str) -> InputError:
    return InputError(said, f"{why}; give the changed study a new name, or change it back", rule="study-changed")


def _listed(values: Sequence[Any]) -> str:
    return ", ".join(map(str, values))
