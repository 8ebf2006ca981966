"""Documents with every kind of block, and names in them that try to be something else."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from algos.finding import Finding
from reports.document import (
    Block,
    Column,
    Document,
    Findings,
    Heading,
    Paragraph,
    Picture,
    RunList,
    RunRow,
    Table,
    Term,
    Verbatim,
    Verdict,
    evidence,
)
from reports.quantity import Quantity

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
#: No window, and none of the browser's own conversations with its maker.
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--hide-scrollbars",
)  # fmt: skip
#: What a user may call an arm, a study or a file.
NAMES = (
    "<script>alert(1)</script>",
    r"\input{/etc/passwd}",
    r"a_b%&$#~^",
    "#set page(width: 1cm)",
    "=cmd|' /C calc'!A1",
    "| pipe | `tick` |",
    "**bold** _it_ [a](http://evil.example)",
    "学习率比较 lr",
    "x" * 300,
    "a--b ``c'' ,,d'' <<e>> fi ffl ?`",
    "€ ± − 0.5 ≥ λ β₂ “q” é",
    "{{ 7 * 7 }} {% raw %} ${x} \\end{document} ]]>",
    "* 1. list <!-- c --> &amp; &lt;b&gt;",
    "back\\slash\\ $x^2$ @me https://evil.example",
)
TWO_LINES = "first line\nsecond line"
SVG = (
    b'<?xml version="1.0"?><svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
    b'width="180pt" height="90pt" viewBox="0 0 180 90"><g id="a"><path d="M10 80 L170 10" stroke="#0072B2" '
    b'fill="none" stroke-width="2"/></g></svg>'
)


def built(names: tuple[str, ...] = (*NAMES, TWO_LINES), runs: int = 3, title: str = "") -> Document:
    """Every kind of block, with each name in every place where one may stand."""
    ids = tuple(f"20260101-{index:06}-abc" for index in range(runs))
    number = Quantity(value=0.9712, low=0.96, high=0.98, statistic="student.mean_interval", runs=ids, unit="acc")
    other = Quantity(
        value=None, statistic="censored.median_time", arguments={"arm": names[0]}, runs=ids[:1], absent="not reached"
    )
    bare = Quantity(value=-12.5, statistic="value", unit="%")
    head = "A quite long head of a column"
    blocks: list[Block] = [
        Heading(level=2, text="Question", anchor="question"),
        Paragraph(parts=(f"Which of {names[0]} and {names[1]} is better?",), role="lead"),
        Heading(level=2, text="Answer", anchor="answer"),
        *(Verdict(subject=name, verdict="better", parts=(Term(term=name), " by ", number, ".")) for name in names),
        Verdict(subject="last", verdict="cannot be told", parts=("There is ", bare, " and ", other, ".")),
        Heading(level=2, text=f"Results of {names[2]}", anchor="results"),
        *(Heading(level=3, text=name, anchor=f"results-{index}") for index, name in enumerate(names)),
        *(Paragraph(parts=(name, " and then ", Term(term=name), ".")) for name in names),
        Table(
            caption=("Of ", Term(term=names[0]), ": ", number),
            columns=(
                Column(head=names[2]),
                Column(head=head, unit=names[3], number=True),
                Column(head="n", number=True),
                Column(head="Words"),
            ),
            rows=tuple(((Term(term=name),), (number,), ("4",), (f"in words: {name}",)) for name in names),
            notes=tuple((Term(term=name), " is noted.") for name in names),
        ),
        Table(
            caption=("Many columns.",),
            columns=tuple(Column(head=f"Column {i}", number=i > 0) for i in range(11)),
            rows=tuple(((f"row {r}",), *((number if i % 2 else "1,234.5",) for i in range(10))) for r in range(3)),
        ),
        Picture(
            name="one", title=names[0], caption=("Seen: ", Term(term=names[7]), "."), alt=f"Of {names[0]}", runs=ids
        ),
        Picture(name="two", title="t", caption=("Two.",), alt=" and ".join(names)),
        Findings(
            findings=tuple(
                Finding("some-rule", name, name, source=name, place="line 3", level=level)
                for name in names
                for level in ("note", "caution", "error")
            )
        ),
        Findings(findings=(), empty=f"Nothing found in {names[4]}."),
        Verbatim(
            text="\n\n".join(f"@misc{{k{i}, title={{{name}}}}}" for i, name in enumerate(names)), language="bibtex"
        ),
        Verbatim(text='{"a":  1,\n  "b": "</code></pre>```"}', language="json"),
    ]
    blocks += [
        Heading(level=2, text="The runs behind every number", anchor="evidence"),
        evidence(blocks),
        Heading(level=2, text="All runs", anchor="runs"),
        RunList(
            runs=tuple(
                RunRow(
                    run_id=run,
                    name=run,
                    task="digits",
                    arm=names[index % len(names)],
                    phase="final",
                    number=index,
                    seed=index + 1,
                    status="completed",
                    objective=None if index == 1 else -0.97123,
                    digest="0" * 64,
                )
                for index, run in enumerate(ids)
            )
        ),
    ]
    return Document(
        title=title or f"Report: {names[0]}", summary=f"{names[0]}: better", study=names[1], made_by="trainlab 0.1.0",
        blocks=tuple(blocks),
    )  # fmt: skip


@pytest.fixture
def names() -> tuple[str, ...]:
    return NAMES


@pytest.fixture
def document_of() -> Callable[..., Document]:
    """`built`: every kind of block, with hostile names, or the ones given."""
    return built


@pytest.fixture
def hostile() -> Document:
    return built()


@pytest.fixture
def pictures() -> dict[str, bytes]:
    """The drawings of `built`'s pictures."""
    return {"one": SVG, "two": SVG}


@pytest.fixture
def browse(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """What a headless browser says of an address, given such flags as "--dump-dom"."""
    if CHROMIUM is None:
        pytest.skip("no chromium; .ci/run installs it")

    def browsed(address: str, *flags: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(CHROMIUM), *FLAGS, f"--user-data-dir={tmp_path / 'profile'}", *flags, address],
            capture_output=True, text=True, timeout=120, check=True,
        )  # fmt: skip

    return browsed
