"""What the steps of foreign runs are: by a name that says it, by a counter that goes with them, else unknown."""

from __future__ import annotations

import pytest

from experiments.store.sources.steps import by_counters, by_name


@pytest.mark.parametrize(
    ("name", "unit"),
    [("epoch", "epochs"), (" Epochs ", "epochs"), ("train/epoch", "epochs"), ("trainer/global_step", "updates"),
     ("Global Step", "updates"), ("update", "updates"), ("step", ""), ("_step", ""), ("iteration", ""), ("", "")],
)  # fmt: skip
def test_a_name_says_it_or_nothing_does(name, unit):
    assert by_name(name) == unit


def counter(*pairs):
    return [(step, float(value), 0) for step, value in pairs]


LOSS = {"loss": counter((1, 0.5), (2, 0.4))}


@pytest.mark.parametrize(
    ("points", "unit"),
    [
        (LOSS, ""),
        ({}, ""),
        ({**LOSS, "epoch": counter((1, 1), (2, 2), (3, 3))}, "epochs"),
        ({**LOSS, "epoch": counter((1, 0), (2, 1), (3, 2))}, "epochs"),
        ({**LOSS, "epoch": counter((100, 1), (200, 2))}, ""),
        ({**LOSS, "epoch": counter((1, 1), (1, 1))}, ""),  # one step proves nothing
        ({**LOSS, "epoch": counter((1, 1), (2, 1.5))}, ""),
        ({**LOSS, "trainer/global_step": counter((9, 9), (19, 19))}, "updates"),
        ({"epoch_loss": counter((0, 0.5)), "train/epoch_accuracy": counter((0, 0.5))}, "epochs"),  # as Keras logs
        ({"epoch_loss": counter((0, 0.5)), "batch_loss": counter((64, 0.5))}, ""),
    ],
)
def test_a_counter_that_goes_with_the_steps_says_what_they_are(points, unit):
    assert by_counters(points) == unit
