"""Plot: figures of studies, drawn on a matplotlib axis of yours: `tl.plot.curves("my-study", by="time", ax=ax)`.

    with tl.style("icml", width="column"):
        figure, axes = plt.subplots(1, 2)
        tl.plot.curves("my-study", ax=axes[0])
        tl.plot.points("my-study", ax=axes[1])
    tl.plot.save(figure, "figure-1", formats=("pdf", "png"))

Each function takes a study (its name, `tl.study(name)`, or the table that `tl.plot.load(name)` gives, read once)
and returns the axis. task, arm: which of several. `tl.plot.data(ax)` and `tl.plot.alt(ax)` are what an axis shows, as a
table and in words. An InputError says what a study has no data for.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from algos.finding import InputError, unknown

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import ArrayLike

    from algos.finding import Finding
    from reports.figures.journals import Look
    from reports.figures.panel import Panel, Subject
    from reports.table import StudyTable
    from trainlab.run_handle import Run
    from trainlab.study_handle import Study

    Asked = str | Study | StudyTable

#: Axis -> what was drawn on it, in which style.
_DRAWN: WeakKeyDictionary[Axes, tuple[Panel, Look, str]] = WeakKeyDictionary()


def curves(
    study: Asked,
    *,
    by: str = "updates",
    task: str = "",
    arm: str = "",
    metric: str = "",
    mode: str = "",
    ax: Axes | None = None,
) -> Axes:
    """Learning curves, a mean and band an arm. by: updates, time, gradients or examples. metric, mode: another series
    that the runs logged ("train/loss"), and which way it is better where its name does not say."""
    return _draw("curves", study, ax, metric, mode, by=by, task=task, arm=arm)


def points(
    study: Asked, *, task: str = "", arm: str = "", metric: str = "", mode: str = "", ax: Axes | None = None
) -> Axes:
    """Every seed as a point, one row an arm, with mean and t interval."""
    return _draw("points", study, ax, metric, mode, task=task, arm=arm)


def slices(study: Asked, *, by: str = "", task: str = "", arm: str = "", ax: Axes | None = None) -> Axes:
    """Every trial's objective against one hyperparameter (by: "optimizer.lr")."""
    return _draw("slices", study, ax, by=by, task=task, arm=arm)


def contours(study: Asked, *, by: str = "", task: str = "", arm: str = "", ax: Axes | None = None) -> Axes:
    """The objective of one arm over two hyperparameters (by: "optimizer.lr,model.width")."""
    return _draw("contours", study, ax, by=by, task=task, arm=arm)


def parallel(study: Asked, *, task: str = "", arm: str = "", ax: Axes | None = None) -> Axes:
    """Parallel coordinates: each trial a line across all that was tuned."""
    return _draw("parallel", study, ax, task=task, arm=arm)


def sensitivity(study: Asked, *, by: str = "", task: str = "", arm: str = "", ax: Axes | None = None) -> Axes:
    """The best objective at each learning rate, and how wide each arm's good range is."""
    return _draw("sensitivity", study, ax, by=by, task=task, arm=arm)


def profiles(study: Asked, *, by: str = "", task: str = "", ax: Axes | None = None) -> Axes:
    """Performance profiles. by: updates, time or gradients to target as a multiple of the fastest; or score."""
    return _draw("profiles", study, ax, by=by, task=task)


def critical_difference(study: Asked, *, pairs: str = "", ax: Axes | None = None) -> Axes:
    """Arms by mean rank over the tasks, joined where no difference is shown: by signed ranks after Holm, or with
    pairs="nemenyi" by the distance of mean ranks, beside the critical difference."""
    return _draw("critical_difference", study, ax, pairs=pairs)


def survival(study: Asked, *, by: str = "updates", task: str = "", arm: str = "", ax: Axes | None = None) -> Axes:
    """The share of runs that have not reached the target yet (Kaplan-Meier). by: updates, time or gradients."""
    return _draw("survival", study, ax, by=by, task=task, arm=arm)


def pareto(study: Asked, *, by: str = "time", task: str = "", ax: Axes | None = None) -> Axes:
    """What runs came to against what they cost. by: time, updates, gradients or parameters."""
    return _draw("pareto", study, ax, by=by, task=task)


def ablation(study: Asked, *, against: str = "", task: str = "", arm: str = "", ax: Axes | None = None) -> Axes:
    """Each arm's difference from a reference (against: its name, else the first arm), as bars and points."""
    return _draw("ablation", study, ax, against=against, task=task, arm=arm)


def confusion(counts: ArrayLike | Run, names: Sequence[str] = (), *, ax: Axes | None = None) -> Axes:
    """A confusion matrix. counts: (true, predicted) whole numbers, or a run, whose model is asked on the validation
    split. names: of the classes."""
    from reports.figures.style import current

    return _onto(_axis(ax), confusion_panel(counts, names), current(), "")


def confusion_panel(counts: ArrayLike | Run, names: Sequence[str] = ()) -> Panel:
    """What `confusion` draws."""
    from reports.figures.panels.confusion import of_counts
    from trainlab.run_handle import Run

    if not isinstance(counts, Run):
        return of_counts(counts, names)
    from trainlab.predictions import counted

    matrix = counted(counts)
    said = f"{counts.record.labels.task}, validation, n = {int(matrix.sum())}"
    return of_counts(matrix, names, said, runs=(counts.record,))


def load(study: str | Study, metric: str = "", mode: str = "") -> StudyTable:
    """A study's table, read once, for several figures of it."""
    return _subject(study, metric, mode).table


def kinds() -> list[str]:
    """Every kind of figure of a study."""
    from reports.figures import panel

    return panel.kinds()


def data(ax: Axes) -> pandas.DataFrame:
    """What an axis shows, in full, one row a point."""
    import pandas

    shown = _panel(ax)
    return pandas.DataFrame(list(shown.rows), columns=list(shown.header))


def alt(ax: Axes) -> str:
    """What a reader who cannot see the axis must know."""
    return _panel(ax).alt


def caption(ax: Axes) -> str:
    """What is drawn, for the caption."""
    return _panel(ax).caption


def findings(ax: Axes) -> list[Finding]:
    """Series that cannot be told apart in a black-and-white print."""
    return _panel(ax).findings()


def save(figure: Figure, path: str | Path, formats: Sequence[str] = ("pdf",)) -> list[Path]:
    """Writes a figure as it was laid out, at exactly its size, with its data beside it as CSV and where it comes from
    inside: PATH.pdf, ..., PATH.csv. The same runs give the same bytes. The paths written. UserWarning where its labels
    reach beyond the page."""
    from reports.figures.drawing import FORMATS, check_formats, saved, table
    from reports.figures.style import current, style

    path = Path(path)
    if path.suffix[1:].lower() in FORMATS:
        formats, path = (path.suffix[1:],), path.with_suffix("")
    formats = check_formats(formats.split(",") if isinstance(formats, str) else formats)
    shown = [_DRAWN[axis] for axis in figure.axes if axis in _DRAWN]
    look = shown[0][1] if shown else current()
    told = "; ".join(dict.fromkeys(origin for *_, origin in shown if origin))
    with style(look, *map(float, figure.get_size_inches())):
        alts = " ".join(one.alt for one, *_ in shown)
        files = {
            f"{path.name}.{kind}": content
            for kind, content in saved(figure, formats, title=path.name, alt=alts, provenance=told).items()
        }
        _check_page(figure)  # in the style: ticks that matplotlib makes anew have its letters
    for number, (one, *_) in enumerate(shown, start=1):
        name = f"{path.name}.csv" if len(shown) == 1 else f"{path.name}-{number}-{one.kind}.csv"
        files[name] = table(one.header, one.rows).encode()
    return written(files, path.parent)


def _check_page(figure: Figure) -> None:
    """A figure that was made without our styles may have no layout, and cut off what stands beside its axes."""
    import warnings

    from reports.figures.drawing import beyond

    cut = beyond(figure)
    if cut > 0.02:
        said = f"labels reach {cut:.2f} in beyond the page and are cut off; make the figure with layout='constrained'"
        warnings.warn(said, stacklevel=3)


def written(files: Mapping[str, bytes], folder: Path) -> list[Path]:
    """Writes files into a folder, each whole or not at all. InputError where that cannot be written to, and where it
    would replace a file that trainlab did not write."""
    from experiments.store.records import write_whole
    from reports.figures.ours import check_ours

    check_ours(files, folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            write_whole(folder / name, content)
    except OSError as error:
        raise InputError(f"{folder} cannot be written to ({error.strerror})", "give another folder") from error
    return [folder / name for name in files]


def style(
    look: str | Path | Mapping[str, Any], width: str | float = "column", height: str | float | None = None
) -> AbstractContextManager[Look]:
    """A publication's looks for figures made inside: neurips, icml, ieee, nature, slide or patent; a mapping or a YAML
    file of your own ({like: icml, size: 8, widths: {column: 84mm}}). width: column, text, or a size: a number of
    inches, or "84mm"; height likewise."""
    from reports.figures import style as styles
    from reports.figures.journals import length

    found = read_style(look)
    found.width(width)  # what cannot be is said here, where it is asked for, and not at the `with`
    height = None if height is None else length(height, "height", 0.3)
    return styles.style(found, width, height)


def read_style(look: str | Path | Mapping[str, Any]) -> Look:
    """A style by its name, its keys or its YAML file."""
    from reports.figures.journals import named

    if isinstance(look, Mapping) or not str(look).endswith((".yaml", ".yml")):
        return named(str(look) if isinstance(look, Path) else look)
    from experiments.yaml_lines import load_yaml

    told, lines = load_yaml(Path(look).expanduser())
    try:
        return named(told)
    except InputError as error:
        place = error.finding.place.removeprefix("style").removeprefix(".")
        where = lines.find(place)
        raise error.at(source=lines.source, place=where or "style") from None


def subject(study: Asked, metric: str = "", mode: str = "") -> Subject:
    """What figures are drawn of: the study's table, and where it was read."""
    return _subject(study, metric, mode)


def _subject(study: Asked, metric: str, mode: str) -> Subject:
    from experiments.store.home import Home
    from experiments.store.sources.home import HomeSource
    from reports.figures.other_metric import table
    from reports.figures.panel import Subject
    from reports.table import StudyTable
    from trainlab.study_handle import Study

    if isinstance(study, StudyTable):
        if metric:
            raise InputError("a table has the metric that it was read with", f"load(NAME, metric='{metric}')")
        return Subject(study)
    if not isinstance(study, (str, Study)):
        raise InputError(f"{type(study).__name__} is no study", "give its name, tl.study(name) or tl.plot.load(name)")
    source = HomeSource(study._home if isinstance(study, Study) else Home.default())
    name = study.name if isinstance(study, Study) else study
    return Subject(table(source, name, metric, mode), source)


def _draw(kind: str, study: Asked, ax: Axes | None, metric: str = "", mode: str = "", **asked: str) -> Axes:
    from reports.figures.panel import Ask, panel
    from reports.figures.provenance import provenance
    from reports.figures.style import current

    try:
        found = _subject(study, metric, mode)
        made = panel(kind, found, Ask(**asked))
    except InputError as error:
        raise _in_python(error) from None
    return _onto(_axis(ax), made, current(), provenance(found.table.name, made.runs))


def __getattr__(name: str) -> Any:
    """What is misspelt: which figures there are."""
    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    raise AttributeError(str(unknown("figure", name, kinds())))


#: An option in a cure, with the words that it may be given.
_OPTION = re.compile(r"--(\w+)(?: ([^\s;)]*[^\s,;)](?: or (?!--)[^\s,;)]+)*))?")


def _in_python(error: InputError) -> InputError:
    """The error with its cure as one writes it here: task="digits" where the command line has --task digits."""

    def argument(found: re.Match[str]) -> str:
        words = found[2].split(" or ") if found[2] else []
        return " or ".join(f'{found[1]}="{word}"' for word in words) or found[1]

    finding, front = error.finding, "say which: --task "
    if finding.rule == "several-tasks" and finding.cure.startswith(front):  # names may hold anything
        cure = "say which: " + " or ".join(f'task="{name}"' for name in finding.cure.removeprefix(front).split(" or "))
    else:
        cure = _OPTION.sub(argument, finding.cure)
    return InputError(finding.said, cure, rule=finding.rule, source=finding.source, place=finding.place)


def _onto(axis: Axes, made: Panel, look: Look, told: str) -> Axes:
    """Draws a panel, its names as text whatever matplotlib is told to do with `$` outside of our styles."""
    from matplotlib import rc_context
    from matplotlib.text import Text

    from reports.figures.monochrome import monochrome

    before = {text: text.get_text() for text in axis.findobj(Text)}  # type: ignore[attr-defined]
    with rc_context({"text.parse_math": False, "text.usetex": False}):
        made.onto(axis)
        for text in axis.findobj(Text):
            if text.get_text() != before.get(text, ""):  # type: ignore[attr-defined]
                text.set(parse_math=False, usetex=False)
    if not look.ink:
        monochrome(axis)
    _DRAWN[axis] = (made, look, told)
    return axis


def _axis(ax: Axes | None) -> Axes:
    """The one given, or pyplot's current one. InputError for what is no axis with straight scales."""
    if ax is not None:
        if getattr(ax, "name", "") != "rectilinear":
            said = (
                f"ax is {'a polar axis' if getattr(ax, 'name', '') == 'polar' else f'no axis but {type(ax).__name__}'}"
            )
            raise InputError(said, "give one plain axis, as plt.subplots() makes them", place="ax")
        return ax
    import matplotlib.pyplot as plt

    return plt.gca()


def _panel(ax: Axes) -> Panel:
    if ax not in _DRAWN:
        raise InputError("nothing of tl.plot is drawn on that axis", "draw first, as in tl.plot.curves(study, ax=ax)")
    return _DRAWN[ax][0]
