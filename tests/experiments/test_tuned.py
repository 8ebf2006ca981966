"""What settings are chosen by never sees the test split, however often it is run again or gone on from."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from experiments import fork
from experiments.config import resolve
from experiments.data.batch import Batch
from experiments.data.images import Images
from experiments.partway import Partway
from experiments.population import Member, train_together
from experiments.progress import RunNotice
from experiments.replay import replay
from experiments.store.home import Home, RunFolder
from experiments.store.schema import Labels, Phase
from experiments.task import Split
from experiments.training import resume, train

SMALL: dict[str, Any] = {
    "task": "digits", "model": {"name": "mlp", "width": 16}, "batch_size": 250, "budget": {"updates": 12},
    "evaluate_every": 4, "device": "cpu",
}  # fmt: skip
NET = Path(__file__).parent / "modules" / "resumable.py"
MODULE: dict[str, Any] = {
    "task": f"{NET}:Tested", "data": f"{NET}:TestedData", "metric": "val_loss", "device": "cpu",
    "budget": {"epochs": 1},
}  # fmt: skip


def labels(phase: Phase, number: int = 0) -> Labels:
    return Labels(task="digits", study="mine", arm="adamw", phase=phase, number=number, seed=1)


def lone(home: Home, phase: Phase, base: dict[str, Any] = SMALL) -> RunFolder:
    return home.folder(train(resolve(base), home=home, labels=labels(phase), study={"name": "mine"}).record.run_id)


def in_company(home: Home, phase: Phase) -> RunFolder:
    members = [Member(resolve(SMALL, {"seed": seed}), labels(phase, seed)) for seed in (1, 2)]
    folder = home.folder(train_together(members, home=home)[0].record.run_id)
    assert "population" in folder.file.facts
    return folder


def of_module(home: Home, phase: Phase) -> RunFolder:
    return lone(home, phase, MODULE)


def forked(home: Home, trunk: RunFolder, heard: list[str] | None = None) -> RunFolder:
    point = fork.find(home, f"{trunk.run_id}@last")
    more = {"budget": {"updates": point.config.budget.amount + 4}}
    (prepared,) = fork.prepare(point, [(point.changed(more), "")])

    def listener(event: object) -> None:
        if heard is not None and isinstance(event, RunNotice):
            heard.append(event.text)

    return home.folder(fork.begin(prepared, home, listener=listener).record.run_id)


def replayed(home: Home, run: RunFolder) -> RunFolder:
    found = replay(run, home)
    assert found.verdict.ruling == "identical", found.lines()
    assert found.now.final.keys() == found.then.final.keys()
    return home.folder(found.now.run_id)


def measures(folder: RunFolder) -> set[str]:
    """Of which splits the run has final values."""
    record = folder.record()
    assert record.status == "completed", record.traceback
    return {name.partition("/")[0] for name in record.final}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("make", [lone, in_company, of_module])
def test_a_replay_measures_what_the_run_did(make: Callable[[Home, Phase], RunFolder], tmp_path: Path) -> None:
    home = Home(tmp_path)
    tuning, final = make(home, "tune"), make(home, "final")
    assert measures(replayed(home, tuning)) == {"objective"}
    assert measures(replayed(home, final)) == {"objective", "test"}
    assert measures(replayed(home, replayed(home, tuning))) == {"objective"}


@pytest.mark.parametrize("make", [lone, in_company])
def test_nor_do_forks_of_a_tuning_run_nor_their_own_forks_and_replays(
    make: Callable[[Home, Phase], RunFolder], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, heard = Home(tmp_path), list[str]()
    trunk = make(home, "tune")
    measured: list[str] = []
    read = Images.evaluation

    def reading(self: Images, split: Split, device: torch.device) -> list[Batch]:
        measured.append(split)
        return read(self, split, device)

    monkeypatch.setattr(Images, "evaluation", reading)
    first = forked(home, trunk, heard)
    for run in (first, forked(home, first), replayed(home, first), forked(home, replayed(home, trunk))):
        assert measures(run) == {"objective"}
        assert run.file.facts["tuned"] == trunk.run_id
    assert set(measured) == {"validation"}
    assert f"run {trunk.run_id} is a tuning run: the test split is not read" in heard
    assert measures(forked(home, make(home, "final"))) == {"objective", "test"}


def test_nor_does_a_replay_that_was_stopped_and_goes_on(tmp_path: Path) -> None:
    home = Home(tmp_path)
    trunk = lone(home, "tune")
    stopped = train(
        resolve(SMALL), home=home, labels=Labels("digits"), facts={"tuned": trunk.run_id}, stop=Partway(8)
    ).record  # fmt: skip
    assert stopped.status == "interrupted"
    assert measures(home.folder(resume(home.folder(stopped.run_id)).record.run_id)) == {"objective"}


def test_a_new_run_from_its_weights_is_tested(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINLAB_HOME", str(tmp_path))
    home = Home(tmp_path)
    begun = train(resolve({**SMALL, "init": f"run:{lone(home, 'tune').run_id}"}), home=home).record
    assert measures(home.folder(begun.run_id)) == {"objective", "test"}
