"""ASAM: by hand, against the authors' steps in place, and the law it is named for."""

import pytest
import torch
from torch import nn

from algos.losses.cross_entropy import CrossEntropy
from algos.wrappers.asam import Asam


class Curve(nn.Module):
    """Predicts w times its own scale, so that a loss is a function of w."""

    def __init__(self, *start: float, scale: float = 1.0):
        super().__init__()
        self.w = nn.Parameter(torch.tensor(start, dtype=torch.float64))
        self.scale = scale

    def forward(self, inputs):
        return (self.scale * self.w).expand(len(inputs), -1)


def half_square(predictions, targets):
    return 0.5 * predictions.square().sum(-1).mean(), float(len(targets))


NOTHING = (torch.zeros(1, 1), torch.zeros(1))


def test_two_steps_by_hand(plain_oracle):
    """On |w|^2/2 g = w; with eta = 0, T = |w|, so T g = w^2 and e = rho*w^3/|w^2|. From (3, 4), rho = 1:
    |w^2| = sqrt(81 + 256), and the gradient is w + e. A step of 1/2, and again."""
    model, oracle = Curve(3.0, 4.0), None
    oracle = plain_oracle(model, half_square)
    asam = Asam(rho=1.0, eta=0.0)
    w = [3.0, 4.0]
    for _ in range(2):
        length = (w[0] ** 4 + w[1] ** 4) ** 0.5
        expected = [each + each**3 / length for each in w]
        result = asam.gradient(oracle, NOTHING, oracle.gradient)
        assert result.grads["w"].tolist() == pytest.approx(expected, abs=1e-11)
        assert result.loss.item() == pytest.approx((w[0] ** 2 + w[1] ** 2) / 2)  # at w, not above
        w = [each - grad / 2 for each, grad in zip(w, expected, strict=True)]
        with torch.no_grad():
            model.w -= 0.5 * result.grads["w"]
    assert oracle.gradients == 4


def test_rescaling_the_weights_leaves_the_point_above_where_it_is(plain_oracle):
    """f(c*w) with w/c is the same function: the predictions at w + e are then the same too. SAM's are not."""
    found = []
    for scale in (1.0, 10.0):
        model = Curve(3.0 / scale, 4.0 / scale, scale=scale)
        oracle = plain_oracle(model, half_square)
        seen = []

        def inner(batch, seen=seen, oracle=oracle, **where):
            seen.append(where.get("at"))
            return oracle.gradient(batch, **where)

        Asam(rho=0.5, eta=0.0).gradient(oracle, NOTHING, inner)
        found.append(scale * seen[1]["w"])
    torch.testing.assert_close(found[0], found[1], rtol=1e-9, atol=0)
    assert not torch.equal(found[0], torch.tensor([3.0, 4.0], dtype=torch.float64))


def network(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 3)).double()


def batch_of(size, seed=1):
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(size, 4, dtype=torch.float64, generator=generator)
    return inputs, torch.randint(3, (size,), generator=generator)


def transcription(model, batch, rho, eta, lr):
    """The authors' ascent and descent in place: parameters named weight are scaled by their size, biases are not."""
    model.train()
    nn.functional.cross_entropy(model(batch[0]), batch[1]).backward()
    with torch.no_grad():
        scaled = {}
        for name, weight in model.named_parameters():
            size = weight.abs() + eta if "weight" in name else torch.ones_like(weight)
            scaled[name] = (size, size * weight.grad)
        length = torch.sqrt(sum(each.square().sum() for _, each in scaled.values()))
        climbs = {name: rho * size * each / length for name, (size, each) in scaled.items()}
        for name, weight in model.named_parameters():
            weight += climbs[name]
            weight.grad = None
    kept = {name: buffer.clone() for name, buffer in model.named_buffers()}
    nn.functional.cross_entropy(model(batch[0]), batch[1]).backward()
    with torch.no_grad():
        for name, buffer in model.named_buffers():
            buffer.copy_(kept[name])
        for name, weight in model.named_parameters():
            weight -= climbs[name] + lr * weight.grad
            weight.grad = None


@pytest.mark.parametrize(("rho", "eta"), [(0.5, 0.01), (1.0, 0.1)])
def test_it_follows_the_authors_for_100_steps(plain_oracle, rho, eta):
    ours, theirs = network(), network()
    oracle = plain_oracle(ours, CrossEntropy())
    for step in range(100):
        batch = batch_of(16, seed=step)
        grads = Asam(rho=rho, eta=eta).gradient(oracle, batch, oracle.gradient).grads
        with torch.no_grad():
            for name, weight in ours.named_parameters():
                weight -= 0.1 * grads[name]
        transcription(theirs, batch, rho, eta, 0.1)
    for (name, mine), reference in zip(ours.state_dict().items(), theirs.state_dict().values(), strict=True):
        torch.testing.assert_close(mine, reference, rtol=0, atol=1e-9, msg=name)


def test_micro_batches_give_the_whole_batchs_gradient(plain_oracle):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3)).double()
    found = []
    for parts in (1, 3):
        oracle = plain_oracle(model, CrossEntropy(), parts=parts)
        found.append(Asam().gradient(oracle, batch_of(11), oracle.gradient).grads)
    for name in found[0]:
        torch.testing.assert_close(found[1][name], found[0][name], rtol=1e-12, atol=1e-14)


def test_a_zero_gradient_stays_zero(plain_oracle):
    oracle = plain_oracle(Curve(0.0, 0.0), half_square)
    assert Asam().gradient(oracle, NOTHING, oracle.gradient).grads["w"].tolist() == [0.0, 0.0]
