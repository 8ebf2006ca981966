"""Graph: a node classification task's graph in memory, every node seen at each update, some with labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from algos.contracts import Signature
from experiments.data.batch import Batch
from experiments.data.images import majority_accuracy
from experiments.data.shuffled import Shuffled, Take
from experiments.data.splits import Splits
from experiments.data.together import Stacked
from experiments.task import BatchSource, Split


class Graph:
    """TaskData of one graph: features (N, F), edges (2, E) both ways, labels (N,), and the nodes of each split (M,).

    A batch is the whole graph and batch_size of the labelled training nodes; all of them make a full-batch update. The
    splits are scored on their own nodes. baselines: "majority", the test accuracy of always naming the commonest
    training class.
    """

    def __init__(self, features: Tensor, edge_index: Tensor, labels: Tensor, nodes: Mapping[str, Tensor]):
        self._splits = Splits(
            {"all": (features, edge_index), **{split: (rows, labels[rows]) for split, rows in nodes.items()}}
        )
        self.signature = Signature("nodes", (features.shape[1],), int(labels.max()) + 1)
        self.digest = self._splits.digest
        self.sizes: Mapping[str, int] = {split: len(rows) for split, rows in nodes.items()}
        self.baselines: Mapping[str, float] = {
            "majority": majority_accuracy(labels[nodes["train"]], labels[nodes["test"]])
        }

    def training(self, batch_size: int, seed: int, device: torch.device) -> BatchSource:
        placed = self._splits.on(device)
        (features, edge_index), (nodes, labels) = placed["all"], placed["train"]

        take = Nodes((features, edge_index), nodes, labels)

        def open_epoch(generator: torch.Generator) -> Take:
            return take

        return Shuffled(len(nodes), batch_size, seed, device, open_epoch)

    def evaluation(self, split: Split, device: torch.device) -> list[Batch]:
        placed = self._splits.on(device)
        (features, edge_index), (nodes, labels) = placed["all"], placed[split]
        return [Batch((features, edge_index), labels, where=nodes)]


@dataclass(frozen=True)
class Nodes:
    """Rows of the labelled nodes, as a batch of the whole graph."""

    graph: tuple[Tensor, Tensor]
    nodes: Tensor
    labels: Tensor

    def __call__(self, rows: Tensor) -> Batch:
        return Batch(self.graph, self.labels.index_select(0, rows), where=self.nodes.index_select(0, rows))

    def together(self, takes: Sequence[Take], rows: Tensor) -> Stacked:
        """rows: (members, M)."""
        return Stacked(self.graph, self.labels[rows], self.nodes[rows], shared=True)
