"""Forms: in which of three ways an optimizer computes the same step.

`loop`: one parameter after another, the reference. `stacked`: many at once, so that the number of kernels does not
depend on the number of parameters. `torch`: torch's own fused version, where there is one. They agree to rounding, and
each loads the others' state_dict.

`auto` is the fastest, as measured: `torch` where it can be had; else `stacked` on accelerators, for populations and for
small tensors, and `loop` for large ones on a CPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, cast

from torch import Tensor

from algos.finding import InputError
from algos.units import working_dtype

Form = Literal["torch", "loop", "stacked"]
FORMS = ("auto", "torch", "loop", "stacked")

#: On a CPU `auto` loops where all parameters together have more numbers than the first and the average one more than
#: the second: a cache then holds one tensor but not all, and that costs more than the kernels that stacking saves.
CACHED_NUMEL, SMALL_NUMEL = 1 << 17, 1 << 13


@dataclass(frozen=True)
class Situation:
    """What decides the form. owner: the optimizer's name. native: whether torch has a version that equals ours.
    directed: whether components change its directions."""

    owner: str
    params: Sequence[Tensor]
    native: bool
    population: int | None
    directed: bool


def choose(asked: str, situation: Situation) -> Form:
    """The form to use. Raises InputError where the one asked for is unknown or cannot be had."""
    if asked not in FORMS:
        raise _refused(asked, "is not valid", f"give one of {', '.join(FORMS)}", situation)
    if asked in ("loop", "stacked"):
        return cast(Form, asked)
    obstacle = _obstacle(situation)
    if obstacle is None:
        return "torch"
    if asked == "torch":
        raise _refused(asked, obstacle, "give form='stacked', 'loop' or 'auto'", situation)
    params = situation.params
    on_cpu = all(param.device.type == "cpu" for param in params)
    total = sum(param.numel() for param in params)
    large = total > max(CACHED_NUMEL, SMALL_NUMEL * len(params))
    return "loop" if on_cpu and large and situation.population is None else "stacked"


def _obstacle(situation: Situation) -> str | None:
    """Why torch's own version cannot be used, if it cannot."""
    if not situation.native:
        return f"is not there: torch has no {situation.owner} that equals ours"
    if situation.population is not None:
        return "does not train populations"
    if situation.directed:
        return "gives no directions to change"
    if any(working_dtype(param.dtype) != param.dtype for param in situation.params):
        return "would keep the moments of low-precision weights in low precision"
    return None


def _refused(asked: str, why: str, cure: str, situation: Situation) -> InputError:
    place = f"{situation.owner}.form"
    return InputError(f"{asked!r} {why}", cure, rule="unfit-form", place=place)
