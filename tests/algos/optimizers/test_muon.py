"""Muon equals a plain transcription and torch.optim.Muon, and sorts parameters as its docstring says."""

import math

import pytest
import torch
from torch import Tensor, nn

from algos.noisy_quadratic import difference, give_gradient, rate, train, weights
from algos.optimizers.muon import Muon
from algos.parameters import describe

MATRICES = ((6, 4), (3, 7), (6, 4))


class Block(nn.Module):
    """Something of everything: embedding, fused and plain matrices, convolution, norm, biases, head."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(11, 4)
        self.qkv = nn.Linear(4, 12)
        self.norm = nn.LayerNorm(4)
        self.conv = nn.Conv2d(2, 3, 2)
        self.up = nn.Linear(4, 8)
        self.head = nn.Linear(8, 5)


def newton_schulz(g: Tensor) -> Tensor:
    """The published five iterations on one matrix, in its own dtype."""
    x = g.T if g.shape[0] > g.shape[1] else g
    x = x / (x.norm() + 1e-7)
    for _ in range(5):
        a = x @ x.T
        b = -4.7750 * a + 2.0315 * a @ a
        x = 3.4445 * x + b @ x
    return x.T if g.shape[0] > g.shape[1] else x


def transcription(params: list[nn.Parameter], steps: int, lr: float, mu: float, wd: float, *, nesterov: bool) -> None:
    """The authors' loop: heavy-ball momentum, Nesterov, orthogonalization, scale, decoupled decay."""
    momenta = [torch.zeros_like(param) for param in params]
    for step in range(steps):
        for index, (param, m) in enumerate(zip(params, momenta, strict=True)):
            give_gradient(param, index, step)
            assert param.grad is not None
            m.mul_(mu).add_(param.grad)
            o = newton_schulz((param.grad + mu * m if nesterov else m).flatten(1)).view_as(param)
            rows, columns = param.flatten(1).shape
            eta = rate(lr, step)
            param.data = param.data * (1 - eta * wd) - eta * math.sqrt(max(1.0, rows / columns)) * o


def test_two_steps_by_hand() -> None:
    """A matrix of one number has one singular value, which goes to p(p(p(p(p(1))))) with p(s) = a*s + b*s^3 + c*s^5."""
    s = 1.0
    for _ in range(5):
        s = 3.4445 * s - 4.7750 * s**3 + 2.0315 * s**5
    w = nn.Parameter(torch.tensor([[1.0]], dtype=torch.float64))
    optimizer = Muon([w], lr=0.1, momentum=0.5, weight_decay=0.2, form="loop")
    w.grad = torch.tensor([[5.0]], dtype=torch.float64)
    optimizer.step()
    assert w.item() == pytest.approx(0.98 - 0.1 * s, rel=1e-12)
    w.grad = torch.tensor([[-4.0]], dtype=torch.float64)
    optimizer.step()  # m = 0.5*2.5 - 0.5*4 = -0.75, n = -0.5*4 - 0.5*0.75 < 0
    assert w.item() == pytest.approx((0.98 - 0.1 * s) * 0.98 + 0.1 * s, rel=1e-12)


@pytest.mark.parametrize("form", ["loop", "stacked"])
@pytest.mark.parametrize("nesterov", [False, True])
def test_a_hundred_steps_equal_the_transcription(form: str, nesterov: bool) -> None:
    shapes = (*MATRICES, (5, 3, 2, 2))
    ours, theirs = weights(shapes=shapes), weights(shapes=shapes)
    train(Muon(ours, form=form, momentum=0.9, weight_decay=0.1, nesterov=nesterov), ours, range(100))
    transcription(theirs, 100, 0.02, 0.9, 0.1, nesterov=nesterov)
    assert difference(ours, theirs) < 1e-9


@pytest.mark.parametrize("scaling", ["original", "match_rms_adamw"])
def test_it_is_torch_s_muon_in_bfloat16(scaling: str) -> None:
    """torch orthogonalizes in bfloat16, with three decimal digits: directions agree to those."""
    ours, theirs = weights(torch.float32, MATRICES), weights(torch.float32, MATRICES)
    train(Muon(ours, form="loop", scaling=scaling, orthogonalize_in="bfloat16"), ours, range(20))
    reference = torch.optim.Muon(theirs, lr=0.02, weight_decay=0.0, adjust_lr_fn=scaling)
    train(reference, theirs, range(20))
    moved = difference(ours, weights(torch.float32, MATRICES))
    assert difference(ours, theirs) < 0.02 * moved


@pytest.mark.parametrize("form", ["loop", "stacked"])
def test_the_fallback_is_adamw(form: str) -> None:
    shapes = ((7,), (), (5,))
    ours, theirs = weights(shapes=shapes), weights(shapes=shapes)
    train(Muon(ours, form=form, fallback_lr=0.01, fallback_weight_decay=0.1), ours, range(100))
    reference = torch.optim.AdamW(theirs, lr=0.01, betas=(0.9, 0.95), weight_decay=0.1)
    train(reference, theirs, range(100))
    assert difference(ours, theirs) < 1e-12


def test_a_model_s_parameters_go_where_the_docstring_says() -> None:
    model = Block()
    rows = {row.name: row for row in describe(Muon(model), model)}
    assert {name for name, row in rows.items() if row.rule == "muon"} == {"qkv.weight", "conv.weight", "up.weight"}
    assert {name for name, row in rows.items() if row.group == "fused matrices"} == {"qkv.weight"}
    assert rows.keys() == dict(model.named_parameters()).keys()
    assert rows["up.weight"].lr == 0.02
    assert rows["head.weight"].lr == 1e-3


def test_the_fallback_decays_only_the_head_unless_asked() -> None:
    model = Block()
    for decay_all, decayed in ((False, {"head.weight"}), (True, set(rows_of_fallback(model)))):
        optimizer = Muon(model, fallback_weight_decay=0.1, decay_all=decay_all)
        rows = describe(optimizer, model)
        assert {row.name for row in rows if row.rule == "fallback" and row.weight_decay} == decayed


def rows_of_fallback(model: nn.Module) -> list[str]:
    return [row.name for row in describe(Muon(model), model) if row.rule == "fallback"]


def test_fused_matrices_are_orthogonalized_apart() -> None:
    """Each third of a fused weight moves as it would alone."""
    fused = nn.Parameter(torch.zeros(12, 4, dtype=torch.float64))
    fused.grad = (
        torch.randn(12, 4, dtype=torch.float64) * torch.tensor([1.0, 10.0, 100.0]).repeat_interleave(4)[:, None]
    )
    thirds = [nn.Parameter(torch.zeros(4, 4, dtype=torch.float64)) for _ in range(3)]
    for third, grad in zip(thirds, fused.grad.chunk(3), strict=True):
        third.grad = grad.clone()
    Muon([{"params": [fused], "parts": 3}], lr=1.0).step()
    Muon(thirds, lr=1.0).step()
    torch.testing.assert_close(fused.detach(), torch.cat([third.detach() for third in thirds]))
    with pytest.raises(ValueError, match="not 5 matrices"):
        Muon([{"params": [fused], "parts": 5}])


def test_it_is_one_optimizer_with_one_state_dict() -> None:
    model = Block()
    optimizer = Muon(model)
    for param in model.parameters():
        param.grad = torch.ones_like(param)
    optimizer.step()
    states = optimizer.state_dict()["state"]
    assert len(states) == len(list(model.parameters()))
    assert {frozenset(state) for state in states.values()} == {
        frozenset({"momentum_buffer"}),
        frozenset({"step", "exp_avg", "exp_avg_sq"}),
    }
    with pytest.raises(ValueError, match=r"fallbak.*did you mean 'fallback'"):
        Muon([{"params": [nn.Parameter(torch.ones(2))], "rule": "fallbak"}])


@pytest.mark.parametrize("form", ["loop", "stacked"])
def test_a_population_of_a_model_is_grouped_as_the_model(form: str) -> None:
    model = Block().double()
    stacked = {name: nn.Parameter(torch.stack([param.detach()] * 2)) for name, param in model.named_parameters()}
    optimizer = Muon(model, weights=stacked, population=2, lr=[0.02, 0.01], form=form)
    assert {row.name for row in describe(optimizer) if row.rule == "muon"} == {"qkv.weight", "conv.weight", "up.weight"}
    train(optimizer, list(stacked.values()), range(5))
    for member, lr in enumerate((0.02, 0.01)):
        lone = Block().double()
        lone.load_state_dict(model.state_dict())
        train(Muon(lone, lr=lr), list(lone.parameters()), range(5))
        assert difference([each[member] for each in stacked.values()], list(lone.parameters())) < 1e-12
