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
    """Check optimizers against what every optimizer must do; exits with 1 if something fails.

    A message is cut to its first sentence; --json has it whole.
    """
    try:
        found = _checked(what, _parsed(settings or []), told=not json)
    except KeyboardInterrupt:
        typer.echo("interrupted", err=True)
        return 130
    if json:
        typer.echo(plain.as_json([each.to_json() for each in found]))
    return 0 if all(each.passed for each in found) else 1


def _checked(what: str, settings: dict[str, Any], *, told: bool) -> list[checking.Checked]:
    """The battery on everything that is meant, told line by line or not."""
    found: list[checking.Checked] = []
    for subject in checking.subjects(what, settings):
        if not told:
            found.append(checking.checked(subject))
            continue
        if found:
            typer.echo("")
        typer.echo(checking.heading(subject))
        found.append(checking.checked(subject, _tell))
        typer.echo(f"\n{found[-1].summary}")
    return found


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
