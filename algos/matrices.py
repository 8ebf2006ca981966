"""Matrices apart from the rest: which weights are matrices, what matrix each is, and who gets the others.

A weight is a matrix if a model uses it to map one hidden layer to the next. As a matrix it is (first dimension, all
others): a convolution is (out, in*k*k). Weights with several matrices on top of one another, as fused query-key-value
projections have, are split into `parts` along the first dimension, each a matrix of its own.

`MatrixOptimizer` is the base of optimizers whose own rule is for matrices, and whose `fallback` is for everything else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from algos.finding import InputError
from algos.parameters import GroupRule, Place, decays
from algos.per_tensor import PerTensorOptimizer

#: Marks of names under which three matrices stand in one weight.
FUSED = ("qkv", "in_proj", "c_attn")


class MatrixOptimizer(PerTensorOptimizer):
    """The base: a subclass gives the mathematics of a matrix and `rules = {"fallback": AdamW}`, and declares the
    fallback's hyperparameters as `fallback_lr`, ..., `fallback_weight_decay`, and `decay_all`; also `parts`, as
    Int(1, low=1), if it splits fused weights.

    Given a model, its hidden matrices go to the matrix rule (fused ones in a group of parts=3), and the embeddings, the
    output head, norms, biases and scales to the fallback; of these only the head decays, unless `decay_all`. Given
    parameters without a model, those of rank 2 or more go to the matrix rule. A group may say rule="fallback".
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
    """Whether its name says that it is three matrices, and its first dimension agrees."""
    return place.param.shape[0] % 3 == 0 and any(mark in place.name.lower() for mark in FUSED)


def as_matrices(tensor: Tensor, parts: int = 1) -> Tensor:
    """A weight of rank 2 or more, or anything of its shape, as (parts, rows, columns).

    >>> import torch
    >>> as_matrices(torch.zeros(6, 2, 3, 3), parts=3).shape
    torch.Size([3, 2, 18])
    """
    flat = tensor.flatten(1)
    return flat.reshape(parts, flat.shape[0] // parts, flat.shape[1])
