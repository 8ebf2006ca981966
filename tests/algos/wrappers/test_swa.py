"""SWA: by hand, and against torch's AveragedModel."""

import pytest
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel

from algos.contracts import Progress
from algos.wrappers.swa import Swa


class Weights(nn.Module):
    """One weight, one BatchNorm-like statistic, one count."""

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.tensor([1.0], dtype=torch.float64))
        self.register_buffer("mean", torch.tensor([10.0], dtype=torch.float64))
        self.register_buffer("count", torch.tensor(0))


def prepared(plain_oracle, **hyper):
    model = Weights()
    swa = Swa(**hyper)
    swa.prepare(model)
    return swa, model, plain_oracle(model, None)


def follow(swa, oracle, values, budget):
    """Returns what is evaluated after each update."""
    found = []
    for update, value in enumerate(values, start=1):
        with torch.no_grad():
            oracle.model.w.fill_(value)
            oracle.model.mean.fill_(10 * value)
            oracle.model.count.fill_(update)
        swa.updated(oracle, Progress(update, (update - 1) / budget))
        with swa.evaluating(oracle):
            found.append(oracle.model.w.item())
        assert oracle.model.w.item() == value
    return found


def test_by_hand(plain_oracle):
    """From half of eight updates, every second: those after the updates 5 and 7. Before, what is trained."""
    swa, model, oracle = prepared(plain_oracle, start=0.5, every=2)
    assert follow(swa, oracle, [1.0, 2.0, 3.0, 4.0, 50.0, 6.0, 70.0, 8.0], 8) == [1, 2, 3, 4, 50, 50, 60, 60]
    with swa.evaluating(oracle):
        assert (model.mean.item(), model.count.item()) == (600.0, 7)
        swa.finalize(model)
    assert model.w.item() == 60.0


def test_it_is_torchs_averaged_model(plain_oracle):
    swa, model, oracle = prepared(plain_oracle, start=0.25, every=3)
    theirs = AveragedModel(Weights().double(), use_buffers=True)
    values = torch.randn(60, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).tolist()
    found = follow(swa, oracle, values, 60)
    for update, value in enumerate(values, start=1):
        if update >= 16 and (update - 16) % 3 == 0:
            with torch.no_grad():
                model.w.fill_(value)
                model.mean.fill_(10 * value)
            theirs.update_parameters(model)
    assert found[-1] == pytest.approx(theirs.module.w.item(), rel=1e-12)
    with swa.evaluating(oracle):
        assert model.mean.item() == pytest.approx(theirs.module.mean.item(), rel=1e-12)


@pytest.mark.parametrize("stop", [2, 5, 6])
def test_it_resumes_before_at_and_after_its_start(plain_oracle, stop):
    values = [1.0, 2.0, 3.0, 4.0, 50.0, 6.0, 70.0, 8.0]
    whole, _, oracle = prepared(plain_oracle, start=0.5, every=2)
    expected = follow(whole, oracle, values, 8)
    first, _, oracle = prepared(plain_oracle, start=0.5, every=2)
    follow(first, oracle, values[:stop], 8)
    again, model, oracle = prepared(plain_oracle, start=0.5, every=2)
    again.load_state_dict(first.state_dict())
    for update in range(stop + 1, 9):
        with torch.no_grad():
            model.w.fill_(values[update - 1])
        again.updated(oracle, Progress(update, (update - 1) / 8))
    with again.evaluating(oracle):
        assert model.w.item() == expected[-1]


def test_a_run_that_ends_before_its_start_keeps_its_weights(plain_oracle):
    swa, model, oracle = prepared(plain_oracle, start=0.9, every=1)
    assert follow(swa, oracle, [2.0, 3.0], 100) == [2.0, 3.0]
    swa.finalize(model)
    assert model.w.item() == 3.0
