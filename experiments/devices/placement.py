"""Placement: which device each of several workers sees. A worker sees one, as number 0; they take turns."""

from __future__ import annotations

import os
from collections.abc import Collection

from experiments.devices.choosing import KINDS

#: The variable that says which devices of a kind a process sees.
_VARIABLES = {"cuda": "CUDA_VISIBLE_DEVICES", "npu": "ASCEND_RT_VISIBLE_DEVICES"}


def environment(asked: Collection[str], worker: int) -> dict[str, str]:
    """What to add to the environment of worker number `worker`, given the devices that the study asks for. Nothing on
    the CPU, or where a run names its device by number."""
    for name, variable in _VARIABLES.items():
        if not set(asked) <= {"auto", name} or KINDS[name].missing():
            continue
        inherited = [each.strip() for each in os.environ.get(variable, "").split(",") if each.strip()]
        seen = inherited or [str(number) for number in range(KINDS[name].count())]
        return {variable: seen[worker % len(seen)]} if len(seen) > 1 else {}
    return {}
