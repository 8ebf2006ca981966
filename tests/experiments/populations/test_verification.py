"""A population that would compute something else is found before it is trusted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from algos.contracts import Gradient
from experiments.config import resolve
from experiments.population import Member, train_together, was_member
from experiments.populations import verification
from experiments.populations.oracle import PopulationOracle
from experiments.populations.verification import doubt, verified
from experiments.store.home import Home

CONFIG = {"task": "digits", "model": {"name": "mlp", "width": 8}, "batch_size": 250, "budget": {"updates": 3}}


@pytest.fixture(autouse=True)
def _nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verification, "_known", {})


def test_a_population_that_is_right_is_verified() -> None:
    assert verified([resolve(CONFIG)])


@pytest.mark.parametrize("name", ["dion", "soap", "soap_muon"])
def test_what_makes_much_of_rounding_is_found(name: str) -> None:
    config = resolve({"task": "digits", "optimizer": name})
    assert "from the run alone in" in doubt([config])


def test_a_gradient_that_is_one_percent_off_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    right = PopulationOracle.gradient

    def wrong(self: PopulationOracle, batch: Any, **where: Any) -> Gradient:
        gradient = right(self, batch, **where)
        next(iter(gradient.grads.values())).view(-1)[::2].mul_(1.01)
        return gradient

    monkeypatch.setattr(PopulationOracle, "gradient", wrong)
    configs = [resolve({**CONFIG, "optimizer": "sgd", "seed": seed}) for seed in (1, 2)]
    assert "from the run alone in" in doubt(configs)
    finished = train_together([Member(config) for config in configs], home=Home(tmp_path))
    assert [run.record.status for run in finished] == ["completed", "completed"]
    assert not any(was_member(Home(tmp_path).folder(run.record.run_id)) for run in finished)


def test_an_operation_that_fails_together_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(self: PopulationOracle, batch: Any, **where: Any) -> Gradient:
        raise RuntimeError("vmap: it looks at a number")

    monkeypatch.setattr(PopulationOracle, "gradient", fails)
    assert doubt([resolve(CONFIG)]) == "together they fail: RuntimeError: vmap: it looks at a number"
