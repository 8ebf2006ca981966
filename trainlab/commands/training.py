"""`trainlab run`, `resume`, `tune` and `sweep`: what trains."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from trainlab import plain
from trainlab.commands.entries import Json

if TYPE_CHECKING:
    from experiments.config import RunConfig
    from experiments.progress import Event, Listener
    from experiments.stopping import Stop
    from experiments.store.schema import RunRecord
    from experiments.study import StudyConfig

Arguments = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="KEY=VALUE...",
        help="task=digits optimizer=muon optimizer.lr=0.02 wrappers=cautious+sam form=compiled seed=1,2,3",
    ),
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Print what would run, every setting resolved, and run nothing.")
]
Events = Annotated[bool, typer.Option("--events", help="Print progress as JSON, an event a line, and nothing else.")]

Plan = Annotated[
    bool,
    typer.Option("--plan", help="Print how many runs, how long, and what difference they could show; run nothing."),
]


def run(
    overrides: Arguments = None,
    config: Annotated[
        str, typer.Option("--config", metavar="FILE", help="Run the configs that --dry-run --json printed; - is stdin.")
    ] = "",
    dry_run: DryRun = False,
    json: Json = False,
    events: Events = False,
) -> None:
    """Train one run, or one for each combination of values."""
    from experiments.store.home import Home
    from trainlab.running import asked, execute, exit_code, refuse

    configs = asked(overrides or [], config)
    if dry_run:
        refuse(configs)
        _print_configs(configs, json)
        return
    with _watched(events) as (listener, stop):
        finished = execute(configs, home=Home.default(), listener=listener, stop=stop)
    records = [each.record for each in finished]
    _tell(records, json, silent=events)
    if stop.requested:
        ids = " ".join(record.run_id for record in records if record.status == "interrupted")
        left = f"; {len(configs) - len(records)} not started" if len(configs) > len(records) else ""
        _say(f"interrupted{left}; go on with: trainlab resume {ids}" if ids else f"interrupted{left}")
    raise typer.Exit(exit_code(records, stop.requested))


def resume(
    name: Annotated[str, typer.Argument(metavar="RUN", help="The run's id, the start of it, or its name.")],
    json: Json = False,
    events: Events = False,
) -> None:
    """Go on with a run that was interrupted, from its last checkpoint."""
    from experiments.store.home import Home
    from trainlab.running import exit_code, go_on, resumable

    home = Home.default()
    record = resumable(home, name)
    with _watched(events) as (listener, stop):
        finished = go_on(record, home=home, listener=listener, stop=stop)
    _tell([finished.record], json, silent=events)
    if stop.requested:
        _say(f"interrupted; go on with: trainlab resume {record.run_id}")
    raise typer.Exit(exit_code([finished.record], stop.requested))


def tune(
    overrides: Arguments = None,
    trials: Annotated[int, typer.Option("--trials", min=1, help="Tuning runs.")] = 20,
    sampler: Annotated[str, typer.Option("--sampler", help="random, qmc, grid, tpe, gp or cmaes.")] = "random",
    name: Annotated[str, typer.Option("--name", help="The study's name; by default, what it is.")] = "",
    plan: Plan = False,
    dry_run: DryRun = False,
    json: Json = False,
    events: Events = False,
) -> None:
    """Tune one arm on a task, then run the winner on fresh seeds; called again, it goes on."""
    from experiments.overrides import parse
    from experiments.study import tuning_study

    _sweep(tuning_study(parse(overrides or []), trials, sampler, name), plan, dry_run, json, events)


def sweep(
    study: Annotated[
        str, typer.Argument(metavar="STUDY.yaml", help="A study's file, or the name of one that comes along.")
    ],
    plan: Plan = False,
    dry_run: DryRun = False,
    json: Json = False,
    events: Events = False,
) -> None:
    """Run a whole study; called again, it goes on where it was."""
    from trainlab.studies import read

    _sweep(read(study), plan, dry_run, json, events)


def _sweep(study: StudyConfig, plan: bool, dry_run: bool, json: bool, events: bool) -> None:
    from experiments.store.home import Home
    from trainlab import studies

    home = Home.default()
    if plan or dry_run:
        told = studies.planned(study, home) if plan else studies.jobs(study, home)
        typer.echo(plain.as_json(told.data) if json else told.text)
        return
    from trainlab.running import execute_study, sweep_code

    with _watched(events) as (listener, stop):
        result = execute_study(study, home=home, listener=listener, stop=stop)
    if not events:
        told = studies.status(home, study.name)
        typer.echo(plain.as_json(told.data) if json else told.text)
        crashed = [record for record in result.records if record.status == "crashed"]
        if crashed:
            _say(f"{len(crashed)} crashed, the first of them, {crashed[0].run_id}:\n{crashed[0].traceback.rstrip()}")
        if not stop.requested and not json:
            typer.echo(f"the answer: trainlab report {study.name}")
    if stop.requested:
        _say(f"interrupted; the same command goes on with the study '{study.name}'")
    raise typer.Exit(sweep_code(result.records, stop.requested))


@contextmanager
def _watched(events: bool) -> Iterator[tuple[Listener, Stop]]:
    """Progress on the screen, or as JSON on stdout; Ctrl-C and SIGTERM ask to stop."""
    from experiments.stopping import stopping
    from trainlab.display import watching

    with stopping() as stop:
        if events:
            yield _print_event, stop
        else:
            with watching() as listener:
                yield listener, stop


def _print_event(event: Event) -> None:
    from trainlab.background import to_json

    try:
        print(to_json(event), flush=True)
    except BrokenPipeError:  # whoever watched is gone; the runs go on
        sys.stdout = open("/dev/null", "w")  # noqa: SIM115


def _print_configs(configs: list[RunConfig], json: bool) -> None:
    from experiments.config import digest
    from trainlab.running import spelled

    if json:
        typer.echo(plain.as_json([{**config.to_json(), "digest": digest(config)} for config in configs]))
        return
    for number, config in enumerate(configs, 1):
        typer.echo(f"# run {number} of {len(configs)}, digest {digest(config)[:12]}")
        lines = [shlex.quote(line) for line in spelled(config)]
        typer.echo("\n".join(lines) + ("\n" if number < len(configs) else ""))


def _tell(records: list[RunRecord], json: bool, silent: bool) -> None:
    """What came of the runs: a table on stdout; tracebacks of crashed ones on stderr."""
    from trainlab import tables

    if silent:
        return
    typer.echo(plain.as_json([tables.row(record) for record in records]) if json else tables.runs(records))
    for record in records:
        if record.traceback:
            _say(f"{record.run_id} crashed:\n{record.traceback.rstrip()}")


def _say(line: str) -> None:
    print(line, file=sys.stderr)
