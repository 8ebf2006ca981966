"""`trainlab check`: whether an optimizer does what every optimizer must."""

from __future__ import annotations

import ast
from typing import Annotated, Any

import typer

from algos.finding import InputError
from trainlab import checking, plain
from trainlab.commands.entries import Json


def check(
    what: Annotated[
        str, typer.Argument(metavar="FILE", help="A Python file with optimizers (or a SPEC), FILE.py:CLASS, or a name.")
    ],
    settings: Annotated[
        list[str] | None, typer.Argument(metavar="NAME=VALUE", help="What the optimizer is always built with: lr=0.1")
    ] = None,
    json: Json = False,
) -> int:
    """Check optimizers against what every optimizer must do; exits with 1 if something fails."""
    found = []
    for subject in checking.subjects(what, _parsed(settings or [])):
        if json:
            found.append(checking.checked(subject))
            continue
        if found:
            typer.echo("")
        typer.echo(f"{subject.name} ({subject.kind.__module__ if subject.spec is None else 'SPEC'})")
        found.append(checking.checked(subject, _tell))
        typer.echo(f"\n{found[-1].summary}")
    if json:
        typer.echo(plain.as_json([each.to_json() for each in found]))
    return 0 if all(each.passed for each in found) else 1


def _tell(result: Any) -> None:
    """A line at once, for it takes a while."""
    status, fact, detail = checking.line(result)
    typer.echo(f"  {status:<9}  {fact:<40}  {detail}".rstrip())


def _parsed(settings: list[str]) -> dict[str, Any]:
    found = {}
    for text in settings:
        name, equals, value = text.partition("=")
        if not equals or not name.isidentifier():
            raise InputError(f"{text!r} is no setting", "give NAME=VALUE, e.g. lr=0.1", rule="bad-setting")
        try:
            found[name] = ast.literal_eval(value)
        except (ValueError, SyntaxError):
            found[name] = value
    return found
