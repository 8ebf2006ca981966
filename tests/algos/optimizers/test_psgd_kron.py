"""PSGD Kron equals kron_torch's algorithm in a plain transcription, and whitens what it is given."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from algos.formulas.counter_noise import normal_noise
from algos.noisy_quadratic import train, weights
from algos.optimizers.psgd_kron import PSGDKron, norm_bound
from tests.algos.parity import Case, Transcription

MIXED = ((6, 4), (3, 7), (5, 5), (5, 3, 2, 2), (7,), (), (4, 1))
HYPER = {
    "lr": 1e-3, "mu": 0.9, "rate": 0.1, "frequency": 1, "gradient": False, "largest": 8192, "save": "none",
    "merge": True, "max_rms": 1.1, "wd": 0.0, "balance": True,
}  # fmt: skip


class Kron(Transcription):
    """kron_torch's Kron with every factor a full matrix, diagonal ones too, and inverses taken as inverses; with the
    deviations that algos/optimizers/psgd_kron.py states."""

    def one(self, param: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        shape: Any = (param.shape[0], -1) if group["merge"] and param.dim() > 2 else param.shape or (1,)
        g, mu = grad.reshape(shape), group["mu"]
        t = state["t"] = state.get("t", 0) + 1
        state["m"] = mu * state.get("m", torch.zeros_like(g)) + (1 - mu) * g
        n = state["m"] / (1 - mu**t)
        factors = state.setdefault("Q", [torch.eye(size, dtype=g.dtype) for size in g.shape])
        if t == 1 or t % group["frequency"] == 0:
            self._learn(factors, g if group["gradient"] else n, normal_noise(n, torch.tensor(float(t))), group)
        u = n
        for i, q in enumerate(factors):
            u = self._times(q.T @ q, u, i)
        rms = (u**2).mean().sqrt() + 1e-12
        param.sub_(group["lr"] * (group["wd"] * param + (u * min(1.0, float(group["max_rms"] / rms))).view_as(param)))

    def _learn(self, factors: list[Tensor], h: Tensor, noise: Tensor, group: dict[str, Any]) -> None:
        if group["balance"]:
            logs = torch.stack([q.abs().max().log() for q in factors])
            for q, log in zip(factors, logs, strict=True):
                q.mul_((logs.mean() - log).exp())
        a, b = h + math.sqrt(2.0**-23) * h.abs().mean() * noise, noise
        for i, q in enumerate(factors):
            a, b = self._times(q, a, i), self._times(torch.linalg.inv(q).T, b, i)
        for i, q in enumerate(factors):
            t, s = (x.movedim(i, 0).reshape(len(q), -1) @ x.movedim(i, 0).reshape(len(q), -1).T for x in (a, b))
            if self._diagonal(i, h.shape, group):
                t, s = torch.diag(t.diagonal()), torch.diag(s.diagonal())
                norm = (t + s).max()
            else:
                column = (t + s)[:, (t + s).square().sum(0).argmax()]
                x = (t + s) @ column
                norm = ((t + s) @ x).norm() / x.norm()
            q.sub_(group["rate"] / norm * torch.triu(t - s) @ q)

    @staticmethod
    def _diagonal(i: int, shape: tuple[int, ...], group: dict[str, Any]) -> bool:
        largest = i == max(range(len(shape)), key=lambda j: shape[j])
        lonely = sorted(shape)[-1] > (0, *sorted(shape))[-2]
        saved = {"none": False, "one_diag": largest, "smart_one_diag": largest and lonely, "all_diag": True}
        return len(shape) == 1 or shape[i] == 1 or shape[i] > group["largest"] or saved[group["save"]]

    @staticmethod
    def _times(matrix: Tensor, x: Tensor, i: int) -> Tensor:
        return torch.einsum("jk,k...->j...", matrix, x.movedim(i, 0)).movedim(0, i)


def _case(variant: str, theirs: dict[str, Any], form: str = "loop", **ours: Any) -> Case:
    return Case(
        "transcription of evanatyourservice/kron_torch",
        lambda params: PSGDKron(params, form=form, **ours),
        lambda params: Kron(params, **HYPER | theirs),
        variant=variant,
        shapes=MIXED,
    )


PARITY = [
    _case("defaults", {}),
    _case("without balancing: it changes no step", {"balance": False}),
    _case("stacked", {}, form="stacked"),
    _case(
        "precondition_frequency=3, whiten=gradient, weight_decay=0.1, stacked",
        {"frequency": 3, "gradient": True, "wd": 0.1},
        form="stacked", precondition_frequency=3, whiten="gradient", weight_decay=0.1, decay_all=True,
    ),
    _case("memory_save=one_diag, merge_dims=false", {"save": "one_diag", "merge": False}, memory_save="one_diag",
          merge_dims=False),
    _case("memory_save=smart_one_diag", {"save": "smart_one_diag"}, memory_save="smart_one_diag"),
    _case("memory_save=all_diag, max_rms=0.1", {"save": "all_diag", "max_rms": 0.1}, memory_save="all_diag",
          max_rms=0.1),
    _case("max_size_triangular=5, precond_lr=0.3", {"largest": 5, "rate": 0.3}, max_size_triangular=5, precond_lr=0.3),
]  # fmt: skip


@pytest.mark.parametrize("form", ["loop", "stacked"])
def test_two_steps_by_hand(form: str) -> None:
    """One number: A = q*h, B = v/q, and q shrinks or grows by at most the rate."""
    w = nn.Parameter(torch.tensor([1.0], dtype=torch.float64))
    optimizer = PSGDKron([w], lr=0.1, momentum=0.5, precond_lr=0.2, max_rms=100.0, form=form)
    expected, q, m = 1.0, 1.0, 0.0
    for t, g in ((1, 3.0), (2, -0.5)):
        v = normal_noise(w.detach(), torch.tensor(float(t))).item()
        w.grad = torch.tensor([g], dtype=torch.float64)
        optimizer.step()
        m = 0.5 * m + 0.5 * g
        n = m / (1 - 0.5**t)
        a, b = q * (n + 2**-11.5 * abs(n) * v), v / q
        q -= 0.2 * (a * a - b * b) / (a * a + b * b) * q
        expected -= 0.1 * q * q * n
        assert w.item() == pytest.approx(expected, rel=1e-12)


def test_it_whitens() -> None:
    """Gradients L z R with z of independent normal numbers end with a preconditioned covariance near I: P = Q^T Q is
    their inverse root."""
    generator = torch.Generator().manual_seed(0)
    left, right = (torch.diag(torch.tensor(d, dtype=torch.float64)) for d in ([4.0, 1.0, 0.25], [2.0, 1.0, 0.5, 0.1]))
    w = nn.Parameter(torch.zeros(3, 4, dtype=torch.float64))
    optimizer = PSGDKron([w], momentum=0.0, precond_lr=0.1, max_rms=1e6)
    found: list[Tensor] = []

    def note(params: Any, grads: Any, directions: Any) -> Any:
        found.append(directions[0].clone())
        return directions

    optimizer.directing = note
    for step in range(900):
        w.grad = left @ torch.randn(3, 4, generator=generator, dtype=torch.float64) @ right
        if step == 250:
            optimizer.param_groups[0]["precond_lr"] = 0.01
        optimizer.step()
    deviations = torch.stack(found[400:]).std(0)
    assert (deviations.log().abs() < math.log(1.25)).all(), deviations


def test_its_bound_is_below_the_spectral_norm_and_within_a_factor_of_it() -> None:
    for seed in range(20):
        x = torch.randn(8, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        matrix, norm = x @ x.mT, torch.linalg.matrix_norm(x, 2) ** 2
        assert 0.7 * norm < norm_bound(matrix) < (1 + 1e-12) * norm
    assert norm_bound(torch.zeros(3, 3)) == 0


@pytest.mark.parametrize("form", ["loop", "stacked"])
def test_factors_stay_triangular_and_change_when_due(form: str) -> None:
    params = weights(shapes=((4, 3), (4, 3)))
    optimizer = PSGDKron(params, precondition_frequency=4, form=form)
    seen = [torch.eye(4, dtype=torch.float64)]
    for step in range(9):
        train(optimizer, params, [step])
        seen.append(optimizer.state[params[0]]["Q_0"].clone())
        assert torch.equal(seen[-1], seen[-1].triu())
        assert (seen[-1].diagonal() > 0).all()
    assert [step for step in range(1, 10) if not torch.equal(seen[step], seen[step - 1])] == [1, 4, 8]


def test_a_tensor_without_a_gradient_keeps_its_factors() -> None:
    """Two hundred steps, at each of which they would double, leave nothing that overflows."""
    w = nn.Parameter(torch.ones(3, 2))
    optimizer = PSGDKron([w], precond_lr=1.0)
    for _ in range(200):
        w.grad = torch.zeros_like(w)
        optimizer.step()
    assert torch.equal(w.detach(), torch.ones(3, 2))
    w.grad = torch.ones_like(w)
    optimizer.step()
    assert w.isfinite().all()
    assert (w < 1).all()


def test_torch_s_generator_is_left_alone_and_does_not_matter() -> None:
    led = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        before = torch.get_rng_state()
        params = weights()
        train(PSGDKron(params), params, range(5))
        assert torch.equal(torch.get_rng_state(), before)
        led.append([param.detach() for param in params])
    assert all(torch.equal(a, b) for a, b in zip(*led, strict=True))
