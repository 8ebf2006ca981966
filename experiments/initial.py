"""Where a run's weights come from: `init=run:ID`, `init=run:ID@best`, `init=weights.safetensors`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from torch import Tensor, nn

from algos.finding import InputError
from experiments import checkpoint
from experiments.modules.reference import is_reference
from experiments.store.home import RunFolder

_FORMS = "init=run:ID, init=run:ID@best or init=FILE.safetensors"


def load(model: nn.Module, init: str) -> None:
    """Copy the weights that `init` names into the model; "" leaves it as it is. Raises InputError where they do not
    fit."""
    if init:
        give(model, _weights(init))


def give(model: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Copy weights into the model. Raises InputError where they do not fit."""
    own = {name: value for name, value in model.state_dict().items() if isinstance(value, Tensor)}
    missing, extra = sorted(own.keys() - weights.keys()), sorted(weights.keys() - own.keys())
    if missing or extra:
        told = [
            f"{len(names)} {what} (first: {names[0]})"
            for what, names in (("missing", missing), ("unknown", extra))
            if names
        ]
        raise InputError(
            f"the weights do not fit the model: {', '.join(told)}", "give the same model as theirs", place="init"
        )
    for name, tensor in own.items():
        if tensor.shape != weights[name].shape:
            shapes = f"{tuple(weights[name].shape)} for {tuple(tensor.shape)}"
            raise InputError(f"'{name}' has shape {shapes}", "give the same model sizes as theirs", place="init")
    model.load_state_dict({**model.state_dict(), **weights})


def parent(init: str) -> str:
    """The id of the run the weights come from, or ""."""
    return _run_folder(init).name if init.startswith("run:") else ""


def _weights(init: str) -> dict[str, Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    if init.startswith("run:"):
        folder, best = _run_folder(init), init.endswith("@best")
        if best:
            return _best(folder)
        path = folder / "model.safetensors"
        if not path.exists():
            raise InputError(f"run {folder.name} left no weights", "it must have completed", place="init")
    else:
        path = Path(init).expanduser()
        if not path.exists():
            raise InputError(f"no file '{init}'", f"give {_FORMS}", place="init")
    try:
        return load_file(path)
    except SafetensorError as error:
        raise InputError(
            f"not a readable safetensors file ({error})", "give another", source=str(path), place="init"
        ) from error


def _best(folder: Path) -> dict[str, Tensor]:
    of_module = is_reference(RunFolder(folder).file.config.get("task"))
    found = checkpoint.Checkpoints(folder / "checkpoints", folder.name).newest(trusted=of_module)
    state = found.state or {}
    weights: dict[str, Tensor] = state.get("trainlab", state).get("best", {}).get("weights", {})
    if not state and found.warning:
        raise InputError(f"run {folder.name}: {found.warning.rpartition('; ')[0]}", "give another run", place="init")
    if not weights:
        raise InputError(
            f"run {folder.name} kept no best weights (its task tests the last ones)", f"use init=run:{folder.name}",
            place="init",
        )  # fmt: skip
    return weights


def _run_folder(init: str) -> Path:
    from experiments.store.home import Home

    return Home.default().folder(init.removeprefix("run:").removesuffix("@best")).path
