"""Flags that several commands share: what to print, and what a long night needs."""

from __future__ import annotations

from typing import Annotated

import typer

DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Print what would run, every setting resolved, and run nothing.")
]
Events = Annotated[bool, typer.Option("--events", help="Print progress as JSON, an event a line, and nothing else.")]
UntilFlag = Annotated[
    str,
    typer.Option("--until", metavar="WHEN", help="Stop then, resumable: 07:00, 90m, 2h or 2026-12-01T07:00."),
]
OnDone = Annotated[
    str | None,
    typer.Option(
        "--on-done",
        metavar="CMD",
        help="Run this when all is over; $TRAINLAB_STATUS is complete, incomplete or failed.",
    ),
]
Detach = Annotated[
    bool, typer.Option("--detach", help="Go on in a process of its own; print its id and where its log is.")
]

Workers = Annotated[int, typer.Option("--workers", metavar="N", help="Processes that share the study.")]
Threads = Annotated[
    int | None, typer.Option("--threads", metavar="N", help="Threads of each worker.  [default: all cores, shared]")
]
Launcher = Annotated[str, typer.Option("--launcher", metavar="NAME", help="Where workers run: local, ray or slurm.")]
Address = Annotated[
    str, typer.Option("--address", metavar="ADDRESS", help="The Ray cluster's; without it a local one is started.")
]
LauncherOptions = Annotated[
    list[str] | None,
    typer.Option(
        "--launcher-option",
        metavar="NAME=VALUE",
        help="The launcher's own, as often as needed: gpus=1 (ray), partition=gpu, time=2:00:00 (slurm).",
    ),
]
Storage = Annotated[
    str,
    typer.Option(
        "--storage",
        metavar="URL",
        help="The queue's: sqlite, postgresql, mysql or grpc://HOST:PORT.  [default: a file]",
    ),
]
Population = Annotated[
    str,
    typer.Option(
        "--population", metavar="off|auto|N", help="How many small models train as one.  [default: as the study says]"
    ),
]
Amend = Annotated[
    bool, typer.Option("--amend", help="Let a study grow that has runs already: more trials, seeds, arms or tasks.")
]
