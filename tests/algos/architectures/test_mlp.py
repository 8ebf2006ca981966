"""The multilayer perceptron."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from algos.architectures.mlp import MLP
from algos.contracts import Signature
from algos.finding import InputError

IMAGE = Signature("image", (1, 8, 8), 10)


def test_it_is_the_composition_its_docstring_states() -> None:
    model = MLP(IMAGE, width=5, depth=2, activation="tanh").double()
    x = torch.randn(3, 1, 8, 8, dtype=torch.float64)
    first, second, last = (module for module in model.modules() if isinstance(module, torch.nn.Linear))
    hidden = torch.tanh(x.reshape(3, 64) @ first.weight.T + first.bias)
    hidden = torch.tanh(hidden @ second.weight.T + second.bias)
    torch.testing.assert_close(model(x), hidden @ last.weight.T + last.bias)


def test_without_hidden_layers_it_is_linear() -> None:
    model = MLP(IMAGE, depth=0)
    assert sum(p.numel() for p in model.parameters()) == 64 * 10 + 10
    x, y = torch.randn(2, 1, 8, 8), torch.randn(2, 1, 8, 8)
    torch.testing.assert_close(model(x + y), model(x) + model(y) - model(torch.zeros_like(x)))


def test_signals_keep_their_size_through_depth() -> None:
    """He et al. 2015: with variance 2/fan_in, relu activations keep the input's mean square, at any depth."""
    torch.manual_seed(0)
    model = MLP(Signature("image", (1, 16, 16), 10), width=512, depth=8)
    x = torch.randn(200, 1, 16, 16)
    assert 0.7 < model.layers[:-1](x.flatten(1)).square().mean().item() / 2 < 1.4


def test_layer_norm_makes_the_scale_of_the_input_irrelevant() -> None:
    model = MLP(IMAGE, width=16, norm="layer").double()
    x = torch.randn(4, 1, 8, 8, dtype=torch.float64)
    torch.testing.assert_close(model(x), model(1000 * x), rtol=1e-3, atol=1e-3)


def test_edges_change_nothing() -> None:
    model, x = MLP(Signature("nodes", (5,), 3)), torch.randn(4, 5)
    assert torch.equal(model(x, torch.tensor([[0, 1], [1, 0]])), model(x, torch.empty(2, 0, dtype=torch.long)))


def test_hyperparameters_are_checked() -> None:
    with pytest.raises(InputError, match=r"width.*0 is not valid"):
        MLP(IMAGE, width=0)
    with pytest.raises(InputError, match="did you mean 'width'"):
        MLP(IMAGE, widht=3)


def test_gelu_is_the_exact_one() -> None:
    model = MLP(IMAGE, width=3, depth=1, activation="gelu")
    x = torch.randn(2, 1, 8, 8)
    torch.testing.assert_close(model.layers(x.flatten(1)), F.gelu(model.layers[0](x.flatten(1))))
