"""`trainlab run` and `resume`: runs by themselves."""

from __future__ import annotations

import json as jsons
import shlex
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from algos.finding import InputError
from trainlab import plain
from trainlab.commands.entries import Json
from trainlab.commands.flags import Detach, DryRun, Events, OnDone, UntilFlag

if TYPE_CHECKING:
    from experiments.config import RunConfig
    from experiments.progress import Listener
    from experiments.stopping import Stop
    from experiments.store.home import Home
    from experiments.store.schema import RunRecord
    from experiments.training import Finished
    from trainlab.sweeping import Night

    _Train = Callable[[Listener, Stop], list[Finished]]

Arguments = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="KEY=VALUE...",
        help="task=digits optimizer=muon optimizer.lr=0.02 wrappers=cautious+sam form=compiled seed=1,2,3",
    ),
]


def run(
    overrides: Arguments = None,
    config: Annotated[
        str, typer.Option("--config", metavar="FILE", help="Run the configs that --dry-run --json printed; - is stdin.")
    ] = "",
    until: UntilFlag = "",
    on_done: OnDone = None,
    detach: Detach = False,
    dry_run: DryRun = False,
    json: Json = False,
    events: Events = False,
) -> None:
    """Train one run, or one for each combination of values."""
    from experiments.store.home import Home
    from trainlab.running import asked, execute, refuse
    from trainlab.sweeping import Night

    configs, night, home = asked(overrides or [], config), Night.of(until, on_done), Home.default()
    together(detach, events)
    if dry_run:
        refuse(configs)
        print_configs(configs, json)
        return
    if detach:
        told = jsons.dumps([each.to_json() for each in configs])
        detached(["run", "--config=-", *night.flags()], told, home, "", json)
        return
    train: _Train = lambda listener, stop: execute(configs, home=home, listener=listener, stop=stop)  # noqa: E731
    raise typer.Exit(_attend(train, len(configs), home, night, _Print(json, events)))


def resume(
    name: Annotated[str, typer.Argument(metavar="RUN", help="The run's id, the start of it, or its name.")],
    until: UntilFlag = "",
    on_done: OnDone = None,
    json: Json = False,
    events: Events = False,
) -> None:
    """Go on with a run that was interrupted, from its last checkpoint."""
    from experiments.store.home import Home
    from trainlab.running import go_on, resumable
    from trainlab.sweeping import Night

    home, night = Home.default(), Night.of(until, on_done)
    record = resumable(home, name)
    train: _Train = lambda listener, stop: [go_on(record, home=home, listener=listener, stop=stop)]  # noqa: E731
    raise typer.Exit(_attend(train, 1, home, night, _Print(json, events)))


@dataclass(frozen=True)
class _Print:
    json: bool
    events: bool


def _attend(train: _Train, count: int, home: Home, night: Night, how: _Print) -> int:
    """Train `count` runs, say what came of them and what is left; the exit code."""
    from experiments.stopping import StopNow
    from experiments.store.schema import RESUMABLE
    from trainlab.afterwards import afterwards
    from trainlab.attending import attended
    from trainlab.running import exit_code

    try:
        with attended(home, until=night.until, events=how.events) as watch:
            if night.until:
                watch.tell(f"until {night.until.said}")
            with afterwards(night.on_done, home, watch) as outcome:
                with watch.showing() as listener:
                    records = [each.record for each in train(listener, watch.stop)]
                open_ends = [record.run_id for record in records if record.status in RESUMABLE]
                outcome.records, outcome.complete = records, not open_ends and len(records) == count
                tell(records, how.json, silent=how.events and not watch.alone)
                if watch.stop.requested and not outcome.complete:
                    say(_left(open_ends, count - len(records), watch.stop))
            return exit_code(records, watch.stop, outcome.complete)
    except StopNow:
        say("stopped now; `trainlab runs` lists what can be resumed")
        return 130


def _left(open_ends: list[str], not_started: int, stop: Stop) -> str:
    """Why it stopped, and how to go on."""
    why = f"stopped as asked, {stop.reason}" if stop.planned else "interrupted"
    told = f"{why}; {not_started} not started" if not_started else why
    return f"{told}; go on with: trainlab resume {' '.join(open_ends)}" if open_ends else told


def together(detach: bool, events: bool) -> None:
    """InputError for flags that do not go together."""
    if detach and events:
        raise InputError("--detach and --events", "give one of them: nobody reads the events of what is detached")


def detached(arguments: list[str], told: str, home: Home, study: str, json: bool) -> None:
    """Start the command in a process of its own, and say where it is."""
    from trainlab.detached import as_json, start

    command = start(arguments, told, home, study)
    typer.echo(as_json(command) if json else "\n".join(command.lines()))


def print_configs(configs: list[RunConfig], json: bool) -> None:
    from experiments.config import digest
    from trainlab.running import spelled

    if json:
        typer.echo(plain.as_json([{**config.to_json(), "digest": digest(config)} for config in configs]))
        return
    for number, config in enumerate(configs, 1):
        typer.echo(f"# run {number} of {len(configs)}, digest {digest(config)[:12]}")
        lines = [shlex.quote(line) for line in spelled(config)]
        typer.echo("\n".join(lines) + ("\n" if number < len(configs) else ""))


def tell(records: list[RunRecord], json: bool, silent: bool) -> None:
    """What came of the runs: a table on stdout; tracebacks of crashed ones on stderr."""
    from trainlab import tables

    if silent:
        return
    typer.echo(plain.as_json([tables.row(record) for record in records]) if json else tables.runs(records))
    for record in records:
        if record.traceback:
            say(f"{record.run_id} crashed:\n{record.traceback.rstrip()}")


def say(line: str) -> None:
    """A line beside the answer; where stderr is gone, so is the line."""
    with suppress(OSError):
        print(line, file=sys.stderr)
