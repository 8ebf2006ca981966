"""Every notebook runs from top to bottom in a fresh kernel, headless, and stays readable."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.py"))


def outputs(notebook: Any) -> list[Any]:
    return [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # Jupyter's own
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_in_a_fresh_kernel(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import jupytext
    from nbclient import NotebookClient

    for name in ("TRAINLAB_HOME", "MLFLOW_TRACKING_URI"):
        monkeypatch.delenv(name, raising=False)
    notebook = jupytext.read(path)
    here = {"metadata": {"path": str(tmp_path)}}
    client = NotebookClient(notebook, timeout=300, kernel_name="python3", resources=here)
    client.execute()  # raises where a cell does

    assert (tmp_path / ".trainlab" / "runs").is_dir()
    assert "widgets" not in notebook.metadata
    lines = sum(len(output.text.splitlines()) for output in outputs(notebook) if output.output_type == "stream")
    assert lines < 200
    assert sum("text/html" in output.get("data", {}) for output in outputs(notebook)) >= 5


def test_notebooks_are_thin() -> None:
    """They import, call and show: no functions, no classes, no loops."""
    import ast

    assert NOTEBOOKS
    for path in NOTEBOOKS:
        body = ast.parse(path.read_text()).body
        assert not any(isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.For, ast.While)) for node in body), path
