"""Curvature of attention: torch's fused kernels have no second derivative, its plain one has."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from algos.curvature import twice_differentiable
from algos.finding import InputError
from algos.optimizers.sophia import Sophia

CURE = r"sophia: .*fused attention has none; put `with sdpa_kernel\(SDPBackend.MATH\):`"


def loss_of(param: torch.Tensor) -> torch.Tensor:
    q = param.reshape(1, 1, 3, 2)
    return F.scaled_dot_product_attention(q, q, q, is_causal=True).square().sum()


def made() -> tuple[nn.Parameter, Sophia]:
    torch.manual_seed(0)
    param = nn.Parameter(torch.randn(6))
    return param, Sophia([param])


def test_fused_attention_in_a_loop_of_one_s_own_is_told_with_its_cure() -> None:
    param, optimizer = made()
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        (param.grad,) = torch.autograd.grad(loss_of(param), [param], create_graph=True)
    before = param.detach().clone()
    with pytest.raises(InputError, match=CURE.replace("sophia", "Sophia")):
        optimizer.step()
    assert torch.equal(param, before)


def test_the_cure_cures() -> None:
    param, optimizer = made()
    before = param.detach().clone()
    with sdpa_kernel(SDPBackend.MATH):
        (param.grad,) = torch.autograd.grad(loss_of(param), [param], create_graph=True)
    optimizer.step()
    assert not torch.equal(param, before)


def test_within_it_the_hessian_is_that_of_attention_written_out() -> None:
    def written_out(param: torch.Tensor) -> torch.Tensor:
        q = param.reshape(3, 2)
        scores = (q @ q.T / 2**0.5).masked_fill(torch.ones(3, 3).triu(1).bool(), -torch.inf)
        return (scores.softmax(-1) @ q).square().sum()

    param = torch.randn(6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    expected = torch.autograd.functional.hessian(written_out, param)
    with twice_differentiable():
        found = torch.autograd.functional.hessian(loss_of, param)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


def test_a_model_that_insists_on_a_fused_kernel_is_told_and_other_errors_pass() -> None:
    def insists(param: torch.Tensor) -> torch.Tensor:
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            return loss_of(param)

    with pytest.raises(InputError, match="fused attention has none"), twice_differentiable():
        torch.autograd.functional.hessian(insists, torch.randn(6))
    with pytest.raises(RuntimeError, match="other"), twice_differentiable():
        raise RuntimeError("other")
