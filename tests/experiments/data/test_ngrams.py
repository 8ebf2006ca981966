"""What counting achieves, computed again by hand."""

from __future__ import annotations

from collections import Counter
from math import log2

import pytest
import torch

from experiments.data.ngrams import bigram_bits, unigram_bits

TRAIN, TEST = "abracadabra", "abcda"
ALPHABET = sorted(set(TRAIN + TEST))


def numbers(text: str) -> torch.Tensor:
    return torch.tensor([ALPHABET.index(character) for character in text])


def test_unigram_of_abracadabra() -> None:
    """Counts a 5, b 2, c 1, d 1, r 2 of 11; five characters; b, c, d, a are predicted."""
    expected = -(log2(3 / 16) + log2(2 / 16) + log2(2 / 16) + log2(6 / 16)) / 4
    assert unigram_bits(numbers(TRAIN), numbers(TEST), 5) == pytest.approx(expected)


def test_bigram_of_abracadabra() -> None:
    """a is followed by b twice, c and d once; b by r twice; c and d by a."""
    expected = -(log2((2 + 1) / (4 + 5)) + log2(1 / (2 + 5)) + log2(1 / (1 + 5)) + log2((1 + 1) / (1 + 5))) / 4
    assert bigram_bits(numbers(TRAIN), numbers(TEST), 5) == pytest.approx(expected)


def test_long_texts_agree_with_plain_counting() -> None:
    train, held_out = torch.randint(7, (2000,)), torch.randint(7, (300,))
    pairs = Counter(zip(train.tolist(), train.tolist()[1:], strict=False))
    firsts = Counter(train.tolist()[:-1])
    bits = [
        -log2((pairs[before, after] + 1) / (firsts[before] + 7))
        for before, after in zip(held_out.tolist(), held_out.tolist()[1:], strict=False)
    ]
    assert bigram_bits(train, held_out, 7) == pytest.approx(sum(bits) / len(bits))


def test_a_text_that_repeats_itself_is_nearly_free_for_a_bigram() -> None:
    text = torch.arange(4).repeat(5000)
    assert unigram_bits(text, text, 4) == pytest.approx(2.0, abs=1e-3)
    assert bigram_bits(text, text, 4) < 0.01
