"""The catalogue: kind + name -> Spec, found by file name. Torch-free.

`algos/<kind>/<name>.py` is the entry `<name>`; a user's own stand in `$TRAINLAB_ENTRIES/<kind>/<name>.py`. `describe`
and `listing` read a file with ast and import nothing (about 1 ms a file); `load` imports the one file.
"""

from __future__ import annotations

import ast
import functools
import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from types import ModuleType
from typing import Any

from algos.finding import InputError, unknown
from algos.literals import declaration, literal
from algos.spec import CONSTRUCTORS, Hyper, Spec

#: Folder name -> what one of them is called in messages.
KINDS = {
    "optimizers": "optimizer",
    "wrappers": "wrapper",
    "schedules": "schedule",
    "losses": "loss",
    "architectures": "architecture",
    "precision": "precision",
    "compression": "compression",
}
_HERE = Path(__file__).parent


@dataclass(frozen=True)
class Entry:
    """What a file says of its entry, read without importing it. title: the docstring's first line. doc: the whole
    docstring. literals: the literal keywords of SPEC (cite, needs, elementwise, ...). hyper: the declared
    hyperparameters."""

    kind: str
    name: str
    path: Path
    title: str
    doc: str
    builds: str
    literals: Mapping[str, Any] = field(default_factory=dict)
    hyper: Mapping[str, Hyper] = field(default_factory=dict)

    @property
    def cite(self) -> str:
        return str(self.literals.get("cite", ""))

    @property
    def needs(self) -> tuple[str, ...]:
        return tuple(self.literals.get("needs", ()))


def folders(kind: str) -> list[Path]:
    """Where entries of a kind are looked for: the user's own first."""
    if kind not in KINDS:
        raise unknown("kind", kind, KINDS)
    own = os.environ.get("TRAINLAB_ENTRIES")
    return [*([Path(own).expanduser() / kind] if own else []), _HERE / kind]


def paths(kind: str) -> dict[str, Path]:
    """Name -> file, of every entry of a kind."""
    found: dict[str, Path] = {}
    for folder in folders(kind):
        for path in _shipped(folder, folder.stat().st_mtime_ns) if folder.parent == _HERE else _files(folder):
            found.setdefault(path.stem, path)
    return dict(sorted(found.items()))


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.glob("*.py") if not path.name.startswith("_")] if folder.is_dir() else []


@functools.cache
def _shipped(folder: Path, _mtime: int) -> list[Path]:
    """Ours are looked up a dozen times a run, and change only where somebody works on them."""
    return _files(folder)


def find(kind: str, name: str, *, place: str = "") -> Path:
    known = paths(kind)
    if not isinstance(name, str):
        said = f"{_shown(name)} is given where a name of the catalogue's {kind} belongs"
        raise InputError(said, f"give one of {', '.join(known)}", rule="not-a-name", place=place)
    if name not in known:
        raise unknown(KINDS[kind], name, known, place=place)
    return known[name]


def describe(kind: str, name: str, *, place: str = "") -> Entry:
    """An entry's declarations, without importing it."""
    path = find(kind, name, place=place)
    return _read(kind, path, path.stat().st_mtime_ns)


def listing(kind: str) -> list[Entry]:
    """Every entry of a kind, without importing one."""
    return [describe(kind, name) for name in paths(kind)]


def load(kind: str, name: str) -> Spec:
    """Import an entry and return its Spec, with kind, name, title and hyper filled in."""
    entry = describe(kind, name)
    try:
        module = _import(kind, entry.path)
    except ImportError as error:
        extra = entry.literals.get("extra")
        if not extra:
            raise
        raise InputError(
            f"{KINDS[kind]} '{name}' needs '{error.name}', which is not installed", f"pip install 'trainlab[{extra}]'"
        ) from error
    spec: Spec = module.SPEC
    return replace(spec, kind=kind, name=name, title=entry.title, hyper=entry.hyper)


def lazy(kind: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` for a kind's package: `algos.optimizers.Lion` imports lion.py when asked for.

    Submodules keep working: `algos.optimizers.lion` is the module.
    """

    def by_class() -> dict[str, str]:
        return {_read(kind, path, path.stat().st_mtime_ns).builds: name for name, path in paths(kind).items()}

    def getattr_(attribute: str) -> Any:
        names = by_class()
        if attribute not in names:
            raise AttributeError(str(unknown(f"class in algos.{kind}", attribute, names)))
        return getattr(_import(kind, find(kind, names[attribute])), attribute)

    return getattr_, lambda: sorted(by_class())


def _import(kind: str, path: Path) -> ModuleType:
    if path.parent == _HERE / kind:
        return importlib.import_module(f"algos.{kind}.{path.stem}")
    return import_path(f"{kind}.{path.stem}", path)


def import_path(name: str, path: Path) -> ModuleType:
    """Import a user's file by its path, once, as `trainlab_entries.NAME`, in packages that hold nothing else, so that
    what is of its classes can be pickled."""
    name = f"trainlab_entries.{name}"
    for end in (i for i, letter in enumerate(name) if letter == "."):
        package = sys.modules.setdefault(name[:end], ModuleType(name[:end]))
        package.__path__ = []
    loaded: Any = sys.modules.get(name)
    if loaded is not None and loaded.__file__ == str(path):
        found: ModuleType = loaded
        return found
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        del sys.modules[name]
        if isinstance(error, InputError) or not isinstance(error, Exception):
            raise
        said = f"it cannot be imported ({type(error).__name__}: {error})"
        raise InputError(said, "mend the file", source=str(path)) from error
    return module


def _shown(given: Any) -> str:
    """What was given, in a word: a class by its name, a short value as it is, another object by its class."""
    if isinstance(given, type):
        return f"the class {given.__name__}"
    plain = given is None or isinstance(given, (int, float))
    return repr(given) if plain else f"an object of class {type(given).__name__}"


@functools.cache
def _read(kind: str, path: Path, _mtime: int) -> Entry:
    found = declaration(path, "SPEC", "Spec", {item.name for item in fields(Spec)}, by_name={"build"})
    builds = found.names.get("build", "")
    hyper = _declared(found.tree, builds, path)
    return Entry(kind, path.stem, path, found.title, found.doc, builds, found.literals, hyper)


def _declared(tree: ast.Module, class_name: str, path: Path) -> dict[str, Hyper]:
    """The hyperparameters in the body of the class SPEC builds, and of its bases in the same file, bases first."""
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    if class_name not in classes:
        return {}
    found: dict[str, Hyper] = {}
    for base in classes[class_name].bases:
        if isinstance(base, ast.Name):
            found |= _declared(tree, base.id, path)
    for node in classes[class_name].body:
        if not (
            isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and isinstance(node.value, ast.Call)
        ):
            continue
        called = node.value.func
        if isinstance(called, ast.Name) and called.id in CONSTRUCTORS:
            arguments = [literal(argument, path) for argument in node.value.args]
            keywords = {k.arg: literal(k.value, path) for k in node.value.keywords if k.arg}
            found[node.target.id] = CONSTRUCTORS[called.id](*arguments, **keywords)
    return found
