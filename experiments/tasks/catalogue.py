"""The tasks: name -> TaskSpec, found by file name. Torch-free until a task is loaded.

`experiments/tasks/<domain>/<name>.py` is the task `<name>`; a user's own stand in
`$TRAINLAB_ENTRIES/tasks/<domain>/<name>.py`. `describe` reads a file with ast and imports nothing; `load` imports the
one file.
"""

from __future__ import annotations

import copy
import functools
import importlib
import importlib.util
import os
from dataclasses import MISSING, fields, replace
from pathlib import Path
from types import ModuleType
from typing import Any

from algos.catalogue import import_path
from algos.finding import InputError, unknown
from algos.literals import Declaration, declaration
from experiments.task import TaskSpec

DOMAINS = ("cv", "nlp", "gnn")
_HERE = Path(__file__).parent


def paths() -> dict[str, Path]:
    """Name -> file, of every task; the user's own come first."""
    own = os.environ.get("TRAINLAB_ENTRIES")
    found: dict[str, Path] = {}
    for root in [*([Path(own).expanduser() / "tasks"] if own else []), _HERE]:
        for domain in DOMAINS:
            for path in sorted((root / domain).glob("[!_]*.py")):
                found.setdefault(path.stem, path)
    return dict(sorted(found.items()))


def names() -> list[str]:
    """Every task's name.

    >>> names()
    ['cora', 'digits', 'digits_graph', 'fashion_mnist', 'python_docs', 'tiny_shakespeare']
    """
    return list(paths())


def find(name: str, *, place: str = "task") -> Path:
    """A task's file; "did you mean" for a wrong name."""
    known = paths()
    if ".py" in name or ":" in name:
        file = name.partition(":")[0]
        cure = f"give one, e.g. {place}={file if file.endswith('.py') else 'FILE.py'}:Net"
        raise InputError(f"'{name}' names no class of a file", cure, rule="unknown-task", place=place)
    if name not in known:
        raise unknown("task", name, known, place=place)
    return known[name]


def describe(name: str, *, place: str = "task") -> TaskSpec:
    """What a task's file says of it, without importing it: everything but `load`, which imports the file when called.

    >>> describe("digits").metric, describe("digits").domain
    ('accuracy', 'cv')
    """
    path = find(name, place=place)
    declared = _read(path, path.stat().st_mtime_ns)
    given: dict[str, Any] = copy.deepcopy(declared.literals)
    given |= {"name": name, "domain": path.parent.name, "title": declared.title}
    return TaskSpec(load=lambda root: _import(path).TASK.load(root), **given)


def load(name: str, *, place: str = "task") -> TaskSpec:
    """Import a task's file and return its TASK, with name, domain and title filled in."""
    facts = describe(name, place=place)
    task: TaskSpec = _import(find(name)).TASK
    return replace(task, name=facts.name, domain=facts.domain, title=facts.title)


@functools.cache
def _read(path: Path, _mtime: int) -> Declaration:
    known = {field.name for field in fields(TaskSpec)}
    needed = [field.name for field in fields(TaskSpec) if field.default is MISSING and field.default_factory is MISSING]
    declared = declaration(path, "TASK", "TaskSpec", valid=known, by_name={"load"})
    missing = [name for name in needed if name not in declared.literals and name not in declared.names]
    if missing:
        raise InputError(f"TASK lacks {', '.join(missing)}", "state it", source=str(path))
    return declared


def _import(path: Path) -> ModuleType:
    if path.parent.parent == _HERE:
        return importlib.import_module(f"experiments.tasks.{path.parent.name}.{path.stem}")
    return import_path(f"tasks.{path.parent.name}.{path.stem}", path)
