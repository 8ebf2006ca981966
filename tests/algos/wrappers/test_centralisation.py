"""Centralisation: by hand, against the authors' line of code, and the law it rests on."""

import pytest
import torch

from algos.contracts import Gradient
from algos.wrappers.centralisation import Centralisation


def centralised(grads, **hyper):
    given = Gradient(torch.tensor(1.0), grads)
    return Centralisation(**hyper).gradient(None, None, lambda batch: given).grads


def test_by_hand():
    grads = {
        "matrix": torch.tensor([[1.0, 2.0, 6.0], [1.0, 1.0, 1.0]]),
        "vector": torch.tensor([1.0, 2.0]),
        "scalar": torch.tensor(3.0),
    }
    found = centralised(grads)
    assert found["matrix"].tolist() == [[-2.0, -1.0, 3.0], [0.0, 0.0, 0.0]]
    assert found["vector"] is grads["vector"]
    assert found["scalar"] is grads["scalar"]
    assert grads["matrix"][0, 0] == 1.0, "what it was given is left alone"


@pytest.mark.parametrize("shape", [(5, 3), (4, 3, 2, 2), (3, 2, 5)])
def test_it_is_the_authors_line(shape):
    grad = torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    theirs = grad.clone()
    theirs.add_(-theirs.mean(dim=tuple(range(1, len(list(theirs.size())))), keepdim=True))
    torch.testing.assert_close(centralised({"w": grad})["w"], theirs, rtol=1e-14, atol=0)


def test_convolutions_only_leaves_matrices():
    grads = {"matrix": torch.ones(2, 3), "filter": torch.ones(2, 3, 1, 1)}
    found = centralised(grads, convolutions_only=True)
    assert torch.equal(found["matrix"], grads["matrix"])
    assert (found["filter"] == 0).all()


def test_a_convolution_of_one_dimension_is_a_convolution():
    """The authors' GCC begins at rank 4, and would leave it."""
    filters = torch.tensor([[[1.0, 2.0], [3.0, 6.0]], [[0.0, 4.0], [0.0, 0.0]]])
    assert torch.nn.Conv1d(2, 2, 2).weight.shape == filters.shape
    found = centralised({"filter": filters}, convolutions_only=True)["filter"]
    assert found.tolist() == [[[-2.0, -1.0], [0.0, 3.0]], [[-1.0, 3.0], [-1.0, -1.0]]]


def test_a_step_keeps_each_unit_s_mean():
    """It is gradient descent within the weights whose units have the mean they began with."""
    weight, grad = torch.randn(2, 4, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    moved = weight - 0.3 * centralised({"w": grad})["w"]
    torch.testing.assert_close(moved.mean(1), weight.mean(1), rtol=1e-12, atol=1e-14)
