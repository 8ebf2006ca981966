"""The tasks really learn, with their default settings, through the loop that users use."""

from __future__ import annotations

import os
from pathlib import Path
from statistics import mean
from typing import Any

import pytest

from experiments.config import resolve
from experiments.store.home import Home
from experiments.store.schema import RunRecord
from experiments.training import train

needs_data = pytest.mark.skipif("TRAINLAB_DATA" not in os.environ, reason="TRAINLAB_DATA is not set")


def trained(home: Path, **config: Any) -> RunRecord:
    record = train(resolve({"device": "cpu", **config}), home=Home(home)).record
    assert record.status == "completed", record.traceback
    return record


def test_adamw_reads_digits(tmp_path: Path) -> None:
    assert mean(trained(tmp_path, task="digits", seed=seed).final["test/accuracy"] for seed in (1, 2, 3)) >= 0.96


def test_a_graph_convolution_labels_digits_from_ten_labels_a_class(tmp_path: Path) -> None:
    record = trained(tmp_path, task="digits_graph")
    assert record.final["test/accuracy"] >= 0.9
    assert record.final["test/accuracy"] > 5 * record.task["baselines"]["majority"]


def beats_the_baselines(record: RunRecord) -> None:
    """Lower is better: bits per character on the test text."""
    found, baselines = record.final["test/bits_per_character"], record.task["baselines"]
    assert found < baselines["bigram"] < baselines["unigram"], (found, dict(baselines))


@pytest.mark.slow
def test_the_small_transformer_beats_a_bigram_model_of_python_s_manual(tmp_path: Path) -> None:
    beats_the_baselines(trained(tmp_path, task="python_docs"))


@pytest.mark.slow
@pytest.mark.data
@needs_data
def test_the_transformer_beats_a_bigram_model_of_shakespeare(tmp_path: Path) -> None:
    beats_the_baselines(trained(tmp_path, task="tiny_shakespeare"))


@pytest.mark.slow
@pytest.mark.data
@needs_data
def test_the_small_resnet_reaches_90_percent_on_fashion_mnist_within_three_epochs(tmp_path: Path) -> None:
    record = trained(tmp_path, task="fashion_mnist")
    assert record.last["count/epochs"] <= 3
    assert record.final["test/accuracy"] >= 0.90


@pytest.mark.slow
@pytest.mark.data
@needs_data
def test_the_gcn_reaches_80_5_percent_on_cora_s_public_split(tmp_path: Path) -> None:
    """Kipf & Welling 2017, table 2: 81.5 %."""
    assert mean(trained(tmp_path, task="cora", seed=seed).final["test/accuracy"] for seed in range(1, 11)) >= 0.805
