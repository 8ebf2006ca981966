"""`trainlab report` and `cite`: what came of it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def report(
    study: Annotated[str, typer.Argument(metavar="STUDY", help="The study's name.")],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="DIR", help="Where the report goes; by default, ./STUDY-report."),
    ] = None,
) -> None:
    """Write a study's report, from its records alone."""
    from experiments.store.home import Home
    from trainlab.study_handle import Study

    path = Study(study, Home.default()).report(out)
    typer.echo(f"the report: {path.resolve()}")


def cite(
    run: Annotated[str, typer.Argument(metavar="RUN", help="The run's id, the start of it, or its name.")],
) -> None:
    """Print the BibTeX of everything a run used."""
    from experiments.store.home import Home
    from trainlab.run_handle import Run

    typer.echo(Run.find(run, Home.default()).bibtex())
