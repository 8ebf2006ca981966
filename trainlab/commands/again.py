"""`trainlab fork` and `replay`: runs from runs."""

from __future__ import annotations

from typing import Annotated

import typer

from trainlab import plain
from trainlab.commands.entries import Json
from trainlab.commands.flags import DryRun, Events


def fork(
    point: Annotated[
        str, typer.Argument(metavar="RUN@UPDATE", help="The run (id, start of it, or name) and after which update.")
    ],
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE...", help="schedule=linear budget.updates=5000")
    ] = None,
    dry_run: DryRun = False,
    json: Json = False,
    events: Events = False,
) -> None:
    """Start a new run from the full state another had after an update; RUN@last: from its newest checkpoint."""
    from experiments.overrides import parse
    from experiments.store.home import Home
    from trainlab import again
    from trainlab.attending import attended
    from trainlab.commands.training import print_configs, say, tell
    from trainlab.running import exit_code

    home, asked = Home.default(), parse(overrides or [])
    if dry_run:
        print_configs(again.fork_configs(point, asked, home), json)
        return
    with attended(home, events=events) as watch:
        with watch.showing() as listener:
            finished = again.fork(point, asked, home=home, listener=listener, stop=watch.stop)
        records = [each.record for each in finished]
        tell(records, json, silent=events and not watch.alone)
        open_ends = [record.run_id for record in records if record.status == "interrupted"]
        if open_ends:
            say(f"interrupted; go on with: trainlab resume {' '.join(open_ends)}")
        raise typer.Exit(exit_code(records, watch.stop))


def replay(
    name: Annotated[str, typer.Argument(metavar="RUN", help="The run's id, the start of it, or its name.")],
    tolerance: Annotated[
        float | None,
        typer.Option(
            "--tolerance",
            metavar="X",
            help="Relative difference that passes.  [default: 1e-6; for members of a population 1e-5]",
        ),
    ] = None,
    json: Json = False,
    events: Events = False,
) -> None:
    """Run a run's config once more, and say what differs and whether the results are the same; exit code 1: not."""
    from experiments.store.home import Home
    from trainlab import again
    from trainlab.attending import attended

    home = Home.default()
    with attended(home, events=events) as watch:
        with watch.showing() as listener:
            found = again.replay(name, tolerance, home=home, listener=listener, stop=watch.stop)
        if not events or watch.alone:
            typer.echo(plain.as_json(found.to_json()) if json else "\n".join(found.lines()))
        raise typer.Exit(0 if found.agrees else 1)
