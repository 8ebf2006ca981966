"""The report as a reader gets it: what it says, what it refuses, that it is the same twice, and that it asks nobody."""

from __future__ import annotations

import dataclasses
import html.parser
import itertools
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from algos.finding import InputError
from reports.document import Document, Paragraph, Picture, Term, Verdict
from reports.render.html import render
from reports.report import Report, build
from reports.summary import summarise
from reports.table import read
from reports.writing import write

NAME = "sgd-or-adam"
THREE = {"sgd": {"level": 0.93}, "adam": {"level": 0.96}, "muon": {"level": 0.9605, "speed": 0.02}}


class Page(html.parser.HTMLParser):
    """What is in a page: tags, ids, links, texts."""

    def __init__(self, text: str):
        super().__init__()
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.text = ""
        self.unnamed = 0
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        told = dict(attrs)
        self.tags.append(tag)
        if told.get("id"):
            self.ids.append(str(told["id"]))
        self.links += [str(told[key]) for key in ("href", "src", "xlink:href") if told.get(key)]
        self.unnamed += told.get("role") == "img" and not told.get("aria-label")

    def handle_data(self, data: str) -> None:
        self.text += data


def said(report: Report, task: int = 0) -> tuple[str, str]:
    """The verdict of a task, and its sentences as plain text."""
    blocks = report.document.blocks
    verdict = [block for block in blocks if isinstance(block, Verdict)][task]
    points = itertools.takewhile(lambda block: isinstance(block, Paragraph), blocks[blocks.index(verdict) + 1 :])
    parts = [part for block in (verdict, *points) for part in (*block.parts, " ")]  # type: ignore[union-attr]
    words = [part if isinstance(part, str) else part.term if isinstance(part, Term) else part.text for part in parts]
    return verdict.verdict, "".join(words)


def subjects(report: Report) -> list[tuple[str, str]]:
    """Each claim and its verdict."""
    return [(block.subject, block.verdict) for block in report.document.blocks if isinstance(block, Verdict)]


def page_of(memory: Any, name: str = NAME, question: str = "") -> Page:
    """The page without the work of drawing: an empty picture for each figure."""
    report = build(read(memory, name), question)
    empty = {drawing.name: b'<svg viewBox="0 0 1 1"></svg>' for drawing in report.drawings}
    return Page(render(report.document, empty))


def changed(memory: Any, records: Any, **values: Any) -> None:
    memory.change(records, lambda record: dataclasses.replace(record, **values))


def test_everything_is_written(clean: Any, tmp_path: Path) -> None:
    page = write(clean, NAME, tmp_path / "out")
    assert page == tmp_path / "out" / "report.html"
    document = Document.from_json((tmp_path / "out" / "report.json").read_text("utf-8"))
    names = [block.name for block in document.blocks if isinstance(block, Picture)]
    assert len(names) == len(set(names)) == 4
    files = {path.name for path in (tmp_path / "out" / "figures").iterdir()}
    assert files == {f"{name}.{kind}" for name in names for kind in ("pdf", "svg", "csv")}


def test_the_same_runs_give_the_same_bytes_in_any_order(clean: Any, tmp_path: Path) -> None:
    write(clean, NAME, tmp_path / "a")
    clean.records.reverse()
    clean.points = dict(reversed(clean.points.items()))
    write(clean, NAME, tmp_path / "b")
    files = sorted(path.relative_to(tmp_path / "a") for path in (tmp_path / "a").rglob("*") if path.is_file())
    assert len(files) == 3 + 4 * 3
    for path in files:
        assert (tmp_path / "a" / path).read_bytes() == (tmp_path / "b" / path).read_bytes(), path


def test_the_page_stands_alone(clean: Any, tmp_path: Path) -> None:
    page = Page(write(clean, NAME, tmp_path).read_text("utf-8"))
    assert not {"script", "iframe", "img", "link", "object", "embed", "form"} & set(page.tags)
    assert page.unnamed == 0
    outside = [link for link in page.links if not link.startswith("#")]
    assert all(link == "report.json" or link.startswith("figures/") for link in outside)
    assert all((tmp_path / link).exists() for link in outside)


def test_ids_are_unique_and_every_link_has_its_place(made: Any, tmp_path: Path) -> None:
    page = Page(write(made(THREE), NAME, tmp_path).read_text("utf-8"))
    assert len(page.ids) == len(set(page.ids))
    assert {link[1:] for link in page.links if link.startswith("#")} <= set(page.ids)


def test_every_number_leads_to_runs_that_exist(clean: Any) -> None:
    document = build(read(clean, NAME)).document
    ids = {record.run_id for record in clean.records}
    numbers = list(document.quantities())
    assert len(numbers) > 30
    assert all(set(quantity.runs) <= ids and quantity.runs for quantity in numbers)
    assert {quantity.runs for quantity in numbers} == set(document.labels())


@pytest.mark.parametrize(
    "name", ["<script>alert(1)</script>", r"\input{/etc/passwd}", "a_b%&$#\"'", "学习率比较", "x" * 300]
)
def test_names_are_shown_as_they_are(made: Any, tmp_path: Path, name: str) -> None:
    memory = made({name: {"level": 0.93}, "adam": {"level": 0.96}}, name=name, question=f"{name}?")
    page = Page(write(memory, name, tmp_path).read_text("utf-8")) if "script" in name else page_of(memory, name)
    assert "script" not in page.tags
    assert page.text.count(name) > 5
    assert build(read(memory, name)).document.title == f"Report: {name}"


def test_a_clear_winner_is_named_with_its_uncertainty(clean: Any) -> None:
    verdict, text = said(build(read(clean, NAME)))
    assert verdict == "better"
    assert re.match(
        r"adam is better than sgd: test accuracy is higher by 0\.0297 \[0\.0260, 0\.0334\] \(95 % t interval, 6 seeds",
        text,
    )
    assert "All arms used the same gradient evaluations and seconds of training" in text


def test_no_difference_is_not_shown(made: Any) -> None:
    verdict, text = said(build(read(made({"a": {"level": 0.95}, "b": {"level": 0.95}}, noise=0.01), NAME)))
    assert verdict == "no difference shown"
    assert "No arm is shown to be best" in text
    assert "no difference is shown against" in text


def test_better_than_one_and_not_shown_against_another(made: Any) -> None:
    """Two claims, each with its own word."""
    report = build(read(made({**THREE, "muon": {"level": 0.9601}}), NAME))
    assert subjects(report) == [
        ("adam against sgd, on digits", "better"),
        ("adam against muon, on digits", "no difference shown"),
    ]
    assert "better than sgd" in said(report)[1]
    assert re.search(r"Against muon: .* were it truly that large, about \d+ more seeds", said(report, 1)[1])


def test_many_arms_are_not_all_spelt_out(made: Any) -> None:
    arms = {f"arm{i}": {"level": 0.90 + 0.01 * i} for i in range(6)}
    _, text = said(build(read(made(arms), NAME)))
    assert text.count("seeds paired") == 3
    assert "2 more stand in the table of pairs." in text


def test_clocks_that_disagree_give_no_headline(made: Any) -> None:
    """Twice the time an update: at equal seconds the slow arm was only half way, and its curve is steep there."""
    memory = made({"fast": {"level": 0.93}, "slow": {"level": 0.94, "speed": 0.08, "gradients": 8}})
    verdict, text = said(build(read(memory, NAME)))
    assert verdict == "depends on the clock"
    assert text.startswith(
        "No single answer: per update slow is better than fast; per gradient evaluation and per second of training "
        "fast is better than slow."
    )
    assert "Per update: slow is better than fast" in text
    assert "Per gradient evaluation, compared at 400 gradient evaluations: fast is better than slow" in text
    assert "Per second of training, compared at 4 seconds of training: fast is better than slow" in text


def test_diverged_runs_are_counted_and_never_averaged_away(made: Any) -> None:
    memory = made({"sgd": {"level": 0.93}, "wild": {"level": 0.97}}, seeds=5)
    for record in memory.of(arm="wild", phase="final")[:2]:
        memory.diverge(record)
    report = build(read(memory, NAME))
    verdict, text = said(report)
    assert verdict == "cannot be told"
    assert "cannot reach significance with n = 5" in text
    assert "2 of 5 runs of wild diverged" in text
    page = page_of(memory)
    assert "no mean: 2 of 5 diverged" in page.text
    assert "40 [12, 77]" in page.text
    row = next(row for row in summarise(memory, NAME) if row["arm"] == "wild")
    assert (row["n"], row["mean"], row["diverged"], row["reached"]) == (5, None, 2, 3)


@pytest.mark.parametrize("seeds", [1, 2])
def test_too_few_seeds_are_refused_in_words(made: Any, tmp_path: Path, seeds: int) -> None:
    memory = made(seeds=seeds)
    verdict, text = said(build(read(memory, NAME)))
    assert verdict == "cannot be told"
    assert "allow no interval and no test" in text
    assert all(row["low"] is None and row["mean"] is not None for row in summarise(memory, NAME))
    text = page_of(memory).text
    assert "t interval" not in text, "none is drawn"
    assert "an interval takes at least 3 seeds" in text


def test_one_arm_is_described_and_not_compared(made: Any) -> None:
    memory = made({"sgd": {"level": 0.93}})
    verdict, text = said(build(read(memory, NAME)))
    assert verdict == "cannot be told"
    assert "nothing to compare it with" in text
    assert "How well" in page_of(made({"sgd": {"level": 0.93}}, question="")).text


def test_tuning_alone_is_a_report_without_answer(made: Any) -> None:
    memory = made()
    memory.records = memory.of(phase="tune")
    verdict, text = said(build(read(memory, NAME)))
    assert verdict == "cannot be told"
    assert text.startswith("No final run has an outcome yet, so there is nothing to compare.")
    assert "Tuning" in page_of(memory).text


def test_no_tuning_is_said(made: Any) -> None:
    assert "Nothing was tuned." in page_of(made(trials=0)).text


def test_an_arm_that_always_diverged_has_no_curve_of_survivors(made: Any) -> None:
    memory = made({"sgd": {"level": 0.93}, "wild": {"level": 0.97}})
    for record in memory.of(arm="wild"):
        memory.diverge(record)
    assert said(build(read(memory, NAME)))[0] == "better"
    assert "no mean: 6 of 6 diverged" in page_of(memory).text


def test_the_question_given_stands_in_place_of_the_studys(clean: Any) -> None:
    assert "Why?" in page_of(clean, question="Why?").text


@pytest.mark.parametrize(
    ("break_it", "name", "message"),
    [
        (lambda m: None, "sgd-or-adm", "did you mean 'sgd-or-adam'"),
        (lambda m: m.records.clear(), NAME, "unknown study"),
        (lambda m: changed(m, m.records, status="running"), NAME, "no finished runs"),
        (lambda m: changed(m, m.of(phase="final")[:1], final={}), NAME, "has no final 'test/accuracy'"),
        (lambda m: m.with_file(m.records, facts={}), NAME, "do not say their metric"),
    ],
)
def test_bad_input_is_one_line_and_writes_nothing(
    clean: Any, tmp_path: Path, break_it: Any, name: str, message: str
) -> None:
    break_it(clean)
    with pytest.raises(InputError, match=re.escape(message)) as error:
        write(clean, name, tmp_path / "out")
    assert "\n" not in str(error.value)
    assert not (tmp_path / "out").exists()


def test_a_folder_that_cannot_be_made_is_one_line(clean: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="give another folder"):
        write(clean, NAME, tmp_path / "file" / "out")


def test_references_are_those_of_the_entries_used_once_each(clean: Any) -> None:
    page = page_of(clean)
    for key in ("@article{adam,", "@article{sgd,", "@misc{digits,"):
        assert page.text.count(key) == 1


def test_rows_for_tables(made: Any) -> None:
    rows = summarise(made(THREE), NAME)
    assert [row["arm"] for row in rows][-1] == "sgd"
    assert all(row["low"] < row["mean"] < row["high"] for row in rows)
    assert {(row["n"], row["diverged"], row["trials"], row["unit"]) for row in rows} == {(6, 0, 8, "")}
    assert json.loads(json.dumps(rows)) == rows


def test_reports_need_neither_torch_nor_pyplot() -> None:
    """Also: nothing that trains, and nothing heavy before a report is asked for."""
    code = (
        "import sys, reports.report, reports.summary, reports.render.html;"
        "heavy = ('torch', 'lightning', 'optuna', 'mlflow', 'pandas', 'matplotlib.pyplot', 'experiments.training');"
        "print([name for name in heavy if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
