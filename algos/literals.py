"""Literals: what a file declares in `NAME = Call(key=..., ...)`, read without importing it. Torch-free."""

from __future__ import annotations

import ast
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from algos.finding import InputError, unknown


@dataclass(frozen=True)
class Declaration:
    """One declaring call.

    doc: the file's docstring. title: its first line. literals: the keywords that are literals. names: those given as a
    bare name, e.g. {"build": "Lion"}. tree: the parsed file, for those who read more of it.
    """

    doc: str
    literals: dict[str, Any]
    names: dict[str, str]
    tree: ast.Module

    @property
    def title(self) -> str:
        return self.doc.partition("\n")[0]


def declaration(path: Path, variable: str, call: str, valid: Collection[str], by_name: Collection[str]) -> Declaration:
    """The top-level `variable = call(...)` of a file.

    valid: the keywords there are. by_name: those given as a bare name; all others must be literals. InputError, with
    the line, for anything else.
    """
    source = str(path)
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except SyntaxError as error:
        place = f"line {error.lineno}, column {error.offset}"
        raise InputError(error.msg, "mend the file", source=source, place=place) from error
    found = next((node.value for node in tree.body if isinstance(node, ast.Assign) and _assigns(node, variable)), None)
    if not (isinstance(found, ast.Call) and isinstance(found.func, ast.Name) and found.func.id == call):
        raise InputError(f"no `{variable} = {call}(...)` at the top level", "add one", source=source)
    literals: dict[str, Any] = {}
    names: dict[str, str] = {}
    for keyword in found.keywords:
        if keyword.arg is None or keyword.arg not in valid:
            raise unknown(f"field of {call}", keyword.arg or "**", valid, source=source, place=f"line {keyword.lineno}")
        if keyword.arg in by_name:
            names[keyword.arg] = ast.unparse(keyword.value)
        else:
            literals[keyword.arg] = literal(keyword.value, path)
    return Declaration(ast.get_docstring(tree) or "", literals, names, tree)


def literal(node: ast.expr, path: Path) -> Any:
    """The value of a literal expression; InputError with its line where it is none."""
    try:
        return ast.literal_eval(node)
    except ValueError as error:
        raise InputError(
            f"`{ast.unparse(node)[:60]}` is not a literal", "declarations hold literals only",
            source=str(path), place=f"line {node.lineno}",
        ) from error  # fmt: skip


def _assigns(node: ast.Assign, variable: str) -> bool:
    return any(isinstance(target, ast.Name) and target.id == variable for target in node.targets)
