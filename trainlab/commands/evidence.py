"""`trainlab verify`, `delete` and `gc`: what numbers rest on, held against the store, kept, removed."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from algos.finding import InputError
from trainlab.commands.entries import Json
from trainlab.commands.flags import Storage

if TYPE_CHECKING:
    from trainlab.evidence import Verified


def verify(
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="A report.json (or its folder), or claims in YAML.")
    ] = None,
    source: Annotated[
        str,
        typer.Option("--source", metavar="home|DIR|URI", help="Where the runs are: this home, another, or MLflow."),
    ] = "",
    numbers: Annotated[bool, typer.Option("--numbers", help="List a report's numbers, by the keys to cite.")] = False,
    pin: Annotated[bool, typer.Option("--pin", help="Pin a report's runs, so that nothing removes them.")] = False,
    everything: Annotated[
        bool, typer.Option("--all", help="Every report and file of claims that pins runs in this home, a line each.")
    ] = False,
    json: Json = False,
) -> None:
    """Compute every number of a report, or of a paper's claims, again from the store; say what changed.

    Exit code 0: all are equal, every claim holds; 1: something changed, and which runs did it; 2: no report, or no
    store. Runs that claims rest on are pinned: `delete` and `gc` leave them alone. --all: every report and file of
    claims that pins runs here.
    """
    from trainlab import evidence, plain

    if everything == (file is not None):
        said = "a file and --all are given" if everything else "no file is named"
        raise InputError(said, "give a report.json, a claims.yaml, or --all", rule="nothing-named")
    if file is None:
        if numbers or pin:
            raise InputError(f"--all takes no {'--numbers' if numbers else '--pin'}", "leave it out", rule="needless")
        _tell(evidence.verify_all(source), json)
        return
    if numbers:
        rows = evidence.numbers(file)
        told = [{"key": key, "number": text} for text, key in rows]
        typer.echo(plain.as_json(told) if json else plain.columns([(text, evidence.cited(key)) for text, key in rows]))
        return
    _tell(evidence.verify(file, source=source, pin=pin), json)


def _tell(found: Verified, as_json: bool) -> None:
    from trainlab import plain

    typer.echo(plain.as_json(found.data) if as_json else str(found))
    if not found.holds:
        raise typer.Exit(1)


def delete(
    runs: Annotated[
        list[str] | None, typer.Argument(metavar="RUN", help="The run's id, the start of it, or its name.")
    ] = None,
    study: Annotated[str, typer.Option("--study", metavar="NAME", help="All runs of a study, and its queue.")] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be deleted, and delete nothing.")] = False,
    restore: Annotated[bool, typer.Option("--restore", help="Bring them back from the trash.")] = False,
    storage: Storage = "",
    json: Json = False,
) -> None:
    """Delete runs: to the home's trash, from where `--restore` brings them back until `trainlab gc` empties it.

    Never what a claim rests on or what is running: then nothing is deleted. MLflow marks its run as deleted too.
    A run that is deleted alone is made anew by the next sweep of its study.
    """
    from trainlab import evidence, plain

    done = evidence.delete(*runs or (), study=study, dry_run=dry_run, storage=storage, restore=restore)
    word = "restored" if restore else "would be deleted" if dry_run else "deleted"
    if json:
        told = [{"run": record.run_id, "name": record.file.name, "study": record.labels.study} for record in done.runs]
        typer.echo(plain.as_json({word.replace(" ", "_"): told, "bytes": done.size_bytes, "notes": done.notes}))
        return
    for record in done.runs:
        typer.echo(f"{word}: {record.run_id}  {record.file.name}")
    for note in done.notes:
        typer.echo(f"note: {note}")
    total = len(done.runs)
    where = "" if restore or dry_run else " in the trash"
    typer.echo(f"{total} run{'s' if total != 1 else ''} {word}, {done.size_bytes:,} bytes{where}")


def gc(
    days: Annotated[
        float | None,
        typer.Option("--older-than", metavar="DAYS", help="Empty trash that is as old as this.  [default: 30]"),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be removed, and remove nothing.")] = False,
    unpin: Annotated[
        Path | None, typer.Option("--unpin", metavar="FILE", help="Let the runs go that these claims rest on.")
    ] = None,
    json: Json = False,
) -> None:
    """Free what is needed no more: old trash, second checkpoints of runs that are over, what dead processes left.

    Never anything of runs that claims rest on. `last.pt`, the best weights and the final model of each run stay.
    """
    from trainlab import evidence, plain

    if unpin is not None:
        if dry_run or days is not None:
            raise InputError("--unpin is a step of its own", "leave the others out", rule="needless")
        gone = evidence.unpin(unpin)
        told = {"path": str(gone.path), "runs": list(gone.runs)}
        typer.echo(plain.as_json(told) if json else f"{gone.path} pins no runs any more ({len(gone.runs)} let go)")
        return
    found = evidence.gc(days=days, dry_run=dry_run)
    word = "would be freed" if dry_run else "freed"
    if json:
        pieces = [asdict(piece) for piece in found.pieces]
        typer.echo(plain.as_json({"bytes": found.size_bytes, "pieces": pieces, "notes": found.notes}))
        return
    for piece in found.pieces:
        typer.echo(f"{piece.kind}: {piece.where}: {piece.what} ({piece.size_bytes:,} bytes)")
    for note in found.notes:
        typer.echo(f"note: {note}")
    typer.echo(f"{found.size_bytes:,} bytes {word}" if found.pieces else "nothing to free")
