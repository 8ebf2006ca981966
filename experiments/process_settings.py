"""Process settings: what user code may set for its whole process, put back when its run is over.

So the next run in the process is what it would be alone.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch

#: Lightning's seed_everything leaves its seeds in the environment, and loaders' workers look there.
_ENVIRONMENT = ("PL_GLOBAL_SEED", "PL_SEED_WORKERS")


@contextmanager
def preserved_settings() -> Iterator[None]:
    """torch's default dtype, matmul precision, threads, grad mode, determinism; and Lightning's seeds.

    >>> with preserved_settings():
    ...     torch.set_default_dtype(torch.float64)
    >>> torch.get_default_dtype()
    torch.float32
    """
    dtype, precision, threads = torch.get_default_dtype(), torch.get_float32_matmul_precision(), torch.get_num_threads()
    grad, deterministic = torch.is_grad_enabled(), torch.are_deterministic_algorithms_enabled()
    warns, benchmark = torch.is_deterministic_algorithms_warn_only_enabled(), torch.backends.cudnn.benchmark
    environment = {name: os.environ.pop(name, None) for name in _ENVIRONMENT}
    try:
        yield
    finally:
        torch.set_default_dtype(dtype)
        torch.set_float32_matmul_precision(precision)
        if torch.get_num_threads() != threads:
            torch.set_num_threads(threads)
        torch.set_grad_enabled(grad)
        torch.use_deterministic_algorithms(deterministic, warn_only=warns)
        torch.backends.cudnn.benchmark = benchmark
        for name, value in environment.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
