"""The notebook: it runs from top to bottom in a kernel of its own, and shows the document that it was written for."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest

from algos.finding import InputError
from reports.document import Document
from reports.render.notebook import Frozen
from reports.writing import put, write

nbformat = pytest.importorskip("nbformat")


@pytest.fixture
def folder(hostile: Document, pictures: dict[str, bytes], tmp_path: Path) -> Path:
    from reports.render.formats import chosen

    put(hostile, {f"{name}.svg": svg for name, svg in pictures.items()}, tmp_path, chosen(["notebook"]))
    return tmp_path


def cells(folder: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((folder / "report.ipynb").read_text("utf-8"))["cells"]
    return found


def test_it_has_a_cell_for_each_section_with_what_it_shows_and_no_name_in_its_code(folder: Path) -> None:
    code = [cell for cell in cells(folder) if cell["cell_type"] == "code"]
    assert [cell["source"] for cell in code[1:]] == [
        f"report.section('{anchor}')" for anchor in ("question", "answer", "results", "evidence", "runs")
    ]
    assert [cell["execution_count"] for cell in code] == [1, 2, 3, 4, 5, 6]
    report = Frozen(folder / "report.json")
    shown = [cell["outputs"][0]["data"] for cell in code]
    assert shown[0] == {"text/plain": repr(report)}
    for anchor, data in zip(("question", "answer", "results", "evidence", "runs"), shown[1:], strict=True):
        assert data["text/html"] == report.section(anchor)._repr_html_()
    assert not any("alert" in cell["source"] for cell in code)
    for cell in code:
        ast.parse(cell["source"])


def test_anchors_cannot_be_code(hostile: Document, pictures: dict[str, bytes]) -> None:
    from reports.document import Heading
    from reports.render.notebook import files

    wicked = Heading(level=2, text="t", anchor="'); import os; os.abort(); ('")
    made = json.loads(files(hostile.model_copy(update={"blocks": (wicked,)}), pictures)["report.ipynb"])
    tree = ast.parse(made["cells"][-1]["source"])
    assert len(tree.body) == 1
    assert ast.literal_eval(tree.body[0].value.args[0]) == wicked.anchor  # type: ignore[attr-defined]


def test_sections_show_names_as_they_are(folder: Path, names: tuple[str, ...]) -> None:
    import html
    import re

    report = Frozen(folder / "report.json")
    page = "".join(report.section(name)._repr_html_() for name in ("question", "answer", "results", "evidence", "runs"))
    text = html.unescape(re.sub(r"<[^>]*>", "", page))
    assert all(text.count(name) > 8 for name in names)
    assert "<script" not in page
    assert page.count("<svg") == 2


def test_a_misspelt_section_another_document_and_none_are_refused(folder: Path, hostile: Document) -> None:
    with pytest.raises(InputError, match="did you mean 'answer'"):
        Frozen(folder / "report.json").section("anwser")
    digest = next(cell["source"] for cell in cells(folder) if "sha256" in cell["source"]).split('sha256="')[1][:64]
    assert Frozen(folder / "report.json", sha256=digest).document == hostile
    (folder / "report.json").write_text(hostile.model_copy(update={"title": "other"}).to_json(), "utf-8")
    with pytest.raises(InputError, match="not the document that this notebook was written for"):
        Frozen(folder / "report.json", sha256=digest)
    with pytest.raises(InputError, match="in the folder that the report was written into"):
        Frozen(folder / "nowhere.json")


@pytest.mark.slow
def test_it_runs_from_top_to_bottom_in_a_fresh_kernel(clean: Any, tmp_path: Path) -> None:
    client = pytest.importorskip("nbclient")
    path = write(clean, "sgd-or-adam", tmp_path, formats=["notebook"])
    notebook = nbformat.read(path, as_version=4)
    stored = [dict(output) for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    client.NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(tmp_path)}}).execute()
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    assert {output.output_type for output in outputs} == {"execute_result"}
    assert [dict(output) for output in outputs] == stored, "running it gives what a viewer showed"
    shown = [output.data["text/html"] for output in outputs if "text/html" in output.data]
    assert len(shown) == len(outputs) - 1 > 5
    assert sum(page.count("<svg") for page in shown) == sum(
        name.suffix == ".svg" for name in (tmp_path / "figures").iterdir()
    )
    assert "widgets" not in notebook.metadata
