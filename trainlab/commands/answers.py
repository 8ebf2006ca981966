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
    metric: Annotated[
        str, typer.Option("--metric", help="By what recorded runs are judged that do not say it, e.g. val/acc.")
    ] = "",
    mode: Annotated[str, typer.Option("--mode", help="max or min: which way that metric is better.")] = "",
    formats: Annotated[
        str,
        typer.Option(
            "--format",
            metavar="FORMATS",
            help="One or more of html, pdf, latex, markdown, docx, notebook, with commas between. report.json and the "
            "figures are always written; latex also writes tables/*.tex, each for an article of your own. pdf, docx "
            "and notebook need `pip install 'trainlab[documents]'`.",
        ),
    ] = "html",
) -> int:
    """Write a study's report, from its records alone."""
    try:
        from experiments.store.home import Home
        from reports.render.formats import chosen
        from trainlab.study_handle import Study

        wanted = chosen(formats.split(","))
        found = Study(study, Home.default())
        path = found.report(out, metric=metric, mode=mode, formats=[form.name for form in wanted])
        for line in found.notes():
            typer.echo(line, err=True)
        for form in wanted:
            typer.echo(f"the report: {path.with_name(form.file).resolve()}")
    except KeyboardInterrupt as stopped:
        typer.echo(f"interrupted: {str(stopped) or 'no report is written'}", err=True)
        return 130
    return 0


def cite(
    run: Annotated[str, typer.Argument(metavar="RUN", help="The run's id, the start of it, or its name.")],
) -> None:
    """Print the BibTeX of everything a run used."""
    from experiments.store.home import Home
    from trainlab.run_handle import Run

    if text := Run.find(run, Home.default()).bibtex():
        typer.echo(text)
    else:
        typer.echo("nothing that the run says it used has a citation", err=True)
