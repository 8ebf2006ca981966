"""Tiny Shakespeare, character by character: 1.1 million characters of plays.

90 % of the text for training, then 5 % for validation and 5 % for test, by position. In $TRAINLAB_DATA it is
`text/tinyshakespeare.txt`; else it is downloaded once.
"""

from __future__ import annotations

from pathlib import Path

from experiments.data.fetch import Published, Remote
from experiments.data.text import Text
from experiments.task import TaskData, TaskSpec

PUBLISHED = Published(
    name="tiny_shakespeare",
    folder="text",
    files=(
        Remote(
            name="tinyshakespeare.txt",
            url="https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt",
            sha256="86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed",
            size_bytes=1115394,
        ),
    ),
)


def load(root: Path | None) -> TaskData:
    path = PUBLISHED.fetch(root) / "tinyshakespeare.txt"
    return Text(path.read_bytes().decode(), block=128)


TASK = TaskSpec(
    load=load,
    model={"name": "gpt", "width": 128, "depth": 2, "heads": 4},
    optimizer={"name": "adamw", "lr": 6e-3, "weight_decay": 0.1},
    schedule={"name": "warmup_cosine"},
    metric="bits_per_character",
    mode="min",
    metrics=("bits_per_character", "loss"),
    worst=8.0,
    target=2.6,
    target_source="what the default AdamW run reaches in about two thirds of its budget (2 seeds)",
    unit="tokens",
    budget={"updates": 1000},
    batch_size=16,
    evaluate_every=100,
    cite="""@misc{karpathy2015unreasonable,
  title={The Unreasonable Effectiveness of Recurrent Neural Networks},
  author={Karpathy, Andrej}, year={2015}, howpublished={\\url{https://karpathy.github.io/2015/05/21/rnn-effectiveness/}}
}""",
    home="https://github.com/karpathy/char-rnn",
)
