"""Panel: one axis's worth of figure, computed from a study: what is drawn, its data, and what is to be said of it.

A kind of figure is a file of `reports.figures.panels`, named as on the command line, with `panel(subject, ask)`."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from algos.finding import Finding, InputError, unknown
from experiments.store.schema import RunRecord
from experiments.store.sources import Source
from reports.clocks import step_names
from reports.figures import legend
from reports.figures.drawing import Drawing, Value
from reports.figures.greyscale import greyscale
from reports.figures.journals import Look
from reports.figures.provenance import provenance
from reports.figures.style import Mark, current, labels, style
from reports.judged import TaskFacts
from reports.table import Cell, StudyTable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


#: What a clock may be called -> its name in the table.
CLOCKS = {
    "updates": "updates",
    "time": "seconds",
    "seconds": "seconds",
    "gradients": "gradients",
}
_WORDS = {"seconds": "seconds of training", "gradients": "gradient evaluations", "examples": "examples seen"}


def clock_words(clock: str, cells: Iterable[Cell]) -> str:
    """What a clock of these runs counts: imported ones may have made epochs, or steps that nobody explains."""
    return step_names(r for cell in cells for r in cell.finals)[1] if clock == "updates" else _WORDS.get(clock, clock)


@dataclass(frozen=True)
class Subject:
    """What a figure is of. source: where the table was read, for series that it does not hold; None where it was given
    alone."""

    table: StudyTable
    source: Source | None = None

    def task(self, name: str) -> TaskFacts:
        """The task asked for, or the study's only one. InputError where there are several, or none of that name."""
        tasks = self.table.tasks
        if name:
            if name not in tasks:
                raise unknown("task", name, tasks, place="task")
            return tasks[name]
        if len(tasks) > 1:
            said = f"study '{self.table.name}' has {len(tasks)} tasks"
            raise InputError(said, f"say which: --task {' or '.join(tasks)}", rule="several-tasks", place="task")
        return next(iter(tasks.values()))

    def cells(self, task: TaskFacts) -> list[Cell]:
        return self.table.of(task.name)


@dataclass(frozen=True)
class Ask:
    """What a figure was asked to show; "" where nobody said. by: a clock or another measure. arm: one arm only. pairs:
    by which test of all pairs, "holm" or "nemenyi"."""

    task: str = ""
    by: str = ""
    arm: str = ""
    against: str = ""
    pairs: str = ""

    def one_of(self, options: Mapping[str, str], default: str) -> str:
        """The meaning of `by`, by what it may be called. InputError for another word."""
        asked = self.by or default
        if asked not in options:
            raise unknown("measure", asked, options, place="by")
        return options[asked]


@dataclass(frozen=True)
class Panel:
    """draw: onto an axis. header, rows: the data. alt: what a reader who cannot see it must know. caption: what is
    drawn, in a sentence. looks: of the series in the legend, by name. rows_high: how many rows it has, where its height
    depends on that. lift: of the legend above the axis, in ems. runs: it rests on. notes: what else to know."""

    kind: str
    title: str
    draw: Callable[[Axes], None]
    header: tuple[str, ...]
    rows: tuple[tuple[Value, ...], ...]
    alt: str
    caption: str
    looks: Mapping[str, Mark] = field(default_factory=dict)
    extra: Sequence[str] = ()
    rows_high: float = 0.0
    square: bool = False
    lift: float = 0.1
    runs: tuple[RunRecord, ...] = ()
    notes: tuple[str, ...] = ()

    def onto(self, axis: Axes) -> None:
        """Draws it with its legend."""
        self.draw(axis)
        if self.looks:
            legend.legend(axis, self.lift)

    def findings(self) -> list[Finding]:
        """What a reader in black and white could not tell apart."""
        return greyscale(self.looks) if current().ink else []

    def size(self, look: Look, width: float) -> tuple[float, float]:
        """Inches, inside the style."""
        line = 1.35 * look.small / 72
        tall = width * look.ratio
        if self.square:
            tall = width * 0.86
        elif self.rows_high:
            tall = (self.rows_high * 1.75 + 4.2) * line
        names = [*labels(list(self.looks)).values(), *self.extra] if self.looks else []
        return width, round(tall + legend.height(names, width), 4)

    def drawing(self, name: str, look: Look, width: str | float, study: str, height: float | None = None) -> Drawing:
        """It alone as a figure of a publication."""
        across = look.width(width)
        with style(look, across):
            size = self.size(look, across) if height is None else (across, height)

        def draw(figure: Figure) -> None:
            self.onto(figure.add_subplot())

        told = provenance(study, self.runs)
        return Drawing(name, size, draw, self.header, self.rows, alt=self.alt, provenance=told, look=look)


def kinds() -> list[str]:
    """Every kind of figure, by name."""
    from reports.figures import panels

    return sorted(module.name for module in pkgutil.iter_modules(panels.__path__))


def panel(kind: str, subject: Subject, ask: Ask) -> Panel:
    """The panel of a kind. Call it inside the style that it is to be drawn in. InputError for a kind that there is not,
    and for what the study cannot show."""
    name, arms = check_kind(kind), subject.table.arms
    if ask.arm and ask.arm not in arms:
        raise unknown("arm", ask.arm, arms, place="arm")
    made: Panel = importlib.import_module(f"reports.figures.panels.{name}").panel(subject, ask)
    return made


def check_kind(kind: str) -> str:
    """The name of its file. InputError for a kind that there is not."""
    name = kind.replace("-", "_")
    if name not in kinds():
        raise unknown("kind of figure", kind, kinds(), place="kind")
    return name


def lacking(said: str, cure: str) -> InputError:
    """The error for what a study has no data for."""
    return InputError(said, cure, rule="nothing-to-draw")
