"""Forms: in which of four ways an optimizer computes the same step.

`loop`: one parameter after another, the reference. `stacked`: many at once, so that the number of kernels does not
depend on the number of parameters. `compiled`: the stacks' steps through torch.compile. `torch`: torch's own fused
version, where there is one. They agree to rounding, and each loads the others' state_dict.

`auto` is the fastest, as measured: `torch` where it can be had; `compiled` for elementwise mathematics where so many
steps are to come (`PerTensorOptimizer.expect`) that compiling pays; else `stacked` on accelerators, for populations and
for small tensors, and `loop` for large ones on a CPU. Where `compiled` is asked for and there is no compiler, it is
`stacked`, and a warning says so.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, cast

import torch
from torch import Tensor

from algos.compiled import COMPILING_S, compiler_missing
from algos.finding import InputError
from algos.native import dense
from algos.units import working_dtype

Form = Literal["torch", "loop", "stacked", "compiled"]
FORMS = ("auto", "torch", "loop", "stacked", "compiled")

#: On a CPU `auto` loops where all parameters together have more numbers than the first and the average one more than
#: the second: a cache then holds one tensor but not all, and that costs more than the kernels that stacking saves.
CACHED_NUMEL, SMALL_NUMEL = 1 << 17, 1 << 13

#: What compiling saves a step, measured on 2 cores (Lion, Adan): calls of kernels, and passes over every number.
DISPATCH_S, CPU_PASSES_S, ACCELERATOR_PASSES_S = 5e-5, 2e-9, 2e-11
#: How many times its cost compiling must save before it is chosen.
PAYS = 3


@dataclass(frozen=True)
class Situation:
    """What decides the form. owner: the optimizer's name. native: whether torch has a version that equals ours.
    directed: whether components change its directions. elementwise: whether its mathematics is."""

    owner: str
    params: Sequence[Tensor]
    native: bool
    population: int | None
    directed: bool
    elementwise: bool = False
    updates: int = 0  # that are to come, as far as is known


def choose(asked: str, situation: Situation) -> Form:
    """The form to use. Raises InputError where the one asked for is unknown or cannot be had."""
    if asked not in FORMS:
        raise _refused(asked, "is not valid", f"give one of {', '.join(FORMS)}", situation)
    if asked == "compiled":
        return _compiled(situation)
    if asked in ("loop", "stacked"):
        return cast(Form, asked)
    obstacle = _obstacle(situation)
    if obstacle is None:
        return "torch"
    if asked == "torch":
        raise _refused(asked, obstacle, "give form='stacked', 'loop' or 'auto'", situation)
    if compiling_pays(situation) and not _missing(situation):
        return "compiled"
    params = situation.params
    on_cpu = all(param.device.type == "cpu" for param in params)
    total = sum(param.numel() for param in params)
    large = total > max(CACHED_NUMEL, SMALL_NUMEL * len(params))
    return "loop" if on_cpu and large and situation.population is None else "stacked"


def compiling_pays(situation: Situation) -> bool:
    """Whether the steps to come save several times what compiling costs. For elementwise mathematics only: that of
    matrices is in products, which a compiler does not make faster, and every shape is another graph."""
    if not situation.elementwise or situation.directed:
        return False
    numel = sum(param.numel() for param in situation.params)
    on_cpu = all(param.device.type == "cpu" for param in situation.params)
    saved_s = DISPATCH_S + numel * (CPU_PASSES_S if on_cpu else ACCELERATOR_PASSES_S)
    return situation.updates * saved_s > PAYS * COMPILING_S


def _compiled(situation: Situation) -> Form:
    if situation.directed:
        raise _refused("compiled", "gives no directions to change", "give form='stacked', 'loop' or 'auto'", situation)
    missing = _missing(situation)
    if missing:
        warnings.warn(f"{situation.owner}.form: 'stacked' in the place of 'compiled', since {missing}", stacklevel=2)
        return "stacked"
    return "compiled"


def _missing(situation: Situation) -> str:
    """What compiling lacks here, if anything."""
    kinds = {param.device.type for param in situation.params}
    return next(filter(None, map(compiler_missing, sorted(kinds))), "")


def _obstacle(situation: Situation) -> str | None:
    """Why torch's own version cannot be used, if it cannot."""
    if not situation.native:
        return f"is not there: torch has no {situation.owner} that equals ours"
    if situation.population is not None:
        return "does not train populations"
    if situation.directed:
        return "gives no directions to change"
    if not all(param.layout != torch.strided or dense(param) for param in situation.params):
        return "walks memory number by number, and a parameter is a view with gaps"
    if any(working_dtype(param.dtype) != param.dtype for param in situation.params):
        return "would keep the moments of low-precision weights in low precision"
    return None


def _refused(asked: str, why: str, cure: str, situation: Situation) -> InputError:
    place = f"{situation.owner}.form"
    return InputError(f"form={asked!r} {why}", cure, rule="unfit-form", place=place)
