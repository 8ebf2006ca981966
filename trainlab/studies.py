"""Studies, for people: where one is read from, what it would take, what of it is due, how it stands."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from algos.finding import InputError, closest, unknown
from experiments.store.home import Home
from experiments.store.schema import STATUSES, RunRecord
from trainlab.plain import columns, duration

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
    from trainlab.running import refuse_study

    refuse_study(study)
    found = plan(study, of_study(home, study.name))
    lines = found.lines()
    if workers > 1 and found.seconds_left is not None:
        lines.append(f"with {workers} workers at that pace about {duration(found.seconds_left / workers)}")
    return Told("\n".join(lines), {**asdict(found), "left": found.left})


def jobs(study: StudyConfig, home: Home) -> Told:
    """Every run that could start now, its settings resolved; InputError for an arm that cannot be run."""
    from experiments.study import due
    from trainlab.running import refuse_study

    refuse_study(study)
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
    """How the studies of a home stand, or each arm of one: runs by status."""
    records = [record for record in home.records() if record.labels.study]
    records.sort(key=lambda record: record.file.created)
    if name is None:
        return _counted(records, lambda record: (record.labels.study,), ("study",))
    own = [record for record in records if record.labels.study == name]
    if not own:
        raise unknown("study", name, dict.fromkeys(record.labels.study for record in records))
    told = _counted(
        own, lambda record: (record.labels.task, record.labels.arm, record.labels.phase), ("task", "arm", "phase")
    )
    return Told("\n".join([told.text, *notes(own)]), told.data)


def notes(records: Sequence[RunRecord]) -> list[str]:
    """What a reader of some runs should know of where they came from: other loops, files that have changed since."""
    from experiments.store.module_files import GONE, SHORT, changed

    theirs = sum(bool(record.file.facts.get("recorded")) for record in records)
    said = [f"{theirs} of {len(records)} runs were recorded from other loops, not run by trainlab"] if theirs else []
    for path, stored, now in changed(records):
        what = "is not there any more" if now == GONE else f"has changed since (now {now[:SHORT]})"
        said.append(f"{path} {what}: runs were made from {stored[:SHORT]}, which their numbers are of")
    return said


def _counted(records: list[RunRecord], key: Any, head: tuple[str, ...]) -> Told:
    counts: dict[tuple[str, ...], Counter[str]] = {}
    theirs: Counter[tuple[str, ...]] = Counter()
    for record in records:
        counts.setdefault(key(record), Counter())[record.status] += 1
        theirs[key(record)] += bool(record.file.facts.get("recorded"))
    used = [each for each in STATUSES if any(each in count for count in counts.values())]
    table = [(*group, *(count[each] for each in used)) for group, count in counts.items()]
    data = [
        {
            **dict(zip(head, group)),
            **{each: count[each] for each in STATUSES},
            "runs": count.total(),
            "recorded": theirs[group],
        }
        for group, count in counts.items()
    ]
    return Told(columns(table, head=(*head, *used)) if table else "no study has runs here", data)
