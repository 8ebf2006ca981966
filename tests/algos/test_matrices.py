"""Every matrix optimizer sorts a model's parameters alike, and sees convolutions and fused weights as matrices."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from algos import catalogue
from algos.matrices import MatrixOptimizer, as_matrices
from algos.parameters import describe
from tests.algos.optimizers.test_muon import Block

KINDS = ("muon", "normuon", "dion", "aurora", "muon_hyperball", "soap_muon")


@pytest.mark.parametrize("name", KINDS)
def test_hidden_matrices_have_the_rule_and_the_rest_the_fallback(name: str) -> None:
    model, build = Block(), catalogue.load("optimizers", name).build
    assert issubclass(build, MatrixOptimizer)  # type: ignore[arg-type]
    rows = {row.name: row for row in describe(build(model, fallback_weight_decay=0.1), model)}
    matrices = {name for name, row in rows.items() if row.rule != "fallback"}
    assert matrices == {"qkv.weight", "conv.weight", "up.weight"}
    assert {name for name, row in rows.items() if row.group == "fused matrices"} == {"qkv.weight"}
    assert {name for name in rows.keys() - matrices if rows[name].weight_decay} == {"head.weight"}
    assert rows.keys() == dict(model.named_parameters()).keys()


@pytest.mark.parametrize("name", KINDS)
def test_without_a_model_the_rank_decides(name: str) -> None:
    params = [nn.Parameter(torch.ones(shape)) for shape in ((3, 2), (4,), (2, 2, 2), ())]
    groups = catalogue.load("optimizers", name).build(params).param_groups
    assert {tuple(param.shape) for param in groups[0]["params"]} == {(3, 2), (2, 2, 2)}
    assert groups[1]["rule"] == "fallback"
    with pytest.raises(ValueError, match=r"\(4,\) is not a matrix.*rule='fallback'"):
        catalogue.load("optimizers", name).build([{"params": [nn.Parameter(torch.ones(4))]}])


def test_a_fused_weight_is_its_parts_on_top_of_one_another() -> None:
    weight = torch.arange(24.0).reshape(6, 2, 2, 1)
    matrices = as_matrices(weight, 3)
    assert torch.equal(matrices[1], weight[2:4].reshape(2, 4))
