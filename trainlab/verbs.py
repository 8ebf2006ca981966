"""The verbs: what `import trainlab as tl` offers, the same words as on the command line."""

from __future__ import annotations

import builtins
import inspect
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from algos.finding import InputError, closest, unknown
from experiments.overrides import Overrides, given, parse
from experiments.store.home import Home
from trainlab.attending import note
from trainlab.run_handle import Run
from trainlab.study_handle import Study

if TYPE_CHECKING:
    from algos.finding import Finding
    from experiments.config import RunConfig
    from experiments.replay import Replayed
    from experiments.study import StudyConfig
    from experiments.sweeps.sweep import SweepOptions
    from trainlab.afterwards import Outcome
    from trainlab.attending import Watch
    from trainlab.showing import Listing
    from trainlab.standing import Standing
    from trainlab.sweeping import Night

#: What says how a sweep runs, and nothing of what it finds.
_OPTIONS = ("workers", "threads", "launcher", "address", "storage", "population", "amend")


def run(
    *overrides: str, wait: bool = True, until: str = "", on_done: str | None = None, **config: Any
) -> Run | builtins.list[Run]:
    """Train: one run, or a list of them where an override asks for several.

        tl.run("task=digits", "optimizer=muon", "optimizer.lr=0.02")
        tl.run(task="digits", optimizer={"name": "muon", "lr": 0.02}, seed=[1, 2, 3])
        tl.run(task=tl.Task.from_lightning(Net, Data, metric="val/acc"), seed=3)

    wait: False returns at once, and a process of its own trains. until: when to stop, resumable ("07:00", "2h").
    on_done: a shell command that is run when all is over. A run that fails is returned too, and says why; what cannot
    be run raises InputError, and nothing is run.
    """
    from trainlab.running import resolved
    from trainlab.sweeping import Night

    asked = _together(overrides, config)
    configs, night = resolved(asked), Night.of(until, on_done)
    home = Home.default()
    runs = _now(configs, home, night) if wait else _later(configs, home, night)
    return runs[0] if len(configs) == 1 else runs


def resume(run: Run | str) -> Run:
    """Go on with a run that was interrupted or lost."""
    from trainlab.running import go_on, resumable

    home = Home.default()
    record = resumable(home, run if isinstance(run, str) else run.run_id)
    with _attended(home) as (watch, outcome), watch.showing() as listener:
        outcome.records = [go_on(record, home=home, listener=listener, stop=watch.stop).record]
        outcome.complete = not watch.halted
    return Run(record.run_id, home)


def fork(point: str, *overrides: str, **config: Any) -> Run | builtins.list[Run]:
    """A new run from the full state that another had after an update, or a list of them where an override asks for
    several: `tl.fork("RUN@4000", "budget.updates=5000", schedule="linear")`; RUN@last is its newest checkpoint.

    What the fork shares with its trunk is in its facts, and counted once; its points are those after the update.
    """
    from trainlab import again

    home, asked = Home.default(), _together(overrides, config)
    with _attended(home) as (watch, _), watch.showing() as listener:
        finished = again.fork(point, asked, home=home, listener=listener, stop=watch.stop)
    runs = [Run(each.record.run_id, home) for each in finished]
    return runs[0] if len(runs) == 1 else runs


def replay(run: Run | str, tolerance: float | None = None) -> Replayed:
    """Runs a run's config once more: what differs between then and now, and whether the results are identical, within
    the tolerance (relative; 1e-6 where none is given) or not."""
    from trainlab import again

    home = Home.default()
    name = run if isinstance(run, str) else run.run_id
    with _attended(home) as (watch, _), watch.showing() as listener:
        return again.replay(name, tolerance, home=home, listener=listener, stop=watch.stop)


def tune(
    *overrides: str,
    trials: int = 20,
    sampler: str = "random",
    name: str = "",
    wait: bool = True,
    until: str = "",
    on_done: str | None = None,
    **config: Any,
) -> Study:
    """Tune one arm on a task, then run the winner on fresh seeds; called again, it goes on.

    tl.tune("task=cora", "optimizer=muon", "optimizer.lr=1e-4:1e-1:log", trials=50, workers=4)

    workers, threads, launcher, address, storage, population, amend: as for `sweep`.
    """
    from experiments.study import tuning_study
    from experiments.sweeps.sweep import SweepOptions
    from trainlab.sweeping import Night

    how = {word: config.pop(word) for word in _OPTIONS if word in config}
    _refuse_words(config, tune)
    study = tuning_study(_together(overrides, config), trials, sampler, name)
    if "population" in how:
        how["population"] = _size(how["population"])
    return _sweep(study, wait, SweepOptions(**how), Night.of(until, on_done))


def sweep(
    study: str | Path | StudyConfig | Mapping[str, Any],
    wait: bool = True,
    *,
    workers: int = 1,
    threads: int | None = None,
    launcher: str = "local",
    address: str = "",
    storage: str = "",
    population: str | int = "",
    amend: bool = False,
    until: str = "",
    on_done: str | None = None,
    **other: Any,
) -> Study:
    """Run a whole study, from its YAML file, a StudyConfig or what its file would hold as a dict; called again, it goes
    on where it was.

    wait: False returns at once; a process of its own runs the study, goes on where this one dies, and is found again by
    `tl.study(name)`. workers: processes that share it. threads: of each (all cores, shared). launcher: local, ray or
    slurm; address: the Ray cluster's. storage: the queue's URL (a file in the home). population: off, auto or how many
    small models train as one (as the study says). amend: let it grow where it has runs already. until: when to stop,
    resumable ("07:00", "2h"). on_done: a shell command that is run when all is over.
    """
    from experiments.study import StudyConfig
    from experiments.sweeps.sweep import SweepOptions
    from trainlab.studies import read
    from trainlab.sweeping import Night

    _refuse_words(other, sweep)
    options = SweepOptions(workers, threads, launcher, address, storage, amend, _size(population))
    if isinstance(study, Mapping):
        found = StudyConfig.of(study)
    else:
        found = read(study) if isinstance(study, (str, Path)) else study
    return _sweep(found, wait, options, Night.of(until, on_done))


def study(name: str) -> Study:
    """A study of the store, by name."""
    return Study(name, Home.default())


def runs(query: str = "", sort: str = "created") -> builtins.list[Run]:
    """The runs that a query selects, e.g. `tl.runs("task=digits test/accuracy>0.9", sort="-test/accuracy")`."""
    from experiments.store import queries

    home = Home.default()
    return [Run(record.run_id, home) for record in queries.sort(home.records(query), sort)]


def status(study: str | None = None) -> Standing:
    """How the studies stand, or one of them, arm by arm: done of planned, who works on them now, what waits for MLflow.

    Printed, it reads like `trainlab status`; `.rows`, `.workers`, `.left` and `.to_mend` are the same as data.
    """
    from trainlab.standing import standing

    return standing(Home.default(), study)


def doctor(dry_run: bool = False, storage: str = "") -> builtins.list[Finding]:
    """Finds and mends what kills left between home, queue and MLflow; each thing as a Finding: `said` what it was,
    `cure` what was done. dry_run: changes nothing. storage: the queue's URL, where it is not in the home."""
    from trainlab.standing import mend

    return mend(dry_run=dry_run, storage=storage).found


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


def _size(population: str | int | bool) -> str:
    """As the command line has it; YAML's `off` may have been read as False."""
    return "off" if population is False else str(population)


def _refuse_words(config: Mapping[str, Any], verb: Callable[..., Study]) -> None:
    """InputError for a keyword that is no setting of a run and none of the verb's own, with what was meant."""
    from experiments.config import keys
    from experiments.tuning.tune import Tune

    own = [name for name in inspect.signature(verb).parameters if name not in ("overrides", "config", "other", "study")]
    settings = ["tune", *keys()] if verb is tune else []
    for word in config:
        if word.partition(".")[0] in settings:
            continue
        if word in Tune.model_fields:
            cure = f'give "tune.{word}=..." (pruner: "tune.pruner=median")' if verb is tune else ""
            cure = cure or f"it belongs into the study, e.g. tune: {{{word}: ...}}"
            raise InputError(f"{word} says how arms are tuned", cure, rule="unknown-key", place=word)
        if verb is sweep or closest(word, (*own, *_OPTIONS)):
            raise unknown("keyword", word, dict.fromkeys((*own, *_OPTIONS)), place=word)


def _together(overrides: tuple[str, ...], config: dict[str, Any]) -> Overrides:
    spelled, named = parse(overrides), given(config)
    both = {key for key, _ in spelled.settings} & {key for key, _ in named.settings}
    if both:
        raise InputError(f"{min(both)} is given twice", "give it once", place=min(both))
    return Overrides(spelled.settings + named.settings)


@contextmanager
def _attended(home: Home, study: str = "", night: Night | None = None) -> Iterator[tuple[Watch, Outcome]]:
    """Progress where people look. Ctrl-C asks what runs to stop, resumable, and is raised again when it has, with how
    to go on."""
    from experiments.stopping import StopNow
    from trainlab.afterwards import afterwards
    from trainlab.attending import attended

    until, on_done = (night.until, night.on_done) if night else (None, "")
    try:
        with attended(home, study=study, until=until) as watch:
            if until:
                watch.tell(f"until {until.said}")
            with afterwards(on_done, home, watch) as outcome:
                yield watch, outcome
    except StopNow:
        raise KeyboardInterrupt(f"stopped now: {_further(watch.halted, home)}") from None
    if watch.stop.requested and not outcome.complete:
        if not watch.stop.planned:
            raise KeyboardInterrupt(f"{watch.stop.reason}: {_further(watch.halted, home)}")
        note(f"stopped as asked, {watch.stop.reason}: {_further(watch.halted, home)}")


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


def _now(configs: builtins.list[RunConfig], home: Home, night: Night) -> builtins.list[Run]:
    from trainlab.running import execute

    with _attended(home, night=night) as (watch, outcome):
        with watch.showing() as listener:
            finished = execute(configs, home=home, listener=listener, stop=watch.stop)
        outcome.records = [each.record for each in finished]
        outcome.complete = len(finished) == len(configs) and not watch.halted
    return [Run(each.record.run_id, home) for each in finished]


def _later(configs: builtins.list[RunConfig], home: Home, night: Night) -> builtins.list[Run]:
    from trainlab.background import Background
    from trainlab.running import refuse

    _elsewhere(configs)
    refuse(configs)
    told = json.dumps([config.to_json() for config in configs])
    background = Background(["run", "--config=-", *night.flags()], told, home)
    return [Run(None, home, background=background, index=index) for index in range(len(configs))]


def _elsewhere(configs: builtins.list[RunConfig]) -> None:
    """InputError for what only this process knows, where another one is to run it."""
    from experiments.modules import reference

    for text in (text for config in configs for text in reference.within(config.to_json())):
        if text.startswith(reference.BY_VALUE):
            said = f"{reference.shown(text)} is defined in this process, and wait=False trains in another"
            cure = f"put it into a file and give FILE.py:{reference.name(text)}, or leave wait=False out"
            raise InputError(said, cure, rule="by-value")


def _refuse_running(study: StudyConfig, home: Home, options: SweepOptions) -> None:
    from trainlab.background import of_study
    from trainlab.sweeping import refuse_running

    started = of_study(home, study.name)
    if started and started.running:
        cure = f'tl.study("{study.name}") has it: .wait() for it, or .stop() it'
        raise InputError(f"study {study.name} is being run by pid {started.pid}", cure, rule="already-running")
    refuse_running(home, study.name, options)


def _sweep(study: StudyConfig, wait: bool, options: SweepOptions, night: Night) -> Study:
    home = Home.default()
    options.check()
    _refuse_running(study, home, options)
    if not wait:
        from trainlab.background import Background
        from trainlab.running import refuse_study, refuse_warm_start
        from trainlab.sweeping import flags

        _elsewhere([study.run_config(task, arm, study.seeds[0]) for task in study.tasks for arm in study.arms])
        refuse_study(study)
        refuse_warm_start(study, home)
        given = ["sweep", "-", *flags(options), *night.flags()]
        return Study(
            study.name, home, background=Background(given, json.dumps(study.to_json()), home, study=study.name)
        )
    from trainlab.sweeping import execute_study

    with _attended(home, study.name, night) as (watch, outcome):
        with watch.showing() as listener:
            result = execute_study(study, home=home, listener=listener, stop=watch.stop, options=options)
        outcome.records, outcome.complete = result.records, result.complete
        for line in result.notes:
            note(line)
    return Study(study.name, home)
