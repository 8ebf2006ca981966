"""Cora with its public split."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

from algos.finding import InputError
from experiments.data import planetoid
from experiments.tasks import catalogue
from experiments.tasks.gnn import cora

CPU = torch.device("cpu")


@pytest.mark.data
def test_it_is_the_graph_of_the_papers(data_root: Path) -> None:
    """Yang et al. 2016 and Kipf & Welling 2017, table 1; edges as torch-geometric counts them, both ways."""
    data = catalogue.load("cora").load(data_root)
    assert dict(data.sizes) == {"train": 140, "validation": 500, "test": 1000}
    batch = data.training(140, seed=1, device=CPU).next()
    features, edges = batch.inputs
    assert (features.shape, edges.shape) == ((2708, 1433), (2, 10556))
    assert batch.targets.bincount().tolist() == [20] * 7
    torch.testing.assert_close(features.sum(dim=1), torch.ones(2708))
    validation = data.evaluation("validation", CPU)[0]  # type: ignore[index]
    assert validation.where.tolist() == list(range(140, 640))
    assert data.baselines["majority"] < 0.35


@pytest.mark.data
def test_a_changed_file_is_refused_before_it_is_unpickled(data_root: Path, tmp_path: Path) -> None:
    """A pickle can run code, so nothing is read that is not the published file."""
    folder = tmp_path / "planetoid" / "Cora" / "raw"
    shutil.copytree(data_root / "planetoid" / "Cora" / "raw", folder, copy_function=shutil.copyfile)
    path, ran = folder / "ind.cora.y", tmp_path / "ran"
    program = f"cposix\nsystem\n(S'touch {ran}'\ntR.".encode()
    path.write_bytes(program.ljust(path.stat().st_size, b"\0"))
    with pytest.raises(InputError, match=r"ind.cora.y: not the published file: sha256"):
        cora.load(tmp_path)
    assert not ran.exists()


def test_a_folder_without_the_files_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"the files ind.cora.\* cannot be read"):
        planetoid.read(tmp_path, "cora")


def test_rows_are_divided_by_their_sum_and_empty_ones_stay() -> None:
    found = planetoid.normalised(torch.tensor([[1.0, 0.0, 3.0], [0.0, 0.0, 0.0]]))
    assert found.tolist() == [[0.25, 0.0, 0.75], [0.0, 0.0, 0.0]]
