"""The page about AlgoPerf: its commands and its Python do what it says, on logs small enough to be scored by hand."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from trainlab.cli import main

PAGE = (Path(__file__).parents[2] / "docs" / "algoperf.md").read_text()
HEAD = "score,global_step,validation/wer,test/wer"


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty folder with the logs of two submissions: b takes 1.5 times as long as a."""
    import os

    for name in [name for name in os.environ if name.startswith(("TRAINLAB_", "MLFLOW_"))]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    for name, seconds in (("a", 1000), ("b", 1500)):
        for study in range(3):
            folder = Path(f"external_tuning/{name}/study_{study}/librispeech_deepspeech_jax/trial_1")
            folder.mkdir(parents=True)
            rows = [f"10,1,1,1\n{seconds},100,0.11,0.12"]
            (folder / "eval_measurements.csv").write_text("\n".join([HEAD, *rows]) + "\n")


@pytest.mark.slow
def test_the_commands_of_the_page(capsys):
    """One of eight workloads: 1/8 for a, (4 - 1.5)/3/8 for b, exactly."""
    commands = [line.split()[1:] for line in PAGE.splitlines() if line.startswith("trainlab ")]
    assert [command[0] for command in commands] == ["import", "report"]
    for command in commands:
        assert main(command) == 0
    data = json.loads(next(Path().rglob("report.json")).read_text())
    exact = [
        part["value"]
        for block in data["blocks"]
        if block["kind"] == "table"
        for row in block["rows"]
        for cell in row
        for part in cell
        if isinstance(part, dict) and part.get("arguments", {}).get("rule") == "exact"
    ]
    assert exact == [pytest.approx(1 / 8), pytest.approx(2.5 / 3 / 8)]
    assert main(["verify", str(next(Path().rglob("report.json")))]) == 0
    capsys.readouterr()
    assert main(["import", "algoperf", "external_tuning", "--name", "other", "--ruleset", "extern"]) == 2
    assert "give external or self" in capsys.readouterr().err


def test_the_python_of_the_page(capsys):
    code = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)[0]
    exec(compile(code, "algoperf.md", "exec"), {})
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["a", "b"]
