"""The listing of optimizers tells, of each, whom to read and what it costs."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from algos import catalogue
from trainlab import showing
from trainlab.cli import main
from trainlab.papers import short


def test_optimizers_are_listed_with_paper_state_cost_and_needs(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "300")  # wide enough that nothing is wrapped
    assert main(["list", "optimizers"]) == 0
    table, legend = capsys.readouterr().out.split("\n\n")
    assert all(f"{word} (" in legend for word in ("names", "phase", "shared", "curvature", "closure", "directions"))
    head, *rows = table.splitlines()
    assert head.split() == ["name", "paper", "state", "cost", "needs"]
    muon = next(row for row in rows if row.startswith("muon "))
    for told in ("Jordan et al. 2024", "one buffer per weight of a matrix", "15 matrix products", "names"):
        assert told in muon
    assert len(rows) == len(catalogue.paths("optimizers"))


@pytest.mark.parametrize("width", [80, 120, None])
def test_the_listing_fits_the_screen_and_loses_no_word(width: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    if width:
        monkeypatch.setenv("COLUMNS", str(width))
    else:
        monkeypatch.delenv("COLUMNS", raising=False)
        monkeypatch.setattr("os.get_terminal_size", lambda _: (_ for _ in ()).throw(OSError))  # not a terminal
    lines = showing.listing("optimizers")
    shown = repr(lines)
    assert max(map(len, shown.splitlines())) <= (width or 160)
    told = " ".join(f"{line.name} {line.paper} {line.state} {line.cost} {line.needs}" for line in lines)
    table = shown.split("\n\n")[0]
    assert Counter(table.split()) == Counter(f"name paper state cost needs {told}".split())


@pytest.mark.parametrize("line", showing.listing("optimizers"), ids=lambda line: line.name)
def test_every_optimizer_names_its_paper_its_state_and_its_cost(line: showing.Line) -> None:
    assert line.paper.split()[-1].isdigit(), f"no author and year in its BibTeX: {line.paper!r}"
    assert line.state
    assert line.cost


def test_json_has_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "optimizers", "--json"]) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows["sophia"]["needs"] == "curvature"
    assert rows["lion"]["paper"] == "Chen et al. 2023"


def test_other_kinds_are_listed_by_title(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "losses"]) == 0
    assert capsys.readouterr().out.startswith("losses\n  cross_entropy")


@pytest.mark.parametrize(
    ("bibtex", "expected"),
    [
        ("@a{x, author = {Kingma, Diederik P. and Ba, Jimmy}, year = {2015}}", "Kingma & Ba 2015"),
        ("@a{x, author={{van der} Berg, A}, year=2020}", "van der Berg 2020"),
        ('@a{x, author = {G{\\"u}nter, F and B, C and D, E}, year = {1999}}\n@b{y, year={1}}', "Gunter et al. 1999"),
        ("@a{x, title = {No one}}", ""),
    ],
)  # fmt: skip
def test_a_paper_s_short_name(bibtex: str, expected: str) -> None:
    assert short(bibtex) == expected


def test_the_rule_of_each_parameter_is_shown_on_a_task(capsys: pytest.CaptureFixture[str]) -> None:
    """Hidden matrices are under muon, fused ones in a group of their own, and the rest under the fallback."""
    assert main(["show", "muon", "--task", "python_docs", "--json"]) == 0
    rows = {row["parameter"]: row for row in json.loads(capsys.readouterr().out)["parameters"]}
    assert rows["blocks.0.attention.qkv.weight"]["group"] == "fused matrices"
    assert rows["blocks.0.expand.weight"]["rule"] == "muon"
    assert {rows[name]["rule"] for name in ("tokens.weight", "norm.weight", "blocks.0.expand.bias")} == {"fallback"}
