"""bf16 weights: matrices stored in bfloat16, the optimizer's mathematics and state in float32.

Papers: Kalamkar et al. 2019 (bfloat16 training); Gupta et al. 2015, section 3.1 (stochastic rounding). There is no
float32 copy of the weights: each step widens them, moves them and rounds the result to bfloat16 again, which has 8 bits
of significand: an update below 2^-9 of a weight is lost by rounding to nearest. Rounded stochastically, the default, it
is kept in the mean (`formulas/stochastic_rounding.py`), so that small rates still train.

Stored in bfloat16: trained weights of rank 2 or more. Biases, norms' scales, frozen weights and buffers, a small part
of the memory, stay as they are. The forward pass and the loss run under bfloat16's autocast, as precision bf16's do.

Needs an optimizer of the catalogue that is per tensor: torch's own would keep its moments in bfloat16.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import nn

from algos.finding import InputError
from algos.precision.bf16 import Bf16
from algos.spec import Choice, Declared, Spec


class Bf16Weights(Declared):
    """Weights in bfloat16; autocast to bfloat16 around the loss.

    >>> model = nn.Linear(3, 2)
    >>> Bf16Weights().store(model); [parameter.dtype for parameter in model.parameters()]
    [torch.bfloat16, torch.float32]
    """

    rounding: str = Choice("stochastic", ("stochastic", "nearest"))

    def autocast(self, device_type: str) -> AbstractContextManager[Any]:
        return Bf16().autocast(device_type)

    def store(self, model: nn.Module) -> None:
        """Before the optimizer is made."""
        for parameter in model.parameters():
            if parameter.requires_grad and parameter.dim() >= 2 and parameter.is_floating_point():
                parameter.data = parameter.data.to(torch.bfloat16)

    def round(self, optimizer: torch.optim.Optimizer) -> None:
        """Tell the optimizer how to round. Raises InputError for one that computes in bfloat16 itself."""
        if not hasattr(optimizer, "rounding"):
            name = type(optimizer).__name__
            raise InputError(
                f"precision 'bf16_weights' needs an optimizer that keeps its state in float32, and {name} does not",
                "give another optimizer, e.g. adamw, or precision=bf16", place="precision",
            )  # fmt: skip
        optimizer.rounding = self.rounding


SPEC = Spec(
    build=Bf16Weights,
    state="none: weights take 2 bytes each instead of 4",
    cost="2 bytes an activation of a matrix product; one pass of rounding an update",
    cite="""@article{kalamkar2019study,
  title = {A Study of {BFLOAT16} for Deep Learning Training},
  author = {Kalamkar, Dhiraj and Mudigere, Dheevatsa and Mellempudi, Naveen and Das, Dipankar and Banerjee, Kunal and
            Avancha, Sasikanth and others},
  journal = {arXiv preprint arXiv:1905.12322},
  year = {2019}
}

@inproceedings{gupta2015deep,
  title = {Deep Learning with Limited Numerical Precision},
  author = {Gupta, Suyog and Agrawal, Ankur and Gopalakrishnan, Kailash and Narayanan, Pritish},
  booktitle = {International Conference on Machine Learning (ICML)},
  pages = {1737--1746},
  year = {2015}
}""",
)
