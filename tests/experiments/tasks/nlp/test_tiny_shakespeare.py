"""The text of Tiny Shakespeare."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from algos.finding import InputError
from experiments.tasks import catalogue
from experiments.tasks.nlp import tiny_shakespeare


@pytest.mark.data
def test_it_is_the_known_text(data_root: Path) -> None:
    """char-rnn's and nanoGPT's: 1,115,394 characters of 65 kinds, the first of which we know by heart."""
    data = catalogue.load("tiny_shakespeare").load(data_root)
    assert sum(data.sizes.values()) == 1_115_394
    assert data.signature.outputs == 65
    assert data.baselines["bigram"] < data.baselines["unigram"] < 6
    text = data._splits["train"][0]  # type: ignore[attr-defined]
    assert data.decode(text[:14]) == "First Citizen:"  # type: ignore[attr-defined]


def test_another_text_under_its_name_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "text" / "tinyshakespeare.txt"
    path.parent.mkdir()
    path.write_text("To be, or not to be")
    with pytest.raises(InputError) as refused:
        tiny_shakespeare.load(tmp_path)
    assert str(refused.value).startswith(f"{path}: truncated: 19 bytes of 1115394; get it again from https://")


@pytest.mark.data
def test_evaluation_reads_blocks_of_its_context(data_root: Path) -> None:
    batch = next(iter(catalogue.load("tiny_shakespeare").load(data_root).evaluation("test", torch.device("cpu"))))
    assert batch.inputs[0].shape[1] == 128
