"""`trainlab tune` and `sweep`: whole studies."""

from __future__ import annotations

import json as jsons
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from trainlab import plain
from trainlab.commands.entries import Json
from trainlab.commands.flags import (
    Address,
    Amend,
    Detach,
    DryRun,
    Events,
    Launcher,
    LauncherOptions,
    OnDone,
    Population,
    Storage,
    Threads,
    UntilFlag,
    Workers,
)
from trainlab.commands.training import Arguments, detached, say, together

if TYPE_CHECKING:
    from experiments.store.home import Home
    from experiments.study import StudyConfig
    from experiments.sweeps.sweep import SweepOptions
    from trainlab.sweeping import Night

Plan = Annotated[
    bool,
    typer.Option("--plan", help="Print how many runs, how long, and what difference they could show; run nothing."),
]


@dataclass(frozen=True)
class Asked:
    """What a command was asked for, beside the study."""

    options: SweepOptions
    night: Night
    plan: bool
    dry_run: bool
    detach: bool
    json: bool
    events: bool


def tune(
    overrides: Arguments = None,
    trials: Annotated[int, typer.Option("--trials", min=1, help="Tuning runs.")] = 20,
    sampler: Annotated[str, typer.Option("--sampler", help="random, qmc, grid, tpe, gp, cmaes ...")] = "random",
    name: Annotated[str, typer.Option("--name", help="The study's name; by default, what it is.")] = "",
    workers: Workers = 1,
    threads: Threads = None,
    launcher: Launcher = "local",
    address: Address = "",
    launcher_option: LauncherOptions = None,
    storage: Storage = "",
    population: Population = "",
    amend: Amend = False,
    until: UntilFlag = "",
    on_done: OnDone = None,
    detach: Detach = False,
    plan: Plan = False,
    dry_run: DryRun = False,
    json: Json = False,
    events: Events = False,
) -> None:
    """Tune one arm on a task, then run the winner on fresh seeds; called again, it goes on."""
    from experiments import launchers
    from experiments.overrides import parse
    from experiments.study import tuning_study
    from experiments.sweeps.sweep import SweepOptions
    from trainlab.sweeping import Night

    own = launchers.options(launcher_option or [])
    options = SweepOptions(workers, threads, launcher, address, storage, amend, population, own)
    asked = Asked(options, Night.of(until, on_done), plan, dry_run, detach, json, events)
    _sweep(tuning_study(parse(overrides or []), trials, sampler, name), asked)


def sweep(
    study: Annotated[
        str, typer.Argument(metavar="STUDY.yaml", help="A study's file, or the name of one that comes along.")
    ],
    workers: Workers = 1,
    threads: Threads = None,
    launcher: Launcher = "local",
    address: Address = "",
    launcher_option: LauncherOptions = None,
    storage: Storage = "",
    population: Population = "",
    amend: Amend = False,
    until: UntilFlag = "",
    on_done: OnDone = None,
    detach: Detach = False,
    plan: Plan = False,
    dry_run: DryRun = False,
    json: Json = False,
    events: Events = False,
) -> None:
    """Run a whole study; called again, it goes on where it was."""
    from experiments import launchers
    from experiments.sweeps.sweep import SweepOptions
    from trainlab.studies import read
    from trainlab.sweeping import Night

    own = launchers.options(launcher_option or [])
    options = SweepOptions(workers, threads, launcher, address, storage, amend, population, own)
    asked = Asked(options, Night.of(until, on_done), plan, dry_run, detach, json, events)
    _sweep(read(study), asked)


def _sweep(study: StudyConfig, asked: Asked) -> None:
    from experiments.store.home import Home

    home = Home.default()
    together(asked.detach, asked.events)
    asked.options.check()
    if not (asked.plan or asked.dry_run):
        from trainlab.sweeping import refuse_running

        refuse_running(home, study.name, asked.options)
    if asked.plan or asked.dry_run:
        _print_plan(study, home, asked)
    elif asked.detach:
        from trainlab.sweeping import flags

        given = ["sweep", "-", *flags(asked.options), *asked.night.flags()]
        detached(given, jsons.dumps(study.to_json()), home, study.name, asked.json)
    else:
        raise typer.Exit(_run(study, home, asked))


def _print_plan(study: StudyConfig, home: Home, asked: Asked) -> None:
    from trainlab import studies

    told = studies.planned(study, home, asked.options.workers) if asked.plan else studies.jobs(study, home)
    typer.echo(plain.as_json(told.data) if asked.json else told.text)


def _run(study: StudyConfig, home: Home, asked: Asked) -> int:
    """The sweep, and what it came to; the exit code."""
    from experiments.stopping import StopNow
    from trainlab import studies
    from trainlab.sweeping import ending, sweep_code, swept

    try:
        with swept(study, home=home, options=asked.options, night=asked.night, events=asked.events) as (result, watch):
            if not asked.events or watch.alone:
                if result.records:
                    told = studies.status(home, study.name)
                    typer.echo(plain.as_json(told.data) if asked.json else told.text)
                elif asked.json:
                    typer.echo("[]")
                crashed = [record for record in result.records if record.status == "crashed"]
                if crashed:
                    first = crashed[0]
                    say(f"{len(crashed)} crashed, the first of them, {first.run_id}:\n{first.traceback.rstrip()}")
                if result.complete and not asked.json:
                    typer.echo(f"the answer: trainlab report {study.name}")
            for line in [*result.notes, *ending(study, result, watch.stop)]:
                say(line)
            return sweep_code(result.records, complete=result.complete, stop=watch.stop)
    except StopNow:
        say(f"stopped now; the same command goes on with the study '{study.name}'")
        return 130
