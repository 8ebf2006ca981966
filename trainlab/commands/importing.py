"""`trainlab import KIND PLACE` and `trainlab export FORMAT STUDY`: results from other tools, and for them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from experiments.store.copying import Copied

app = typer.Typer(
    name="import",
    help="Make a study of results that another tool wrote. Done twice, it adds nothing.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Settings = Annotated[str, typer.Option("--config", metavar="COLUMNS", help="Columns that are settings: lr,width.")]
Metrics = Annotated[str, typer.Option("--metrics", metavar="COLUMNS", help="The only columns that are metrics.")]
OptunaStudy = Annotated[str, typer.Option("--study", metavar="NAME", help="Which, where there are several.")]
Name = Annotated[str, typer.Option("--name", metavar="STUDY", help="The study that the runs become part of.")]
Metric = Annotated[
    str, typer.Option("--metric", help="By what the runs are judged, as it was logged: val/acc.  [default: as told]")
]
Mode = Annotated[str, typer.Option("--mode", help="max or min: which way it is better.  [default: by its name]")]
Target = Annotated[float | None, typer.Option("--target", help="A value of the metric worth timing.")]
Where = Annotated[str, typer.Option("--where", metavar="QUERY", help="Only these runs: 'status=completed lr<=0.1'.")]
Replace = Annotated[
    bool, typer.Option("--replace", help="Take runs as they are now that changed since they were imported.")
]
Task = Annotated[str, typer.Option("--task", metavar="KEY", help="The column or setting that tells the task.")]
Arm = Annotated[str, typer.Option("--arm", metavar="KEY[,KEY]", help="The columns or settings that tell arms apart.")]
Seed = Annotated[str, typer.Option("--seed", metavar="KEY", help="The column or setting that holds the seed.")]
TaskName = Annotated[str, typer.Option("--task-name", metavar="NAME", help="What the task of all runs is called.")]
ArmName = Annotated[str, typer.Option("--arm-name", metavar="NAME", help="What the arm of all runs is called.")]
Words = Annotated[
    list[str] | None, typer.Option("--status-word", metavar="WORD=STATUS", help="What a word means: OOM=crashed.")
]


def _column(name: str, what: str) -> Any:
    return typer.Option(name, metavar="COLUMN", help=f"The column of {what}.  [default: found by its name]")


@app.command("csv")
def from_csv(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A table: a value a row, or a column a metric.")],
    name: Name,
    metric: Metric = "", mode: Mode = "", target: Target = None, where: Where = "", replace: Replace = False,
    task: Task = "", arm: Arm = "", seed: Seed = "", task_name: TaskName = "", arm_name: ArmName = "",
    run: Annotated[str, _column("--run", "runs' names")] = "",
    step: Annotated[str, _column("--step", "updates")] = "",
    metric_column: Annotated[str, _column("--metric-column", "metrics' names, of a long table")] = "",
    value_column: Annotated[str, _column("--value-column", "values, of a long table")] = "",
    at: Annotated[str, _column("--at", "times")] = "",
    status: Annotated[str, _column("--status", "how runs ended")] = "",
    config: Settings = "",
    metrics: Metrics = "",
    status_word: Words = None,
) -> int:  # fmt: skip
    """A CSV table, or what `trainlab export csv` wrote."""
    options = {
        "run": run, "step": step, "metric_column": metric_column, "value_column": value_column, "at": at,
        "status": status, "config": config, "metrics": metrics, "status_words": status_word,
    }  # fmt: skip
    return _import(
        "csv",
        file,
        name,
        options | _labels(task, arm, seed, task_name, arm_name),
        (metric, mode, target),
        where,
        replace,
    )


@app.command("mlflow")
def from_mlflow(
    uri: Annotated[str, typer.Argument(metavar="URI", help="sqlite:///FILE, http://HOST:PORT or a folder mlruns.")],
    name: Name,
    metric: Metric = "", mode: Mode = "", target: Target = None, where: Where = "", replace: Replace = False,
    task: Task = "", arm: Arm = "", seed: Seed = "", task_name: TaskName = "", arm_name: ArmName = "",
    experiment: Annotated[
        list[str] | None, typer.Option("--experiment", metavar="NAME", help="Only this one; may be given again.")
    ] = None,
    status_word: Words = None,
) -> int:  # fmt: skip
    """Runs that other tools logged to MLflow; trainlab's own mirror is left out."""
    options = {"experiments": experiment, "status_words": status_word}
    return _import(
        "mlflow",
        uri,
        name,
        options | _labels(task, arm, seed, task_name, arm_name),
        (metric, mode, target),
        where,
        replace,
    )


@app.command("optuna")
def from_optuna(
    url: Annotated[str, typer.Argument(metavar="URL", help="sqlite:///FILE, another database, or a journal's file.")],
    name: Name,
    study: OptunaStudy = "",
    metric: Metric = "", mode: Mode = "", target: Target = None, where: Where = "", replace: Replace = False,
    task: Task = "", arm: Arm = "", task_name: TaskName = "", arm_name: ArmName = "",
) -> int:  # fmt: skip
    """Trials of an Optuna study, as tuning runs."""
    options = {"study": study} | _labels(task, arm, "", task_name, arm_name)
    return _import("optuna", url, name, options, (metric, mode, target), where, replace)


@app.command("tensorboard")
def from_tensorboard(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="What TensorBoard is started on (--logdir).")],
    name: Name,
    pattern: Annotated[
        str, typer.Option("--pattern", help="How folders are called: '{task}/{arm}/seed{seed}'; * is anything.")
    ] = "",
    metric: Metric = "", mode: Mode = "", target: Target = None, where: Where = "", replace: Replace = False,
    task: Task = "", arm: Arm = "", seed: Seed = "", task_name: TaskName = "", arm_name: ArmName = "",
) -> int:  # fmt: skip
    """Scalars of TensorBoard's event files; each folder with some is a run."""
    options = {"pattern": pattern} | _labels(task, arm, seed, task_name, arm_name)
    return _import("tensorboard", folder, name, options, (metric, mode, target), where, replace)


@app.command("wandb")
def from_wandb(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="run-ID.wandb, the folder wandb/, or a chart's CSV.")],
    name: Name,
    metric: Metric = "", mode: Mode = "", target: Target = None, where: Where = "", replace: Replace = False,
    task: Task = "", arm: Arm = "", seed: Seed = "", task_name: TaskName = "", arm_name: ArmName = "",
) -> int:  # fmt: skip
    """Offline runs of Weights & Biases, without network or login."""
    return _import(
        "wandb", path, name, _labels(task, arm, seed, task_name, arm_name), (metric, mode, target), where, replace
    )


@app.command("algoperf")
def from_algoperf(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Logs of submissions, as AlgoPerf publishes them.")],
    name: Name,
    ruleset: Annotated[str, typer.Option("--ruleset", help="external or self.  [default: as the logs tell]")] = "",
    targets: Annotated[
        Path | None, typer.Option("--targets", metavar="FILE", help="Targets of another version than 0.5.")
    ] = None,
    where: Where = "", replace: Replace = False,
) -> int:  # fmt: skip
    """Raw logs of the AlgoPerf benchmark."""
    options = {"ruleset": ruleset, "targets": targets}
    return _import("algoperf", folder, name, options, ("", "", None), where, replace)


def _labels(task: str, arm: str, seed: str, task_name: str, arm_name: str) -> dict[str, Any]:
    return {"task": task, "arm": arm, "seed": seed, "task_name": task_name, "arm_name": arm_name}


def _import(
    kind: str, place: str | Path, name: str, options: dict[str, Any], judged: tuple[str, str, float | None], where: str,
    replace: bool,
) -> int:  # fmt: skip
    """Imports, and says what came of it; the exit code."""
    from experiments.store.home import Home
    from trainlab import importing

    home = Home.default()

    def tell(done: Copied) -> None:
        *notes, came = importing.told(done, home)
        for line in notes:
            typer.echo(line, err=True)
        typer.echo(came)
        sys.stdout.flush()

    try:
        importing.copied(kind, place, name, home, options, tell, judged, where, replace)
    except KeyboardInterrupt:
        typer.echo("interrupted: the same command goes on", err=True)
        return 130
    return 0


def export(
    form: Annotated[str, typer.Argument(metavar="FORMAT", help="csv, parquet or json.")],
    study: Annotated[str, typer.Argument(metavar="STUDY", help="The study's name.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="Where to.  [default: STUDY.FORMAT]")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Write over a file that is there.")] = False,
) -> None:
    """Write a study as tables: one of points, and beside it one of runs."""
    from trainlab import importing

    for path in importing.export(study, out or f"{study}.{form}", form, force):
        typer.echo(f"wrote {path}")
