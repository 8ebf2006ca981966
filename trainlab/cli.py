"""The command line: `trainlab`. Says what commands there are, and turns every error into one line and an exit code.

Exit codes: 0 done; 1 a run failed, or a check found something; 2 the input was wrong; 130 interrupted. Commands load
what they need when they run.
"""

from __future__ import annotations

import errno
import os
import sys
from typing import Annotated

import typer

import trainlab
from algos.finding import InputError
from experiments.stopping import StopNow
from trainlab.commands import (
    again,
    answers,
    checks,
    entries,
    evidence,
    figures,
    importing,
    mending,
    sweeping,
    tracker,
    training,
)

app = typer.Typer(
    name="trainlab",
    help="Research on training algorithms: runs, studies under equal budgets, reports from the records.",
    invoke_without_command=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
)
app.command("list")(entries.list_entries)
app.command("show")(entries.show)
app.command("check")(checks.check)
app.command("run")(training.run)
app.command("resume")(training.resume)
app.command("fork")(again.fork)
app.command("replay")(again.replay)
app.command("tune")(sweeping.tune)
app.command("sweep")(sweeping.sweep)
app.command("runs")(tracker.runs)
app.command("status")(tracker.status)
app.command("doctor")(mending.doctor)
app.command("report")(answers.report)
app.command("figure")(figures.figure)
app.command("verify")(evidence.verify)
app.command("delete")(evidence.delete)
app.command("gc")(evidence.gc)
app.command("cite")(answers.cite)
app.add_typer(importing.app)
app.command("export")(importing.export)
app.command("ui")(tracker.ui)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"trainlab {trainlab.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


#: What a disk or a user's rights refuse; not a fault of the program, so no traceback.
_OF_THE_MACHINE = (errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EROFS, errno.EIO, errno.EMFILE)


def main(arguments: list[str] | None = None) -> int:
    """Run one command; the exit code. An error that a user can mend is one line on stderr, without a traceback."""
    try:
        code = app(arguments, prog_name="trainlab", standalone_mode=False)
        sys.stdout.flush()
    except InputError as error:
        return _refuse(str(error))
    except (typer.Abort, KeyboardInterrupt, StopNow):
        print("interrupted", file=sys.stderr)
        return 130
    except OSError as error:
        if error.errno not in _OF_THE_MACHINE:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what stdout still holds must not fail again at exit
        _refuse(f"{error.strerror}{f': {error.filename}' if error.filename else ''}; nothing finished is lost")
        return 1
    except Exception as error:
        if not callable(getattr(error, "format_message", None)):  # typer's errors of usage have no public class
            raise
        return _refuse(_usage(error))
    return code if isinstance(code, int) else 0


def _usage(error: Exception) -> str:
    """A usage error in one line, with the help to read."""
    said = " ".join(error.format_message().split()).rstrip(".")  # type: ignore[attr-defined]
    context = getattr(error, "ctx", None)
    command = context.command_path if context else "trainlab"
    end = " " if said.endswith("?") else "; "
    return f"{said[:1].lower()}{said[1:]}{end}`{command} --help` says what it takes"


def _refuse(said: str) -> int:
    print(f"error: {' '.join(said.split())}", file=sys.stderr)
    return 2
