"""The runs of one command are told apart by what was varied, and by nothing that only follows from it."""

from __future__ import annotations

import pytest

from experiments.overrides import parse
from trainlab.differences import differences
from trainlab.running import resolved


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("task=digits", [""]),
        ("task=digits seed=1,2,3", ["", "", ""]),
        ("task=digits optimizer=adamw,muon", ["", ""]),
        ("task=digits,cora", ["", ""]),
        ("task=digits optimizer.lr=1e-3,1e-2", ["lr=0.001", "lr=0.01"]),
        ("task=digits wrappers=none,ema+sam", ["wrappers=none", "wrappers=ema+sam"]),
        ("task=digits wrappers=ema wrappers.ema.decay=0.9,0.99", ["decay=0.9", "decay=0.99"]),
        ("task=digits schedule=constant,warmup_cosine", ["schedule=constant", "schedule=warmup_cosine"]),
        ("task=digits budget.epochs=1,2 seed=1,2", ["epochs=1", "epochs=1", "epochs=2", "epochs=2"]),
        (
            "task=digits optimizer.lr=1e-3,1e-2 optimizer.weight_decay=0,0.1",
            [
                "lr=0.001 weight_decay=0",
                "lr=0.001 weight_decay=0.1",
                "lr=0.01 weight_decay=0",
                "lr=0.01 weight_decay=0.1",
            ],
        ),
    ],
)
def test_what_tells_runs_of_one_command_apart(said: str, told: list[str]) -> None:
    assert differences(resolved(parse(said.split()))) == told
