"""Devices: choose one, wait for it, tell what it is. Importing this loads no torch."""

from experiments.devices.choosing import accelerator, indices, resolve, synchronise
from experiments.devices.provenance import facts

__all__ = ["accelerator", "facts", "indices", "resolve", "synchronise"]
