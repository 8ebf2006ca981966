"""SAM: by hand, against a plain in-place transcription of algorithm 1, and over micro-batches."""

import pytest
import torch
from torch import nn

from algos.contracts import Gradient
from algos.losses.cross_entropy import CrossEntropy
from algos.wrappers.sam import Sam


class Curve(nn.Module):
    """Predicts w itself, so that a loss is a function of w."""

    def __init__(self, *start: float):
        super().__init__()
        self.w = nn.Parameter(torch.tensor(start, dtype=torch.float64))

    def forward(self, inputs):
        return self.w.expand(len(inputs), -1)


def half_square(predictions, targets):
    return 0.5 * predictions.square().sum(-1).mean(), float(len(targets))


def sam_gradient(oracle, batch, rho, log=None):
    def inner(batch, **where):
        if log is not None:
            log.append(where)
        return oracle.gradient(batch, **where)

    return Sam(rho=rho).gradient(oracle, batch, inner)


def network(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 3)).double()


def batch_of(size, seed=1):
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(size, 4, dtype=torch.float64, generator=generator)
    return inputs, torch.randint(3, (size,), generator=generator)


def test_two_steps_by_hand(plain_oracle):
    """On |w|^2/2 the gradient at w + rho*w/|w| is w*(1 + rho/|w|). rho = 1, lr = 1/2; from (3, 4), |w| = 5: (3.6, 4.8);
    then from (1.2, 1.6), |w| = 2: (1.8, 2.4)."""
    model = Curve(3.0, 4.0)
    oracle, batch = plain_oracle(model, half_square), (torch.zeros(1, 1), torch.zeros(1))
    result = sam_gradient(oracle, batch, 1.0)
    assert result.grads["w"].tolist() == pytest.approx([3.6, 4.8], abs=1e-11)
    assert result.loss.item() == 12.5  # at w, not above
    with torch.no_grad():
        model.w -= 0.5 * result.grads["w"]
    assert sam_gradient(oracle, batch, 1.0).grads["w"].tolist() == pytest.approx([1.8, 2.4], abs=1e-11)
    assert oracle.gradients == 4


def transcription(model, batch, rho, lr):
    """Algorithm 1 in place: climb, differentiate, climb down, step. BatchNorm's statistics rest in the second pass."""
    inputs, targets = batch
    weights = list(model.parameters())
    nn.functional.cross_entropy(model(inputs), targets).backward()
    norm = torch.sqrt(sum(weight.grad.square().sum() for weight in weights))
    climbs = [rho * weight.grad / norm for weight in weights]
    for norm_layer in (m for m in model.modules() if isinstance(m, nn.BatchNorm1d)):
        norm_layer.track = norm_layer.momentum
        norm_layer.momentum = 0.0
    with torch.no_grad():
        for weight, climb in zip(weights, climbs, strict=True):
            weight += climb
            weight.grad = None
    counted = [m.num_batches_tracked.clone() for m in model.modules() if isinstance(m, nn.BatchNorm1d)]
    nn.functional.cross_entropy(model(inputs), targets).backward()
    for norm_layer, count in zip((m for m in model.modules() if isinstance(m, nn.BatchNorm1d)), counted, strict=True):
        norm_layer.momentum = norm_layer.track
        norm_layer.num_batches_tracked.copy_(count)
    with torch.no_grad():
        for weight, climb in zip(weights, climbs, strict=True):
            weight -= climb
            weight -= lr * weight.grad
            weight.grad = None


def test_it_follows_the_transcription_for_50_steps(plain_oracle):
    ours, theirs = network(), network()
    oracle = plain_oracle(ours, CrossEntropy())
    for step in range(50):
        batch = batch_of(16, seed=step)
        grads = sam_gradient(oracle, batch, 0.1).grads
        with torch.no_grad():
            for name, weight in ours.named_parameters():
                weight -= 0.1 * grads[name]
        transcription(theirs, batch, 0.1, 0.1)
    for (name, mine), reference in zip(ours.state_dict().items(), theirs.state_dict().values(), strict=True):
        torch.testing.assert_close(mine, reference, rtol=0, atol=1e-9, msg=name)


@pytest.mark.parametrize("size", [12, 11])
def test_micro_batches_give_the_whole_batchs_gradient(plain_oracle, size):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3)).double()
    batch = batch_of(size)
    whole = sam_gradient(plain_oracle(model, CrossEntropy()), batch, 0.1)
    parted = sam_gradient(plain_oracle(model, CrossEntropy(), parts=3), batch, 0.1)
    for name in whole.grads:
        torch.testing.assert_close(parted.grads[name], whole.grads[name], rtol=1e-12, atol=1e-14)


def test_batchnorm_moves_in_the_first_pass_only(plain_oracle):
    model, plain = network(), network()
    passes = []
    sam_gradient(plain_oracle(model, CrossEntropy()), batch_of(16), 0.5, passes)
    plain(batch_of(16)[0])
    assert [where.get("buffers", "update") for where in passes] == ["update", "keep"]
    for name, buffer in model.named_buffers():
        assert torch.equal(buffer, dict(plain.named_buffers())[name]), name


def test_the_weights_are_never_moved(plain_oracle):
    model = network()
    before = {name: (weight.clone(), weight._version) for name, weight in model.named_parameters()}
    sam_gradient(plain_oracle(model, CrossEntropy()), batch_of(16), 0.5)
    for name, weight in model.named_parameters():
        assert torch.equal(weight, before[name][0])
        assert weight._version == before[name][1]


def test_a_zero_gradient_stays_zero(plain_oracle):
    model = Curve(0.0, 0.0)
    result = sam_gradient(plain_oracle(model, half_square), (torch.zeros(1, 1), torch.zeros(1)), 0.05)
    assert result.grads["w"].tolist() == [0.0, 0.0]


def test_a_small_rho_adds_the_curvature_times_the_gradient(plain_oracle):
    """g(w + e) = g + rho*H*g/|g| + O(rho^2): on w^4/4 at 2, g = 8, H = 12, so the slope in rho is 12."""
    model = Curve(2.0)
    oracle = plain_oracle(model, lambda predictions, targets: (predictions.pow(4).mean() / 4, 1.0))
    rho = 1e-5
    found = sam_gradient(oracle, (torch.zeros(1, 1), torch.zeros(1)), rho).grads["w"].item()
    assert (found - 8) / rho == pytest.approx(12, rel=1e-4)


def test_an_overflow_in_either_pass_is_told(plain_oracle):
    model = Curve(1.0)
    oracle = plain_oracle(model, half_square)
    for flags in ([True, False], [False, True], [True, True]):
        told = iter(flags)

        def inner(batch, told=told, **where):
            return Gradient(torch.tensor(0.0), {"w": torch.ones(1, dtype=torch.float64)}, torch.tensor(next(told)))

        assert bool(Sam().gradient(oracle, None, inner).finite) == all(flags)
