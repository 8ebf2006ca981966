"""GradientDescent: how components nest, in which order, and what a schedule scales."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from algos.contracts import Component, Gradient, InnerGradient, Oracle, Progress
from algos.finding import InputError
from algos.gradient_descent import GradientDescent
from algos.optimizers.adahessian import AdaHessian
from algos.optimizers.lbfgs import LBFGS
from algos.optimizers.lion import Lion
from algos.optimizers.sgd import SGD
from algos.optimizers.sophia import Sophia


def mean_loss(predictions: Tensor, targets: Tensor) -> tuple[Tensor, float]:
    return nn.functional.cross_entropy(predictions, targets), float(len(targets))


class Told(Component):
    """Adds its letter to a shared list at each point."""

    def __init__(self, letter: str, heard: list[str]):
        self.letter, self.heard = letter, heard

    def gradient(self, oracle: Oracle, batch: Any, inner: InnerGradient) -> Gradient:
        result = inner(batch)
        self.heard.append(f"gradient {self.letter}")
        return result

    def direction(self, params: Any, grads: Any, directions: Sequence[Tensor], progress: Progress) -> Sequence[Tensor]:
        self.heard.append(f"direction {self.letter}")
        return directions

    def updated(self, oracle: Oracle, progress: Progress) -> dict[str, Tensor]:
        self.heard.append(f"updated {self.letter} {progress.update}")
        return {}

    @contextmanager
    def evaluating(self, oracle: Oracle) -> Iterator[None]:
        self.heard.append(f"enter {self.letter}")
        yield
        self.heard.append(f"leave {self.letter}")

    def finalize(self, model: nn.Module) -> None:
        self.heard.append(f"finalize {self.letter}")


def test_components_nest_innermost_first_and_evaluate_outermost_first(plain_oracle: Any) -> None:
    """So that a mask, which is innermost, has the last word on an average."""
    heard: list[str] = []
    model = nn.Linear(2, 2)
    oracle = plain_oracle(model, mean_loss)
    algorithm = GradientDescent(Lion(model.parameters(), lr=0.1), [Told("a", heard), Told("b", heard)])
    batch = (torch.ones(3, 2), torch.tensor([0, 1, 1]))
    algorithm.step(oracle, batch, Progress(4, 0.5))
    assert heard == ["gradient a", "gradient b", "direction a", "direction b", "updated a 5", "updated b 5"]
    heard.clear()
    with algorithm.evaluating(oracle):
        algorithm.finalize(model)
    assert heard == ["enter b", "enter a", "finalize b", "finalize a", "leave a", "leave b"]


def test_a_component_s_gradient_is_what_the_optimizer_steps_with(plain_oracle: Any) -> None:
    class Doubles(Component):
        def gradient(self, oracle: Oracle, batch: Any, inner: InnerGradient) -> Gradient:
            result = inner(batch)
            return replace(result, grads={name: 2 * grad for name, grad in result.grads.items()})

    torch.manual_seed(0)
    batch = (torch.randn(3, 2), torch.tensor([0, 1, 1]))
    moved = []
    for components in ([], [Doubles()]):
        model = nn.Linear(2, 2)
        nn.init.ones_(model.weight)
        nn.init.zeros_(model.bias)
        algorithm = GradientDescent(SGD(model.parameters(), lr=0.1, momentum=0.0), components)
        algorithm.step(plain_oracle(model, mean_loss), batch, Progress(0, 0.0))
        moved.append(1 - model.weight.detach())
    torch.testing.assert_close(moved[1], 2 * moved[0], rtol=1e-5, atol=1e-7)


def test_a_schedule_scales_every_group_s_own_rate(plain_oracle: Any) -> None:
    model = nn.Linear(2, 2)
    optimizer = torch.optim.SGD([{"params": [model.weight], "lr": 0.1}, {"params": [model.bias], "lr": 0.01}])
    algorithm = GradientDescent(optimizer, [], lambda progress: 1 - progress.fraction)
    batch = (torch.ones(3, 2), torch.tensor([0, 1, 1]))
    for fraction in (0.0, 0.25, 0.75):
        algorithm.step(plain_oracle(model, mean_loss), batch, Progress(0, fraction))
        assert [group["lr"] for group in optimizer.param_groups] == [0.1 * (1 - fraction), 0.01 * (1 - fraction)]


def test_a_population_s_rates_are_scaled_member_by_member(plain_oracle: Any) -> None:
    weights = nn.Parameter(torch.ones(2, 3))
    optimizer = SGD([weights], population=2, lr=(0.1, 0.2), momentum=0.0)
    algorithm = GradientDescent(optimizer, [], lambda progress: 0.5)

    class Oracle_:
        def gradient(self, batch: Any) -> Gradient:
            weights.grad = torch.ones_like(weights)
            return Gradient(torch.tensor(0.0), {"weights": weights.grad})

        def update(self, apply: Any, finite: Any = None) -> None:
            apply()

    algorithm.step(Oracle_(), None, Progress(0, 0.0))  # type: ignore[arg-type]
    torch.testing.assert_close(1 - weights.detach()[:, 0], torch.tensor([0.05, 0.1]))


def test_components_that_would_mix_a_population_s_members_are_refused() -> None:
    optimizer = SGD([nn.Parameter(torch.ones(2, 3))], population=2, lr=(0.1, 0.2))
    with pytest.raises(InputError, match="members of a population"):
        GradientDescent(optimizer, [Told("a", [])])


def squared_loss(predictions: Tensor, targets: Tensor) -> tuple[Tensor, float]:
    return (predictions - targets).square().sum(-1).mean() / 2, float(len(targets))


class Scaled(nn.Module):
    """Predictions w*x, so that the squared loss has a diagonal Hessian: the mean of x^2, whatever the signs."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.tensor([1.0, -2.0, 3.0], dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        return self.w * x


def scaled_batch() -> tuple[Tensor, Tensor]:
    torch.manual_seed(0)
    return torch.randn(5, 3, dtype=torch.float64), torch.randn(5, 3, dtype=torch.float64)


@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("estimator", ["hutchinson", "gauss_newton"])
def test_curvature_is_of_the_whole_batch_at_due_steps_and_counted(
    plain_oracle: Any, estimator: str, parts: int
) -> None:
    model, batch = Scaled(), scaled_batch()
    optimizer = Sophia(model, estimator=estimator, update_period=3, betas=(0.9, 0.0))
    oracle = plain_oracle(model, squared_loss, parts)
    algorithm = GradientDescent(optimizer)
    counts = []
    for update in range(5):
        algorithm.step(oracle, batch, Progress(update, 0.0))
        torch.testing.assert_close(optimizer.state[model.w]["hessian"], batch[0].square().mean(0), rtol=1e-12, atol=0)
        counts.append(oracle.gradients)
    assert counts == [3, 4, 5, 8, 9]
    assert oracle.updates == 5


def test_signs_are_drawn_anew_at_every_due_step(plain_oracle: Any) -> None:
    """A probe that is always the same would estimate the diagonal plus the same wrong part for ever: here the mean
    over steps approaches the diagonal, and no two estimates are equal."""
    torch.manual_seed(0)
    x, y = torch.randn(20, 4, dtype=torch.float64), torch.randn(20, 1, dtype=torch.float64)
    x += 1
    model = nn.Linear(4, 1, bias=False).double()
    optimizer = AdaHessian(model, lr=1e-9)
    seen: list[Tensor] = []
    observe = optimizer.observe_curvature

    def watch(estimates: Any) -> None:
        seen.append(estimates[model.weight].clone())
        observe(estimates)

    optimizer.observe_curvature = watch  # type: ignore[method-assign]
    algorithm, oracle = GradientDescent(optimizer), plain_oracle(model, squared_loss)
    for update in range(300):
        algorithm.step(oracle, (x, y), Progress(update, 0.0))
    found = torch.stack(seen)
    exact = x.square().mean(0, keepdim=True)
    assert len({tuple(estimate.flatten().tolist()) for estimate in found}) > 4
    standard_error = found.std(0) / len(found) ** 0.5
    assert ((found.mean(0) - exact).abs() < 4 * standard_error).all()


def test_a_closure_evaluates_the_whole_batch_as_often_as_it_is_asked(plain_oracle: Any) -> None:
    """One update solves the quadratic, the same in two micro-batches; every gradient is counted."""
    solved = []
    for parts in (1, 2):
        model, batch = Scaled(), scaled_batch()
        oracle = plain_oracle(model, squared_loss, parts)
        optimizer = LBFGS(model, max_iter=30)
        before = oracle.loss(batch)
        values = GradientDescent(optimizer).step(oracle, batch, Progress(0, 0.0))
        assert torch.equal(values["loss"], before.detach())
        assert oracle.gradients == optimizer.state[model.w]["func_evals"] > 3
        assert oracle.updates == 1
        solved.append(model.w.detach())
        exact = (batch[0] * batch[1]).sum(0) / batch[0].square().sum(0)
        torch.testing.assert_close(solved[-1], exact, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(solved[0], solved[1])


def test_batch_norm_moves_once_an_update_whatever_a_line_search_asks(plain_oracle: Any) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
    oracle = plain_oracle(model, mean_loss)
    batch = (torch.randn(6, 3), torch.randint(2, (6,)))
    GradientDescent(LBFGS(model, max_iter=4)).step(oracle, batch, Progress(0, 0.0))
    assert oracle.gradients > 2
    assert int(model[1].num_batches_tracked) == 1


def test_what_cannot_be_combined_with_a_closure_is_refused(plain_oracle: Any) -> None:
    model = Scaled()
    with pytest.raises(InputError, match="Told changes the gradient, and LBFGS asks its closure for several"):
        GradientDescent(LBFGS(model), [Told("a", [])])

    class Directs(Component):
        def direction(self, params: Any, grads: Any, directions: Any, progress: Progress) -> Any:
            return directions

    for optimizer in (LBFGS(model), torch.optim.SGD(model.parameters())):
        with pytest.raises(InputError, match=r"Directs changes the directions of steps, and (LBFGS|SGD) does not show"):
            GradientDescent(optimizer, [Directs()])

    class Scaling(plain_oracle):  # type: ignore[misc]
        def gradient(self, batch: Any, **more: Any) -> Gradient:
            return replace(super().gradient(batch, **more), finite=torch.tensor(True))

    with pytest.raises(InputError, match="LBFGS asks for several gradients in one update, and fp16's scaling"):
        GradientDescent(LBFGS(model)).step(Scaling(model, squared_loss), scaled_batch(), Progress(0, 0.0))
