"""Every matrix optimizer sorts a model's parameters alike, and sees convolutions and fused weights as matrices."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from algos import catalogue
from algos.matrices import MatrixOptimizer, as_matrices, is_fused
from algos.parameters import Place, describe
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


FUSED = {
    "blocks.0.attn.qkv.weight": (36, 12),
    "attn.to_qkv.weight": (36, 12, 1, 1),
    "Wqkv.weight": (36, 12),
    "self_attn.qkv_proj.weight": (36, 12),
    "self_attn.in_proj_weight": (36, 12),
    "in_proj.weight": (36, 12),
    "h.0.attn.c_attn.weight": (36, 12),
    "qkv": (36, 12),
}

WHOLE = {
    "lin_proj.weight": (36, 12),
    "main_proj.weight": (36, 12),
    "qkv.lora_A.weight": (36, 12),
    "attn.qkv_A.weight": (3, 12),  # an adapter of rank 3
    "mixer.in_proj.weight": (48, 12),  # Mamba: two of twice the width
    "self_attn.qkv_proj.weight": (96, 64),  # 4 query heads of 16, one of keys, one of values
    "h.0.attn.c_attn.weight": (12, 36),  # Hugging Face's Conv1D: (in, 3*out)
    "attention.query_key_value.weight": (36, 12),  # GPT-NeoX, BLOOM: heads alternate, thirds are not q, k and v
    "self_attention.query_key_value.weight": (14, 12),  # Falcon: one head of keys
    "in_proj_bias": (3,),
}


@pytest.mark.parametrize(("name", "shape"), [*FUSED.items(), *WHOLE.items()])
def test_a_weight_is_split_in_three_only_where_name_and_shape_say_so(name: str, shape: tuple[int, ...]) -> None:
    place = Place((name,), nn.Parameter(torch.zeros(shape)), "matrix")
    assert is_fused(place) == (FUSED.get(name) == shape)


def test_torch_s_attention_is_fused_and_a_look_alike_is_not() -> None:
    layers = {"attention": nn.MultiheadAttention(4, 1), "main_proj": nn.Linear(4, 12), "out": nn.Linear(4, 2)}
    model = nn.ModuleDict(layers)
    rows = {row.name: row.group for row in describe(catalogue.load("optimizers", "muon").build(model), model)}
    assert (rows["attention.in_proj_weight"], rows["main_proj.weight"]) == ("fused matrices", "matrices")


@pytest.mark.parametrize("name", [*(name for name in KINDS if name != "dion"), "scion"])
def test_stacked_experts_in_a_group_of_as_many_parts_move_apart(name: str) -> None:
    """Each as it would alone, also where each is a convolution. (Dion's parts begin with other factors each.)"""
    build = catalogue.load("optimizers", name).build
    for shape in ((5, 3), (4, 2, 2, 2)):
        grads = torch.randn(3, 3, *shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
        begin = torch.randn(3, *shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
        stack, alone = nn.Parameter(begin.clone()), [nn.Parameter(each.clone()) for each in begin]
        optimizers = build([{"params": [stack], "parts": 3}]), build(alone)
        for grad in grads:
            stack.grad = grad.clone()
            for expert, own in zip(alone, grad, strict=True):
                expert.grad = own.clone()
            for optimizer in optimizers:
                optimizer.step()
        torch.testing.assert_close(
            stack.detach(), torch.stack([each.detach() for each in alone]), rtol=1e-9, atol=1e-11
        )
