"""A step inside an autocast region (manual optimization) is the step outside it, whatever it multiplies."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager

import torch
from torch import Tensor


@contextmanager
def without_autocast(params: Iterable[Tensor]) -> Iterator[None]:
    """Within it nothing on the parameters' devices is autocast."""
    with ExitStack() as stack:
        for device in filter(torch.amp.is_autocast_available, {param.device.type for param in params}):
            stack.enter_context(torch.autocast(device, enabled=False))
        yield
    torch.clear_autocast_cache()  # it holds the weights from before the step, cast
