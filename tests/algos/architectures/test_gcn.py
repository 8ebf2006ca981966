"""The graph convolutional network."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch import Tensor

from algos.architectures import gcn
from algos.architectures.gcn import GCN, Convolution, normalise
from algos.contracts import Signature

SIGNATURE = Signature("nodes", (6,), 3)
PATH = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])  # 0 - 1 - 2


def random_graph(nodes: int = 30, edges: int = 120) -> Tensor:
    """Directed, with loops and repeated edges."""
    generator = torch.Generator().manual_seed(0)
    return torch.randint(nodes, (2, edges), generator=generator)


def dense(edge_index: Tensor, nodes: int) -> Tensor:
    return normalise(edge_index, nodes, torch.float64) @ torch.eye(nodes, dtype=torch.float64)


def test_a_path_of_three_nodes_by_hand() -> None:
    """Degrees with loops 2, 3, 2: entries 1/2, 1/3 on the diagonal, 1/sqrt(6) beside it."""
    side = 6**-0.5
    expected = [[1 / 2, side, 0], [side, 1 / 3, side], [0, side, 1 / 2]]
    torch.testing.assert_close(dense(PATH, 3), torch.tensor(expected, dtype=torch.float64))


def test_a_node_alone_keeps_its_own_features() -> None:
    assert dense(torch.empty(2, 0, dtype=torch.long), 2).tolist() == [[1, 0], [0, 1]]


def test_it_is_torch_geometrics_convolution() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its imports warn
        from torch_geometric.nn import GCNConv
    edges, x = random_graph(), torch.randn(30, 6, dtype=torch.float64)
    ours, theirs = Convolution(6, 4).double(), GCNConv(6, 4).double()
    with torch.no_grad():
        theirs.lin.weight.copy_(ours.weight)
        ours.bias.normal_()
        theirs.bias.copy_(ours.bias)
    torch.testing.assert_close(ours(x, normalise(edges, 30, torch.float64)), theirs(x, edges), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(
        ours.float()(x.float(), normalise(edges, 30)), theirs.float()(x.float(), edges), rtol=0, atol=1e-6
    )


def test_renaming_the_nodes_renames_the_predictions() -> None:
    model = GCN(SIGNATURE).double().eval()
    edges, x = random_graph(), torch.randn(30, 6, dtype=torch.float64)
    order = torch.randperm(30)
    torch.testing.assert_close(model(x[order], order.argsort()[edges]), model(x, edges)[order])


def test_depth_is_how_far_a_node_sees() -> None:
    x = torch.zeros(3, 6)
    far = x.clone()
    far[2] = 1
    for depth, sees in ((1, False), (2, True)):
        torch.manual_seed(0)
        model = GCN(SIGNATURE, depth=depth).eval()
        assert torch.equal(model(x, PATH)[0], model(far, PATH)[0]) is not sees


def test_the_matrix_is_computed_once_for_a_graph_and_again_for_another(monkeypatch: pytest.MonkeyPatch) -> None:
    computed = []

    def counting(edge_index: Tensor, nodes: int, dtype: torch.dtype) -> gcn.Adjacency:
        computed.append(edge_index)
        return normalise(edge_index, nodes, dtype)

    monkeypatch.setattr(gcn, "normalise", counting)
    model, x, edges = GCN(SIGNATURE).eval(), torch.randn(3, 6), PATH.clone()
    first = model(x, edges)
    assert torch.equal(model(x, edges), first)
    assert len(computed) == 1
    edges[1, 3] = 0  # changed in place: 2 -> 0 in place of 2 -> 1
    fresh = GCN(SIGNATURE).eval()
    fresh.load_state_dict(model.state_dict())
    assert torch.equal(model(x, edges), fresh(x, edges))
    assert not torch.equal(model(x, edges), first)


def test_the_matrix_is_no_part_of_the_state() -> None:
    model = GCN(SIGNATURE)
    model(torch.randn(3, 6), PATH)
    assert set(model.state_dict()) == {"layers.0.weight", "layers.0.bias", "layers.1.weight", "layers.1.bias"}


def test_evaluating_first_does_not_spoil_training() -> None:
    model, x = GCN(SIGNATURE), torch.randn(3, 6)
    with torch.inference_mode():
        model(x, PATH)
        model(x, PATH.clone())
    model(x, PATH).sum().backward()
    assert all(p.grad is not None for p in model.parameters())


def test_training_twice_gives_the_same_bits() -> None:
    def gradient() -> list[Tensor]:
        torch.manual_seed(3)
        model = GCN(SIGNATURE)
        model(torch.ones(30, 6), random_graph()).square().sum().backward()
        return [p.grad for p in model.parameters() if p.grad is not None]

    assert all(torch.equal(a, b) for a, b in zip(gradient(), gradient(), strict=True))


def test_it_can_be_differentiated_twice() -> None:
    """Curvature is asked for by some algorithms."""
    model, x = GCN(SIGNATURE, width=3, dropout=0.0).double(), torch.randn(3, 6, dtype=torch.float64)
    weight = model.get_parameter("layers.0.weight")
    (grad,) = torch.autograd.grad(model(x, PATH).square().sum(), weight, create_graph=True)
    (second,) = torch.autograd.grad(grad.square().sum(), weight)
    assert second.abs().sum() > 0
