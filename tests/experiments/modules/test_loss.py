"""Losses as torch modules: torch's own numbers in torch's own layouts."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F

from algos.finding import InputError
from experiments.modules.loss import module

LAYOUTS = [((7, 4), (7,)), ((3, 4, 5), (3, 5)), ((2, 4, 3, 6), (2, 3, 6)), ((4,), ())]


@pytest.mark.parametrize(("shape", "wanted"), LAYOUTS)
def test_cross_entropy_is_torchs_in_every_layout(shape: tuple[int, ...], wanted: tuple[int, ...]) -> None:
    predictions = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    targets = torch.randint(0, 4, wanted)
    ours, theirs = module("cross_entropy")(predictions, targets), F.cross_entropy(predictions, targets)
    assert ours.shape == ()
    torch.testing.assert_close(ours, theirs, rtol=1e-13, atol=0)
    torch.testing.assert_close(*(torch.autograd.grad(each, predictions)[0] for each in (ours, theirs)))


@pytest.mark.parametrize(("shape", "wanted"), LAYOUTS)
def test_focal_by_hand_in_every_layout(shape: tuple[int, ...], wanted: tuple[int, ...]) -> None:
    predictions, targets = torch.randn(shape, dtype=torch.float64), torch.randint(0, 4, wanted)
    surprise = F.cross_entropy(predictions, targets, reduction="none")
    by_hand = ((1 - torch.exp(-surprise)) ** 3 * surprise).mean()
    torch.testing.assert_close(module("focal", gamma=3.0)(predictions, targets), by_hand)


def test_keywords_are_torchs_and_the_module_is_ordinary() -> None:
    loss = module("cross_entropy", ignore_index=1)
    predictions, targets = torch.randn(6, 3), torch.tensor([0, 1, 2, 1, 0, 2])
    expected = F.cross_entropy(predictions, targets, ignore_index=1)
    torch.testing.assert_close(copy.deepcopy(loss)(input=predictions, target=targets), expected)
    assert list(loss.parameters()) == []
    assert loss.state_dict() == {}


@pytest.mark.parametrize("name", ["cross_entropy", "focal"])
def test_targets_of_minus_100_do_not_count_as_in_torch_unless_they_are_to(name: str) -> None:
    predictions, targets = torch.randn(6, 3, dtype=torch.float64), torch.tensor([0, -100, 2, 1, -100, 2])
    counted = targets != -100
    plain = {"gamma": 0.0} if name == "focal" else {}
    found = module(name, **plain)(predictions, targets)
    torch.testing.assert_close(found, F.cross_entropy(predictions, targets))
    torch.testing.assert_close(found, F.cross_entropy(predictions[counted], targets[counted]))
    with pytest.raises(IndexError, match="-100 is out of bounds"):
        module(name, **plain, ignore_index=None)(predictions, targets)


def test_what_is_not_torchs_layout_is_told() -> None:
    with pytest.raises(InputError, match=r"dimension 1 of the predictions.* give targets of shape \(2, 4\)"):
        module("cross_entropy")(torch.zeros(2, 5, 4), torch.zeros(2, 5, dtype=torch.int64))
    with pytest.raises(InputError, match="takes class numbers"):
        module("focal")(torch.zeros(2, 4), torch.zeros(2, 4))


def test_wrong_names_are_told() -> None:
    with pytest.raises(InputError, match="did you mean 'focal'"):
        module("focla")
    with pytest.raises(InputError, match="did you mean 'gamma'"):
        module("focal", gama=2.0)
