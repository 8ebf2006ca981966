"""Digits as a graph: each image is joined to the ten most like it; ten labels a class. Nothing to download.

The nodes are scikit-learn's 1,797 images of handwritten digits, their features the 64 pixels scaled to [0, 1]; two are
joined where one is among the other's ten nearest. 100 nodes have labels for training, 500 are for validation, 1,197 for
test, the same for every seed.
"""

from __future__ import annotations

from pathlib import Path

from experiments.data import neighbours, stratified
from experiments.data.graph import Graph
from experiments.task import TaskData, TaskSpec


def load(root: Path | None) -> TaskData:
    import torch
    from sklearn.datasets import load_digits

    found = load_digits()
    pixels, labels = torch.from_numpy(found.data), torch.from_numpy(found.target).long()
    train, rest = stratified.first_of_each_class(labels, stratified.order(labels, seed=0), count=10)
    nodes = {"train": train, "validation": rest[:500], "test": rest[500:]}
    return Graph(pixels.float() / 16, neighbours.graph(pixels, k=10), labels, nodes)


TASK = TaskSpec(
    load=load,
    model={"name": "gcn", "width": 32, "depth": 2, "dropout": 0.5},
    optimizer={"name": "adamw", "lr": 1e-2, "weight_decay": 0.05},
    schedule={"name": "constant"},
    metric="accuracy",
    mode="max",
    metrics=("accuracy", "loss"),
    worst=0.0,
    target=0.94,
    target_source="what the default AdamW run reaches in about a third of its budget (10 seeds)",
    unit="nodes",
    budget={"updates": 100},
    batch_size=100,
    evaluate_every=5,
    cite="""@misc{alpaydin1998optical,
  title={Optical Recognition of Handwritten Digits},
  author={Alpaydin, Ethem and Kaynak, Cenk},
  howpublished={UCI Machine Learning Repository}, year={1998}, doi={10.24432/C50P49}
}""",
    home="scikit-learn (sklearn.datasets.load_digits)",
)
