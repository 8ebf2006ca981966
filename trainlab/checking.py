"""Checking: the conformance battery on an optimizer that is anybody's, and its answer as a table.

    tl.check(MyOptimizer)              a class: ours, torch's, or any subclass of torch.optim.Optimizer
    tl.check("mine.py", lr=0.1)        all that a file defines, always built with lr=0.1

Under a minute an optimizer: what is not begun by then is reported as not run.
"""

from __future__ import annotations

import html
import inspect
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from algos import catalogue
from algos.finding import InputError, closest, unknown
from trainlab.plain import columns

if TYPE_CHECKING:
    import torch

    from algos.checks.subject import Subject
    from algos.conformance import Result
    from algos.spec import Spec

#: No check is begun later, in seconds; one takes a few.
LIMIT_S = 50.0
_WORDS = {
    "passed": "passed",
    "failed": "FAILED",
    "refused": "refused",
    "not applicable": "not asked",
    "not run": "NOT RUN",
}


@dataclass(frozen=True)
class Checked:
    """What the battery found of one optimizer. results: one a check. time_s: what it took."""

    name: str
    results: list[Result]
    time_s: float

    @property
    def passed(self) -> bool:
        """Whether every check was run and none failed."""
        return all(result.passed for result in self.results)

    @property
    def failed(self) -> list[Result]:
        return [result for result in self.results if result.status == "failed"]

    @property
    def summary(self) -> str:
        statuses = [result.status for result in self.results]
        counts = [f"{statuses.count(status)} {word}" for status, word in _WORDS.items() if status in statuses]
        return f"{self.name}: {', '.join(counts)} ({self.time_s:.0f} s)"

    def to_json(self) -> dict[str, Any]:
        results = [{**asdict(result), "fact": result.fact} for result in self.results]
        return {"name": self.name, "passed": self.passed, "time_s": round(self.time_s, 2), "results": results}

    def __repr__(self) -> str:
        return f"{columns([line(result) for result in self.results])}\n\n{self.summary}"

    def _repr_html_(self) -> str:
        cells = "".join(
            f"<tr><td>{_WORDS[result.status]}</td><td title='{html.escape(result.fact, quote=True)}'>"
            f"{_spaced(result.check)}</td><td style='text-align: left'>{html.escape(line(result)[2])}</td></tr>"
            for result in self.results
        )
        return f"<p>{html.escape(self.summary)}</p><table>{cells}</table>"


@dataclass(frozen=True)
class Checks:
    """What the battery found of every optimizer of a file."""

    checked: list[Checked] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        return all(each.passed for each in self.checked)

    def __iter__(self) -> Iterator[Checked]:
        return iter(self.checked)

    def __repr__(self) -> str:
        return "\n\n".join(map(repr, self.checked))

    def _repr_html_(self) -> str:
        return "".join(each._repr_html_() for each in self.checked)


def check(what: type[torch.optim.Optimizer] | Spec | str | Path, **settings: Any) -> Checked | Checks:
    """The conformance battery on a class, a Spec, or what a file defines. See `trainlab.checking`.

    what: a path or FILE.py:CLASS too, or a name of the catalogue. settings: what the optimizer is always built with. A
    file with several optimizers gives `Checks`. Raises InputError where there is nothing to check, or it cannot be
    built.
    """
    found = [checked(subject) for subject in subjects(what, settings)]
    return found[0] if len(found) == 1 else Checks(found)


def checked(subject: Subject, told: Callable[[Result], None] = lambda result: None) -> Checked:
    """The battery on one subject. told: is given each result as it comes."""
    from algos import conformance

    begun, results = time.monotonic(), []
    for result in conformance.results(subject, limit_s=LIMIT_S):
        told(result)
        results.append(result)
    return Checked(subject.name, results, time.monotonic() - begun)


def subjects(what: Any, settings: dict[str, Any]) -> list[Subject]:
    """What is to be checked, ready to be built."""
    from algos import conformance
    from algos.checks.subject import subject

    found = [subject(each, **settings) for each in (_found(what) if isinstance(what, (str, Path)) else [what])]
    for about in found if settings else ():
        conformance.ready(about)  # a wrong setting is told before anything is shown
    return found


def heading(about: Subject) -> str:
    """Which class it is: FILE.py:CLASS or PACKAGE.MODULE:CLASS; an entry of the catalogue by its name."""
    from experiments.modules import reference

    if about.spec is not None and about.spec.name:
        return about.name
    return reference.shown(reference.name_of(about.kind))


def _found(what: str | Path) -> list[Any]:
    """The classes and Specs that a file, FILE.py:CLASS or a name stands for."""
    from experiments.modules import reference

    text = str(what)
    if reference.is_reference(text):
        return [reference.load(text, place="check")]
    if not text.endswith(".py"):
        if text in catalogue.paths("optimizers"):
            return [catalogue.load("optimizers", text)]
        if Path(f"{text}.py").is_file():
            raise InputError(f"unknown optimizer '{text}'", f"did you mean the file {text}.py?", rule="no-file")
        if Path(text).exists():
            raise InputError(f"{text} is no Python file", "give FILE.py, or FILE.py:CLASS", rule="no-file")
        raise unknown("optimizer", text, catalogue.paths("optimizers"))
    return _defined(Path(text))


def _defined(path: Path) -> list[Any]:
    """The optimizers that a file defines: what its SPEC builds, and its other classes in their order."""
    import torch

    from algos.spec import Spec
    from experiments.modules import loading

    if not path.expanduser().is_file():
        near = [str(each) for each in path.expanduser().parent.glob("*.py")]
        guess = closest(str(path.expanduser()), near)
        cure = f"did you mean '{guess}'?" if guess else f"give a file; this was looked for in {Path.cwd()}"
        raise InputError(f"{path} is no file", cure, rule="no-file")
    module = loading.by_path(path, "check")
    classes = [
        each
        for each in vars(module).values()
        if inspect.isclass(each) and issubclass(each, torch.optim.Optimizer) and each.__module__ == module.__name__
    ]
    spec = getattr(module, "SPEC", None)
    found: list[Any] = [spec] if isinstance(spec, Spec) and inspect.isclass(spec.build) else []
    taken = [each.build for each in found]
    found += [each for each in dict.fromkeys(classes) if each not in taken and not inspect.isabstract(each)]
    if not found:
        said = f"{path} defines no subclass of torch.optim.Optimizer, and no SPEC"
        raise InputError(said, "define one, or give FILE.py:CLASS of one it imports", rule="no-optimizer")
    return found


def line(result: Result) -> tuple[str, str, str]:
    """A result as columns: what happened, to which fact, and why in one sentence; `to_json` has it whole."""
    from algos.checks.wording import sentence

    return _WORDS[result.status], _spaced(result.check), sentence(result.detail)


def _spaced(check: str) -> str:
    return check.replace("_", " ")
