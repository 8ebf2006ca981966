"""Changes: in what a run that was copied and what its source says now differ, in words."""

from __future__ import annotations

from typing import Any

from experiments.store import spool
from experiments.store.copies import Copy
from experiments.store.home import Home, RunFolder
from experiments.store.queries import flatten

_ABSENT = object()


def between(home: Home, folder: RunFolder, draft: Copy) -> str:
    """The first differences: labels, settings, how it ended, values."""
    before, now = folder.file, draft.file
    said = [
        f"{name} was '{old}' and is '{new}'"
        for name in ("task", "arm", "phase", "seed")
        if (old := getattr(before.labels, name)) != (new := getattr(now.labels, name))
    ]
    said += [
        f"the {name} it is judged by was '{old}' and is '{new}'"
        for name in ("metric", "mode", "target")
        if (old := before.facts["task"].get(name)) != (new := now.facts["task"].get(name))
    ]
    old_steps, new_steps = (str((file.facts.get("source") or {}).get("steps") or "") for file in (before, now))
    if old_steps != new_steps:
        said.append(f"its steps were {old_steps or 'of no known kind'} and are {new_steps or 'of no known kind'}")
    old_config, new_config = flatten(before.config), flatten(now.config)
    for key in dict.fromkeys((*old_config, *new_config)):
        old, new = old_config.get(key, _ABSENT), new_config.get(key, _ABSENT)
        if old != new and key not in ("task", "seed"):
            said.append(f"{key} was {_shown(old)} and is {_shown(new)}")
    then = [line for _, path in spool.spools(folder.path) for line in spool.read(path)]
    said += _of_lines(then, list(spool.parse(draft.lines)))
    return ", ".join(said[:3]) + (f" and {len(said) - 3} more" if len(said) > 3 else "") if said else "its times differ"


def _shown(value: Any) -> str:
    return "absent" if value is _ABSENT else repr(value)


def _of_lines(before: list[dict[str, Any]], now: list[dict[str, Any]]) -> list[str]:
    said = []
    old, new = before[-1].get("status"), now[-1].get("status")
    if old != new:
        said.append(f"it was {old} and is {new}")
    values, others = _values(before), _values(now)
    for metric in sorted({*values, *others}):
        was, are = values.get(metric, {}), others.get(metric, {})
        place = next((p for p in sorted({*was, *are}) if was.get(p, _ABSENT) != are.get(p, _ABSENT)), None)
        if place is not None:
            where = "in the end" if place < 0 else f"at {place}"
            said.append(
                f"{metric} {where} was {_shown(was.get(place, _ABSENT))} and is {_shown(are.get(place, _ABSENT))}"
            )
    return said


def _values(lines: list[dict[str, Any]]) -> dict[str, dict[int, Any]]:
    """The values of each metric by update, -1 for final ones."""
    found: dict[str, dict[int, Any]] = {}
    for line in lines:
        if line["kind"] == "points":
            for metric, value in line["values"].items():
                found.setdefault(metric, {})[line["update"]] = value
        elif line["kind"] == "nonfinite":
            found.setdefault(line["metric"], {})[line["update"]] = line["value"]
        elif line["kind"] == "final":
            for metric, value in line["values"].items():
                found.setdefault(metric, {})[-1] = value
    return found
