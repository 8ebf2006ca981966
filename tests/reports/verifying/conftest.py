"""Studies of two tasks to verify, in memory and in a real home, and documents of them as they would be written."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from experiments.store.home import Home, RunFolder
from reports.document import Document
from reports.table import read
from reports.verifying.report import again

STUDY = "sgd-or-adam"


@pytest.fixture
def two(made: Callable[..., Any], digits: dict[str, Any]) -> Any:
    """Three arms on two tasks, six seeds each, tuned; a Source in memory."""
    arms = {"sgd": {"level": 0.93}, "adam": {"level": 0.96}, "lion": {"level": 0.945}}
    return made(arms, tasks={"digits": digits, "cora": {**digits, "title": "Cora"}}, trials=2)


@pytest.fixture
def written() -> Callable[[Any], Document]:
    """A source's document as it comes back from its file."""
    return lambda source: Document.from_json(again(read(source, STUDY)).to_json())


@pytest.fixture
def stored(tmp_path: Path) -> Callable[[Any], Home]:
    """Writes a study of memory into a home, through the spools that its runs would write."""

    def store(memory: Any) -> Home:
        home = Home(tmp_path / "home").prepare()
        for record in memory.records:
            attempt = home.create(record.file).begin()
            series = {metric: line for (run, metric), line in memory.points.items() if run == record.run_id}
            updates = sorted({update for line in series.values() for update in line.updates})
            for update in updates:
                at = {m: line.values[line.updates.index(update)] for m, line in series.items()}
                attempt.points(update, at)
            attempt.final(record.final)
            attempt.end(record.status)
        return home

    return store


@pytest.fixture
def rewrite() -> Callable[..., None]:
    """Edits the lines of a run's spool, as somebody with an editor would: rewrite(folder, "final", edit)."""

    def edit(folder: RunFolder, kind: str, change: Callable[[dict[str, Any]], None]) -> None:
        (path,) = folder.path.glob("spool.*.jsonl")
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        for line in lines:
            if line["kind"] == kind:
                change(line)
        path.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))

    return edit
