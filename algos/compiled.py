"""Compiled steps: a stack's whole step, direction to weights, as one compiled function of its tensors.

The rule's Python runs once, while its operators are traced (torch.fx's make_fx: vmap and static hyperparameters are
gone then), and the straight graph goes to torch.compile. A graph of elementwise mathematics takes vectors of any
length, so one serves all; others are of one shape. Real hyperparameters are tensors given at each call, so a schedule
never recompiles. Graphs are kept by what they depend on, for all optimizers of the process; what inductor made of them
is cached on disk between processes.

A graph is compared with the step as Python runs it, on its example, before it is used: compilers have bugs too.

Compiling costs seconds (`COMPILING_S`). It is logged under "trainlab.compile", its time goes to whoever is `watching`,
and where it fails the step runs as it is and a warning says so.
"""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_unflatten

log = logging.getLogger("trainlab.compile")

#: Seconds one graph costs without a cache: a first one in a process, measured on a laptop's CPU; half of it is imports.
COMPILING_S = 12.0
#: How far a compiled step may be from the same step uncompiled, relative to the step itself.
AGREEMENT = 1e-2

Program = Callable[..., Sequence[Tensor]]
Step = Callable[[Any], Sequence[Tensor]]
_programs: dict[Any, Program | None] = {}  # None: could not be compiled
Watcher = Callable[[str], AbstractContextManager[Any]]
_watchers: list[Watcher] = []


@contextmanager
def watching(around: Watcher) -> Iterator[None]:
    """Within it `around(what)` is entered while something is compiled: a clock's phase, say. what: in words."""
    _watchers.append(around)
    try:
        yield
    finally:
        _watchers.remove(around)


def program(key: Any, step: Step, example: Any, *, any_length: bool) -> Program | None:
    """The compiled `step`, a function of flat tensors that changes some of them in place; None where it cannot be.

    key: everything that `step` depends on beside its tensors. step: takes a tree like `example`. any_length: whether
    the last dimension of its tensors may have another length at another call.
    """
    if key not in _programs:
        what = f"the step of {key[0].__name__}" + ("" if any_length else f" for {tuple(example['weights'].shape)}")
        with _watchers[-1](what) if _watchers else nullcontext():
            _programs[key] = _compiled(key, step, example, any_length=any_length)
    return _programs[key]


def run(program: Program, tensors: list[Tensor], rule: type) -> Sequence[Tensor] | None:
    """What the program returns. None where torch would compile it anew (for a setting of the process that has changed,
    say) and cannot: then nothing has been computed, and a warning says so."""
    try:
        return program(*tensors)
    except Exception as error:
        if not type(error).__module__.startswith(("torch._dynamo", "torch._inductor")):
            raise
        said = str(error).strip().splitlines() or [type(error).__name__]
        warnings.warn(
            f"the step of {rule.__name__} could not be compiled anew, and runs stacked: {said[0]}", stacklevel=2
        )
        return None


def _compiled(key: Any, step: Step, example: Any, *, any_length: bool) -> Program | None:
    from torch.fx.experimental.proxy_tensor import make_fx

    log.info("compiling the step of %s", key[0].__name__)
    started = time.perf_counter()
    flat, shape = tree_flatten(example)

    def flat_step(*tensors: Tensor) -> tuple[Tensor, ...]:
        return tuple(step(tree_unflatten(list(tensors), shape)))

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # torch's own, of parts it compiles with
            graph = make_fx(flat_step, tracing_mode="fake")(*flat)
            compiled, difference = _tried(graph, flat_step, flat, any_length=any_length)
    except Exception as error:
        said = str(error).strip().splitlines() or [type(error).__name__]
        warnings.warn(f"the step of {key[0].__name__} could not be compiled, and runs stacked: {said[0]}", stacklevel=2)
        return None
    if difference > AGREEMENT:
        warnings.warn(
            f"the compiled step of {key[0].__name__} differs by {difference:.1e} from the same step uncompiled, and is "
            "not used: it runs stacked",
            stacklevel=2,
        )
        return None
    log.info("compiled in %.1f s", time.perf_counter() - started)
    return compiled


def _tried(graph: Any, step: Program, example: list[Tensor], *, any_length: bool) -> tuple[Program, float]:
    """The compiled graph, and how far it is from the step. What inductor (torch 2.13, CPU) cannot fuse where a tensor
    that a norm read is then written ("KeyError: buf") it compiles with smaller kernels."""
    try:
        compiled: Program = torch.compile(graph, fullgraph=True, dynamic=any_length)
        return compiled, _difference(compiled, step, example)
    except Exception:
        if any_length:
            raise
    compiled = torch.compile(graph, fullgraph=True, dynamic=False, options={"max_fusion_size": 3})
    return compiled, _difference(compiled, step, example)


def _difference(program: Program, step: Program, example: list[Tensor]) -> float:
    """How far two ways to the same step are apart: the largest difference in each tensor, beyond rounding, relative to
    the largest change that the step makes in it."""
    ways = [[tensor.clone() for tensor in example] for _ in range(2)]
    numbers = [function(*tensors) for function, tensors in zip((program, step), ways, strict=True)]
    befores = [*example, *(torch.zeros_like(number) for number in numbers[1])]
    trios = zip(befores, [*ways[0], *numbers[0]], [*ways[1], *numbers[1]], strict=True)
    return max((_apart(*trio) for trio in trios if trio[0].numel()), default=0.0)


def _apart(before: Tensor, one: Tensor, other: Tensor) -> float:
    if not bool((torch.isfinite(one) == torch.isfinite(other)).all()):
        return float("inf")
    before, narrow, (one, other) = before.double(), other, (torch.nan_to_num(each.double()) for each in (one, other))
    eps = torch.finfo(narrow.dtype).eps if narrow.is_floating_point() else 0.0
    rounding = 8 * eps * float(other.abs().max())
    beyond = float((one - other).abs().max()) - rounding
    return max(beyond, 0.0) / max(float((other - before).abs().max()), 1e-30)


def compiler_missing(device_type: str) -> str:
    """What torch.compile lacks for a device, in words; empty where nothing."""
    if device_type == "cpu":
        from torch._inductor.cpp_builder import get_cpp_compiler

        try:
            get_cpp_compiler()
        except Exception:
            return "there is no C++ compiler"
        return ""
    from torch.utils._triton import has_triton

    return "" if has_triton() else f"there is no Triton for {device_type}"
