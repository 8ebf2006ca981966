"""`trainlab runs`, `status` and `ui`: what there is."""

from __future__ import annotations

import os
import socket
import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer

from algos.finding import InputError
from trainlab import plain
from trainlab.commands.entries import Json

if TYPE_CHECKING:
    from experiments.store.home import Home

_WATCH_S = 2.0


def runs(
    query: Annotated[
        str, typer.Argument(help="e.g. 'task=digits status=completed test/accuracy>0.9 optimizer.lr<=1e-3'")
    ] = "",
    sort: Annotated[
        str, typer.Option("--sort", help="A field, a setting or a metric; -FIELD for the largest first.")
    ] = "created",
    json: Json = False,
) -> None:
    """List the runs, oldest first; a query selects."""
    from experiments.store import queries
    from experiments.store.home import Home
    from trainlab import tables

    records = queries.sort(Home.default().records(query), sort)
    if json:
        typer.echo(plain.as_json([tables.row(record) for record in records]))
    else:
        typer.echo(tables.runs(records) if records else "no runs")


def status(
    study: Annotated[str | None, typer.Argument(metavar="[STUDY]", help="One study, arm by arm.")] = None,
    json: Json = False,
    watch: Annotated[bool, typer.Option("--watch", help="Again every 2 seconds, until Ctrl-C.")] = False,
) -> None:
    """Say how the studies stand: done of planned, who works on them now, what waits for MLflow and why."""
    from experiments.store.home import Home

    home = Home.default()
    if not watch:
        typer.echo(_standing(home, study, json))
        return
    clear = "\x1b[H\x1b[2J" if sys.stdout.isatty() and not json else ""
    while True:
        typer.echo(f"{clear}{_standing(home, study, json)}")
        sys.stdout.flush()
        time.sleep(_WATCH_S)


def _standing(home: Home, study: str | None, json: bool) -> str:
    from trainlab import standing, studies

    found = standing.standing(home, study)
    if json:
        return plain.as_json(found.data())
    notes = studies.notes(found.records) if study else []
    return "\n".join([*found.lines(), *notes])


def ui(
    port: Annotated[int, typer.Option("--port", min=1, max=65535, help="Where it listens.")] = 5000,
    host: Annotated[str, typer.Option("--host", help="0.0.0.0 to let other machines in.")] = "127.0.0.1",
) -> None:
    """Open MLflow's own pages on the runs of this folder; Ctrl-C ends them."""
    from experiments.store.tracking import check_tracking, shown, tracking_uri

    uri = tracking_uri()
    check_tracking(uri)
    if uri.startswith(("http://", "https://")):
        typer.echo(f"MLflow runs at {shown(uri)}")
        return
    _check_port(host, port)
    # Without the word at its end MLflow opens its pages for language-model applications.
    page = f"http://{host}:{port}/#/experiments?workflowType=machine_learning"
    typer.echo(f"MLflow's pages on {shown(uri)}: {page}  (Ctrl-C ends them)")
    sys.stdout.flush()
    # One worker and no jobs: quick to start, and enough for one person.
    place = f"--host {host} --port {port} --workers 1".split()
    quiet = ["--uvicorn-opts", "--log-level warning"]
    command = [sys.executable, "-P", "-m", "mlflow", "server", "--backend-store-uri", uri, *place, *quiet]
    environment = {"PYTHONWARNINGS": "ignore", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", **os.environ}
    os.execve(sys.executable, command, environment)


def _check_port(host: str, port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            said = f"{host}:{port} cannot be listened at ({error.strerror})"
            raise InputError(said, "give another with --port", rule="port-taken") from None
