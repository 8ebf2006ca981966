"""What averaging wrappers share: which tensors stand in, that the model gets its own back, and how averages move."""

import pytest
import torch
from torch import nn

from algos.averaging import StandsIn, averaged, move_towards, snapshot


class Fixed(StandsIn):
    """Stands in with given weights."""

    def __init__(self, given):
        self.given = given

    def weights(self):
        return self.given


def network():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Linear(3, 1))
    model[2].weight.requires_grad_(False)
    model.register_buffer("mask", torch.tensor([-torch.inf]), persistent=False)
    return model


def test_trained_parameters_and_what_a_checkpoint_would_hold_of_buffers():
    statistics = {f"1.{name}" for name in ("running_mean", "running_var", "num_batches_tracked")}
    trained = {"0.weight", "0.bias", "1.weight", "1.bias", "2.bias"}
    assert set(averaged(network())) == trained | statistics
    assert set(averaged(network(), buffers=False)) == trained


def test_only_what_is_given_stands_in_and_all_comes_back_also_after_an_error(plain_oracle):
    model = network()
    component = Fixed({"0.bias": torch.full((3,), 7.0)})
    component.prepare(model)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}

    def evaluate():
        with component.evaluating(plain_oracle(model, None)):
            assert model[0].bias.tolist() == [7.0, 7.0, 7.0]
            assert torch.equal(model[0].weight, before["0.weight"])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        evaluate()
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())


def test_a_move_by_hand_and_counts_are_the_latest():
    averages = snapshot({"w": torch.tensor([1.0], dtype=torch.bfloat16), "n": torch.tensor(3)})
    assert averages["w"].dtype == torch.float32
    move_towards(averages, {"w": torch.tensor([3.0], dtype=torch.bfloat16), "n": torch.tensor(5)}, 0.25)
    assert (averages["w"].item(), averages["n"].item()) == (1.5, 5)
