"""The digits task's data."""

from __future__ import annotations

import torch
from sklearn.datasets import load_digits

from experiments.tasks import catalogue

CPU = torch.device("cpu")
DATA = catalogue.load("digits").load(None)


def rows() -> dict[str, torch.Tensor]:
    evaluated = {split: DATA.evaluation(split, CPU) for split in ("validation", "test")}
    found = {split: torch.cat([batch.inputs[0] for batch in batches]) for split, batches in evaluated.items()}
    source = DATA.training(1200, seed=1, device=CPU)
    return {**found, "train": source.next().inputs[0]}


def test_splits_are_scikit_learns_1797_images_each_once() -> None:
    together = torch.cat(list(rows().values())).flatten(1)
    theirs = torch.from_numpy(load_digits().data).float() / 16
    assert dict(DATA.sizes) == {"train": 1200, "validation": 297, "test": 300}
    assert torch.equal(together.unique(dim=0), theirs.unique(dim=0))
    assert together.min() == 0
    assert together.max() == 1


def test_classes_are_shared_out_evenly() -> None:
    for split, size in (("validation", 297), ("test", 300)):
        labels = torch.cat([batch.targets for batch in DATA.evaluation(split, CPU)])  # type: ignore[arg-type]
        assert ((labels.bincount() - size / 10).abs() <= 2).all()


def test_splits_are_the_same_for_every_seed_and_load() -> None:
    torch.manual_seed(7)
    assert catalogue.load("digits").load(None).digest == DATA.digest


def test_guessing_is_a_tenth() -> None:
    assert 0.08 < DATA.baselines["majority"] < 0.12
