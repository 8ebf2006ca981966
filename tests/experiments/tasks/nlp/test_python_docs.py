"""The text of Python's documentation."""

from __future__ import annotations

import sys

import pytest
import torch

from algos.finding import InputError
from experiments.tasks import catalogue

DATA = catalogue.load("python_docs").load(None)


def test_it_is_a_text_of_hundreds_of_thousands_of_characters() -> None:
    total = sum(DATA.sizes.values())
    assert total > 300_000
    assert DATA.sizes["validation"] == DATA.sizes["test"] == int(0.05 * total)
    assert 90 < DATA.signature.outputs < 250


def test_counting_orders_the_baselines() -> None:
    """A bigram model knows more than a unigram model, which knows more than the alphabet's size."""
    bits = torch.tensor(float(DATA.signature.outputs)).log2().item()
    assert DATA.baselines["bigram"] < DATA.baselines["unigram"] < bits


def test_the_same_python_gives_the_same_text() -> None:
    assert catalogue.load("python_docs").load(None).digest == DATA.digest


def test_a_python_without_its_documentation_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pydoc_data.topics", None)
    with pytest.raises(InputError, match=r"python_docs: this Python has no pydoc_data\.topics"):
        catalogue.load("python_docs").load(None)
