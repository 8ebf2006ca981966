"""Program: a computation's operations, recorded once, then run again on other tensors of the same shapes.

torch.vmap and autograd find out anew at every update what to do next, which for small models takes longer than doing
it. What they come to is a list of operations, the same each time; it is run without them. A few operations are taken in
another way that gives the same numbers to rounding:

    (a^T b)^T           b^T a: MKL is slow where the last dimension is narrow, and gradients then lie as weights do
    1 * x, views that change nothing                                                    left out
    log softmax over few classes, forward and backward                                  classes before the examples
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

aten = torch.ops.aten
#: Fewer classes than so many: torch's kernel takes its vectors along them, and is mostly rest.
FEW = 32
#: Give a view, or a copy, of their first argument.
VIEWS = {aten.detach.default, aten.view.default, aten._unsafe_view.default, aten.expand.default, aten.alias.default}


class Slot(NamedTuple):
    """A tensor of the program, by number."""

    number: int


@dataclass
class Operation:
    """function(*arguments, **words), `Slot`s in the places of tensors. gives: the slots of what it returns: `one`
    tensor, or several; -1 for None. frees: those that nobody needs any more."""

    function: Callable[..., Any]
    arguments: list[Any]
    words: dict[str, Any]
    gives: list[int]
    one: bool = True
    frees: tuple[int, ...] = ()


class NotRecorded(Exception):
    """The computation does what a list of operations does not say."""


class Program:
    """What `record` found: called with tensors in the places of those it was recorded with, it returns the outputs."""

    def __init__(self, operations: list[Operation], slots: int, inputs: int, outputs: list[int | None]):
        self._operations, self._slots, self._inputs, self._outputs = operations, slots, inputs, outputs
        self._free()

    def __len__(self) -> int:
        return len(self._operations)

    def __call__(self, inputs: Sequence[Tensor]) -> list[Tensor | None]:
        slots: list[Any] = [*inputs, *[None] * (self._slots - self._inputs + 1)]  # the last is for what gives None
        for each in self._operations:
            arguments = [_filled(argument, slots) for argument in each.arguments]
            given = each.function(*arguments, **each.words)
            if each.one:
                slots[each.gives[0]] = given
            else:
                for number, tensor in zip(each.gives, given, strict=True):
                    slots[number] = tensor
            for number in each.frees:
                slots[number] = None
        return [None if number is None else slots[number] for number in self._outputs]

    def _free(self) -> None:
        needed = {number for number in self._outputs if number is not None}
        for each in reversed(self._operations):
            touched = {*_slots_in(each.arguments), *each.gives}
            each.frees = tuple(number for number in sorted(touched - needed) if number >= self._inputs)
            needed |= touched


def record(compute: Callable[[Sequence[Tensor]], Sequence[Tensor | None]], inputs: Sequence[Tensor]) -> Program:
    """The program of `compute`, which is run once, on `inputs`. Raises NotRecorded where it meets a tensor that is
    neither an input nor made from one."""
    recorder = _Recorder(inputs)
    with recorder:
        outputs = compute(inputs)
    numbers = [None if each is None else recorder.number(each.detach()) for each in outputs]
    if len({number for number in numbers if number is not None}) < sum(number is not None for number in numbers):
        raise NotRecorded("two results are one tensor")
    operations, numbers = simplified(recorder.operations, recorder.narrow, numbers)
    return Program(operations, recorder.count, len(inputs), numbers)


class _Recorder(TorchDispatchMode):
    def __init__(self, inputs: Sequence[Tensor]):
        super().__init__()
        self.operations: list[Operation] = []
        self._numbers = {id(tensor): number for number, tensor in enumerate(inputs)}
        self._alive: list[Any] = list(inputs)  # an id is a tensor's own only while it lives
        self._places: dict[tuple[Any, ...], int] = {}
        self.count = len(inputs)
        self.narrow = {number: tensor.dim() for number, tensor in enumerate(inputs) if _narrow(tensor)}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        words = kwargs or {}
        if any(isinstance(value, Tensor) for value in words.values()):
            raise NotRecorded(f"{func} is given a tensor by name")
        if torch.Tag.data_dependent_output in func.tags or torch.Tag.nondeterministic_seeded in func.tags:
            raise NotRecorded(f"{func} depends on numbers")
        arguments = [self._named(argument) for argument in args]
        given = func(*args, **words)
        if func in VIEWS and _place(given) == _place(args[0]):
            self._numbers[id(given)] = arguments[0].number
            self._alive.append(given)
            return given
        tensors = list(given) if isinstance(given, (list, tuple)) else [given]
        if not all(each is None or isinstance(each, Tensor) for each in tensors):
            raise NotRecorded(f"{func} gives no tensors")
        self.operations.append(Operation(func, arguments, words, list(map(self._give, tensors)), given is tensors[0]))
        return given

    def number(self, tensor: Tensor) -> int:
        """An output's."""
        if id(tensor) in self._numbers:
            return self._numbers[id(tensor)]
        if _place(tensor) not in self._places:
            raise NotRecorded("a result comes from elsewhere")
        return self._places[_place(tensor)]

    def _give(self, tensor: Tensor | None) -> int:
        if tensor is None:
            return -1
        if id(tensor) not in self._numbers:
            self._numbers[id(tensor)] = self.count
            if _narrow(tensor):
                self.narrow[self.count] = tensor.dim()
            self.count += 1
            self._alive.append(tensor)
        self._places[_place(tensor)] = self._numbers[id(tensor)]
        return self._numbers[id(tensor)]

    def _named(self, argument: Any) -> Any:
        if isinstance(argument, Tensor):
            if id(argument) not in self._numbers:
                raise NotRecorded("an operation takes a tensor from elsewhere")
            return Slot(self._numbers[id(argument)])
        if isinstance(argument, (list, tuple)):
            return [self._named(each) for each in argument]
        return argument


def _place(tensor: Tensor) -> tuple[Any, ...]:
    return tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype


def _filled(argument: Any, slots: list[Any]) -> Any:
    if type(argument) is Slot:
        return slots[argument.number]
    if type(argument) is list:
        return [_filled(each, slots) for each in argument]
    return argument


def _slots_in(arguments: Any) -> Iterator[int]:
    for each in arguments:
        if isinstance(each, Slot):
            yield each.number
        elif isinstance(each, list):
            yield from _slots_in(each)


def simplified(
    operations: list[Operation], narrow: dict[int, int], outputs: list[int | None]
) -> tuple[list[Operation], list[int | None]]:
    """The same in fewer operations, or cheaper ones. narrow: slot -> rank, of those with few numbers along
    the last dimension."""
    if not any(_changes(each) for each in operations):
        outputs = _without_ones(operations, outputs)
        _transposed(operations, outputs)
    _classes_first(operations, narrow)
    needed = {number for number in outputs if number is not None}
    kept: list[Operation] = []
    for each in reversed(operations):
        if _changes(each) or needed.intersection(each.gives):
            kept.append(each)
            needed.update(_slots_in(each.arguments))
    return kept[::-1], outputs


def _changes(operation: Operation) -> bool:
    """Whether it writes into a tensor that it is given."""
    return (
        bool(operation.function._schema.is_mutable) if isinstance(operation.function, torch._ops.OpOverload) else False
    )


def _without_ones(operations: list[Operation], outputs: list[int | None]) -> list[int | None]:
    """1 * x is x."""
    same: dict[int, int] = {}
    for each in operations:
        each.arguments = [_renamed(argument, same) for argument in each.arguments]
        if each.function is aten.mul.Scalar and each.arguments[1] == 1 and type(each.arguments[1]) is int:
            same[each.gives[0]] = each.arguments[0].number
    return [None if number is None else same.get(number, number) for number in outputs]


def _renamed(argument: Any, same: dict[int, int]) -> Any:
    if isinstance(argument, Slot):
        return Slot(same.get(argument.number, argument.number))
    return [_renamed(each, same) for each in argument] if isinstance(argument, list) else argument


def _transposed(operations: list[Operation], outputs: list[int | None]) -> None:
    """Outputs that are (a^T b)^T, as b^T a."""
    maker = {each.gives[0]: each for each in operations if len(each.gives) == 1}
    for index, each in enumerate(operations):
        product = maker.get(_turned(each)) if each.gives[0] in outputs else None
        if product is None or product.function is not aten.bmm.default:
            continue
        left, right = (argument.number for argument in product.arguments)
        if left in maker and (inner := _turned(maker[left])) >= 0:
            operations[index] = Operation(_bmm_of_transposed, [Slot(right), Slot(inner)], {}, each.gives)


def _turned(operation: Operation) -> int:
    """The slot whose matrices an operation transposes; -1 for another operation."""
    if operation.function is aten.transpose.int and operation.arguments[1:] == [1, 2]:
        return int(operation.arguments[0].number)
    return -1


def _bmm_of_transposed(left: Tensor, right: Tensor) -> Tensor:
    return torch.bmm(left.transpose(1, 2), right)


def _narrow(tensor: Tensor) -> bool:
    """Whether a CPU has too few numbers in a row for its vectors."""
    return tensor.device.type == "cpu" and tensor.dim() > 1 and tensor.shape[-1] < FEW


def _classes_first(operations: list[Operation], narrow: dict[int, int]) -> None:
    """The log softmax over a narrow last dimension, and its gradient, along the one before it."""
    others: dict[Any, tuple[int, Callable[..., Tensor]]] = {
        aten._log_softmax.default: (1, _log_softmax),
        aten._log_softmax_backward_data.default: (2, _log_softmax_backward),
    }
    for each in operations:
        if each.function in others and each.arguments[0].number in narrow:
            place, other = others[each.function]
            if each.arguments[place] == narrow[each.arguments[0].number] - 1:
                each.function = other


def _log_softmax(predictions: Tensor, dim: int, half: bool) -> Tensor:
    turned = predictions.transpose(-1, -2).contiguous()
    return aten._log_softmax.default(turned, dim - 1, half).transpose(-1, -2).contiguous()  # type: ignore[no-any-return]


def _log_softmax_backward(grad: Tensor, output: Tensor, dim: int, dtype: torch.dtype) -> Tensor:
    grad, output = grad.transpose(-1, -2).contiguous(), output.transpose(-1, -2).contiguous()
    found: Tensor = aten._log_softmax_backward_data.default(grad, output, dim - 1, dtype)
    return found.transpose(-1, -2).contiguous()
