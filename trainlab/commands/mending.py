"""`trainlab doctor`: what kills left, found and mended."""

from __future__ import annotations

from typing import Annotated

import typer

from trainlab.commands.entries import Json


def doctor(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Look only, and change nothing.")] = False,
    storage: Annotated[
        str, typer.Option("--storage", metavar="URL", help="Where the queue is, if not in the home.")
    ] = "",
    json: Json = False,
) -> None:
    """Find and mend what kills left: lost runs, stale trials, half files, what MLflow lacks.

    Says what each was and what was done. Exit code 0: all is well, or mended; 1: something was found by --dry-run, or
    could not be mended. Nothing is touched that a live process owns.
    """
    from trainlab import plain
    from trainlab.standing import mend

    visit = mend(dry_run=dry_run, storage=storage)
    if json:
        typer.echo(plain.as_json([finding.to_json() for finding in visit.found]))
    else:
        for finding in visit.found:
            typer.echo(str(finding))
        if all(finding.rule == "mlflow-away" and finding.level == "note" for finding in visit.found):
            typer.echo("nothing to mend")
    if not visit.clean:
        raise typer.Exit(1)
