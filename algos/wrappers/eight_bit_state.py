"""Eight-bit state: what an optimizer remembers, in 8 bits a number, by blocks.

Paper: Dettmers et al. 2022, "8-bit Optimizers via Block-wise Quantization"; the format is `formulas/blockwise.py`. At
each step the state is decoded to float32, the optimizer computes as ever, and the new state is encoded.

    q, c <- encode(s)      q codes, one byte a number; c the largest magnitude of each block of `block` numbers
    s    <- decode(q, c)

For every optimizer of the catalogue whose rule is per tensor, its fallback rules too. Kept as they are: state of fewer
than `smallest` numbers, and what an entry declares as `exact_state` (weights, bases and factors, where the error of 8
bits would act on every later step). State that is never negative (`unsigned_state`) has values without a sign.

Deviations: blocks of 256 numbers, as the authors' package has had since, where the paper has 2048; rounding to nearest,
as in the paper, but what is never negative and above 0 stays above 0, or AdamW's steps would be m/eps wherever a
gradient is small in a block of large ones. Embeddings are treated as the rest (the paper's stable embedding layer is an
architecture's matter). A number that is not finite spoils its block.

State: one byte a number, and 4 bytes a block. Cost: one pass more to decode, one to encode, at every step.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from algos.contracts import Component
from algos.formulas.blockwise import decode, encode
from algos.spec import Declared, Int, Spec

LARGEST = "_largest"


class EightBitState(Declared, Component):
    """Block-wise 8-bit state for any per-tensor optimizer.

    >>> from algos.optimizers.lion import Lion
    >>> weight = torch.nn.Parameter(torch.ones(64, 64)); weight.grad = torch.randn(64, 64)
    >>> optimizer = Lion([weight]); optimizer.replace_rule(EightBitState().rule); optimizer.step()
    >>> [(name, tensor.dtype, tensor.numel()) for name, tensor in optimizer.state[weight].items()]
    [('exp_avg', torch.uint8, 4096), ('exp_avg_largest', torch.float32, 16)]
    """

    block: int = Int(256, low=16, high=65536, unit="numbers that share a scale")
    smallest: int = Int(4096, low=1, unit="numbers; smaller state is kept as it is")

    def rule(self, rule: type[Any], param: Tensor, shape: Sequence[int]) -> type[Any]:
        own: Any = rule
        return _eight_bit(own, self.block, self.smallest)


@functools.cache
def _eight_bit(rule: Any, block: int, smallest: int) -> type[Any]:
    """The rule on encoded state."""
    signs = dict.fromkeys(rule.unsigned_state, False)

    def encoded(state: dict[str, Tensor], known: dict[str, tuple[Tensor, Tensor, Tensor]]) -> dict[str, Tensor]:
        """known: what was decoded, with its codes: what has not changed is not encoded anew."""
        found: dict[str, Tensor] = {}
        for name, tensor in state.items():
            if name in known and known[name][0] is tensor:
                found[name], found[name + LARGEST] = known[name][1:]
            elif name in rule.exact_state or tensor.numel() < smallest or not tensor.is_floating_point():
                found[name] = tensor
            else:
                values = tensor.to(torch.float32)
                found[name], found[name + LARGEST] = encode(values, block, signed=signs.get(name, True))
        return found

    def decoded(state: dict[str, Tensor], like: Tensor) -> tuple[dict[str, Tensor], dict[str, Any]]:
        whole, known = {}, {}
        for name, tensor in state.items():
            if name + LARGEST in state:
                codes, largest = tensor, state[name + LARGEST]
                whole[name] = decode(codes, largest, block, signed=signs.get(name, True)).to(like.dtype)
                known[name] = (whole[name], codes, largest)
            elif not name.endswith(LARGEST):
                whole[name] = tensor
        return whole, known

    def init(param: Tensor, hyper: Any) -> dict[str, Tensor]:
        return encoded(rule.init(param, hyper), {})

    def around(function: Any) -> Any:
        def inner(param: Tensor, other: Tensor, state: dict[str, Tensor], *rest: Any, **needs: Any) -> Any:
            whole, known = decoded(state, param)
            result, new = function(param, other, whole, *rest, **needs)
            return result, encoded(new, known)

        return staticmethod(inner)

    def evaluate(param: Tensor, state: dict[str, Tensor], hyper: Any) -> Tensor:
        return rule.evaluate(param, decoded(state, param)[0], hyper)

    changed = ["direction", *(["update"] if rule.own_update else []), *(["reduce"] if "shared" in rule.needs else [])]
    functions = {name: around(getattr(rule, name)) for name in changed}
    functions |= {"init": staticmethod(init), "evaluate": staticmethod(evaluate)}
    return type(f"EightBit{rule.__name__}", (rule,), {**functions, "elementwise": False})


SPEC = Spec(
    build=EightBitState,
    needs=("directions",),
    state="one byte for each number of the optimizer's state",
    cost="two passes over the state an update",
    cite="""@inproceedings{dettmers2022eightbit,
  title = {8-bit Optimizers via Block-wise Quantization},
  author = {Dettmers, Tim and Lewis, Mike and Shleifer, Sam and Zettlemoyer, Luke},
  booktitle = {International Conference on Learning Representations (ICLR)},
  year = {2022}
}""",
)
