"""Every study on the page about tuning is one that `trainlab sweep --plan` takes, and says what it searches."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from experiments.store.home import Home, new_run_id
from experiments.store.schema import Labels, RunFile
from experiments.study import load_study
from trainlab.cli import main

PAGE = Path(__file__).parents[2] / "docs" / "tuning.md"
STUDIES = re.findall(r"^```yaml\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(("TRAINLAB_", "MLFLOW_"))]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


def a_finished_trial(text: str) -> None:
    """Of the study in the text: what another one may be warmed with."""
    Path("other.yaml").write_text(text)
    study = load_study("other.yaml")
    config = study.run_config("digits", "adamw", 1001, {"optimizer.lr": 0.01}).to_json()
    labels = Labels("digits", study.name, "adamw", "tune", 0, 1001)
    attempt = Home.default().create(RunFile(new_run_id(), "a trial", labels, config, "")).begin()
    attempt.final({"objective": 0.9, "val/accuracy": 0.9})
    attempt.end("completed")


@pytest.mark.parametrize("text", STUDIES, ids=lambda text: text.split("\n")[0])
def test_a_study_of_the_page_can_be_planned(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    if "warm_start" in text:
        Path("study.yaml").write_text(text)
        assert main(["sweep", "study.yaml", "--plan"]) == 2
        assert "sampler-and-pruner" in capsys.readouterr().err
        a_finished_trial(next(other for other in STUDIES if other.startswith("name: sampler-and-pruner\n")))
    Path("study.yaml").write_text(text)
    assert main(["sweep", "study.yaml", "--plan"]) == 0
    said = capsys.readouterr().out
    assert "no pace known yet" in said
    assert "searched for " in said
    assert main(["sweep", "study.yaml", "--plan", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["space"]["digits"]


def test_the_page_shows_all_that_it_promises() -> None:
    text = "".join(STUDIES)
    words = ("sampler: {", "pruner: {", "objectives:", "when:", "optimizer: [", "warm_start:", "population:")
    assert [word for word in words if word not in text] == []
