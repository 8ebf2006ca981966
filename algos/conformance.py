"""The public battery: what every optimizer must do, checked one fact at a time.

The tests run it over the whole catalogue, and `trainlab check` over anybody's torch.optim.Optimizer. A fact is a
function of `algos.checks`; its docstring says which.
"""

from __future__ import annotations

import inspect
import math
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import torch

from algos.checks import arguments, convergence, gradients, groups, laws, precision, running, shapes, state
from algos.checks.subject import NotApplicable, Refused, Subject, subject
from algos.finding import InputError
from algos.spec import Spec

Status = Literal["passed", "failed", "refused", "not applicable", "not run"]
Check = Callable[[Subject], None]


def _public(module: Any) -> dict[str, Check]:
    return {
        name: function
        for name, function in vars(module).items()
        if inspect.isfunction(function) and function.__module__ == module.__name__ and name[0] != "_"
    }


#: Theme -> name -> check.
THEMES: dict[str, dict[str, Check]] = {
    module.__name__.rpartition(".")[2]: _public(module)
    for module in (convergence, state, groups, gradients, shapes, precision, arguments, laws, running)
}
CHECKS: dict[str, Check] = {name: check for checks in THEMES.values() for name, check in checks.items()}

#: What only per-tensor mathematics has: forms, populations, evaluation weights.
OURS_ONLY = frozenset(
    {"state_moves_between_forms", "state_dict_is_a_snapshot", "unknown_groups_are_refused", *THEMES["running"]}
)


@dataclass(frozen=True)
class Refusal:
    """A refusal that is no failure. check: of what. who: an entry of the catalogue; "*": anybody; "closure": whoever
    needs a closure; "plain": whoever is not in the catalogue. why: for people."""

    check: str
    who: str
    why: str


ALLOWED = (
    Refusal("sparse_gradients_are_refused_or_right", "*", "its paper knows no sparse gradients"),
    Refusal("complex_parameters_are_refused_or_right", "*", "its paper knows no complex weights"),
    Refusal("an_fp16_scaler_skips_what_is_not_finite", "closure", "a scaler cannot unscale what a closure computes"),
    Refusal("a_group_can_be_added", "lbfgs", "its direction is of all parameters together"),
    Refusal("groups_are_independent", "lbfgs", "its direction is of all parameters together"),
    Refusal("every_rank_is_trained", "muon_hyperball", "a matrix of one number cannot turn on its sphere"),
    Refusal("every_rank_is_trained", "plain", "it is for some shapes only"),
    Refusal("a_group_can_be_added", "plain", "its direction is of all parameters together"),
    Refusal("groups_are_independent", "plain", "its direction is of all parameters together"),
)


@dataclass(frozen=True)
class Result:
    """check: its name. status: "passed", "failed", "refused" (clearly, and allowed to), "not applicable" or, where time
    was up, "not run". detail: what was found where it failed; else why; whole, however long."""

    check: str
    status: Status
    detail: str = ""

    @property
    def passed(self) -> bool:
        """Whether it was run and nothing is wrong."""
        return self.status not in ("failed", "not run")

    @property
    def fact(self) -> str:
        """The check in one sentence."""
        return fact(self.check)


def fact(check: str) -> str:
    """What a check checks, in one sentence.

    >>> fact("no_rate_no_change")
    'With every rate at 0 from the beginning nothing moves, whatever the decay.'
    """
    return " ".join(inspect.cleandoc(CHECKS[check].__doc__ or "").split())


def battery(
    what: Subject | Spec | type[torch.optim.Optimizer], checks: Iterable[str] = (), **settings: Any
) -> list[Result]:
    """Every check, or some, on one optimizer: a Spec, or any subclass of torch.optim.Optimizer.

    settings: what it is always built with. Raises InputError where it cannot be built, or takes no step at all.

    >>> [result.check for result in battery(torch.optim.SGD, ["no_rate_no_change"], momentum=0.9) if result.passed]
    ['no_rate_no_change']
    """
    return list(results(subject(what, **settings), checks))


def results(about: Subject, checks: Iterable[str] = (), limit_s: float = math.inf) -> Iterator[Result]:
    """The results one by one, as they come. limit_s: no check is begun later."""
    begun = time.monotonic()
    ready(about)
    for name in checks or [name for name in CHECKS if about.ours or name not in OURS_ONLY]:
        spent = time.monotonic() - begun
        yield run(name, about) if spent < limit_s else Result(name, "not run", f"{limit_s:g} s were up")


def ready(about: Subject) -> None:
    """Raises InputError where it cannot be built as it is set, or takes no step on any shape."""
    with _quiet(about):
        assert about.shapes


def run(name: str, what: Subject | Spec | type[torch.optim.Optimizer]) -> Result:
    """One check on one optimizer."""
    about = subject(what)
    try:
        with _quiet(about), torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            CHECKS[name](about)
    except NotApplicable as error:
        return Result(name, "not applicable", str(error))
    except (Refused, InputError) as error:
        said = _line(str(error))
        if allowed(name, about):
            return Result(name, "refused", said)
        return Result(name, "failed", f"it refuses, and may not: {said}")
    except AssertionError as error:
        return Result(name, "failed", _line(str(error)) or f"{name} does not hold")
    except Exception as error:
        return Result(name, "failed", _line(f"{type(error).__name__}: {error}"))
    return Result(name, "passed")


def allowed(check: str, about: Subject) -> Refusal | None:
    """The refusal that this optimizer may answer this check with, if any."""
    catalogued = about.spec is not None and bool(about.spec.name)
    who = {"*", about.name, *(("closure",) if about.closure else ()), *(() if catalogued else ("plain",))}
    return next((each for each in ALLOWED if each.check == check and each.who in who), None)


def _line(text: str) -> str:
    return " ".join(text.split())


@contextmanager
def _quiet(about: Subject) -> Iterator[None]:
    """Warnings of code that is not ours are not what is asked."""
    with warnings.catch_warnings():
        if not about.ours:
            warnings.simplefilter("ignore")
        yield
