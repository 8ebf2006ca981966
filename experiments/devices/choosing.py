"""From the word a user gave to the device that computes: the one asked for or a refusal, never another in silence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from algos.finding import InputError, unknown
from experiments.devices.cpu import Cpu
from experiments.devices.cuda import Cuda
from experiments.devices.kind import DeviceKind
from experiments.devices.mps import Mps
from experiments.devices.npu import Npu

if TYPE_CHECKING:
    import torch

#: Best first: the order in which "auto" looks.
KINDS: dict[str, DeviceKind] = {kind.name: kind for kind in (Cuda(), Npu(), Mps(), Cpu())}


def resolve(device: str = "auto") -> torch.device:
    """The device that `device` names: "auto" (the best kind that is there), "cpu", "cuda", "npu" or "mps", "cuda:1".

    Accelerators come back with their index, 0 where none was given. InputError, saying how to get it, where it is not
    there.

    >>> resolve("cpu")
    device(type='cpu')
    """
    import torch

    name, colon, number = device.partition(":")
    if device == "auto":
        name = next(kind.name for kind in KINDS.values() if not kind.missing())
    if name == "gpu":
        raise InputError("unknown device 'gpu'", "say which: cuda, npu or mps", rule="unknown-device", place="device")
    if name not in KINDS:
        raise unknown("device", device, ("auto", *KINDS), place="device")
    if colon and not number.isdecimal():
        raise InputError(f"device={device!r} is not valid", f"give e.g. {name} or {name}:0", place="device")
    kind = KINDS[name]
    missing = kind.missing()
    if missing:
        raise InputError(
            f"device '{device}' is not there: {missing}", f"{kind.cure}, or give device=auto",
            rule="device-missing", place="device",
        )  # fmt: skip
    index, count = int(number or 0), kind.count()
    if index >= count:
        there = "cpu" if name == "cpu" else ", ".join(f"{name}:{one}" for one in range(count))
        raise InputError(
            f"device '{device}' is not there", f"what is there: {there}", rule="device-missing", place="device"
        )
    return torch.device(name) if name == "cpu" else torch.device(name, index)


def kind_of(device: torch.device | str) -> DeviceKind:
    """The kind of a device that was resolved."""
    return KINDS[str(device).partition(":")[0]]


def synchronise(device: torch.device | str) -> None:
    """Wait until everything queued on the device is done."""
    import torch

    kind_of(device).synchronise(torch.device(device))


def accelerator(device: torch.device | str) -> str:
    """Lightning's word for the device's kind, for `Trainer(accelerator=...)`.

    >>> accelerator("cpu")
    'cpu'
    """
    return kind_of(device).accelerator


def indices(device: torch.device | str) -> int | list[int]:
    """What `Trainer(devices=...)` needs to take this one device: its index in a list, or 1 on the CPU.

    >>> indices("cuda:1"), indices("cpu")
    ([1], 1)
    """
    name, _, number = str(device).partition(":")
    return 1 if name == "cpu" else [int(number or 0)]
