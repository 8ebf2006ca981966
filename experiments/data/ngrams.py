"""N-grams: what counting alone achieves on a text, in bits per character. A language model must beat it.

Add-one (Laplace) smoothing over an alphabet of V characters, counts n from the training text:

    unigram   p(c)     = (n(c) + 1) / (n + V)
    bigram    p(c | b) = (n(b c) + 1) / (n(b .) + V)

The value is the mean of -log2 p over every character of the held-out text but its first, the same that a model
predicts.
"""

from __future__ import annotations

from torch import Tensor


def unigram_bits(train: Tensor, held_out: Tensor, alphabet: int) -> float:
    """Texts as numbers (L,) below `alphabet`.

    >>> from torch import tensor
    >>> unigram_bits(tensor([0, 0, 1]), tensor([1, 0, 0]), alphabet=3)     # p(0) = (2 + 1)/(3 + 3) = 1/2
    1.0
    """
    counts = train.bincount(minlength=alphabet).double() + 1
    surprise = -(counts / counts.sum()).log2()
    return surprise[held_out[1:]].mean().item()


def bigram_bits(train: Tensor, held_out: Tensor, alphabet: int) -> float:
    """Texts as numbers (L,) below `alphabet`.

    >>> from torch import tensor
    >>> bigram_bits(tensor([0, 1, 0]), tensor([0, 1]), alphabet=2)     # p(1|0) = (1 + 1)/(1 + 2) = 2/3
    0.58...
    """
    pairs = (train[:-1] * alphabet + train[1:]).bincount(minlength=alphabet**2).double().view(alphabet, alphabet) + 1
    surprise = -(pairs / pairs.sum(dim=1, keepdim=True)).log2()
    return surprise[held_out[:-1], held_out[1:]].mean().item()
