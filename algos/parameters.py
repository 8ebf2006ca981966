"""Which parameter is what, and which goes to which group: complete and disjoint.

`places` tells the role of each parameter of a model; `group` sorts them by rules, the first that fits; `describe` shows
what an optimizer will do to each, before training.

Roles, the first that fits:
    embedding   a weight of nn.Embedding (also where it is tied to an output layer)
    norm        a parameter of a normalisation layer
    vector      rank 0 or 1, or all dimensions but one of size 1: biases, scales, a class token (1, 1, dimension)
    embedding   called so: embed, pos_embed, position_embeddings, pos_emb; or of rank 3 or more and first dimension 1,
                for the batch to share: positions (1, tokens, dimensions)
    head        the last matrix in the order of registration: the output layer (none where that is tied to an embedding)
    matrix      everything else: linear maps, convolutions; what is called a weight is one also where it has a single
                row or column, as a map to one number, and a depthwise convolution (24, 1, 4)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor, nn

from algos.finding import InputError

Role = Literal["embedding", "norm", "vector", "head", "matrix"]


#: What a module calls its map: weight, in_proj_weight, weight_ih_l0; also where torch prunes or parametrizes it.
WEIGHT = re.compile(r"(^|[._])weight(_orig|\.original|_[ih]h_\w+)?$")


@dataclass(frozen=True)
class Place:
    """A parameter and where it stands. names: all of them where it is tied, the first is the one in use."""

    names: tuple[str, ...]
    param: nn.Parameter
    role: Role

    @property
    def name(self) -> str:
        return self.names[0]


@dataclass(frozen=True)
class GroupRule:
    """What some parameters share. label: for people. fits: which these are. options: what their group is given."""

    label: str
    fits: Callable[[Place], bool]
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Row:
    """What an optimizer does to one parameter. lr, weight_decay: a number, or one a member of a population."""

    name: str
    shape: tuple[int, ...]
    group: str
    rule: str
    lr: Any
    weight_decay: Any


def places(model: nn.Module) -> list[Place]:
    """Every parameter of a model once, in the order of registration, with its role.

    >>> model = nn.Sequential(nn.Embedding(5, 2), nn.LayerNorm(2), nn.Linear(2, 5))
    >>> [(place.name, place.role) for place in places(model)]
    [('0.weight', 'embedding'), ('1.weight', 'norm'), ('1.bias', 'norm'), ('2.weight', 'head'), ('2.bias', 'vector')]
    """
    owners: dict[nn.Parameter, list[tuple[str, nn.Module]]] = {}
    for module_name, module in model.named_modules():
        for local, param in module.named_parameters(recurse=False, remove_duplicate=False):
            owners.setdefault(param, []).append((f"{module_name}.{local}" if module_name else local, module))
    ordered = [(param, owners[param]) for param in model.parameters()]
    roles: list[Role] = [_role(param, owned) for param, owned in ordered]
    tied_head = any(
        role == "embedding" and any(isinstance(module, nn.Linear) for _, module in owned)
        for role, (_, owned) in zip(roles, ordered, strict=True)
    )
    last = max((i for i, role in enumerate(roles) if role == "matrix"), default=None)
    if last is not None and not tied_head:
        roles[last] = "head"
    return [
        Place(tuple(name for name, _ in owned), param, role)
        for (param, owned), role in zip(ordered, roles, strict=True)
    ]


def _role(param: nn.Parameter, owned: Sequence[tuple[str, nn.Module]]) -> Role:
    if any(isinstance(module, (nn.Embedding, nn.EmbeddingBag)) for _, module in owned):
        return "embedding"
    if any(_normalises(module) for _, module in owned):
        return "norm"
    weight = any(WEIGHT.search(name) for name, _ in owned)
    if param.dim() < 2 or (not weight and sum(size != 1 for size in param.shape) < 2):
        return "vector"
    shared = not weight and param.dim() > 2 and param.shape[0] == 1
    return "embedding" if shared or any(_called_embedding(name) for name, _ in owned) else "matrix"


def _called_embedding(name: str) -> bool:
    """A bare parameter or the module right above it that is called an embedding: `pos_embedding`, `embed.weight`."""
    return any(re.search(r"(^|_)emb(ed(ding)?)?s?$", part.lower()) for part in name.split(".")[-2:])


def _normalises(module: nn.Module) -> bool:
    return "norm" in type(module).__name__.lower() and next(module.children(), None) is None


def group(model: nn.Module, rules: Sequence[GroupRule]) -> list[dict[str, Any]]:
    """A model's parameters as groups for an optimizer: every parameter in exactly one, by the first rule that fits.

    Empty groups are left out. Raises InputError where a parameter fits no rule.
    """
    sorted_places: list[list[Place]] = [[] for _ in rules]
    for place in places(model):
        index = next((i for i, rule in enumerate(rules) if rule.fits(place)), None)
        if index is None:
            raise InputError(
                f"parameter '{place.name}' fits none of the rules {', '.join(rule.label for rule in rules)}",
                "end the rules with one that fits everything",
                rule="ungrouped-parameter",
            )
        sorted_places[index].append(place)
    return [
        {"params": [(place.name, place.param) for place in found], "label": rule.label, **rule.options}
        for rule, found in zip(rules, sorted_places, strict=True)
        if found
    ]


def decay_rules(hyper: Mapping[str, Any]) -> list[GroupRule]:
    """Weight decay for matrices and the head only, unless hyper["decay_all"]. One group where nothing decays."""
    decayed = GroupRule("decayed", lambda place: True)
    if hyper.get("decay_all") or not decays(hyper.get("weight_decay", 0.0)):
        return [GroupRule("all", lambda place: True)]
    return [
        GroupRule("not decayed", lambda place: place.role not in ("matrix", "head"), {"weight_decay": 0.0}),
        decayed,
    ]


def decays(weight_decay: Any) -> bool:
    """Whether there is decay at all: a number, or one a member of a population."""
    return any(weight_decay) if isinstance(weight_decay, Sequence) else bool(weight_decay)


def standing_in(groups: Iterable[dict[str, Any]], weights: Mapping[str, Tensor]) -> list[dict[str, Any]]:
    """The same groups over other tensors of the same names (a population's, which stack the members')."""
    return [{**each, "params": [(name, weights[name]) for name, _ in each["params"]]} for each in groups]


def describe(optimizer: torch.optim.Optimizer, model: nn.Module | None = None) -> list[Row]:
    """What an optimizer does to each parameter, in the model's order where a model is given.

    >>> from algos.optimizers.adamw import AdamW
    >>> model = nn.Linear(3, 2)
    >>> for row in describe(AdamW(model, weight_decay=0.1), model):
    ...     print(row.name, row.shape, row.group, row.lr, row.weight_decay)
    weight (2, 3) decayed 0.001 0.1
    bias (2,) not decayed 0.001 0.0
    """
    names = {place.param: place.name for place in places(model)} if model is not None else {}
    rows = {}
    for index, each in enumerate(optimizer.param_groups):
        own = each.get("param_names") or [f"parameter {index}.{i}" for i in range(len(each["params"]))]
        for param, name in zip(each["params"], own, strict=True):
            name = names.get(param, name)
            rows[name] = Row(
                name, tuple(param.shape), each.get("label", f"group {index}"),
                each.get("rule") or type(optimizer).__name__.lower(), each["lr"], each.get("weight_decay", 0.0),
            )  # fmt: skip
    return [
        rows[name] for name in [*names.values(), *(row for row in rows if row not in names.values())] if name in rows
    ]
