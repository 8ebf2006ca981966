"""Text: a character language model's text in memory, read in blocks.

The text is cut by position into training, validation and test parts. Its alphabet is that of the whole text, so that
every character has a number. In training, an epoch is the non-overlapping blocks from an offset drawn anew, in an order
drawn anew: over epochs every character stands at every place of a block. In evaluation the blocks start at 0, the last
is as short as it comes, and every character but the first is predicted once, from what stands before it in its block.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from algos.contracts import Signature
from experiments.data import ngrams
from experiments.data.batch import Batch
from experiments.data.shuffled import Shuffled, Take
from experiments.data.splits import Splits
from experiments.data.together import Stacked
from experiments.task import BatchSource, Split

EVALUATION_TOKENS = 16384


class Text:
    """TaskData of a text: blocks of `block` characters, of which `held_out` (validation, test) are shares of the whole.

    alphabet: the characters, by number. sizes: characters. baselines: "unigram" and "bigram" bits per character on the
    test part. A batch of B is B blocks, (B, block) int64, with the characters that follow each as targets.
    """

    def __init__(self, text: str, block: int, held_out: tuple[float, float] = (0.05, 0.05)):
        self.alphabet = "".join(sorted(set(text)))
        numbers = {character: number for number, character in enumerate(self.alphabet)}
        codes = torch.tensor([numbers[character] for character in text])
        validation, test = (int(len(codes) * share) for share in held_out)
        train = len(codes) - validation - test
        parts = dict(zip(("train", "validation", "test"), codes.split([train, validation, test])))
        self._block = block
        self._splits = Splits({split: (part,) for split, part in parts.items()})
        self.signature = Signature("tokens", (block,), len(self.alphabet))
        self.digest = self._splits.digest
        self.sizes: Mapping[str, int] = {split: len(part) for split, part in parts.items()}
        counted = parts["train"], parts["test"], len(self.alphabet)
        self.baselines: Mapping[str, float] = {
            "unigram": ngrams.unigram_bits(*counted),
            "bigram": ngrams.bigram_bits(*counted),
        }

    def decode(self, numbers: Tensor) -> str:
        """The characters of numbers (L,)."""
        return "".join(self.alphabet[number] for number in numbers.tolist())

    def training(self, batch_size: int, seed: int, device: torch.device) -> BatchSource:
        (text,) = self._splits.on(device)["train"]
        block = self._block
        count = (len(text) - block) // block

        def open_epoch(generator: torch.Generator) -> Take:
            offset = int(torch.randint(block, (), generator=generator))
            return Blocks(text, offset, *_blocks(text, offset, count, block))

        return Shuffled(count, batch_size, seed, device, open_epoch)

    def evaluation(self, split: Split, device: torch.device) -> list[Batch]:
        (text,) = self._splits.on(device)[split]
        count = (len(text) - 1) // self._block
        inputs, targets = _blocks(text, 0, count, self._block)
        rows = max(1, EVALUATION_TOKENS // self._block)
        pairs = zip(inputs.split(rows), targets.split(rows), strict=True)
        batches = [Batch((part,), following) for part, following in pairs if len(part)]
        rest = text[count * self._block :].unsqueeze(0)
        return [*batches, Batch((rest[:, :-1],), rest[:, 1:])] if rest.shape[1] > 1 else batches


@dataclass(frozen=True)
class Blocks:
    """Rows of a text's blocks from an offset, as a batch. inputs, targets: views of the text, (count, block)."""

    text: Tensor
    offset: int
    inputs: Tensor
    targets: Tensor

    def __call__(self, rows: Tensor) -> Batch:
        return Batch((self.inputs.index_select(0, rows),), self.targets.index_select(0, rows))

    def together(self, takes: Sequence[Blocks], rows: Tensor) -> Stacked:
        """rows: (members, B), of blocks that begin at every member's own offset."""
        block = self.inputs.shape[1]
        offsets = torch.tensor([take.offset for take in takes], device=rows.device)
        starts = (rows * block + offsets.unsqueeze(1)).unsqueeze(-1)
        places = starts + torch.arange(block + 1, device=rows.device)
        read = self.text.index_select(0, places.view(-1)).view(places.shape)
        return Stacked((read[..., :-1],), read[..., 1:])


def _blocks(text: Tensor, offset: int, count: int, block: int) -> tuple[Tensor, Tensor]:
    """Views of a text: (count, block) from an offset, and the same one character later."""
    end = offset + count * block
    return text[offset:end].view(count, block), text[offset + 1 : end + 1].view(count, block)
