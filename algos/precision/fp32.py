"""fp32: everything in the weights' own precision, no autocast.

Source: IEEE 754-2019, binary32: 24 bits of significand, exponents to 127.

The name says what the weights are by default; weights in float64 are computed in float64.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from algos.spec import Declared, Spec


class Fp32(Declared):
    """A context that changes nothing, on any device."""

    def autocast(self, device_type: str) -> AbstractContextManager[Any]:
        return nullcontext()


SPEC = Spec(
    build=Fp32,
    state="none",
    cost="4 bytes a number",
    cite="""@techreport{ieee2019standard,
  title = {{IEEE} Standard for Floating-Point Arithmetic},
  author = {{IEEE}},
  institution = {Institute of Electrical and Electronics Engineers},
  number = {IEEE Std 754-2019},
  doi = {10.1109/IEEESTD.2019.8766229},
  year = {2019}
}""",
)
