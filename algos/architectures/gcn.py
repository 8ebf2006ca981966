"""GCN: every node's features become a weighted mean over its neighbours and itself, then a linear map.

Paper: Kipf & Welling 2017, equations 2 and 9. Deviations: none.

    A^  = D^-1/2 (A + I) D^-1/2         D: degrees with the self-loop; a node with a self-loop of its own keeps that one
    H_l = relu(A^ dropout(H_(l-1)) W_l + b_l)                              (N, width)
    out = A^ dropout(H_(depth-1)) W_depth + b_depth                        (N, outputs)

W ~ Glorot uniform, b = 0. An edge (s, t) carries features from s to t; an undirected graph has both directions.
A^ is computed once for a graph and kept beside the model, not in its state. Its product is gather, scale and add, which
is deterministic on the CPU and asks no sparse kernels of a device.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from algos import fitting
from algos.contracts import Signature
from algos.spec import Declared, Int, Real, Spec


class Adjacency(NamedTuple):
    """A^ as a list: entry (target[i], source[i]) is weight[i]. source, target: (E,) nodes; weight: (E, 1)."""

    source: Tensor
    target: Tensor
    weight: Tensor

    def __matmul__(self, features: Tensor) -> Tensor:  # type: ignore[override]
        """A^ features: (N, F) -> (N, F)."""
        messages = features.index_select(0, self.source) * self.weight.to(features.dtype)
        return torch.zeros_like(features).index_add(0, self.target, messages)


def normalise(edge_index: Tensor, nodes: int, dtype: torch.dtype = torch.float32) -> Adjacency:
    """A^ of the graph with edges (2, E): sources in the first row, targets in the second.

    >>> pair = normalise(torch.tensor([[0, 1], [1, 0]]), nodes=2)     # two nodes, one edge: all four entries are 1/2
    >>> (pair @ torch.tensor([[1.0], [3.0]])).flatten().round(decimals=6).tolist()
    [2.0, 2.0]
    """
    proper = edge_index[:, edge_index[0] != edge_index[1]]
    loops = torch.arange(nodes, device=edge_index.device)
    source, target = torch.cat([proper[0], loops]), torch.cat([proper[1], loops])
    degree = torch.bincount(target, minlength=nodes).to(dtype)
    scale = degree.rsqrt()
    return Adjacency(source, target, (scale[source] * scale[target]).unsqueeze(1))


class Graph(NamedTuple):
    """What A^ was computed from. version: torch's count of changes in place."""

    edge_index: Tensor
    version: int
    nodes: int
    dtype: torch.dtype

    def same(self, other: Graph) -> bool:
        return self.edge_index is other.edge_index and self[1:] == other[1:]


class Convolution(nn.Module):
    """A^ X W + b: (N, fan_in) -> (N, fan_out)."""

    def __init__(self, fan_in: int, fan_out: int):
        super().__init__()
        self.weight = nn.Parameter(nn.init.xavier_uniform_(torch.empty(fan_out, fan_in)))
        self.bias = nn.Parameter(torch.zeros(fan_out))

    def forward(self, x: Tensor, adjacency: Adjacency) -> Tensor:
        return adjacency @ F.linear(x, self.weight) + self.bias


class GCN(nn.Module, Declared):
    """A graph convolutional network: node features (N, F) and edges (2, E) -> logits (N, outputs).

    >>> model = GCN(Signature("nodes", (5,), 3), width=4)
    >>> model(torch.zeros(2, 5), torch.tensor([[0, 1], [1, 0]])).shape
    torch.Size([2, 3])
    """

    width: int = Int(16, low=1, search="8:128:int", unit="features")
    depth: int = Int(2, low=1, search="1:4:int", unit="layers")
    dropout: float = Real(0.5, low=0, below=1, search="0:0.8", unit="probability")

    def __init__(self, signature: Signature, **hyper: Any):
        nn.Module.__init__(self)
        Declared.__init__(self, **hyper)
        fitting.check("gcn", signature.kind)
        widths = [signature.inputs[0], *[self.width] * (self.depth - 1), signature.outputs]
        self.layers = nn.ModuleList(Convolution(fan_in, fan_out) for fan_in, fan_out in pairwise(widths))
        self._known: tuple[Graph, Adjacency] | None = None

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        adjacency = self._adjacency(edge_index, len(x), torch.float64 if x.dtype == torch.float64 else torch.float32)
        for index, layer in enumerate(self.layers):
            x = F.relu(x) if index else x
            x = layer(F.dropout(x, self.dropout, self.training), adjacency)
        return x

    def _adjacency(self, edge_index: Tensor, nodes: int, dtype: torch.dtype) -> Adjacency:
        """Kept for as long as the same tensor, unchanged, is given."""
        graph = Graph(edge_index, 0 if edge_index.is_inference() else edge_index._version, nodes, dtype)
        if self._known is not None and self._known[0].same(graph):
            return self._known[1]
        with torch.inference_mode(False):  # what an evaluation makes here, training must be able to use
            adjacency = normalise(edge_index, nodes, dtype)
        self._known = (graph, adjacency)
        return adjacency


SPEC = Spec(
    build=GCN,
    accepts=("nodes",),
    cost="2 (N F + E) width FLOPs for the first layer, forward",
    cite="""@inproceedings{kipf2017semi,
  title={Semi-Supervised Classification with Graph Convolutional Networks},
  author={Kipf, Thomas N. and Welling, Max},
  booktitle={International Conference on Learning Representations}, year={2017}
}""",
)
