"""Lookahead: by hand, and against the authors' loop."""

import copy

import pytest
import torch
from torch import nn

from algos.contracts import Progress
from algos.finding import InputError
from algos.gradient_descent import GradientDescent
from algos.losses.cross_entropy import CrossEntropy
from algos.optimizers.schedule_free_adamw import ScheduleFreeAdamW
from algos.optimizers.sgd import SGD
from algos.wrappers.ema import Ema
from algos.wrappers.lookahead import Lookahead


def prepared(plain_oracle, dtype=torch.float64, **hyper):
    model = nn.Linear(1, 1, bias=False, dtype=dtype)
    nn.init.ones_(model.weight)
    lookahead = Lookahead(**hyper)
    lookahead.prepare(model)
    return lookahead, model, plain_oracle(model, None)


def test_two_rounds_by_hand(plain_oracle):
    """k = 2, alpha = 1/2: 1 -> fast 4, 5: slow (1 + 5)/2 = 3, fast goes back to it; fast 7, 9: slow (3 + 9)/2 = 6."""
    lookahead, model, oracle = prepared(plain_oracle, k=2, alpha=0.5)
    evaluated, trained = [], []
    for update, fast in enumerate([4.0, 5.0, 7.0, 9.0], start=1):
        with torch.no_grad():
            model.weight.fill_(fast)
        lookahead.updated(oracle, Progress(update, 0.0))
        trained.append(model.weight.item())
        with lookahead.evaluating(oracle):
            evaluated.append(model.weight.item())
        assert model.weight.item() == trained[-1]
    assert trained == [4.0, 3.0, 7.0, 6.0]
    assert evaluated == [1.0, 3.0, 3.0, 6.0]  # before the first round: where it began


def test_alpha_1_is_the_optimizer_alone(plain_oracle):
    lookahead, model, oracle = prepared(plain_oracle, k=1, alpha=1.0)
    with torch.no_grad():
        model.weight.fill_(0.3)
    lookahead.updated(oracle, Progress(1, 0.0))
    assert model.weight.item() == 0.3


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 3)).double()


def batch_of(seed):
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(16, 4, dtype=torch.float64, generator=generator)
    return inputs, torch.randint(3, (16,), generator=generator)


def test_it_follows_the_authors_for_100_steps(plain_oracle):
    """Their crucial line, on torch's SGD with momentum, which is kept."""
    k, alpha = 5, 0.8
    ours, theirs = network(), network()
    lookahead = Lookahead(k=k, alpha=alpha)
    lookahead.prepare(ours)
    algorithm = GradientDescent(SGD(ours, lr=0.1, momentum=0.9), [lookahead])
    oracle = plain_oracle(ours, CrossEntropy())
    optimizer = torch.optim.SGD(theirs.parameters(), lr=0.1, momentum=0.9)
    cached = [weight.detach().clone() for weight in theirs.parameters()]
    for step in range(100):
        algorithm.step(oracle, batch_of(step), Progress(step, step / 100))
        optimizer.zero_grad()
        nn.functional.cross_entropy(theirs(batch_of(step)[0]), batch_of(step)[1]).backward()
        optimizer.step()
        if (step + 1) % k == 0:
            with torch.no_grad():
                for weight, slow in zip(theirs.parameters(), cached, strict=True):
                    weight.mul_(alpha).add_(slow, alpha=1 - alpha)
                    slow.copy_(weight)
    for mine, reference in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(mine, reference, rtol=0, atol=1e-9)


@pytest.mark.parametrize("stop", [3, 5, 7])
def test_it_resumes_bit_for_bit_within_a_round_and_between(plain_oracle, stop):
    def training():
        model = network()
        lookahead = Lookahead()
        lookahead.prepare(model)
        return model, GradientDescent(SGD(model, lr=0.1), [lookahead]), plain_oracle(model, CrossEntropy())

    def run(algorithm, oracle, start, end):
        for step in range(start, end):
            algorithm.step(oracle, batch_of(step), Progress(step, step / 12))

    whole, algorithm, oracle = training()
    run(algorithm, oracle, 0, 12)
    first, algorithm, oracle = training()
    run(algorithm, oracle, 0, stop)
    state = copy.deepcopy((first.state_dict(), algorithm.state_dict()))
    again, algorithm, oracle = training()
    again.load_state_dict(state[0])
    algorithm.load_state_dict(state[1])
    run(algorithm, oracle, stop, 12)
    assert all(torch.equal(a, b) for a, b in zip(whole.parameters(), again.parameters(), strict=True))


def test_half_precision_weights_have_slow_weights_in_float32(plain_oracle):
    """In bfloat16 the slow weight could not move: 0.001 is less than half a step of 2**-8 at 1."""
    lookahead, model, oracle = prepared(plain_oracle, dtype=torch.bfloat16, k=1, alpha=0.001)
    for update in range(1, 1001):
        with torch.no_grad():
            model.weight.fill_(2.0)
        lookahead.updated(oracle, Progress(update, 0.0))
    slow = lookahead.state_dict()["slow"]["weight"]
    assert slow.dtype == torch.float32
    assert slow.item() == pytest.approx(2 - 0.999**1000, rel=1e-4)


def test_weights_that_others_evaluate_at_are_refused():
    model = nn.Linear(2, 2)
    with pytest.raises(InputError, match="evaluates at weights of its own"):
        GradientDescent(ScheduleFreeAdamW(model), [Lookahead()])
    with pytest.raises(InputError, match="Lookahead and Ema each evaluate at weights of their own"):
        GradientDescent(SGD(model), [Lookahead(), Ema()])
