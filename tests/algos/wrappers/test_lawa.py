"""LAWA: by hand, and as the mean of the last checkpoints."""

import pytest
import torch
from torch import nn

from algos.contracts import Progress
from algos.wrappers.lawa import Lawa


class Weights(nn.Module):
    """One weight, one BatchNorm-like statistic, one count."""

    def __init__(self, dtype=torch.float64):
        super().__init__()
        self.w = nn.Parameter(torch.tensor([1.0], dtype=dtype))
        self.register_buffer("mean", torch.tensor([10.0], dtype=dtype))
        self.register_buffer("count", torch.tensor(0))


def prepared(plain_oracle, dtype=torch.float64, **hyper):
    model = Weights(dtype)
    lawa = Lawa(**hyper)
    lawa.prepare(model)
    return lawa, model, plain_oracle(model, None)


def follow(lawa, oracle, values, start=0):
    """Returns what is evaluated after each update."""
    found = []
    for update, value in enumerate(values, start=start + 1):
        with torch.no_grad():
            oracle.model.w.fill_(value)
            oracle.model.mean.fill_(10 * value)
            oracle.model.count.fill_(update)
        lawa.updated(oracle, Progress(update, 0.0))
        with lawa.evaluating(oracle):
            found.append(oracle.model.w.item())
        assert oracle.model.w.item() == value
    return found


def test_by_hand(plain_oracle):
    """k = 2, every second update: 2; (2 + 4)/2; (4 + 60)/2. Before the first, what is trained."""
    lawa, model, oracle = prepared(plain_oracle, k=2, every=2)
    assert follow(lawa, oracle, [1.0, 2.0, 3.0, 4.0, 5.0, 60.0, 7.0]) == [1, 2, 2, 3, 3, 32, 32]
    with lawa.evaluating(oracle):
        assert (model.mean.item(), model.count.item()) == (320.0, 6)
        lawa.finalize(model)
    assert model.w.item() == 32.0


def test_it_is_the_mean_of_the_last_k(plain_oracle):
    lawa, _, oracle = prepared(plain_oracle, k=6, every=1)
    values = torch.randn(50, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    found = follow(lawa, oracle, values.tolist())
    for update in range(1, 51):
        assert found[update - 1] == pytest.approx(values[max(0, update - 6) : update].mean().item(), rel=1e-12)


@pytest.mark.parametrize("stop", [1, 4, 9])
def test_it_resumes_with_an_empty_a_part_and_a_full_queue(plain_oracle, stop):
    values = [float(2**n) for n in range(14)]
    whole, _, oracle = prepared(plain_oracle, k=3, every=2)
    expected = follow(whole, oracle, values)
    first, _, oracle = prepared(plain_oracle, k=3, every=2)
    follow(first, oracle, values[:stop])
    again, _, oracle = prepared(plain_oracle, k=3, every=2)
    again.load_state_dict(first.state_dict())
    assert follow(again, oracle, values[stop:], start=stop) == expected[stop:]


def test_half_precision_weights_are_averaged_in_float32(plain_oracle):
    """The mean of 1 and 1 + 2**-7 is half a step of bfloat16 away from both."""
    lawa, model, oracle = prepared(plain_oracle, dtype=torch.bfloat16, k=2, every=1)
    follow(lawa, oracle, [1.0, 1.0 + 2**-7])
    assert lawa.weights()["w"].item() == 1 + 2**-8
    assert model.w.dtype == torch.bfloat16
