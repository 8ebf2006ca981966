"""Text in blocks: what is trained on and what is scored."""

from __future__ import annotations

import torch

from experiments.data.text import Text

CPU = torch.device("cpu")
LETTERS = "".join(chr(97 + (i * i + i // 7) % 26) for i in range(2000))


def test_parts_follow_one_another_and_are_the_whole() -> None:
    data = Text(LETTERS, block=8, held_out=(0.1, 0.05))
    assert dict(data.sizes) == {"train": 1700, "validation": 200, "test": 100}
    assert (data.signature.kind, data.signature.inputs, data.signature.outputs) == ("tokens", (8,), len(set(LETTERS)))


def test_targets_are_the_characters_that_follow() -> None:
    data = Text(LETTERS, block=8)
    batch = data.training(5, seed=1, device=CPU).next()
    assert batch.inputs[0].shape == batch.targets.shape == (5, 8)
    assert batch.examples == 40
    assert torch.equal(batch.inputs[0][:, 1:], batch.targets[:, :-1])
    for inputs, targets in zip(batch.inputs[0], batch.targets, strict=True):
        assert data.decode(torch.cat([inputs, targets[-1:]])) in LETTERS[: data.sizes["train"]]


def test_an_epoch_is_blocks_that_do_not_overlap_and_cover_nearly_all() -> None:
    """A text of distinct tokens shows where each block starts."""
    data = Text("".join(chr(200 + i) for i in range(1000)), block=10, held_out=(0.05, 0.05))
    source = data.training(7, seed=3, device=CPU)
    offsets = set()
    for _ in range(40):
        starts = torch.cat([source.next().inputs[0][:, 0] for _ in range(len(source))]).sort().values
        assert len(starts) == 89  # of 900 characters, one block is left for the offset
        assert (starts.diff() == 10).all()
        offsets.add(int(starts[0]))
    assert offsets == set(range(10))


def test_restored_sources_draw_the_same_offset() -> None:
    data = Text(LETTERS, block=8)
    source, other = data.training(50, seed=1, device=CPU), data.training(50, seed=1, device=CPU)
    for _ in range(7):
        source.next()
    other.load_state_dict(source.state_dict())
    for _ in range(9):
        ours, theirs = source.next(), other.next()
        assert torch.equal(ours.inputs[0], theirs.inputs[0])
        assert torch.equal(ours.targets, theirs.targets)


def test_every_character_but_the_first_is_scored_once_in_order() -> None:
    for block in (8, 7, 64, 512):
        data = Text(LETTERS, block=block)
        for split in ("validation", "test"):
            batches = data.evaluation(split, CPU)  # type: ignore[arg-type]
            scored = torch.cat([batch.targets.flatten() for batch in batches])
            start = data.sizes["train"] + (data.sizes["validation"] if split == "test" else 0)
            assert data.decode(scored) == LETTERS[start + 1 : start + data.sizes[split]]
            assert all(batch.inputs[0].shape[1] <= block for batch in batches)


def test_the_digest_is_of_the_text() -> None:
    assert Text(LETTERS, block=8).digest == Text(LETTERS, block=16).digest != Text(LETTERS[:-1] + "!", block=8).digest
