"""What the catalogue says, for people. Imports no entry, unless a task is named."""

from __future__ import annotations

import html
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from algos import catalogue
from algos.finding import InputError, unknown
from algos.spec import Hyper
from experiments.modules.reference import is_reference
from trainlab.papers import short
from trainlab.plain import columns, screen_width, text, wrapped

if TYPE_CHECKING:
    import torch
    from torch import nn

TASKS = "tasks"


@dataclass(frozen=True)
class Line:
    """One entry of a listing. paper: authors and year. state, cost, needs: of an optimizer, per parameter and step."""

    kind: str
    name: str
    title: str
    paper: str = ""
    state: str = ""
    cost: str = ""
    needs: str = ""


class Listing(list[Line]):
    """Lines that show themselves, whole, in a terminal and in a notebook."""

    def __repr__(self) -> str:
        if self and self.of_optimizers:
            width = screen_width()
            legend = textwrap.fill(_NEEDS, width, subsequent_indent="  ", break_long_words=False)
            return f"{wrapped([_told(line) for line in self], _HEAD, width)}\n\n{legend}"
        blocks = []
        for kind in dict.fromkeys(line.kind for line in self):
            rows = [(f"  {line.name}", line.title) for line in self if line.kind == kind]
            blocks.append(f"{kind}\n{columns(rows)}")
        return "\n\n".join(blocks)

    @property
    def of_optimizers(self) -> bool:
        """Whether all are optimizers: then what each costs is told too."""
        return all(line.kind == "optimizers" for line in self)

    def _repr_html_(self) -> str:
        if self and self.of_optimizers:
            rows = [_HEAD, *map(_told, self)]
            return f"<table>{''.join(_html_row(row) for row in rows)}</table><p>{html.escape(_NEEDS)}</p>"
        cells = (
            f"<tr><td>{html.escape(line.kind)}</td><td><code>{html.escape(line.name)}</code></td>"
            f"<td style='text-align: left'>{html.escape(line.title)}</td></tr>"
            for line in self
        )
        return f"<table>{''.join(cells)}</table>"


_HEAD = ("name", "paper", "state", "cost", "needs")
_NEEDS = (
    "needs: names (the model, for its parameters' names), phase (work due now and then), shared (numbers common to all "
    "parameters), curvature (an estimate of the Hessian's diagonal), closure (the loss again within a step), "
    "directions (of wrappers: an optimizer that shows its directions)"
)


def _told(line: Line) -> tuple[str, ...]:
    """An optimizer's row; an entry that cannot be read says so where its paper would stand."""
    return line.name, line.paper or line.title, line.state, line.cost, line.needs


def _html_row(cells: Sequence[str]) -> str:
    inside = (f"<td style='text-align: left'>{html.escape(cell)}</td>" for cell in cells)
    return f"<tr>{''.join(inside)}</tr>"


def kinds() -> list[str]:
    return [TASKS, *catalogue.KINDS]


def listing(kind: str | None = None) -> Listing:
    """Every task and entry, or those of a kind. An entry that cannot be read says so in its title."""
    chosen = kinds() if kind is None else [_kind(kind)]
    return Listing(_line(each, name) for each in chosen for name in _names(each))


def _kind(given: str) -> str:
    singular = {**{word: kind for kind, word in catalogue.KINDS.items()}, "task": TASKS}
    if given in singular:
        return singular[given]
    if given not in kinds():
        raise unknown("kind", given, kinds())
    return given


def _names(kind: str) -> list[str]:
    from experiments.tasks import catalogue as tasks

    return list(tasks.names()) if kind == TASKS else list(catalogue.paths(kind))


def _line(kind: str, name: str) -> Line:
    from experiments.tasks import catalogue as tasks

    try:
        if kind == TASKS:
            return Line(kind, name, tasks.describe(name).title)
        entry = catalogue.describe(kind, name)
    except InputError as error:
        return Line(kind, name, f"cannot be read: {error}")
    told = {key: str(entry.literals.get(key, "")) for key in ("state", "cost")}
    return Line(kind, name, entry.title, short(entry.cite), **told, needs=", ".join(entry.needs))


def find(name: str) -> tuple[str, str]:
    """(kind, name) of what a name means: `optimizers/muon` says which kind where two have one name, FILE.py:CLASS is a
    task, as is task=NAME."""
    if name.startswith("task="):
        name = name.removeprefix("task=")
        name = name if is_reference(name) else f"{TASKS}/{name}"
    if is_reference(name):
        return TASKS, name
    kind, slash, rest = name.partition("/")
    if slash:
        found = [(_kind(kind), rest)] if rest in _names(_kind(kind)) else []
    else:
        found = [(each, name) for each in kinds() if name in _names(each)]
    if len(found) > 1:
        options = " or ".join(f"{each}/{name}" for each, _ in found)
        raise InputError(f"'{name}' is the name of {len(found)} things", f"give {options}", rule="ambiguous-name")
    if not found:
        raise unknown("name", rest or name, [each for kind in kinds() for each in _names(kind)])
    return found[0]


def facts(name: str) -> dict[str, Any]:
    """Everything declared about a task or an entry, as plain data."""
    kind, name = find(name)
    if kind == TASKS:
        return _module_facts(name) if is_reference(name) else _task_facts(name)
    entry = catalogue.describe(kind, name)
    told = {key: value for key, value in entry.literals.items() if key != "cite" and value}
    return {
        "kind": kind,
        "name": name,
        "title": entry.title,
        "doc": entry.doc,
        **told,
        "hyperparameters": [{"name": key, **_hyper(hyper)} for key, hyper in entry.hyper.items()],
        "file": str(entry.path),
        "cite": entry.cite,
    }


def _hyper(hyper: Hyper) -> dict[str, Any]:
    return {"default": hyper.default, "valid": hyper.range(), "search": hyper.search, "unit": hyper.unit}


def _task_facts(name: str) -> dict[str, Any]:
    from experiments.tasks import catalogue as tasks

    task = tasks.describe(name)
    defaults = ("model", "loss", "optimizer", "schedule", "budget", "batch_size", "evaluate_every")
    told = ("domain", "metric", "mode", "target", "target_source", "worst", "unit", "select", "home")
    return {
        "kind": TASKS,
        "name": name,
        "title": task.title,
        **{key: getattr(task, key) for key in told},
        "defaults": {key: _plain(getattr(task, key)) for key in defaults},
        "cite": task.cite,
    }


def _module_facts(name: str) -> dict[str, Any]:
    """A module of the user's own: where it is, and the arguments that model.ARGUMENT=VALUE sets."""
    import inspect

    from experiments.modules import constructor, reference, settings

    found = settings.of_kind(name, "task")
    doc = inspect.getdoc(found) if "__doc__" in vars(found) else ""
    known = constructor.arguments(found).named.values()
    arguments = [{"name": each.name, "default": "must be given" if each.required else _said(each.default),
                  "valid": each.told(), "search": "", "unit": ""} for each in known]  # fmt: skip
    title = (doc or settings.label(name)).splitlines()[0]
    return {"kind": TASKS, "name": name, "title": title, "doc": doc, "hyperparameters": arguments,
            "file": reference.source(name)["file"], "cite": ""}  # fmt: skip


def _said(value: Any) -> Any:
    return value if value is None or isinstance(value, (bool, int, float, str, list, tuple)) else str(value)


def _plain(value: Any) -> Any:
    return dict(value) if hasattr(value, "items") else value


def described(told: dict[str, Any]) -> str:
    """`facts` as text."""
    skipped = ("kind", "name", "title", "doc", "hyperparameters", "defaults", "cite")
    parts = [f"{told['kind']}/{told['name']}", told.get("doc") or told["title"]]
    parts.append(columns([(key, text(value)) for key, value in told.items() if key not in skipped and value]))
    if told.get("hyperparameters"):
        rows = [
            (f"  {row['name']}", text(row["default"]) or "none", row["valid"], row["search"], row["unit"])
            for row in told["hyperparameters"]
        ]
        parts.append(columns(rows, head=("  hyperparameter", "default", "valid", "searched in", "unit")))
    if told.get("defaults"):
        parts.append(
            columns([(f"  {key}", _inline(value)) for key, value in told["defaults"].items()], ("  default", ""))
        )
    if told["cite"]:
        parts.append(told["cite"].strip())
    return "\n\n".join(part for part in parts if part)


def _inline(value: Any) -> str:
    if not isinstance(value, dict):
        return text(value)
    name = value.get("name", "")
    rest = ", ".join(f"{key}={text(inner)}" for key, inner in value.items() if key != "name")
    return f"{name} ({rest})" if name and rest else name or rest


def groups(name: str, task: str) -> list[dict[str, Any]]:
    """What an optimizer does to each parameter of a task's default model: group, rule, rate, decay."""
    task = task.removeprefix("task=")
    kind, name = find(name)
    if kind != "optimizers":
        raise InputError(f"'{name}' is not an optimizer", "--task shows which parameters an optimizer's rules take")

    from algos import parameters

    optimizer, model = _on_module(name, task) if is_reference(task) else _on_task(name, task)
    told = ("group", "rule", "lr", "weight_decay")
    return [
        {"parameter": row.name, "shape": list(row.shape), **{name: getattr(row, name) for name in told}}
        for row in parameters.describe(optimizer, model)
    ]


def _on_task(name: str, task: str) -> tuple[torch.optim.Optimizer, nn.Module]:
    import torch

    from experiments.config import resolve
    from experiments.training import build

    parts, _ = build(resolve({"task": task, "optimizer": name}))
    optimizer = parts.algorithm.optimizer  # type: ignore[attr-defined]
    assert isinstance(optimizer, torch.optim.Optimizer)
    return optimizer, parts.oracle.model


def _on_module(name: str, task: str) -> tuple[torch.optim.Optimizer, nn.Module]:
    """The user's module, made with its defaults."""
    from experiments.modules import constructor, settings

    target = settings.of_kind(task, "task")
    model = constructor.called(target, constructor.checked(target, {}, "model"))
    return catalogue.load("optimizers", name).build(model), model


def grouped(rows: list[dict[str, Any]]) -> str:
    """`groups` as text."""
    table = [
        (row["parameter"], "x".join(map(str, row["shape"])), row["group"], row["rule"], row["lr"], row["weight_decay"])
        for row in rows
    ]
    return columns(table, head=("parameter", "shape", "group", "rule", "lr", "weight decay"))
