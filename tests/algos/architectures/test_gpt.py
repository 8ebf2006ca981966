"""The language model."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn import functional as F

from algos.architectures.gpt import GPT, Attention
from algos.contracts import Signature
from algos.finding import InputError
from algos.parameters import places

SIGNATURE = Signature("tokens", (16,), 11)


def small(**hyper: object) -> GPT:
    torch.manual_seed(0)
    return GPT(SIGNATURE, **{"width": 8, "depth": 2, "heads": 2, **hyper})


def test_a_later_token_changes_nothing_before_it() -> None:
    model, tokens = small(), torch.randint(11, (2, 16))
    changed = tokens.clone()
    changed[:, 9] = (changed[:, 9] + 1) % 11
    before, after = model(tokens), model(changed)
    assert torch.equal(before[:, :9], after[:, :9])
    assert not torch.equal(before[:, 9:], after[:, 9:])


def test_attention_is_the_softmax_its_docstring_states() -> None:
    torch.manual_seed(0)
    attention = Attention(6, heads=2, dropout=0.0).double()
    x = torch.randn(3, 5, 6, dtype=torch.float64)
    q, k, v = attention.qkv(x).split(6, dim=-1)
    mask = torch.full((5, 5), -math.inf, dtype=torch.float64).triu(1)
    mixed = []
    for head in (slice(0, 3), slice(3, 6)):
        scores = q[..., head] @ k[..., head].transpose(1, 2) / math.sqrt(3)
        mixed.append((scores + mask).softmax(dim=-1) @ v[..., head])
    torch.testing.assert_close(attention(x), attention.out(torch.cat(mixed, dim=-1)))


def test_the_output_layer_is_the_embedding() -> None:
    model = small()
    assert sum(p.numel() for p in model.parameters() if 11 in p.shape) == 11 * 8
    assert {place.name: place.role for place in places(model) if place.role == "head"} == {}
    with torch.no_grad():
        model.tokens.weight[3] = 0
    assert torch.equal(model(torch.randint(11, (2, 16)))[..., 3], torch.zeros(2, 16))


def test_parameters_are_12_width_squared_a_block() -> None:
    """Matrices: 3 + 1 for attention, 4 + 4 for the perceptron; biases: 3 + 1 + 4 + 1; two norms of 2."""
    width, depth = 32, 3
    model = GPT(SIGNATURE, width=width, depth=depth, heads=4)
    expected = depth * (12 * width**2 + 13 * width) + 2 * width + (11 + 16) * width
    assert sum(p.numel() for p in model.parameters()) == expected


def test_dropout_draws_from_the_global_generator_and_only_in_training() -> None:
    model, tokens = small(dropout=0.5), torch.randint(11, (2, 16))
    state = torch.get_rng_state()
    first = model(tokens)
    assert not torch.equal(first, model(tokens))
    torch.set_rng_state(state)
    assert torch.equal(first, model(tokens))
    model.eval()
    state = torch.get_rng_state()
    assert torch.equal(model(tokens), model(tokens))
    assert torch.equal(state, torch.get_rng_state())


def test_a_shorter_context_is_served_and_a_longer_one_is_not() -> None:
    model, tokens = small().eval(), torch.randint(11, (2, 16))
    torch.testing.assert_close(model(tokens[:, :5]), model(tokens)[:, :5])
    with pytest.raises(AssertionError, match="context length is 16"):
        model(torch.zeros(1, 17, dtype=torch.long))


def test_it_starts_knowing_nothing() -> None:
    """Before training, the loss on random text is near that of a uniform guess, whatever the width."""
    tokens, following = torch.randint(11, (32, 16)), torch.randint(11, (32, 16))
    for width in (16, 256):
        loss = F.cross_entropy(small(width=width)(tokens).flatten(0, 1), following.flatten())
        assert math.log(11) - 0.1 < loss.item() < math.log(11) + 1


def test_heads_must_divide_the_width() -> None:
    with pytest.raises(InputError, match="heads=3 does not divide width=8"):
        small(heads=3)
