"""Threats in the environment: runs that were not made on one machine, by one code, from one set of data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from algos.finding import Finding
from experiments.store.queries import flatten
from experiments.store.schema import RunRecord
from reports.table import StudyTable
from reports.threats.found import caution, counted

#: What tells devices apart, among what is known of them.
_DEVICE = ("type", "name", "processor", "device", "device_computed")


def mixed_devices(study: StudyTable) -> list[Finding]:
    said = "runs were made on different devices ({})"
    return _mixed(
        study, "mixed-devices", _device, said, "compare seconds only between runs of one device; better, run all on one"
    )


def simulated_device(study: StudyTable) -> list[Finding]:
    """Runs on a device that is only simulated."""
    runs = [record for record in study.runs if _simulated(_told(record))]
    if not runs:
        return []
    said = f"{len(runs)} of {len(study.runs)} runs were made on a simulated device"
    cure = "their seconds are the simulation's, and its arithmetic may differ: run on the device before claiming either"
    return [caution("simulated-device", said, cure)]


def _simulated(told: Mapping[str, Any]) -> bool:
    """Whether the device says so, by a key of that name or in its own name."""
    of_device = {key: value for key, value in told.items() if key.split(".")[0].startswith("device")}
    flagged = any("simulat" in key.split(".")[-1].lower() and value for key, value in of_device.items())
    return flagged or any("simulat" in str(value).lower() for value in of_device.values())


def mixed_threads(study: StudyTable) -> list[Finding]:
    said = "runs used different numbers of threads ({})"
    return _mixed(
        study,
        "mixed-threads",
        lambda told: _last(told, "threads"),
        said,
        "seconds do not compare; set one number of threads",
    )


def mixed_commits(study: StudyTable) -> list[Finding]:
    said = "runs were made by different commits ({})"
    cure = "check what changed between them, or run the study again from one commit"
    return _mixed(study, "mixed-commits", lambda told: _last(told, "commit"), said, cure)


def mixed_packages(study: StudyTable) -> list[Finding]:
    """Names the packages whose versions differ."""
    versions: dict[str, dict[str, int]] = {}
    for record in study.runs:
        for name, version in packages(record).items():
            seen = versions.setdefault(name, {})
            seen[version] = seen.get(version, 0) + 1
    differ = [f"{name} {' and '.join(seen)}" for name, seen in sorted(versions.items()) if len(seen) > 1]
    if not differ:
        return []
    said = (
        "runs used different versions of packages ("
        + "; ".join(differ[:6])
        + (", ..." if len(differ) > 6 else "")
        + ")"
    )
    return [caution("mixed-packages", said, "run the study in one environment")]


def mixed_data(study: StudyTable) -> list[Finding]:
    found = []
    for task in study.tasks.values():
        digests = {str(r.task["digest"]) for r in study.runs if r.labels.task == task.name and r.task.get("digest")}
        if len(digests) > 1:
            said = f"runs read {len(digests)} different sets of data (by their digests)"
            found.append(caution("mixed-data", said, "see which files changed, and run again on one set", task.name))
    return found


def dirty_folder(study: StudyTable) -> list[Finding]:
    """Runs whose code had changes that no commit has."""
    whose: dict[str, None] = {}
    dirty = 0
    for record in study.runs:
        changed = [code.owner for code in codes(record) if code.dirty]
        whose.update(dict.fromkeys(changed))
        dirty += bool(changed)
    if not dirty:
        return []
    said = f"{dirty} of {len(study.runs)} runs were made from code with uncommitted changes ({', '.join(whose)})"
    return [caution("dirty-folder", said, "commit, then run again, for others to have the same code")]


@dataclass(frozen=True)
class Code:
    """What a run tells of one repository. owner: "trainlab", or "folder", the one that the run was started in."""

    owner: str
    commit: str
    dirty: bool

    def __str__(self) -> str:
        at = f"{self.owner} at {self.commit[:7]}" if self.commit else f"{self.owner} without a commit"
        return f"{at} with uncommitted changes" if self.dirty else at


def codes(record: RunRecord) -> list[Code]:
    """The repositories that a run's code came from, as it tells them; the folder's is left out where it is
    trainlab's own checkout."""
    told = record.file.provenance
    own: Mapping[str, Any] = told.get("trainlab") or {}
    found = [
        Code(owner, str(of.get("commit") or ""), bool(of.get("dirty")))
        for owner, of in (("trainlab", own), ("folder", told))
        if of.get("commit") or of.get("dirty")
    ]
    same = len(found) == 2 and (found[0].commit, found[0].dirty) == (found[1].commit, found[1].dirty)
    return found[:1] if same else found


def packages(record: RunRecord) -> Mapping[str, str]:
    """Package -> version, as the run tells it."""
    return {name: str(version) for name, version in (record.file.provenance.get("packages") or {}).items()}


def _mixed(study: StudyTable, rule: str, of: Callable[[Mapping[str, Any]], str], said: str, cure: str) -> list[Finding]:
    counts: dict[str, int] = {}
    for record in study.runs:
        if value := of(_told(record)):
            counts[value] = counts.get(value, 0) + 1
    if len(counts) < 2:
        return []
    return [caution(rule, said.format("; ".join(f"{value}: {counted(n, 'run')}" for value, n in counts.items())), cure)]


def _told(record: RunRecord) -> dict[str, Any]:
    return flatten({key: value for key, value in record.file.provenance.items() if key != "packages"})


def _device(told: Mapping[str, Any]) -> str:
    keys = (key for key in told if key.split(".")[0].startswith("device") and key.split(".")[-1] in _DEVICE)
    return ", ".join(dict.fromkeys(str(told[key]) for key in keys if told[key] not in (None, "")))


def _last(told: Mapping[str, Any], name: str) -> str:
    """The values of every key that ends in `name`, each once."""
    return _joined(
        str(value)[:12] for key, value in told.items() if key.split(".")[-1] == name and value not in (None, "")
    )


def _joined(values: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(values))
