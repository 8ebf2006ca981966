"""Weights: a run's model as a file that anybody can open."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from torch import Tensor

#: The file in a run's folder: the model at its selected weights.
MODEL = "model.safetensors"


def store_model(path: Path, weights: Mapping[str, Tensor]) -> None:
    """Whole or not at all. Tensors that share memory (tied weights) are stored each on its own."""
    from safetensors.torch import save_file

    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    save_file({name: _alone(tensor) for name, tensor in weights.items()}, temporary)
    os.replace(temporary, path)


def _alone(tensor: Tensor) -> Tensor:
    return tensor.detach().cpu().clone().contiguous()
