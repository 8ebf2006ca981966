"""Ours: what a figure may be written over, and what not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from algos.finding import InputError
from reports.figures.drawing import Drawing
from reports.figures.ours import check_ours
from reports.figures.panel import Ask, panel
from reports.figures.style import style


def files(subject: Any, look: str, kind: str = "points") -> dict[str, bytes]:
    with style(look) as found:
        drawing: Drawing = panel(kind, subject, Ask()).drawing("results", found, "column", "s")
        return drawing.files(("pdf", "svg", "png"))


def write(made: dict[str, bytes], folder: Path) -> None:
    for name, content in made.items():
        (folder / name).write_bytes(content)


def test_figures_are_drawn_again_over_themselves(tmp_path: Path, subject_of: Callable[..., Any]) -> None:
    """In another style, of another kind with other columns."""
    subject = subject_of(("sgd", "adam"))
    write(files(subject, "icml"), tmp_path)
    check_ours(files(subject, "slide"), tmp_path)
    check_ours(files(subject, "icml", "curves"), tmp_path)
    check_ours(files(subject, "icml"), tmp_path / "none")


@pytest.mark.parametrize("name", ["results.csv", "results.pdf", "results.svg", "results.png"])
def test_what_somebody_else_wrote_stays(name: str, tmp_path: Path, subject_of: Callable[..., Any]) -> None:
    (tmp_path / name).write_bytes(b"mine,alone\n1,2\n")
    with pytest.raises(InputError, match=f"{name} is there, and trainlab did not write it"):
        check_ours(files(subject_of(("sgd",)), "icml"), tmp_path)


def test_a_picture_edited_by_hand_stays(tmp_path: Path, subject_of: Callable[..., Any]) -> None:
    made = files(subject_of(("sgd",)), "icml")
    write(made, tmp_path)
    edited = made["results.pdf"].replace(b"/Creator (trainlab", b"/Creator (Inkscape")
    assert edited != made["results.pdf"]
    (tmp_path / "results.pdf").write_bytes(edited)
    with pytest.raises(InputError, match=r"results\.pdf is there"):
        check_ours(made, tmp_path)
