"""Watch what a piece of code asks of the device: kernels, bytes read and written, memory, and where the host waits.

Counted below autograd, operator by operator, so it reads the same on the CPU as on an accelerator. Code that
torch.compile has made is not seen from here: a compiled function runs as its eager original while it is watched.
"""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

#: Operators that compute nothing though they are not marked as views: they give out memory, or look at it anew.
NO_COMPUTATION = frozenset(
    {"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "resize_", "_unsafe_view"}
)
#: Operators that write their first argument without reading it.
OVERWRITING = frozenset({"copy_", "fill_", "zero_", "_foreach_copy_", "_foreach_zero_"})


class _Operators(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.found: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if _computes(func):
            self.found[func.overloadpacket.__name__] += 1
        return func(*args, **(kwargs or {}))


class _Bytes(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.moved = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if _computes(func):
            read = args[1:] if func.overloadpacket.__name__ in OVERWRITING else args
            others = [value for name, value in (kwargs or {}).items() if name != "out"]
            self.moved += sum(_bytes(tensor) for tensor in _tensors((read, others, result)))
        return result


class _Storages(TorchDispatchMode):
    """Memory by the storages that are alive. net: bytes of those made since, without those that have gone since."""

    def __init__(self) -> None:
        super().__init__()
        self.net = self.peak = 0
        self._seen: dict[int, Any] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self._meet((args, kwargs), new=False)
        result = func(*args, **(kwargs or {}))
        self._meet(result, new=True)
        return result

    def _meet(self, tree: Any, *, new: bool) -> None:
        for tensor in _tensors(tree):
            storage = tensor.untyped_storage()
            if id(storage) not in self._seen:
                self._seen[id(storage)] = weakref.ref(storage, self._farewell(id(storage), storage.nbytes()))
                self.net += storage.nbytes() if new else 0
        self.peak = max(self.peak, self.net)

    def _farewell(self, identity: int, size: int) -> Callable[[Any], None]:
        def gone(_: Any) -> None:
            self.net -= size
            self._seen.pop(identity, None)

        return gone


def _computes(func: Any) -> bool:
    return func.namespace == "aten" and not func.is_view and func.overloadpacket.__name__ not in NO_COMPUTATION


def _tensors(tree: Any) -> Iterator[Tensor]:
    return (leaf for leaf in tree_leaves(tree) if isinstance(leaf, Tensor))


def _bytes(tensor: Tensor) -> int:
    """Of its different numbers: an expanded tensor is as small as what it was expanded from."""
    numel = 1
    for size, stride in zip(tensor.shape, tensor.stride(), strict=True):
        numel *= size if stride or not size else 1
    return numel * tensor.element_size()


def kernels(function: Callable[[], Any]) -> Counter[str]:
    """The operators a call runs, by name, without views and allocations: about one kernel launch each.

    >>> import torch
    >>> x = torch.ones(3)
    >>> kernels(lambda: (x + 1).view(1, 3) * 2)
    Counter({'add': 1, 'mul': 1})
    """
    with _Operators() as operators:
        function()
    return operators.found


def host_synchronisations(function: Callable[[], Any]) -> int:
    """How often a call reads a number from the device (`.item()`, `bool(tensor)`): each makes the host wait.

    >>> import torch
    >>> host_synchronisations(lambda: torch.ones(2).sum().item())
    1
    """
    return kernels(function)["_local_scalar_dense"]


def bytes_moved(function: Callable[[], Any]) -> int:
    """Bytes that the operators of a call read and write: of their tensor arguments and results, without views.

    What an operator does inside (a matrix product reads its operands many times, a cache serves some) is not seen.

    >>> import torch
    >>> x = torch.ones(3)
    >>> bytes_moved(lambda: x + x.mul_(2)) == 4 * 3 * (2 + 3)
    True
    """
    with _Bytes() as counted:
        function()
    return counted.moved


def peak_memory(function: Callable[[], Any]) -> int:
    """The most bytes of tensors alive during a call, beyond those alive before it.

    Counted by storages; what an operator allocates inside and frees again is not seen, nor how an allocator rounds.

    >>> import torch
    >>> peak_memory(lambda: torch.ones(3).exp().view(1, 3).sum()) == 4 * (3 + 3)
    True
    """
    with _Storages() as storages:
        function()
    return storages.peak


class _Reads(TorchDispatchMode):
    """Counts what is read from a device other than the CPU, and answers 1 where tensors hold no numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten._local_scalar_dense.default:
            self.count += args[0].device.type != "cpu"
            return 1.0 if args[0].is_floating_point() else 1
        result = func(*args, **(kwargs or {}))
        if func is torch.ops.aten._to_copy.default:
            self.count += args[0].device.type != "cpu" and result.device.type == "cpu"
        return result


def imagined_synchronisations(prepare: Callable[[str], Callable[[], Any]], times: int = 3) -> float:
    """How many numbers a call reads from an accelerator, though there is none here; numbers on the CPU do not count.

    prepare: given the name of a device, makes what it needs there and returns the call, which is made `times` times;
    the mean. Tensors have shapes and devices only, so what depends on their numbers sees ones.

    >>> imagined_synchronisations(lambda device: torch.ones(2, device=device).sum().item)
    1.0
    """
    with FakeTensorMode(), _Reads() as reads:
        call = prepare("cuda")
        reads.count = 0
        for _ in range(times):
            call()
    return reads.count / times
