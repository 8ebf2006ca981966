"""Python's documentation, character by character. Nothing to download.

The text is `pydoc_data.topics`, which Python itself carries for `help()`: 90 % for training, then 5 % for validation
and 5 % for test, by position. Topics quote each other at length; a passage is kept only where it first stands, or much
of the test text would be training text. It differs from one version of Python to the next; the data's
digest tells which it was.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from algos.finding import InputError
from experiments.data.text import Text
from experiments.task import TaskData, TaskSpec

#: A line of so many characters is a passage.
_LONG = 32


def load(root: Path | None) -> TaskData:
    try:
        from pydoc_data.topics import topics
    except ImportError as error:
        raise InputError(
            "this Python has no pydoc_data.topics", "install Python's full standard library",
            rule="missing-data", source="python_docs",
        ) from error  # fmt: skip
    return Text(told_once(topics), block=64)


def told_once(topics: Mapping[str, str]) -> str:
    """The topics by name, without any paragraph, and any long line, that stood before, however it was indented.

    >>> told_once({"a": "One.\\n\\nTwo.", "b": "  One.\\n\\nThree."})
    'One.\\n\\nTwo.\\n\\nThree.'
    """
    seen: set[str] = set()
    kept = []
    for name in sorted(topics):
        for paragraph in topics[name].strip("\n").split("\n\n"):
            lines = [line for line in paragraph.split("\n") if " ".join(line.split()) not in seen]
            words = " ".join(paragraph.split())
            if words not in seen and lines:
                seen.add(words)
                seen |= {" ".join(line.split()) for line in lines if len(line.strip()) >= _LONG}
                kept.append("\n".join(lines))
    return "\n\n".join(kept)


TASK = TaskSpec(
    load=load,
    model={"name": "gpt", "width": 64, "depth": 1, "heads": 2},
    optimizer={"name": "adamw", "lr": 5e-3, "weight_decay": 0.1},
    schedule={"name": "warmup_cosine"},
    metric="bits_per_character",
    mode="min",
    metrics=("bits_per_character", "loss"),
    worst=8.0,
    target=3.55,
    target_source="just below a smoothed bigram model, which has 3.60 on the validation text of Python 3.11",
    unit="tokens",
    budget={"updates": 400},
    batch_size=8,
    evaluate_every=50,
    home="Python's standard library (pydoc_data.topics)",
)
