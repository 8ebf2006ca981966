"""What holds for every format: each kind of block, no silence about unknown ones, the same bytes twice."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import subprocess
import sys
import time
import typing
from collections.abc import Callable
from pathlib import Path

import pytest

from algos.finding import InputError
from reports.document import Block, Document, Picture
from reports.render import formats, html
from reports.render.formats import FORMATS, chosen

_HASHES = """
import hashlib, json, sys
from pathlib import Path
from reports.document import Document
from reports.render.formats import FORMATS, chosen
document = Document.from_json(Path(sys.argv[1]).read_text("utf-8"))
pictures = {"one": Path(sys.argv[2]).read_bytes(), "two": Path(sys.argv[2]).read_bytes()}
files = {name: content for form in chosen(FORMATS) for name, content in form.files(document, pictures).items()}
print(json.dumps({name: hashlib.sha256(content).hexdigest() for name, content in files.items()}))
"""


def test_the_hostile_document_has_every_kind_of_block(hostile: Document) -> None:
    kinds = {
        typing.get_args(kind.model_fields["kind"].annotation)[0] for kind in typing.get_args(typing.get_args(Block)[0])
    }
    assert {block.kind for block in hostile.blocks} == kinds


@pytest.mark.parametrize("name", FORMATS)
def test_every_kind_of_block_is_written(hostile: Document, pictures: dict[str, bytes], name: str) -> None:
    (form,) = chosen([name])
    files = form.files(hostile, pictures)
    assert next(iter(files)) == form.file
    assert len(files[form.file]) > 1000


@pytest.mark.parametrize("name", FORMATS)
def test_a_kind_that_is_not_known_is_refused_aloud(document_of: Callable[..., Document], name: str) -> None:
    class Film(Picture):
        kind: str = "film"  # type: ignore[assignment]

    film = Film(name="f", title="t", caption=(), alt="a")
    document = document_of(("a", "b", "c", "d", "e", "f", "g", "h"))
    with pytest.raises(TypeError, match="no renderer for blocks of kind 'film'"):
        chosen([name])[0].files(document.model_copy(update={"blocks": (film,)}), {})


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize(
    ("picture", "message"), [("gone", "was not drawn"), ("../../x", "cannot name"), ("", "cannot")]
)
def test_a_picture_without_a_file_is_refused(hostile: Document, name: str, picture: str, message: str) -> None:
    block = Picture(name=picture, title="t", caption=(), alt="a")
    with pytest.raises(ValueError, match=message):
        chosen([name])[0].files(hostile.model_copy(update={"blocks": (block,)}), {"../../x": b"<svg/>", "": b"<svg/>"})


@pytest.mark.slow
def test_the_same_document_gives_the_same_bytes_in_two_processes(
    hostile: Document, pictures: dict[str, bytes], tmp_path: Path
) -> None:
    """Here, and in two others with other hashes of strings, another time zone and another day."""
    (tmp_path / "report.json").write_text(hostile.to_json(), "utf-8")
    (tmp_path / "one.svg").write_bytes(pictures["one"])
    here = {
        name: hashlib.sha256(content).hexdigest()
        for form in chosen(FORMATS)
        for name, content in form.files(hostile, pictures).items()
    }
    tables = [name for name in here if name.startswith("tables/")]
    assert tables
    assert len(here) == len(FORMATS) + 1 + len(tables)
    for seed, zone in (("1", "UTC"), ("2", "Asia/Shanghai")):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "TZ": zone, "SOURCE_DATE_EPOCH": str(int(seed) * 10**9)}
        done = subprocess.run(
            [sys.executable, "-c", _HASHES, str(tmp_path / "report.json"), str(tmp_path / "one.svg")],
            capture_output=True, text=True, check=True, env=environment,
        )  # fmt: skip
        assert json.loads(done.stdout) == here


def test_formats_are_chosen_once_each_in_their_order() -> None:
    assert [form.name for form in chosen([" PDF", "html", "pdf", ""])] == ["pdf", "html"]


@pytest.mark.parametrize(
    ("given", "message"), [(["htlm"], "did you mean 'html'"), ([], "no format"), (["", " "], "no format")]
)
def test_no_such_format(given: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        chosen(given)


@pytest.mark.parametrize(("name", "package"), [("pdf", "typst"), ("docx", "docx"), ("notebook", "nbformat")])
def test_a_missing_package_names_the_extra(monkeypatch: pytest.MonkeyPatch, name: str, package: str) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(formats.importlib.util, "find_spec", lambda name: None if name == package else find(name))
    with pytest.raises(InputError, match=rf"needs {package}.*pip install 'trainlab\[documents\]'"):
        chosen(["html", name])


def test_a_thousand_runs_are_a_page_within_two_seconds(
    document_of: Callable[..., Document], pictures: dict[str, bytes]
) -> None:
    document = document_of(runs=1000)
    html.render(document, pictures)
    begun = time.perf_counter()
    page = html.render(document, pictures)
    assert time.perf_counter() - begun < 2
    assert page.count('<tr id="run-') == 1000
