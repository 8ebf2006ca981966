"""`trainlab list` and `trainlab show`: the catalogue."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from trainlab import plain, showing

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def list_entries(
    kind: Annotated[str | None, typer.Argument(help="tasks, optimizers, wrappers, schedules, losses, ...")] = None,
    json: Json = False,
) -> None:
    """List the tasks and the entries of the catalogue."""
    lines = showing.listing(kind)
    typer.echo(plain.as_json([asdict(line) for line in lines]) if json else repr(lines))


def show(
    name: Annotated[
        str, typer.Argument(help="A task or an entry, e.g. muon; optimizers/muon where two have one name.")
    ],
    task: Annotated[
        str | None, typer.Option("--task", help="Show what an optimizer does to each parameter of this task's model.")
    ] = None,
    json: Json = False,
) -> None:
    """Show everything about a task or an entry."""
    told = showing.facts(name)
    rows = showing.groups(name, task) if task else []
    if json:
        typer.echo(plain.as_json({**told, "parameters": rows} if rows else told))
        return
    typer.echo(showing.described(told))
    if rows:
        typer.echo(f"\non {task}:\n\n{showing.grouped(rows)}")
