"""DeviceKind: what the project must know of a kind of device. Each kind is a file beside this one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


class DeviceKind(ABC):
    """A kind of device that torch can compute on.

    name: torch's device type. accelerator: Lightning's name for it. cure: how a user gets one, as the end of a sentence
    that said what is missing. torch is imported inside the methods, so that a config is checked without it.
    """

    name: str
    accelerator: str
    cure: str

    @abstractmethod
    def missing(self) -> str:
        """Why none can be used here, in words; empty where one can."""

    @abstractmethod
    def count(self) -> int:
        """How many there are. Asked only where nothing is missing."""

    @abstractmethod
    def model(self, device: torch.device) -> str:
        """What the device is called by its maker."""

    @abstractmethod
    def capability(self, device: torch.device) -> str:
        """The instruction set or compute capability that torch uses of it."""

    @abstractmethod
    def synchronise(self, device: torch.device) -> None:
        """Wait until everything queued on the device is done."""
