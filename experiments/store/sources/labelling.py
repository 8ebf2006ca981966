"""Labelling: which task, arm and seed a foreign run belongs to, by what it says of itself.

Each is a key that the user names, else one of the usual words, else read from the run's name; what was taken is told. A
seed that nothing says is counted on through all arms of a task, so that no two arms are paired by it."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from algos.finding import InputError, unknown
from experiments.store.schema import Labels

OWN = "own"
#: What a label is usually called, the surest first.
WORDS: Mapping[str, tuple[str, ...]] = {
    "task": ("task", "dataset", "workload", "benchmark", "problem"),
    "arm": ("arm", "method", "optimizer", "optim", "algorithm", "algo", "variant"),
    "seed": ("seed", "random_seed", "rng_seed", "random_state", "repeat", "replicate"),
}
_SEED_IN_NAME = re.compile(r"(?:^|[/_\-. ,(])(?:seed|rng)[ =_\-]?(\d+)\)?(?=$|[/_\-. ,)])", re.IGNORECASE)
_SHORT_SEED = re.compile(r"(?:^|[/_\-. ])s(\d+)(?=$|[/_\-. ])")

Said = tuple[str, Mapping[str, Any], Mapping[str, Any]]


class Place(Protocol):
    """What a source is called, where its runs say nothing; searched: keys that are no labels until they are named."""

    task: str
    arm: str
    searched: Collection[str]


@dataclass(frozen=True)
class Labelling:
    """task, arm, seed: the keys that they are read from; several for an arm, with commas between. task_name, arm_name:
    the same for all runs."""

    task: str = ""
    arm: str = ""
    seed: str = ""
    task_name: str = ""
    arm_name: str = ""


def labelled(runs: Sequence[Said], how: Labelling, place: Place) -> tuple[list[Labels], list[str]]:
    """The labels of runs told as (name, what it says, labels that are certain), and what is to be told of them.

    InputError for a key that no run has, and for a seed that is no whole number.
    """
    notes: list[str] = []
    known = dict.fromkeys(key for _, said, _ in runs for key in said)
    task_key = how.task and _given("task", how.task, known)
    arm_keys = _arm_keys(how.arm, known)
    seed_key = how.seed and _given("seed", how.seed, known)
    usual = [key for key in known if key not in place.searched]
    task_key = task_key or ("" if how.task_name else _guessed("task", runs, usual, notes))
    arm_keys = arm_keys or ([] if how.arm_name else [key for key in [_guessed("arm", runs, usual, notes)] if key])
    seed_key = seed_key or _guessed("seed", runs, usual, notes)

    arms, named = _arms(runs, how, place, arm_keys)
    tasks = [
        how.task_name
        or _text(said.get(task_key, ""))
        or str(sure.get("task") or sure.get("place") or "")
        or place.task
        or OWN
        for _, said, sure in runs
    ]
    seeds, counted = _seeds(runs, seed_key, tasks, _numbers_in_names([name for name, _, _ in runs]))
    notes += _told_of_tasks(tasks, runs, "" if how.task_name else task_key)
    notes += _told_of_arms(arms, runs, how, arm_keys, named) + ([counted] if counted else [])
    notes += _told_of_searched(runs, place, how, arm_keys)
    cleaned = [(clean(task), clean(arm)) for task, arm in zip(tasks, arms)]
    if any(pair != (task, arm) for pair, task, arm in zip(cleaned, tasks, arms)):
        notes.append("in names of tasks and arms '/' is written '-' and what cannot be printed is a space")
    return [Labels(task, arm=arm, phase="final", seed=seed) for (task, arm), seed in zip(cleaned, seeds)], notes


def clean(name: str) -> str:
    """A name that can be part of a key: printable, no slash.

    >>> clean(" a/b\\tc\\n"), clean("甲 <b>")
    ('a-b c', '甲 <b>')
    """
    return " ".join("".join(c if c.isprintable() else " " for c in name.replace("/", "-")).split()) or OWN


def seed_in(name: str) -> tuple[str, int | None]:
    """A run's name without the seed in it, and that seed.

    >>> seed_in("adamw_seed3"), seed_in("muon/s2"), seed_in("luxuriant-carp-221")
    (('adamw', 3), ('muon', 2), ('luxuriant-carp-221', None))
    """
    for pattern in (_SEED_IN_NAME, _SHORT_SEED):
        if match := pattern.search(name):
            rest = f"{name[: match.start()]}{name[match.end() :]}"
            return re.sub(r"^[/_\-. ,]+|[/_\-. ,]+$", "", rest), int(match[1])
    return name, None


def _given(what: str, key: str, known: Mapping[str, None]) -> str:
    if key in known:
        return key
    raise unknown(f"{what} column or setting", key, known, place=what)


def _arm_keys(given: str, known: Mapping[str, None]) -> list[str]:
    if not given:
        return []
    keys = [given] if given in known else [part.strip() for part in given.split(",")]
    return [_given("arm", key, known) for key in keys]


def _guessed(what: str, runs: Sequence[Said], known: Sequence[str], notes: list[str]) -> str:
    """The key that is called by one of the usual words, the last part of dotted ones too; told where it is not the
    label's own word."""
    if runs and all(what in sure for _, _, sure in runs):
        return ""
    for word in WORDS[what]:
        for key in known:
            low = key.lower()
            if low == word or re.split(r"[./]", low)[-1] == word or low in (f"{word}.name", f"{word}/name"):
                if key != what:
                    notes.append(f"{what} is read from '{key}' (--{what} names another)")
                return key
    return ""


def _arms(runs: Sequence[Said], how: Labelling, place: Place, keys: Sequence[str]) -> tuple[list[str], bool]:
    """The arms, and whether they were read from names that end in a seed."""
    found, named = [], False
    for name, said, sure in runs:
        arm = how.arm_name or _joined(said, keys)
        if not arm and "arm" in sure:
            arm = str(sure["arm"])
        if not arm and not keys and "seed" not in sure:
            rest, seed = seed_in(name)
            if seed is not None and rest:
                arm, named = rest, True
        found.append(arm or place.arm or OWN)
    return found, named


def _joined(said: Mapping[str, Any], keys: Sequence[str]) -> str:
    """One key's value as it is; of several the further ones with their names: "adamw lr=0.1"."""
    parts = [_text(said.get(key, "")) for key in keys[:1]]
    parts += [f"{re.split(r'[./]', key)[-1]}={_text(said[key])}" for key in keys[1:] if key in said]
    return " ".join(part for part in parts if part)


def _text(value: Any) -> str:
    """A value as a label: a setting that is a section is called by its name."""
    if isinstance(value, Mapping):
        value = value.get("name", "")
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        value = int(value)
    return str(value).strip() if value is not None else ""


def _numbers_in_names(names: Sequence[str]) -> list[int | None]:
    return [seed_in(name)[1] for name in names]


def _seeds(
    runs: Sequence[Said], key: str, tasks: Sequence[str], in_names: Sequence[int | None]
) -> tuple[list[int], str]:
    seeds: list[int | None] = []
    for (name, said, sure), from_name in zip(runs, in_names):
        value = said.get(key, "") if key else ""
        if value in ("", None):
            value = sure.get("seed", from_name)
        seeds.append(None if value is None else _whole(value, key or "seed", name))
    lacking = sum(seed is None for seed in seeds)
    if not lacking:
        return [seed for seed in seeds if seed is not None], ""
    highest: dict[str, int] = {}
    for task, seed in zip(tasks, seeds):
        highest[task] = max(highest.get(task, 0), seed or 0)
    filled = []
    for task, seed in zip(tasks, seeds):
        if seed is None:
            highest[task] = seed = highest[task] + 1
        filled.append(seed)
    said_of = (
        "no run says its seed" if lacking == len(seeds) else f"{lacking} of {len(seeds)} runs do not say their seed"
    )
    return (
        filled,
        f"{said_of}: those are counted on through all arms, so arms are not paired by it (--seed names a key)",
    )


def _whole(value: Any, key: str, run: str) -> int:
    try:
        if isinstance(value, bool):
            raise ValueError
        if isinstance(value, int) or str(value).strip().removeprefix("-").isdecimal():
            return int(value)  # a float would change seeds beyond 2**53
        number = float(value)
        if number != int(number):
            raise ValueError
    except (TypeError, ValueError, OverflowError):
        said = f"run '{run}': '{key}' is {value!r}, not a whole number"
        raise InputError(said, "give --seed the column or setting that holds the seed", place="seed") from None
    return int(number)


def _told_of_arms(
    arms: Sequence[str], runs: Sequence[Said], how: Labelling, keys: Sequence[str], named: bool
) -> list[str]:
    if named:
        return ["arms are the runs' names without the seed in them (--arm names a key)"]
    if len(runs) > 1 and not keys and not how.arm_name and set(arms) == {OWN}:
        return ["nothing says the arms, so all runs are of one, 'own' (--arm names the column or setting that tells)"]
    return _lacking("arm", keys[0], arms, runs) if keys and not how.arm_name else []


def _told_of_tasks(tasks: Sequence[str], runs: Sequence[Said], key: str) -> list[str]:
    if runs and set(tasks) == {OWN} and not key:
        return ["nothing says the task, so it is called 'own' (--task-name gives it a name, --task names a column)"]
    return _lacking("task", key, tasks, runs) if key else []


def _lacking(what: str, key: str, labels: Sequence[str], runs: Sequence[Said]) -> list[str]:
    """Runs that do not say what others are told apart by."""
    found = [label for label, (_, said, _) in zip(labels, runs) if not _text(said.get(key, ""))]
    if not found:
        return []
    shown = ", ".join(f"'{name}'" for name in dict.fromkeys(found))
    return [f"{len(found)} of {len(runs)} runs say no '{key}', and are of the {what} {shown} (--where leaves some out)"]


def _told_of_searched(runs: Sequence[Said], place: Place, how: Labelling, keys: Sequence[str]) -> list[str]:
    """A parameter that is called like an arm, and is none until it is named."""
    if how.arm_name or keys:
        return []
    words = [key for key in place.searched if re.split(r"[./]", key.lower())[-1] in WORDS["arm"]]
    key = next((key for key in words if len({_text(said[key]) for _, said, _ in runs if key in said}) > 1), "")
    return [f"'{key}' was searched, and is a setting: --arm {key} makes an arm of each of its values"] if key else []
