"""References: the text `path/to/file.py:Name` or `package.module:Name` stands for a class or function of the user's.

    load(text)      the class or function, imported once a process
    fresh(text)     a new object: a class or function called, an instance copied
    source(text)    for records: which file, which class, and the hashes of what was imported
    name_of(object) the reference of a class, function or instance

What no other process could import (a class of a notebook, of the script that runs or of a function) is kept by value:
`by-value:Name-1a2b3c4d`, known in this process only. Torch-free until something is loaded.
"""

from __future__ import annotations

import copy
import functools
import hashlib
import inspect
import itertools
import os
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from algos.finding import InputError, closest
from experiments.modules import loading
from experiments.modules.fingerprint import called, fingerprint, importable

_NAME = r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*"
_REFERENCE = re.compile(rf"(?:(?P<file>.+\.py)|(?P<module>{_NAME})|by-value):(?P<name>{_NAME})(?:-[0-9a-f]{{8}})?")
BY_VALUE = "by-value:"
_kept: dict[str, Any] = {}


def is_reference(text: object) -> bool:
    """Whether a text is a reference.

    >>> [is_reference(text) for text in ("my_module.py:Net", "lightning.pytorch:Trainer", "digits", "cuda:0")]
    [True, True, False, False]
    """
    return isinstance(text, str) and _REFERENCE.fullmatch(text) is not None


def name(text: str) -> str:
    """What a reference calls its object.

    >>> name("nets/my_module.py:Net"), name("by-value:Net-1a2b3c4d")
    ('Net', 'Net')
    """
    return _parts(text)["name"]


def shown(text: str) -> str:
    """A reference for messages: what is kept by value by its name.

    >>> shown("by-value:Net-1a2b3c4d"), shown("a.py:Net")
    ('Net', 'a.py:Net')
    """
    return name(text) if text.startswith(BY_VALUE) else text


def load(text: str, *, place: str = "task") -> Any:
    """The object that a reference stands for. place: the setting it was given in, for messages.

    Raises InputError: no such file, it raises when imported (rule "their-code"), no such name in it, a name of it would
    silently be another package (rule "shadowed"), or another process's value (rule "by-value").
    """
    if text.startswith(BY_VALUE):
        if text not in _kept:
            said = (
                f"{name(text)} was defined in another process (a notebook, a script, a function) and is not known here"
            )
            cure = f"put it into a file and give {place}=FILE.py:{name(text)}, or run it anew where it is defined"
            raise InputError(said, cure, rule="by-value", place=place)
        return _kept[text]
    parts = _parts(text)
    module = loading.by_path(Path(parts["file"]), place) if parts["file"] else loading.by_name(parts["module"], place)
    found: Any = module
    for part in parts["name"].split("."):
        if not hasattr(found, part):
            raise _absent(parts["name"], found, parts["file"] or parts["module"], place)
        found = getattr(found, part)
    return found


def fresh(text: str, *, place: str = "trainer") -> Any:
    """A new object: what the class or function returns when called with nothing, or a deep copy of an instance."""
    found = load(text, place=place)
    return found() if called(found) else copy.deepcopy(found)


def source(text: str) -> dict[str, Any]:
    """What a record keeps: {"reference", "file", "class", "sha256", "files"}; hashes of the texts that were imported.

    file: absolute, "" where there is none. files: sha256 by path from the file's folder, of the file and of every
    module that came from its own folder or package.
    """
    found = load(text)
    if text.startswith(BY_VALUE):
        digest = hashlib.sha256(fingerprint(found).text.encode(errors="surrogatepass")).hexdigest()
        return {"reference": text, "file": "", "class": name(text), "sha256": digest, "files": {}}
    file = _file(text)
    if file is None:
        return {"reference": text, "file": "", "class": name(text), "sha256": "", "files": {}}
    known = loading.hashes(file)
    files = {Path(os.path.relpath(each, file.parent)).as_posix(): digest for each, digest in known.items()}
    return {"reference": text, "file": str(file), "class": name(text), "sha256": known[file], "files": files}


def changed(text: str) -> list[str]:
    """The files behind a loaded reference that say something else by now than when this process imported them."""
    load(text)
    file = None if text.startswith(BY_VALUE) else _file(text)
    return [str(each) for each in loading.changed(file)] if file else []


def within(config: Mapping[str, Any]) -> Iterator[str]:
    """Every reference in a config as JSON: its task, its data, and what its trainer words name.

    >>> list(within({"task": "a.py:Net", "metric": "validation_step:loss", "trainer": {"callbacks": ["a.py:Ema"]}}))
    ['a.py:Net', 'a.py:Ema']
    """
    words = {word: value for word, value in (config.get("trainer") or {}).items() if word != "default_root_dir"}
    data = config.get("data") or {}
    for text in _leaves([config.get("task"), data.get("name") if isinstance(data, Mapping) else data, words]):
        if is_reference(text):
            yield text


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, (Mapping, list, tuple)):
        for part in value.values() if isinstance(value, Mapping) else value:
            yield from _leaves(part)
    else:
        yield value


def name_of(found: Any) -> str:
    """The reference of a class, function or instance; a reference is its own.

    A class of a file below the current folder is `file.py:Name`; of an installed package `package.module:Name`; what
    another process could not import, and every instance, is kept by value.
    """
    if isinstance(found, str):
        if not is_reference(found):
            raise InputError(f"'{found}' is no reference", "give FILE.py:NAME or PACKAGE.MODULE:NAME")
        return found
    module = importable(found) if inspect.isclass(found) or inspect.isroutine(found) else None
    file = module.__dict__.get("__file__") if module else None
    if module and file:
        installed = loading.installed(Path(file).resolve())
        return f"{module.__name__ if installed else _shown(Path(file))}:{found.__qualname__}"
    return _by_value(found)


def _parts(text: str) -> dict[str, str]:
    match = _REFERENCE.fullmatch(text)
    assert match, f"{text} is no reference"
    return {key: value or "" for key, value in match.groupdict().items()}


def _file(text: str) -> Path | None:
    parts = _parts(text)
    if parts["file"]:
        return Path(parts["file"]).expanduser().resolve()
    held = sys.modules[parts["module"]].__dict__.get("__file__")
    return Path(held).resolve() if held else None


def _shown(file: Path) -> str:
    file, here = file.resolve(), Path.cwd().resolve()
    return (file.relative_to(here) if file.is_relative_to(here) else file).as_posix()


def _absent(wanted: str, module: Any, where: str, place: str) -> InputError:
    own = [key for key, value in vars(module).items() if _defined(value, module) and not key.startswith("_")]
    guess = closest(wanted, own)
    listing = f"it has {', '.join(own)}" if own else "it has no classes of its own"
    cure = f"did you mean '{guess}'? ({listing})" if guess else listing
    return InputError(f"{where} has no '{wanted}'", cure, rule="unknown-class", place=place)


def _defined(value: Any, module: Any) -> bool:
    return (inspect.isclass(value) or inspect.isfunction(value)) and value.__module__ == getattr(module, "__name__", "")


def _by_value(found: Any) -> str:
    """Keeps the object; its text is that of what it is, so that the same cell or script gives the same text again.
    Two that differ never share one: where what they hold cannot be told whole, they are counted."""
    kind = found.func if isinstance(found, functools.partial) else found if called(found) else type(found)
    label = re.sub(r"\W", "", getattr(kind, "__name__", "")) or "function"
    said, whole = fingerprint(found)
    for number in itertools.count(1):
        text = f"{BY_VALUE}{label}-{_short(said if number == 1 else f'{said}#{number}')}"
        if whole or _kept.get(text, found) is found:
            _kept[text] = found
            return text
    raise AssertionError


def _short(said: str) -> str:
    return hashlib.sha256(said.encode(errors="surrogatepass")).hexdigest()[:8]
