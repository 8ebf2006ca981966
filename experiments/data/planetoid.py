"""Planetoid: the citation graphs of Yang et al. 2016 with their public split, read by torch-geometric."""

from __future__ import annotations

import pickle
import warnings
from pathlib import Path

from torch import Tensor

from algos.finding import InputError
from experiments.data.graph import Graph


def read(folder: Path, name: str) -> Graph:
    """The graph of `ind.<name>.*` in a folder: features divided by their row's sum, 20 training nodes a class, 500 for
    validation, 1,000 for test.

    The files are pickles, which can run code: read only those whose checksum was checked. InputError where they cannot
    be read.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch-geometric's own imports warn
            from torch_geometric.io import read_planetoid_data
        data = read_planetoid_data(str(folder), name)
    except (OSError, EOFError, pickle.UnpicklingError) as error:
        raise InputError(
            f"the files ind.{name}.* cannot be read ({error})", "get them again",
            rule="bad-data", source=str(folder),
        ) from error  # fmt: skip
    nodes = {"train": data.train_mask, "validation": data.val_mask, "test": data.test_mask}
    rows = {split: mask.nonzero().flatten() for split, mask in nodes.items()}
    return Graph(normalised(data.x), data.edge_index, data.y, rows)


def normalised(features: Tensor) -> Tensor:
    """(N, F), each row divided by its sum; a row of zeros stays so."""
    return features / features.sum(dim=1, keepdim=True).clamp(min=1)
