"""Metrics are exact, whatever the batches."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, log_loss

from algos.finding import InputError
from experiments.tasks.metrics import METRICS, evaluate_batch

NAMES = sorted(METRICS)
LOGITS = torch.randn(60, 5, generator=torch.Generator().manual_seed(0)) * 4
TARGETS = torch.randint(5, (60,), generator=torch.Generator().manual_seed(1))


def totals(parts: list[tuple[torch.Tensor, torch.Tensor]]) -> dict[str, float]:
    found = [evaluate_batch(NAMES, predictions, targets) for predictions, targets in parts]
    return {name: float(sum(f[name][0] for f in found)) / sum(f[name][1] for f in found) for name in NAMES}


def test_they_are_scikit_learns() -> None:
    found = totals([(LOGITS, TARGETS)])
    nats = log_loss(TARGETS.numpy(), LOGITS.double().softmax(1).numpy(), labels=range(5))
    assert found["loss"] == pytest.approx(nats, rel=1e-6)
    assert found["bits_per_character"] == pytest.approx(nats / math.log(2), rel=1e-6)
    assert found["accuracy"] == accuracy_score(TARGETS.numpy(), LOGITS.argmax(1).numpy())


@given(st.lists(st.integers(1, 59), max_size=6))
def test_any_batches_give_the_same(cuts: list[int]) -> None:
    bounds = [0, *sorted(set(cuts)), 60]
    parts = [(LOGITS[a:b], TARGETS[a:b]) for a, b in pairwise(bounds)]
    whole = totals([(LOGITS, TARGETS)])
    found = totals(parts)
    assert found["accuracy"] == whole["accuracy"]
    for name in ("loss", "bits_per_character"):
        assert found[name] == pytest.approx(whole[name], rel=1e-14)


def test_shape_does_not_matter() -> None:
    assert totals([(LOGITS.view(12, 5, 5), TARGETS.view(12, 5))]) == totals([(LOGITS, TARGETS)])


def test_a_sure_and_wrong_prediction_costs_what_it_says() -> None:
    found = evaluate_batch(["loss"], torch.tensor([[0.0, 1000.0]]), torch.tensor([0]))["loss"]
    assert (found[0].item(), found[1]) == (1000.0, 1)


def test_half_precision_predictions_are_raised_first() -> None:
    low = LOGITS.bfloat16()
    assert totals([(low, TARGETS)]) == totals([(low.float(), TARGETS)])


def test_a_nan_is_told_and_not_hidden() -> None:
    broken = LOGITS.clone()
    broken[3, 2] = math.nan
    assert math.isnan(totals([(broken, TARGETS)])["loss"])


def test_sums_are_not_read_on_the_host() -> None:
    found = evaluate_batch(NAMES, LOGITS.to("meta"), TARGETS.to("meta"))
    assert all(total.device.type == "meta" and total.ndim == 0 for total, _ in found.values())


def test_an_unknown_metric_is_refused() -> None:
    with pytest.raises(InputError, match="unknown metric 'acuracy'; did you mean 'accuracy'"):
        evaluate_batch(["acuracy"], LOGITS, TARGETS)
