"""Cross-entropy against sums done by hand."""

import math

import pytest
import torch

from algos.finding import InputError
from algos.losses.cross_entropy import CrossEntropy

LOGITS = torch.log(torch.tensor([[0.5, 0.25, 0.25], [0.1, 0.8, 0.1]], dtype=torch.float64))
TARGETS = torch.tensor([0, 2])


def test_it_is_the_mean_surprise_of_the_right_class():
    mean, weight = CrossEntropy()(LOGITS, TARGETS)
    assert mean.item() == pytest.approx(-(math.log(0.5) + math.log(0.1)) / 2, rel=1e-14)
    assert weight == 2


def test_smoothing_spreads_eps_over_all_classes():
    mean, _ = CrossEntropy(label_smoothing=0.3)(LOGITS, TARGETS)
    first = 0.8 * math.log(0.5) + 0.1 * math.log(0.25) + 0.1 * math.log(0.25)
    second = 0.1 * math.log(0.1) + 0.1 * math.log(0.8) + 0.8 * math.log(0.1)
    assert mean.item() == pytest.approx(-(first + second) / 2, rel=1e-14)


@pytest.mark.parametrize("eps", [0.0, 0.1])
def test_extreme_logits_stay_finite(eps):
    logits = torch.tensor([[1e4, -1e4], [1e4, -1e4]], requires_grad=True)
    mean, _ = CrossEntropy(label_smoothing=eps)(logits, torch.tensor([0, 1]))
    mean.backward()
    assert mean.item() == pytest.approx(1e4, rel=1e-6)  # 0 and 2e4; smoothing moves eps/2 of each to the other
    assert torch.isfinite(logits.grad).all()


def test_half_precision_predictions_are_summed_in_float32():
    logits = torch.zeros(4096, 3, dtype=torch.bfloat16)
    mean, _ = CrossEntropy()(logits, torch.zeros(4096, dtype=torch.long))
    assert mean.dtype == torch.float32
    assert mean.item() == pytest.approx(math.log(3), rel=1e-6)


def test_a_sequence_counts_each_of_its_tokens():
    logits, targets = torch.randn(2, 5, 7), torch.randint(7, (2, 5))
    mean, weight = CrossEntropy()(logits, targets)
    rows = [-logits[b, t].log_softmax(0)[targets[b, t]] for b in range(2) for t in range(5)]
    assert weight == 10
    torch.testing.assert_close(mean, torch.stack(rows).mean())


def test_uneven_parts_add_up_to_the_whole():
    logits, targets = torch.randn(7, 3, dtype=torch.float64), torch.randint(3, (7,))
    whole, _ = CrossEntropy()(logits, targets)
    parts = [CrossEntropy()(z, y) for z, y in zip(logits.split(5), targets.split(5), strict=True)]
    assert (sum(m * w for m, w in parts) / sum(w for _, w in parts)).item() == pytest.approx(whole.item(), rel=1e-14)


def test_ignored_targets_do_not_count_and_none_left_is_zero():
    loss = CrossEntropy(ignore_index=-100)
    mean, weight = loss(LOGITS, torch.tensor([0, -100]))
    assert (mean.item(), int(weight)) == (pytest.approx(-math.log(0.5)), 1)
    logits = LOGITS.clone().requires_grad_()
    mean, weight = loss(logits, torch.tensor([-100, -100]))
    mean.backward()
    assert (mean.item(), int(weight)) == (0.0, 0)
    assert (logits.grad == 0).all()


def test_a_target_that_is_no_class_is_not_skipped_silently():
    with pytest.raises(IndexError):
        CrossEntropy()(LOGITS, torch.tensor([0, -100]))


def test_smoothing_of_one_is_refused():
    with pytest.raises(InputError, match=r"label_smoothing: 1.0 is not valid; give a number in \[0, 1\)"):
        CrossEntropy(label_smoothing=1.0)
