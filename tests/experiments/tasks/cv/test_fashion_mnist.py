"""The Fashion-MNIST task's data."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

from algos.finding import InputError
from experiments.tasks import catalogue
from experiments.tasks.cv import fashion_mnist

CPU = torch.device("cpu")


@pytest.mark.data
def test_splits_shapes_and_scale(data_root: Path) -> None:
    data = catalogue.load("fashion_mnist").load(data_root)
    assert dict(data.sizes) == {"train": 55_000, "validation": 5_000, "test": 10_000}
    assert (data.signature.inputs, data.signature.outputs) == ((1, 28, 28), 10)
    assert data.baselines == {"majority": 0.1}
    images = data.training(55_000, seed=1, device=CPU).next().inputs[0]
    assert abs(images.mean().item()) < 0.01
    assert abs(images.std().item() - 1) < 0.01
    for split, share in (("validation", 500), ("test", 1000)):
        labels = torch.cat([batch.targets for batch in data.evaluation(split, CPU)])  # type: ignore[arg-type]
        assert labels.bincount().tolist() == [share] * 10


@pytest.mark.data
def test_the_first_test_image_is_an_ankle_boot(data_root: Path) -> None:
    data = catalogue.load("fashion_mnist").load(data_root)
    assert data.evaluation("test", CPU)[0].targets[:5].tolist() == [9, 2, 1, 1, 6]  # type: ignore[index]


@pytest.mark.data
def test_a_truncated_copy_is_refused_naming_the_file(data_root: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(data_root / "fashion-mnist", tmp_path / "fashion-mnist", copy_function=shutil.copyfile)
    labels = Path(folder) / "t10k-labels-idx1-ubyte.gz"
    labels.write_bytes(labels.read_bytes()[:-100])
    with pytest.raises(InputError) as refused:
        fashion_mnist.load(tmp_path)
    assert str(refused.value).startswith(f"{labels}: truncated: 5025 bytes of 5125; get it again from https://")


def test_the_published_files_are_four_and_all_have_checksums() -> None:
    files = fashion_mnist.PUBLISHED.files
    assert len({file.name for file in files}) == len({file.sha256 for file in files}) == 4
    assert all(file.url.startswith("https://") and file.url.endswith(file.name) for file in files)
