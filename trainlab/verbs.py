"""The verbs: what `import trainlab as tl` offers, the same words as on the command line."""

from __future__ import annotations

import builtins
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from algos.finding import InputError
from experiments.overrides import Overrides, given, parse
from experiments.store.home import Home
from trainlab.run_handle import Run
from trainlab.study_handle import Study

if TYPE_CHECKING:
    from experiments.config import RunConfig
    from experiments.progress import Event, Listener
    from experiments.stopping import Stop
    from experiments.study import StudyConfig
    from trainlab.showing import Listing


def run(*overrides: str, wait: bool = True, **config: Any) -> Run | builtins.list[Run]:
    """Train: one run, or a list of them where an override asks for several.

        tl.run("task=digits", "optimizer=muon", "optimizer.lr=0.02")
        tl.run(task="digits", optimizer={"name": "muon", "lr": 0.02}, seed=[1, 2, 3])
        tl.run(task=tl.Task.from_lightning(Net, Data, metric="val/acc"), seed=3)

    wait: False returns at once, and a process of its own trains. A run that fails is returned too, and says why; what
    cannot be run raises InputError, and nothing is run.
    """
    from trainlab.running import resolved

    asked = _together(overrides, config)
    configs = resolved(asked)
    home = Home.default()
    runs = _now(configs, home) if wait else _later(configs, home)
    return runs[0] if len(configs) == 1 else runs


def resume(run: Run | str) -> Run:
    """Go on with a run that was interrupted or lost."""
    from trainlab.running import go_on, resumable

    home = Home.default()
    record = resumable(home, run if isinstance(run, str) else run.run_id)
    with _attended(home) as (listener, stop):
        go_on(record, home=home, listener=listener, stop=stop)
    return Run(record.run_id, home)


def tune(
    *overrides: str, trials: int = 20, sampler: str = "random", name: str = "", wait: bool = True, **config: Any
) -> Study:
    """Tune one arm on a task, then run the winner on fresh seeds; called again, it goes on.

    tl.tune("task=cora", "optimizer=muon", "optimizer.lr=1e-4:1e-1:log", trials=50)
    """
    from experiments.study import tuning_study

    return _sweep(tuning_study(_together(overrides, config), trials, sampler, name), wait)


def sweep(study: str | Path | StudyConfig, wait: bool = True) -> Study:
    """Run a whole study, from its YAML file or a StudyConfig; called again, it goes on where it was."""
    from trainlab.studies import read

    return _sweep(read(study) if isinstance(study, (str, Path)) else study, wait)


def study(name: str) -> Study:
    """A study of the store, by name."""
    return Study(name, Home.default())


def runs(query: str = "", sort: str = "created") -> builtins.list[Run]:
    """The runs that a query selects, e.g. `tl.runs("task=digits test/accuracy>0.9", sort="-test/accuracy")`."""
    from experiments.store import queries

    home = Home.default()
    return [Run(record.run_id, home) for record in queries.sort(home.records(query), sort)]


def list(kind: str | None = None) -> Listing:
    """The tasks and entries of the catalogue, or those of one kind: kind, name and title of each."""
    from trainlab.showing import listing

    return listing(kind)


def show(name: str, task: str | None = None) -> None:
    """Prints everything about a task or an entry; with a task, what an optimizer does to each of its parameters."""
    from trainlab import showing

    print(showing.described(showing.facts(name)))
    if task:
        print(f"\non {task}:\n\n{showing.grouped(showing.groups(name, task))}")


def cite(run: Run | str) -> None:
    """Prints the BibTeX of everything a run used."""
    print((Run.find(run, Home.default()) if isinstance(run, str) else run).bibtex())


def _together(overrides: tuple[str, ...], config: dict[str, Any]) -> Overrides:
    spelled, named = parse(overrides), given(config)
    both = {key for key, _ in spelled.settings} & {key for key, _ in named.settings}
    if both:
        raise InputError(f"{min(both)} is given twice", "give it once", place=min(both))
    return Overrides(spelled.settings + named.settings)


@contextmanager
def _attended(home: Home) -> Iterator[tuple[Listener, Stop]]:
    """Progress where people look. Ctrl-C asks the run to stop, resumable, and is raised again when it has, with how to
    go on."""
    from experiments.progress import RunEnded
    from experiments.stopping import stopping
    from trainlab.display import watching

    halted: builtins.list[str] = []

    def heard(event: Event) -> None:
        if isinstance(event, RunEnded) and event.status == "interrupted":
            halted.append(event.run_id)
        listener(event)

    with stopping() as stop, watching() as listener:
        yield heard, stop
    if stop.requested:
        raise KeyboardInterrupt(f"{stop.reason}: {_further(halted, home)}")


def _further(halted: builtins.list[str], home: Home) -> str:
    """How to go on with runs that were interrupted."""
    from experiments.modules import reference

    records = [home.folder(run_id).record() for run_id in halted]
    studies = dict.fromkeys(record.labels.study for record in records if record.labels.study)
    if studies or not records:
        whose = f" with the study {', '.join(studies)}" if studies else ""
        return f"what is done is stored; the same call goes on{whose}" if studies else "what is done is stored"
    here = [text for each in records for text in reference.within(each.config) if text.startswith(reference.BY_VALUE)]
    ids = " and ".join(halted)
    if here:
        calls = ", ".join(f'tl.resume("{run_id}")' for run_id in halted)
        return f"run {ids} is stored; go on with {calls} in a script or notebook that makes the same Task first"
    return f"run {ids} is stored; go on with `trainlab resume {' '.join(halted)}`"


def _now(configs: builtins.list[RunConfig], home: Home) -> builtins.list[Run]:
    from trainlab.running import execute

    with _attended(home) as (listener, stop):
        finished = execute(configs, home=home, listener=listener, stop=stop)
    return [Run(each.record.run_id, home) for each in finished]


def _later(configs: builtins.list[RunConfig], home: Home) -> builtins.list[Run]:
    from trainlab.background import Background
    from trainlab.running import refuse

    _elsewhere(configs)
    refuse(configs)
    told = json.dumps([config.to_json() for config in configs])
    background = Background(["run", "--config=-"], told, home)
    return [Run(None, home, background=background, index=index) for index in range(len(configs))]


def _elsewhere(configs: builtins.list[RunConfig]) -> None:
    """InputError for what only this process knows, where another one is to run it."""
    from experiments.modules import reference

    for text in (text for config in configs for text in reference.within(config.to_json())):
        if text.startswith(reference.BY_VALUE):
            said = f"{reference.shown(text)} is defined in this process, and wait=False trains in another"
            cure = f"put it into a file and give FILE.py:{reference.name(text)}, or leave wait=False out"
            raise InputError(said, cure, rule="by-value")


def _sweep(study: StudyConfig, wait: bool) -> Study:
    home = Home.default()
    if not wait:
        from trainlab.background import Background
        from trainlab.running import refuse_study

        _elsewhere([study.run_config(task, arm, study.seeds[0]) for task in study.tasks for arm in study.arms])
        refuse_study(study)
        return Study(study.name, home, background=Background(["sweep", "-"], json.dumps(study.to_json()), home))
    from trainlab.running import execute_study

    with _attended(home) as (listener, stop):
        execute_study(study, home=home, listener=listener, stop=stop)
    return Study(study.name, home)
