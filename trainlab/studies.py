"""Studies, for people: where one is read from, what it would take, what of it is due, how it stands."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from algos.finding import InputError, closest
from experiments.store.home import Home
from experiments.store.schema import RunRecord
from trainlab.plain import duration

if TYPE_CHECKING:
    from experiments.study import Job, StudyConfig

_COMING_ALONG = Path(__file__).resolve().parent.parent / "experiments" / "studies"


@dataclass(frozen=True)
class Told:
    """One answer, for people and for programs."""

    text: str
    data: Any


def read(given: str | Path) -> StudyConfig:
    """The study in a file; `-` is stdin; a bare name is one of those that come along with trainlab."""
    from experiments.study import load_study

    if str(given) == "-":
        return load_study("/dev/stdin")
    path = Path(given).expanduser()
    if not path.exists() and path.name == str(given) and not path.suffix:
        known = {found.stem: found for found in _COMING_ALONG.glob("*.yaml")}
        if str(given) not in known:
            guess = closest(str(given), known)
            cure = f"did you mean '{guess}'?" if guess else f"give a YAML file, or one of {', '.join(sorted(known))}"
            raise InputError(f"there is no study file '{given}'", cure, rule="unknown-study")
        path = known[str(given)]
    return load_study(path)


def planned(study: StudyConfig, home: Home, workers: int = 1) -> Told:
    """What the study would take, and what is left of it; InputError for an arm that cannot be run."""
    from experiments.plan import plan
    from trainlab.running import refuse_study, refuse_warm_start

    refuse_study(study)
    refuse_warm_start(study, home)
    found = plan(study, of_study(home, study.name))
    lines = found.lines()
    if found.left and found.seconds_left is None:
        lines[1] += ", no pace known yet"
    lines += searched(study)
    if workers > 1 and found.seconds_left is not None:
        lines.append(f"with {workers} workers at that pace about {duration(found.seconds_left / workers)}")
    return Told("\n".join(lines), {**asdict(found), "left": found.left, "space": _spaces(study)})


def searched(study: StudyConfig) -> list[str]:
    """What is searched for each arm, a line each; tasks that agree share one."""
    from experiments.tuning.spaces import told

    if study.tune is None:
        return []
    lines = []
    for arm in study.arms:
        by_space: dict[tuple[str, ...], list[str]] = {}
        for task in study.tasks:
            axes = tuple(f"{told(axis)} in {axis.dimension}" for axis in study.space(task, arm).axes)
            by_space.setdefault(axes, []).append(task)
        for axes, tasks in by_space.items():
            where = "" if len(by_space) == 1 else f" on {', '.join(tasks)}"
            lines.append(f"searched for {arm}{where}: {'; '.join(axes) or 'nothing'}")
    return lines


def _spaces(study: StudyConfig) -> dict[str, dict[str, Any]]:
    return {task: {arm: study.space(task, arm).to_json() for arm in study.arms} for task in study.tasks}


def jobs(study: StudyConfig, home: Home) -> Told:
    """Every run that could start now, its settings resolved; InputError for an arm that cannot be run."""
    from experiments.study import due
    from trainlab.running import refuse_study, refuse_warm_start

    refuse_study(study)
    refuse_warm_start(study, home)
    found = due(study, of_study(home, study.name))
    return Told("\n\n".join(map(_job, found)) or "nothing is due", [_job_data(job) for job in found])


def _job(job: Job) -> str:
    from trainlab.running import spelled

    head = f"# {job.labels.trial}" + (f", resumes {job.resume}" if job.resume else "")
    body = (
        spelled(job.config)
        if job.config
        else [f"{place}={job.space.to_json()[place]}" for place in job.space.to_json()]
    )
    return "\n".join([head, *body])


def _job_data(job: Job) -> dict[str, Any]:
    config = job.config.to_json() if job.config else None
    return {**asdict(job.labels), "config": config, "space": job.space.to_json(), "resume": job.resume}


def of_study(home: Home, name: str) -> list[RunRecord]:
    return [record for record in home.records() if record.labels.study == name]


def names(home: Home) -> list[str]:
    """The studies of a home that have runs, oldest first."""
    return list(dict.fromkeys(record.labels.study for record in home.records() if record.labels.study))


def status(home: Home, name: str | None = None) -> Told:
    """How the studies of a home stand, or each arm of one: done of planned, runs by status."""
    from trainlab.standing import standing

    found = standing(home, name)
    return Told("\n".join([*found.table(), *(notes(found.records) if name else [])]), found.rows)


def notes(records: Sequence[RunRecord]) -> list[str]:
    """What a reader of some runs should know of where they came from: other loops, files that have changed since."""
    from experiments.store.module_files import GONE, SHORT, changed

    others = [record.file.facts for record in records if record.file.facts.get("recorded")]
    theirs = Counter("imported" if "source" in facts else "recorded from other loops" for facts in others)
    said = [f"{n} of {len(records)} runs were {words}, not run by trainlab" for words, n in sorted(theirs.items())]
    for path, stored, now in changed(records):
        what = "is not there any more" if now == GONE else f"has changed since (now {now[:SHORT]})"
        said.append(f"{path} {what}: runs were made from {stored[:SHORT]}, which their numbers are of")
    return said
