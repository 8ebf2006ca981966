"""The recipes run as they stand, in an empty folder: their Python in one process, then their commands."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RECIPES = sorted((ROOT / "docs" / "recipes").glob("*.md"))
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"# ([\w-]+\.(?:py|yaml))\n")
_STUDY = re.compile(r"^trainlab report (\S+)$", re.MULTILINE)


def blocks(page: Path) -> list[tuple[str, str]]:
    return _BLOCK.findall(page.read_text())


def done(command: list[str], folder: Path) -> str:
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("TRAINLAB_", "MLFLOW_"))}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment |= {"PATH": path, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    ran = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, f"{command}\n{ran.stdout[-2000:]}\n{ran.stderr[-4000:]}"
    return ran.stdout


def run_page(page: Path, folder: Path) -> None:
    """A block that begins with `# name.py` or `# name.yaml` is that file; the others are one script; sh runs after."""
    script: list[str] = []
    for language, text in blocks(page):
        if language != "sh" and (named := _FILE.match(text)):
            (folder / named[1]).write_text(text)
        elif language == "python":
            script.append(text)
    (folder / "recipe.py").write_text("\n".join(script))
    done([sys.executable, "recipe.py"], folder)
    for language, text in blocks(page):
        if language == "sh":
            done(["bash", "-euc", text], folder)


@pytest.mark.slow
@pytest.mark.parametrize("page", RECIPES, ids=lambda page: page.stem)
def test_a_recipe_does_what_it_says(page: Path, tmp_path: Path) -> None:
    from experiments.store.home import Home

    if page.stem == "hugging_face":
        pytest.importorskip("transformers")
    run_page(page, tmp_path)
    records = Home(tmp_path / ".trainlab").records()
    assert {record.status for record in records} == {"completed"}
    studies = set(_STUDY.findall(page.read_text()))
    assert studies
    for study in studies:
        assert (tmp_path / f"{study}-report" / "report.html").exists()
        own = [record for record in records if record.labels.study == study]
        assert len({record.labels.arm for record in own}) >= 2
        assert all(record.final.keys() >= {"objective"} for record in own)


def test_recipes_are_short_and_all_of_them_are_run() -> None:
    assert [page.stem for page in RECIPES] == ["hugging_face", "lightning", "plain_torch"]
    for page in RECIPES:
        assert {language for language, _ in blocks(page)} <= {"python", "sh", "yaml"}
        assert len(page.read_text().splitlines()) <= 140
