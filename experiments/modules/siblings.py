"""Siblings: what a user's file imports from its own folder, and whether Python would give it another. Torch-free.

A file that runs beside us shares Python's table of modules with us. A name of its folder that is trainlab's own
(`experiments`, `algos`, `reports`, `trainlab`), or that is loaded already from somewhere else, would silently be the
wrong package. So a file's imports, and those of the siblings it imports, are read before the file is run.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from algos.finding import InputError

#: The names of this project's own packages.
OURS = ("algos", "experiments", "reports", "trainlab")
HERE = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Import:
    """`import a.b` in a file. level: how many dots a relative import has; name: what stands after them."""

    file: Path
    line: int
    name: str
    level: int = 0


def imports(file: Path) -> list[Import]:
    """What a file imports anywhere in it, but for what only type checkers read; nothing where it is no Python."""
    try:
        tree = ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return []
    found: list[Import] = []
    for node in _run(tree):
        if isinstance(node, ast.Import):
            found += [Import(file, node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = [node.module] if node.module else []
            names = [".".join([*base, alias.name]) for alias in node.names]
            found += [Import(file, node.lineno, name, node.level) for name in names]
    return found


def _run(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
            continue
        yield child
        yield from _run(child)


def relative(file: Path) -> bool:
    """Whether the file imports relatively, so that it must be imported as a part of its package."""
    return any(each.level for each in imports(file))


def refuse_shadowed(file: Path, roots: Sequence[Path], others: Sequence[Path], place: str) -> None:
    """InputError where the file, or a sibling it imports, would get another package than the one beside it.

    roots: the folders that its imports are looked for in. others: the folders of files imported before.
    """
    for each, root in _reached(file, roots):
        top = each.name.partition(".")[0]
        beside = _beside(root, top)
        if beside is None or beside == HERE / top:
            continue
        where = f"{each.file.name}:{each.line} imports '{top}'"
        if top in OURS:
            raise InputError(
                f"{where}, which stands beside it ({beside}), but here that is trainlab's own package",
                f"rename yours, or make its folder a package and import it relatively (from .{top} import ...)",
                rule="shadowed", place=place,
            )  # fmt: skip
        rival = _held(top, beside) or next(filter(None, (_beside(other, top) for other in others)), None)
        if rival is not None and rival != beside and top not in sys.stdlib_module_names:
            raise InputError(
                f"{where}, which stands beside it ({beside}), but Python has another one already ({rival})",
                "rename one of the two, or run them one by one", rule="shadowed", place=place,
            )  # fmt: skip


def _reached(start: Path, roots: Sequence[Path]) -> Iterator[tuple[Import, Path]]:
    """Every absolute import of a file and of what it imports from the roots, with each root it is looked for in."""
    waiting, seen = [start], {start}
    while waiting:
        for each in imports(waiting.pop()):
            if each.level:
                found = files(each.file.parents[each.level - 1], each.name)
            else:
                found = [file for root in roots for file in files(root, each.name)]
                yield from ((each, root) for root in roots)
            waiting += [file for file in found if file not in seen]
            seen |= set(found)


def files(root: Path, name: str) -> list[Path]:
    """The files below a folder that importing a dotted name would run."""
    found, folder = [], root
    for part in name.split("."):
        found += [file for file in (folder / f"{part}.py", folder / part / "__init__.py") if file.is_file()]
        folder = folder / part
    return found


def _beside(root: Path, top: str) -> Path | None:
    """The file or package of a name in a folder; of one of our names, also a plain folder that holds Python files."""
    folder = root / top
    if (folder / "__init__.py").is_file() or (top in OURS and folder.is_dir() and any(folder.glob("*.py"))):
        return folder
    file = root / f"{top}.py"
    return file if file.is_file() else None


def _held(top: str, beside: Path) -> Path | None:
    """Where the module that Python holds under a name stands; None where it holds none."""
    held: Any = sys.modules.get(top)
    places = [*getattr(held, "__path__", ()), getattr(held, "__file__", None)]
    found = [Path(place).resolve() for place in places if place]
    return None if not found or beside in found else found[0]
