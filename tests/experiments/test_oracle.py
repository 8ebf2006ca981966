"""The oracle: micro-batches add up to the batch, buffers move when they should, products are exact."""

from __future__ import annotations

import copy
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch import nn

from algos import catalogue
from algos.contracts import Progress
from algos.gradient_descent import GradientDescent
from algos.optimizers.adahessian import AdaHessian
from algos.optimizers.adamw import AdamW
from algos.precision.fp16 import Fp16
from experiments.data.batch import Batch
from experiments.oracle import TaskOracle


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def oracle_for(model: nn.Module, accumulate: int = 1, precision: Any = None) -> TaskOracle:
    loss = catalogue.load("losses", "cross_entropy").build()
    precision = precision or catalogue.load("precision", "fp32").build()
    return TaskOracle(model, loss, precision, accumulate=accumulate, device=torch.device("cpu"))


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3)).double()


def batch(size: int = 7) -> Batch:
    return Batch((torch.randn(size, 4, dtype=torch.float64),), torch.randint(0, 3, (size,)))


@pytest.mark.parametrize("parts", [2, 3, 7])
def test_micro_batches_of_uneven_size_give_the_whole_batch_s_gradient(parts: int) -> None:
    model, data = mlp(), batch(7)
    whole = oracle_for(model).gradient(data)
    expected = {name: grad.clone() for name, grad in whole.grads.items()}
    found = oracle_for(model, accumulate=parts).gradient(data)
    torch.testing.assert_close(found.loss, whole.loss, rtol=1e-14, atol=0)
    for name, grad in expected.items():
        torch.testing.assert_close(found.grads[name], grad, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("parts", [1, 3])
def test_gradient_at_other_weights_is_the_gradient_of_a_model_that_has_them(parts: int) -> None:
    model, data = mlp(), batch()
    at = {name: p.detach() + 0.1 for name, p in model.named_parameters()}
    moved = copy.deepcopy(model)
    moved.load_state_dict(at)
    expected = oracle_for(moved).gradient(data)
    found = oracle_for(model, accumulate=parts).gradient(data, at=at)
    torch.testing.assert_close(found.loss, expected.loss, rtol=1e-14, atol=0)
    for name, grad in expected.grads.items():
        torch.testing.assert_close(found.grads[name], grad, rtol=1e-12, atol=1e-15)


def test_the_hessian_s_product_is_that_of_the_hessian_written_out() -> None:
    model, data = mlp(), batch()
    names = [name for name, _ in model.named_parameters()]
    shapes = [p.shape for p in model.parameters()]
    flat = torch.cat([p.detach().flatten() for p in model.parameters()])

    def loss(weights: torch.Tensor) -> torch.Tensor:
        parts = torch.split(weights, [shape.numel() for shape in shapes])
        at = {name: part.view(shape) for name, part, shape in zip(names, parts, shapes, strict=True)}
        out = torch.func.functional_call(model, at, data.inputs)
        return nn.functional.cross_entropy(out, data.targets)

    hessian = torch.autograd.functional.hessian(loss, flat)
    vectors = {name: torch.randn(shape, dtype=torch.float64) for name, shape in zip(names, shapes, strict=True)}
    expected = hessian @ torch.cat([vectors[name].flatten() for name in names])
    for parts in (1, 3):
        found = oracle_for(model, accumulate=parts).product(data, vectors)
        torch.testing.assert_close(torch.cat([found[n].flatten() for n in names]), expected, rtol=1e-9, atol=1e-12)


def test_the_gauss_newton_product_is_the_hessian_s_where_the_model_is_linear() -> None:
    model = nn.Linear(4, 3).double()
    data = batch()
    vectors = {name: torch.randn_like(p) for name, p in model.named_parameters()}
    oracle = oracle_for(model)
    hessian = oracle.product(data, vectors, matrix="hessian")
    ggn = oracle.product(data, vectors, matrix="ggn")
    for name in vectors:
        torch.testing.assert_close(ggn[name], hessian[name], rtol=1e-10, atol=1e-14)
    bent = mlp()
    vectors = {name: torch.randn_like(p) for name, p in bent.named_parameters()}
    product = oracle_for(bent).product(data, vectors, matrix="ggn")
    for parts in (2, 3):
        found = oracle_for(bent, accumulate=parts).product(data, vectors, matrix="ggn")
        for name in vectors:
            torch.testing.assert_close(found[name], product[name], rtol=1e-10, atol=1e-14)
    assert sum(float((product[n] * vectors[n]).sum()) for n in vectors) > 0, "the Gauss-Newton matrix is positive"


class Attends(nn.Module):
    """(N, 4) -> (N, 3) through attention over two tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.inside, self.out = nn.Linear(2, 6), nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.inside(x.reshape(-1, 1, 2, 2)).chunk(3, dim=-1)
        mixed = nn.functional.scaled_dot_product_attention(q, k, v)
        found: torch.Tensor = self.out(mixed.reshape(-1, 4))
        return found


@pytest.mark.parametrize("accumulate", [1, 3])
def test_second_derivatives_go_through_attention(accumulate: int) -> None:
    """Though torch's fused kernel, which it chooses here, has none: the Hessian's product is that of finite differences
    of first ones, the other matrix's is of the same parameters, and a gradient's graph gives the same product."""
    model, data = Attends().double(), batch()
    params = dict(model.named_parameters())
    fused = torch.autograd.grad(model(*data.inputs).square().sum(), list(params.values()), create_graph=True)
    with pytest.raises(RuntimeError, match="is not implemented"):
        torch.autograd.grad(sum(grad.sum() for grad in fused), list(params.values()))

    oracle, vectors = oracle_for(model, accumulate), {name: torch.randn_like(p) for name, p in params.items()}
    product = oracle.product(data, vectors)
    ahead, behind = (
        oracle.gradient(data, at={name: p.detach() + h * vectors[name] for name, p in params.items()}).grads
        for h in (1e-5, -1e-5)
    )
    at = {name: p.detach().requires_grad_() for name, p in params.items()}
    graph = oracle.gradient(data, at=at, create_graph=True).grads
    graphed = torch.autograd.grad(list(graph.values()), list(at.values()), list(vectors.values()))
    for (name, found), again in zip(product.items(), graphed, strict=True):
        torch.testing.assert_close(found, (ahead[name] - behind[name]) / 2e-5, rtol=1e-6, atol=1e-8)
        torch.testing.assert_close(again, found, rtol=1e-12, atol=1e-14)
    gauss_newton = oracle.product(data, vectors, matrix="ggn")
    assert sum(float((gauss_newton[name] * vectors[name]).sum()) for name in params) > 0, "it is positive"


def test_batch_norm_moves_once_per_micro_batch_of_an_updating_pass_and_never_in_a_keeping_one() -> None:
    model = nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Linear(5, 3)).double()
    data = batch(8)
    oracle = oracle_for(model, accumulate=2)
    at = {name: p.detach() + 0.1 for name, p in model.named_parameters()}
    oracle.gradient(data, buffers="keep")
    oracle.gradient(data, at=at, buffers="keep")
    oracle.loss(data)
    assert int(model[1].num_batches_tracked) == 0
    assert model[1].running_mean.abs().sum() == 0
    oracle.gradient(data)
    assert int(model[1].num_batches_tracked) == 2
    oracle.gradient(data, at=at, buffers="update")
    assert int(model[1].num_batches_tracked) == 4


def test_a_graph_is_split_by_its_labelled_nodes() -> None:
    class Nodes(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(4, 3)

        def forward(self, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
            return self.linear(x + x[edges[0]].mean(0))

    model = Nodes().double()
    x, edges = torch.randn(10, 4, dtype=torch.float64), torch.randint(0, 10, (2, 20))
    data = Batch((x, edges), torch.randint(0, 3, (5,)), torch.tensor([0, 3, 4, 7, 9]))
    whole = {name: grad.clone() for name, grad in oracle_for(model).gradient(data).grads.items()}
    parts = oracle_for(model, accumulate=2).gradient(data).grads
    for name, grad in whole.items():
        torch.testing.assert_close(parts[name], grad, rtol=1e-12, atol=1e-15)


def test_gradients_are_counted_where_they_are_evaluated() -> None:
    oracle = oracle_for(mlp(), accumulate=3)
    oracle.gradient(batch())
    oracle.gradient(batch(), at={})
    oracle.loss(batch())
    assert oracle.gradients == 2


class Exact(Fp16):
    """Scales losses and computes in the weights' own precision: powers of two change no digit."""

    def autocast(self, device_type: str) -> Any:
        return nullcontext()


@pytest.mark.parametrize("parts", [1, 3])
def test_where_losses_are_scaled_everything_comes_back_unscaled_and_finite_is_told(parts: int) -> None:
    model, data = mlp(), batch(7)
    at = {name: p.detach() + 0.1 for name, p in model.named_parameters()}
    vectors = {name: torch.randn_like(p) for name, p in model.named_parameters()}

    def answers(precision: Any) -> list[Any]:
        oracle = oracle_for(model, parts, precision)
        gradients = [oracle.gradient(data), oracle.gradient(data, at=at), oracle.gradient(data, create_graph=True)]
        assert [each.finite is None for each in gradients] == [precision is None] * 3
        assert precision is None or all(map(bool, [each.finite for each in gradients]))
        losses = [each.loss.detach() for each in gradients]
        products = [oracle.product(data, vectors, matrix=matrix) for matrix in ("hessian", "ggn")]
        return [losses, *[each.grads for each in gradients], *products]

    plain = copy.deepcopy([{k: v.detach() for k, v in each.items()} if isinstance(each, dict) else each
                           for each in answers(None)])  # fmt: skip
    scaled = answers(Exact(init_scale=1024.0))
    for one, other in zip(plain[1:], scaled[1:], strict=True):
        for name, tensor in one.items():
            torch.testing.assert_close(other[name].detach(), tensor, rtol=1e-12, atol=1e-15)
    torch.testing.assert_close(plain[0], scaled[0])


def test_an_update_that_is_not_finite_is_counted_and_not_applied() -> None:
    """float16's largest number is 65504: at a scale of 2^40 every gradient overflows; each skip halves the scale."""
    model = mlp().float()
    data = Batch((torch.randn(7, 4),), torch.randint(0, 3, (7,)))
    oracle = oracle_for(model, precision=Fp16(init_scale=2.0**40, growth_interval=10**6))
    optimizer = AdamW(model, lr=0.1)
    algorithm = GradientDescent(optimizer)
    before = [p.detach().clone() for p in model.parameters()]
    moved = []
    for update in range(40):
        algorithm.step(oracle, data, Progress(update, 0.0))
        moved.append(any(not torch.equal(p, q) for p, q in zip(model.parameters(), before, strict=True)))
    skips = moved.index(True)
    assert 10 < skips < 40
    assert (oracle.updates, oracle.gradients, oracle.skipped) == (40, 40, skips)
    assert oracle.scale == 2.0 ** (40 - skips)
    assert int(optimizer.state[model[0].weight]["step"]) == 40 - skips, "skipped updates are no steps of the optimizer"
    assert all(bool(p.isfinite().all()) for p in model.parameters())
    saved = oracle.state_dict()
    other = oracle_for(model, precision=Fp16())
    other.load_state_dict(saved)
    assert (other.scale, other.skipped) == (oracle.scale, skips)


def test_curvature_that_is_not_finite_skips_the_update_too() -> None:
    """And the optimizer asks for it again at the next."""
    model = mlp().float()
    data = Batch((torch.randn(7, 4),), torch.randint(0, 3, (7,)))
    oracle = oracle_for(model, precision=Fp16(init_scale=1.0))
    product = oracle.product

    def overflows(*given: Any, **more: Any) -> Any:
        return {name: tensor * torch.inf for name, tensor in product(*given, **more).items()}

    optimizer = AdaHessian(model, update_period=5)
    algorithm = GradientDescent(optimizer)
    oracle.product = overflows  # type: ignore[method-assign]
    algorithm.step(oracle, data, Progress(0, 0.0))
    assert oracle.skipped == 1
    assert optimizer.wants_curvature
    oracle.product = product  # type: ignore[method-assign]
    algorithm.step(oracle, data, Progress(1, 0.0))
    assert oracle.skipped == 1
    assert not optimizer.wants_curvature
    assert all(bool(tensor.isfinite().all()) for tensor in optimizer.state[model[0].weight].values())


def test_fp16_trains_as_float32_does_within_its_rounding() -> None:
    data = [Batch((torch.randn(64, 4),), torch.randint(0, 3, (64,))) for _ in range(20)]
    ended = []
    for precision in (None, Fp16()):
        torch.manual_seed(1)
        model = mlp().float()
        oracle, algorithm = oracle_for(model, 2, precision), GradientDescent(AdamW(model, lr=0.01))
        losses = [algorithm.step(oracle, each, Progress(i, 0.0))["loss"] for i, each in enumerate(data)]
        ended.append(torch.stack(losses).detach())
    torch.testing.assert_close(ended[0], ended[1], rtol=5e-3, atol=0)
    assert not torch.equal(ended[0], ended[1])
