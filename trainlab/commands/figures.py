"""`trainlab figure`: one picture of a study, at a journal's size."""

from __future__ import annotations

from collections.abc import Mapping
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
    pairs: Annotated[
        str,
        typer.Option(
            "--pairs", help="For critical_difference: the test of all pairs, holm or nemenyi.  [default: holm]"
        ),
    ] = "",
    style: Annotated[
        str,
        typer.Option("--style", help="trainlab, neurips, icml, ieee, nature, slide, patent, or a YAML file of yours."),
    ] = "trainlab",
    width: Annotated[
        str, typer.Option("--width", help="column, text, or a size with its unit: 84mm, 8.4cm, 3.3in, 246pt.")
    ] = "column",
    height: Annotated[
        str, typer.Option("--height", help="A size with its unit, as for --width.  [default: by the width]")
    ] = "",
    formats: Annotated[str, typer.Option("--format", help="Any of pdf,svg,png,pgf.")] = "pdf,svg",
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="DIR", help="Where the files go.  [default: ./STUDY-figures]")
    ] = None,
) -> int:
    """Draw one figure of a study: its files, and its data as CSV."""
    try:
        asked = {"task": task, "by": by, "arm": arm, "against": against, "pairs": pairs, "metric": metric, "mode": mode}
        _draw(kind, study, asked, style, (width, height), formats, out)
    except KeyboardInterrupt:
        typer.echo("interrupted: no figure is written", err=True)
        return 130
    return 0


def _draw(
    kind: str,
    study: str,
    asked: Mapping[str, str],
    style: str,
    size: tuple[str, str],
    formats: str,
    out: Path | None,
) -> None:
    from reports.figures import panel as panels
    from reports.figures.drawing import check_formats
    from reports.figures.fonts import substituted
    from reports.figures.journals import length
    from reports.figures.style import style as styled
    from trainlab import plot

    look, (width, height) = plot.read_style(style), size
    look.width(width)
    high = length(height, "height", 0.3) if height else None
    wanted = check_formats(formats.split(","))
    kind = panels.check_kind(kind)
    _check_options(kind, asked)
    with styled(look, width):
        made = _confusion(study) if kind == "confusion" else _panel(kind, study, **asked)
        told = (asked[option] for option in ("task", "metric", "by", "arm", "against", "pairs"))
        name = _file_name(kind, study, *filter(None, told))
        drawing = made.drawing(name, look, width, study, high)
        files = drawing.files(wanted)
        notes = [*made.notes, *map(str, made.findings())]
    folder = out or Path(f"{_file_name(study)}-figures")
    for path in plot.written(files, folder):
        typer.echo(path)
    typer.echo(made.caption)
    for line in (*notes, substituted(look.fonts)):
        if line:
            typer.echo(f"note: {line}", err=True)


def _panel(kind: str, study: str, metric: str, mode: str, **asked: str) -> Panel:
    from reports.figures import panel as panels
    from trainlab import plot

    return panels.panel(kind, plot.subject(study, metric, mode), panels.Ask(**asked))


def _check_options(kind: str, given: Mapping[str, str]) -> None:
    """InputError for an option that a kind does not look at: what it draws would not be what was asked for."""
    import inspect

    from algos.finding import InputError
    from trainlab import plot

    takes = {*inspect.signature(getattr(plot, kind)).parameters, *(() if kind == "confusion" else ("metric", "mode"))}
    for option, value in given.items():
        if value and option not in takes:
            known = [f"--{name}" for name in given if name in takes]
            cure = f"it takes {', '.join(known)}" if known else "leave it out"
            raise InputError(f"{kind} has no use for --{option} {value}", cure, rule="unused-option", place=option)


def _file_name(*words: str) -> str:
    """A file's name out of anything. Where letters were lost on the way, it ends in a digest: names that differ in
    those alone do not share their files."""
    import hashlib
    import re

    from reports.sections.drawn import file_name

    name, whole = file_name(*words), re.sub(r"[\s/.,_-]+", "-", "-".join(words).lower()).strip("-")
    if name == whole:
        return name
    digest = hashlib.sha256("\0".join(words).encode("utf-8", "surrogatepass")).hexdigest()[:6]
    return f"{name[:50]}-{digest}".strip("-")


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
