"""The page about importing: old results go into a study that trainlab runs by the commands that it shows."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import trainlab as tl
from trainlab.cli import main

PAGE = (Path(__file__).parents[2] / "docs" / "importing.md").read_text()
PASSAGE = PAGE.split("## Old results beside new ones\n")[1].split("\n## ")[0]
STUDY = "name: three\ntasks: [digits]\narms: [adamw, sgd]\nseeds: 2\nbudget: {updates: 20}\n"


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    for name in [name for name in os.environ if name.startswith(("TRAINLAB_", "MLFLOW_"))]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    Path("three.yaml").write_text(STUDY)
    Path("old.csv").write_text(re.findall(r"```csv\n(.*?)```", PASSAGE, re.DOTALL)[0])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*noload.*:DeprecationWarning")
@pytest.mark.parametrize("imported_first", [False, True])
def test_old_results_are_compared_with_new_ones(imported_first: bool, capsys: pytest.CaptureFixture[str]) -> None:
    sweep, bring, report = (
        line.split()[1:] for line in re.findall(r"```sh\n(.*?)```", PASSAGE, re.DOTALL)[0].splitlines()
    )
    for command in (bring, sweep) if imported_first else (sweep, bring):
        assert main(command) == 0
    assert main(sweep) == 0  # nothing is left to do
    capsys.readouterr()
    assert main(["status", "three"]) == 0
    table = capsys.readouterr().out
    assert "0 of 0" not in table
    rows = {row["arm"]: (row["done"], row["planned"], row["completed"]) for row in tl.status("three").data()}
    assert rows == {"adamw": (2, 2, 2), "sgd": (2, 2, 2), "shampoo": (0, None, 2)}

    assert main(report) == 0
    data = json.loads(Path("three-report/report.json").read_text())
    text = json.dumps(data)
    assert "metric-not-logged" not in text
    assert all(f'{{"term": "{arm}"}}' in text for arm in rows)
    facts = [run.record.file.facts for run in tl.study("three").runs]
    assert sorted(each.get("source", {}).get("steps", "") for each in facts) == ["", "", "", "", "updates", "updates"]
