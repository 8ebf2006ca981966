"""Watch what a piece of code asks of the device: the kernels it launches, and where the host waits for the device.

Counted below autograd, operator by operator, so it reads the same on the CPU as on an accelerator.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode

#: Operators that compute nothing though they are not marked as views: they give out memory, or look at it anew.
NO_COMPUTATION = frozenset(
    {"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "resize_", "_unsafe_view"}
)


class _Operators(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.found: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        if func.namespace == "aten" and not func.is_view and name not in NO_COMPUTATION:
            self.found[name] += 1
        return func(*args, **(kwargs or {}))


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
