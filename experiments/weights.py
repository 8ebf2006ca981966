"""Weights: a run's model as a file that anybody can open."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

#: The file in a run's folder: the model at its selected weights.
MODEL = "model.safetensors"
#: What a safetensors header calls them.
_FLOATING = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}


def signature_of(module: nn.Module) -> Tensor:
    """The sum and the norm of every tensor of the module: other weights have another."""
    tensors = [value.detach() for value in module.state_dict().values() if isinstance(value, Tensor) and value.numel()]
    real = [(torch.view_as_real(each) if each.is_complex() else each).double() for each in tensors]
    return torch.stack([torch.stack([each.sum(), each.norm()]) for each in real]).cpu() if real else torch.zeros(0)


def weights_of(module: nn.Module) -> dict[str, Tensor]:
    """A copy of the module's tensors as a checkpoint names them."""
    return {name: value.detach().clone() for name, value in module.state_dict().items() if isinstance(value, Tensor)}


def store_model(path: Path, weights: Mapping[str, Tensor]) -> None:
    """Whole or not at all, and on the disk. Tensors that share memory (tied weights) are stored each on its own.
    OSError where there is no space."""
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        save_file({name: _alone(tensor) for name, tensor in weights.items()}, temporary)
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except SafetensorError as error:
        if number := re.search(r"os error (\d+)", str(error)):
            raise OSError(int(number[1]), os.strerror(int(number[1])), str(path)) from error
        raise
    finally:
        temporary.unlink(missing_ok=True)


def stored_dtype(path: Path) -> torch.dtype | None:
    """The one floating-point type of a file's tensors, from its header; None where there are several, or no file."""
    from safetensors import safe_open

    if not path.exists():
        return None
    with safe_open(path, "pt") as file:
        found = {file.get_slice(name).get_dtype() for name in file.keys()} & _FLOATING.keys()  # noqa: SIM118
    return _FLOATING[found.pop()] if len(found) == 1 else None


def _alone(tensor: Tensor) -> Tensor:
    return tensor.detach().cpu().clone().contiguous()
