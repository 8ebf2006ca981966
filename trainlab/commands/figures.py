"""`trainlab figure`: one picture of a study, at a journal's size."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from reports.figures.panel import Panel


def figure(
    kind: Annotated[
        str,
        typer.Argument(
            metavar="KIND",
            help="ablation, confusion, contours, critical_difference, curves, parallel, pareto, points, profiles, "
            "sensitivity, slices or survival.",
        ),
    ],
    study: Annotated[str, typer.Argument(metavar="STUDY", help="The study's name; for confusion, a run.")],
    by: Annotated[
        str,
        typer.Option(
            "--by", help="A clock (updates, time, gradients, examples), score, parameters or a hyperparameter."
        ),
    ] = "",
    task: Annotated[str, typer.Option("--task", help="Which task, where the study has several.")] = "",
    arm: Annotated[str, typer.Option("--arm", help="One arm only.")] = "",
    against: Annotated[str, typer.Option("--against", help="The reference of an ablation.  [default: first arm]")] = "",
    metric: Annotated[str, typer.Option("--metric", help="Another series that the runs logged, e.g. train/loss.")] = "",
    mode: Annotated[str, typer.Option("--mode", help="max or min: which way that metric is better.")] = "",
    style: Annotated[
        str,
        typer.Option("--style", help="trainlab, neurips, icml, ieee, nature, slide, patent, or a YAML file of yours."),
    ] = "trainlab",
    width: Annotated[str, typer.Option("--width", help="column, text, or a size such as 84mm or 4in.")] = "column",
    height: Annotated[float | None, typer.Option("--height", help="Inches.  [default: by the width]")] = None,
    formats: Annotated[str, typer.Option("--format", help="Any of pdf,svg,png,pgf.")] = "pdf,svg",
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="DIR", help="Where the files go.  [default: ./STUDY-figures]")
    ] = None,
) -> None:
    """Draw one figure of a study: its files, and its data as CSV."""
    from algos.finding import InputError
    from reports.figures import panel as panels
    from reports.figures.drawing import check_formats
    from reports.figures.fonts import substituted
    from reports.figures.style import style as styled
    from reports.sections.drawn import file_name
    from trainlab import plot

    look = plot.read_style(style)
    look.width(width)
    if height is not None and not 0.3 <= height <= 60:
        raise InputError(f"a height of {height:g} in", "give one of 0.3 to 60 in", place="height")
    wanted = [word.strip() for word in formats.split(",") if word.strip()] or ["pdf"]
    check_formats(wanted)
    panels.check_kind(kind)
    ask = panels.Ask(task=task, by=by, arm=arm, against=against)
    with styled(look, width):
        made = _confusion(study) if kind == "confusion" else panels.panel(kind, plot.subject(study, metric, mode), ask)
        name = file_name(kind, study, *(word for word in (task, metric, by, arm) if word)) or "figure"
        drawing = made.drawing(name, look, width, study, height)
        files = drawing.files(wanted)
        notes = [*made.notes, *map(str, made.findings())]
    folder = out or Path(f"{file_name(study) or 'study'}-figures")
    for path in plot.written(files, folder):
        typer.echo(path)
    typer.echo(made.caption)
    for line in (*notes, substituted(look.fonts)):
        if line:
            typer.echo(f"note: {line}", err=True)


def _confusion(name: str) -> Panel:
    """A run's, by its id or name. A study's name is told what to give instead."""
    from experiments.store.home import Home
    from reports.figures import panel as panels
    from trainlab import plot, studies
    from trainlab.run_handle import Run

    home = Home.default()
    if name in studies.names(home):
        return panels.panel("confusion", plot.subject(name), panels.Ask())
    return plot.confusion_panel(Run.find(name, home))
