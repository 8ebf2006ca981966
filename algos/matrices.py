"""Matrices apart from the rest: which weights are matrices, what matrix each is, and who gets the others.

A weight is a matrix if a model uses it to map one hidden layer to the next. As a matrix it is (first dimension, all
others): a convolution is (out, in*k*k). Weights with several matrices on top of one another, as fused query-key-value
projections have, are split into `parts` along the first dimension, each a matrix of its own. So are matrices that are
stacked along a dimension of their own, as experts are: (parts, out, in).

Given a model, a weight is split in three if it is called as `FUSED` lists and has three times as many rows as columns:
query, key and value of one width. Any other is one matrix: with fewer keys than queries, (in, 3*out) of Hugging Face's
Conv1D, Mamba's two-part in_proj, an adapter of low rank, and `query_key_value` (GPT-NeoX, BLOOM, Falcon), whose thirds
are not the three: they alternate from head to head. CodeGen's qkv_proj and GPTBigCode's c_attn do too, but for their
names look like the others: give them parts=1. Experts (E, out, in) are split only where their group has parts=E; else
all of them are one matrix (E, out*in), which nobody means.

`MatrixOptimizer` is the base of optimizers whose own rule is for matrices, and whose `fallback` is for everything else.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from torch import Tensor

from algos.finding import InputError
from algos.parameters import GroupRule, Place, decays
from algos.per_tensor import PerTensorOptimizer

#: What a module (or a bare parameter) is called in whose weight query, key and value stand on top of one another.
FUSED = ("qkv", "to_qkv", "Wqkv", "qkv_proj", "qkv_weight", "in_proj", "in_proj_weight", "c_attn")


class MatrixOptimizer(PerTensorOptimizer):
    """The base: a subclass gives the mathematics of a matrix and `rules = {"fallback": AdamW}`, and declares the
    fallback's hyperparameters as `fallback_lr`, ..., `fallback_weight_decay`, and `decay_all`; also `parts`, as
    Int(1, low=1), if it splits fused weights.

    Given a model, its hidden matrices go to the matrix rule (those that `is_fused` in a group of parts=3), and the
    embeddings, the output head, norms, biases and scales to the fallback; of these only the head decays, unless
    `decay_all`. Given parameters without a model, those of rank 2 or more go to the matrix rule. A group may say
    rule="fallback".
    """

    @classmethod
    def group_rules(cls, hyper: Mapping[str, Any]) -> list[GroupRule]:
        fused = [GroupRule("fused matrices", is_fused, {"parts": 3})] if "parts" in hyper else []
        return [*fallback_rules(hyper), *fused, GroupRule("matrices", lambda place: True)]

    @classmethod
    def rule_for(cls, param: Tensor, rank: int) -> str:
        return "" if rank >= 2 else "fallback"

    def _check_parameter(self, param: Tensor, group: Mapping[str, Any]) -> None:
        super()._check_parameter(param, group)
        shape, parts = param.shape[self.population is not None :], group.get("parts", 1)
        if not group.get("rule") and (len(shape) < 2 or shape[0] % parts):
            raise InputError(
                f"a parameter of shape {tuple(shape)} is not {parts} matrices" if parts > 1 else
                f"a parameter of shape {tuple(shape)} is not a matrix",
                "give its group rule='fallback', or a number of parts that divides its first dimension",
                place=type(self).__name__,
            )  # fmt: skip


def fallback_rules(hyper: Mapping[str, Any]) -> list[GroupRule]:
    """The groups of what is no hidden matrix; the head decays by `fallback_weight_decay`, the rest if `decay_all`."""
    apart = decays(hyper["fallback_weight_decay"]) and not hyper["decay_all"]
    undecayed = {"rule": "fallback", "weight_decay": 0.0}
    return [
        GroupRule("fallback, not decayed", lambda place: apart and place.role not in ("matrix", "head"), undecayed),
        GroupRule("fallback", lambda place: place.role != "matrix", {"rule": "fallback"}),
    ]


def is_fused(place: Place) -> bool:
    """Whether it is called a fused projection, by its whole name, and has three times as many rows as columns.

    >>> import torch
    >>> layer = torch.nn.Linear(4, 12).weight
    >>> [is_fused(Place((name,), layer, "matrix")) for name in ("0.qkv.weight", "in_proj_weight", "main_proj.weight")]
    [True, True, False]
    """
    own, shape = place.name.removesuffix(".weight").rpartition(".")[2], place.param.shape
    return own in FUSED and len(shape) >= 2 and shape[0] == 3 * math.prod(shape[1:])


def as_matrices(tensor: Tensor, parts: int = 1) -> Tensor:
    """A weight of rank 2 or more, or anything of its shape, as (parts, rows, columns). Where the first of three or more
    dimensions is `parts`, above 1, the matrices have it for themselves, and a row is the second.

    >>> import torch
    >>> as_matrices(torch.zeros(6, 2, 3, 3), parts=3).shape, as_matrices(torch.zeros(3, 5, 4), parts=3).shape
    (torch.Size([3, 2, 18]), torch.Size([3, 5, 4]))
    """
    if is_stack(tensor, parts):
        return tensor.flatten(2)
    flat = tensor.flatten(1)
    return flat.reshape(parts, flat.shape[0] // parts, flat.shape[1])


def is_stack(tensor: Tensor, parts: int) -> bool:
    """Whether its matrices are stacked along a dimension of their own: (parts, rows, ...)."""
    return parts > 1 and tensor.dim() > 2 and tensor.shape[0] == parts
