"""Every parameter is in exactly one group, and its role is what it is used for."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn.utils import prune

from algos.finding import InputError
from algos.optimizers.adamw import AdamW
from algos.optimizers.lion import Lion
from algos.parameters import GroupRule, decay_rules, describe, group, places


class Tied(nn.Module):
    """The output layer is the embedding; a convolution, norms and a bare scale beside it."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(7, 4)
        self.position_embedding = nn.Parameter(torch.zeros(3, 4))
        self.conv = nn.Conv1d(4, 4, 3)
        self.norm = nn.BatchNorm1d(4)
        self.scale = nn.Parameter(torch.ones(()))
        self.inner = nn.Linear(4, 4, bias=False)
        self.output = nn.Linear(4, 7, bias=False)
        self.output.weight = self.tokens.weight


def test_roles_and_a_tied_head() -> None:
    model = Tied()
    roles = {place.name: place.role for place in places(model)}
    assert roles == {
        "position_embedding": "embedding",
        "scale": "vector",
        "tokens.weight": "embedding",
        "conv.weight": "matrix",
        "conv.bias": "vector",
        "norm.weight": "norm",
        "norm.bias": "norm",
        "inner.weight": "matrix",  # not the head: that is the embedding
    }
    assert next(place.names for place in places(model) if place.name == "tokens.weight") == (
        "tokens.weight",
        "output.weight",
    )


def test_the_last_matrix_is_the_head() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.Linear(4, 2))
    assert [place.name for place in places(model) if place.role == "head"] == ["2.weight"]


LAYERS = {
    "linear": lambda: nn.Linear(3, 3),
    "embedding": lambda: nn.Embedding(5, 3),
    "norm": lambda: nn.GroupNorm(1, 3),
    "conv": lambda: nn.Conv2d(3, 3, 2, bias=False),
    "attention": lambda: nn.MultiheadAttention(3, 1),
    "nothing": nn.ReLU,
}


@settings(max_examples=50, deadline=None)
@given(st.lists(st.sampled_from(sorted(LAYERS)), max_size=6), st.booleans(), st.booleans())
def test_groups_are_complete_and_disjoint(layers: list[str], tie: bool, decay_all: bool) -> None:
    modules = [LAYERS[name]() for name in layers]
    model = nn.Sequential(*modules, *(modules[:1] if tie else []))
    groups = group(model, decay_rules({"weight_decay": 0.1, "decay_all": decay_all}))
    found = [param for each in groups for _, param in each["params"]]
    assert len(found) == len({id(param) for param in found})
    assert {id(param) for param in found} == {id(param) for param in model.parameters()}
    assert all(each["params"] for each in groups)


def test_a_parameter_without_a_rule_is_an_error() -> None:
    with pytest.raises(InputError, match=r"0\.bias.*fits none of the rules matrices"):
        group(nn.Sequential(nn.Linear(2, 2)), [GroupRule("matrices", lambda place: place.param.dim() == 2)])


def test_norms_biases_and_embeddings_do_not_decay_unless_asked() -> None:
    model = Tied()
    decays = {row.name: row.weight_decay for row in describe(AdamW(model, weight_decay=0.1), model)}
    assert {name for name, decay in decays.items() if decay} == {"conv.weight", "inner.weight"}
    assert all(row.weight_decay == 0.1 for row in describe(AdamW(model, weight_decay=0.1, decay_all=True)))


def test_without_decay_there_is_one_group() -> None:
    assert len(Lion(Tied(), weight_decay=0.0).param_groups) == 1


def test_describe_names_every_parameter_in_the_model_s_order() -> None:
    model = Tied()
    rows = describe(AdamW(model), model)
    assert [row.name for row in rows] == [name for name, _ in model.named_parameters()]
    assert [row.shape for row in rows] == [tuple(param.shape) for param in model.parameters()]
    unnamed = describe(AdamW(model.parameters()))
    assert [row.name for row in unnamed][:2] == ["parameter 0.0", "parameter 0.1"]


def test_an_embedding_registered_after_the_head_does_not_hide_it() -> None:
    class Late(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body, self.head, self.position = nn.Linear(4, 4), nn.Linear(4, 3), nn.Embedding(5, 4)

    roles = {place.name: place.role for place in places(Late())}
    assert (roles["body.weight"], roles["head.weight"], roles["position.weight"]) == ("matrix", "head", "embedding")


def test_only_what_is_called_an_embedding_is_one() -> None:
    model = nn.ModuleDict(
        {"embedder": nn.ModuleDict({"body": nn.Linear(4, 4)}), "embed": nn.Linear(4, 4), "out": nn.Linear(4, 2)}
    )
    roles = {place.name: place.role for place in places(model)}
    assert (roles["embedder.body.weight"], roles["embed.weight"]) == ("matrix", "embedding")


def test_what_a_batch_shares_is_no_matrix_and_what_is_called_a_weight_is() -> None:
    class Everything(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cls_token = nn.Parameter(torch.zeros(1, 1, 12))
            self.layer_scale = nn.Parameter(torch.zeros(12, 1, 1))
            self.gamma = nn.Parameter(torch.zeros(1, 12))
            self.class_embedding = nn.Parameter(torch.zeros(12))
            self.pos_embed = nn.Parameter(torch.zeros(1, 5, 12))
            self.pos_embedding = nn.Parameter(torch.zeros(1, 5, 12))
            self.position_embeddings = nn.Parameter(torch.zeros(1, 5, 12))
            self.pos_emb = nn.Parameter(torch.zeros(5, 12))
            self.register_tokens = nn.Parameter(torch.zeros(1, 4, 12))
            self.one_word = nn.Embedding(1, 12)
            self.experts = nn.Parameter(torch.zeros(4, 12, 12))
            self.depthwise = nn.Conv1d(24, 24, 4, groups=24)
            self.gate = nn.Linear(12, 1)
            self.squeeze = nn.Conv2d(12, 1, 1)
            self.series = nn.LSTM(1, 3)
            self.pruned = nn.Linear(12, 1)
            self.parametrized = nn.utils.parametrizations.weight_norm(nn.Linear(12, 3))
            self.score = nn.Linear(12, 1)

    model = Everything()
    prune.identity(model.pruned, "weight")
    roles = {place.name: place.role for place in places(model) if not place.name.endswith("bias")}
    found = {role: {name for name in roles if roles[name] == role} for role in roles.values()}
    assert found == {
        "vector": {
            "cls_token", "layer_scale", "gamma", "class_embedding", "parametrized.parametrizations.weight.original0",
            "series.bias_ih_l0", "series.bias_hh_l0",
        },
        "embedding": {
            "pos_embed", "pos_embedding", "position_embeddings", "pos_emb", "register_tokens", "one_word.weight",
        },
        "matrix": {
            "experts", "depthwise.weight", "gate.weight", "squeeze.weight", "series.weight_ih_l0",
            "series.weight_hh_l0", "pruned.weight_orig", "parametrized.parametrizations.weight.original1",
        },
        "head": {"score.weight"},
    }  # fmt: skip


def test_a_head_of_one_number_is_the_head_also_after_a_token() -> None:
    class Late(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body, self.head = nn.Linear(4, 4), nn.Linear(4, 1)
            self.token = nn.Parameter(torch.zeros(1, 1, 4))

    roles = {place.name: place.role for place in places(Late())}
    assert (roles["body.weight"], roles["head.weight"], roles["token"]) == ("matrix", "head", "vector")
