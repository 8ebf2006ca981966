"""EMA: by hand, by its closed form, and that training never notices it."""

import pytest
import torch
from torch import nn

from algos.contracts import Progress
from algos.wrappers.ema import Ema


class Weights(nn.Module):
    """One weight, one BatchNorm-like statistic, one count, one constant that no checkpoint holds."""

    def __init__(self, dtype=torch.float64):
        super().__init__()
        self.w = nn.Parameter(torch.tensor([1.0], dtype=dtype))
        self.frozen = nn.Parameter(torch.tensor([7.0], dtype=dtype), requires_grad=False)
        self.register_buffer("mean", torch.tensor([10.0], dtype=dtype))
        self.register_buffer("count", torch.tensor(0))
        self.register_buffer("mask", torch.tensor([-torch.inf, 0.0]), persistent=False)


def prepared(plain_oracle, dtype=torch.float64, **hyper):
    model = Weights(dtype)
    ema = Ema(**hyper)
    ema.prepare(model)
    return ema, model, plain_oracle(model, None)


def move(model, w, mean=None):
    with torch.no_grad():
        model.w.fill_(w)
        model.mean.fill_(w if mean is None else mean)
        model.count += 1


def evaluated(ema, oracle):
    with ema.evaluating(oracle):
        return oracle.model.w.item()


def test_two_updates_by_hand(plain_oracle):
    """decay 1/2, no warm-up: 1 -> (1 + 3)/2 = 2 -> (2 + 5)/2 = 3.5; the statistic 10 -> 12 -> 15."""
    ema, model, oracle = prepared(plain_oracle, decay=0.5, warmup=False)
    for update, (w, mean) in enumerate([(3.0, 14.0), (5.0, 18.0)], start=1):
        move(model, w, mean)
        ema.updated(oracle, Progress(update, 0.0))
    with ema.evaluating(oracle):
        assert (model.w.item(), model.mean.item(), model.count.item()) == (3.5, 15.0, 2)
        assert model.frozen.item() == 7.0
        assert model.mask.tolist() == [-torch.inf, 0.0]


def test_warm_up_by_hand(plain_oracle):
    """d_1 = 2/11, d_2 = 3/12."""
    ema, model, oracle = prepared(plain_oracle, decay=0.9)
    move(model, 12.0)
    ema.updated(oracle, Progress(1, 0.0))
    assert evaluated(ema, oracle) == pytest.approx(1 * 2 / 11 + 12 * 9 / 11)
    ema.updated(oracle, Progress(2, 0.0))
    assert evaluated(ema, oracle) == pytest.approx(10 * 0.25 + 12 * 0.75)


def test_the_closed_form(plain_oracle):
    """s_T = d^T w_0 + sum_t (1 - d) d^(T - t) w_t."""
    ema, model, oracle = prepared(plain_oracle, decay=0.97, warmup=False)
    weights = torch.randn(200, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    for update, w in enumerate(weights, start=1):
        move(model, w.item())
        ema.updated(oracle, Progress(update, 0.0))
    powers = 0.97 ** torch.arange(199, -1, -1, dtype=torch.float64)
    expected = 0.97**200 * 1.0 + 0.03 * (powers * weights).sum()
    assert evaluated(ema, oracle) == pytest.approx(expected.item(), rel=1e-12)


def test_after_evaluation_everything_is_back_bit_for_bit(plain_oracle):
    ema, model, oracle = prepared(plain_oracle, dtype=torch.float32)
    move(model, 0.1, 0.7)
    ema.updated(oracle, Progress(1, 0.0))
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    places = {name: tensor.data_ptr() for name, tensor in model.state_dict().items()}
    with ema.evaluating(oracle):
        assert not torch.equal(model.w, before["w"])
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, before[name])
        assert tensor.data_ptr() == places[name]  # the optimizer's views stay good


def test_finalize_leaves_the_averages_in_the_model(plain_oracle):
    for inside in (True, False):
        ema, model, oracle = prepared(plain_oracle, decay=0.5, warmup=False)
        move(model, 3.0)
        ema.updated(oracle, Progress(1, 1.0))
        if inside:
            with ema.evaluating(oracle):
                ema.finalize(model)
        else:
            ema.finalize(model)
        assert model.w.item() == 2.0


def test_what_another_component_did_to_the_final_weights_stays(plain_oracle):
    ema, model, oracle = prepared(plain_oracle, decay=0.5, warmup=False)
    with ema.evaluating(oracle):
        with torch.no_grad():
            model.w.zero_()  # pruning, say
        ema.finalize(model)
    assert model.w.item() == 0.0


def test_half_precision_weights_are_averaged_in_float32(plain_oracle):
    """In bfloat16 the average could not move: 0.001 is less than half a step of 2**-8 at 1."""
    ema, model, oracle = prepared(plain_oracle, dtype=torch.bfloat16, decay=0.999, warmup=False)
    move(model, 2.0)
    for update in range(1, 1001):
        ema.updated(oracle, Progress(update, 0.0))
    average = ema.state_dict()["average"]["w"]
    assert average.dtype == torch.float32
    assert average.item() == pytest.approx(2 - 0.999**1000, rel=1e-4)
    assert model.w.dtype == torch.bfloat16


def test_it_follows_a_copy_of_the_model(plain_oracle):
    """Nothing in it points into the model: names are enough."""
    ema, model, _ = prepared(plain_oracle, decay=0.5, warmup=False)
    other = plain_oracle(Weights(), None)
    move(other.model, 3.0)
    ema.updated(other, Progress(1, 0.0))
    assert evaluated(ema, other) == 2.0
    assert model.w.item() == 1.0
