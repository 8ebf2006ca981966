"""A store that fails in the middle is one line, and nothing is said of the evidence."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from algos.finding import InputError
from experiments.store.pins import Pin, Pins
from reports.document import Document
from reports.verifying.answering import AWAY, Answering
from reports.verifying.claims import read
from reports.verifying.judging import judge
from reports.verifying.report import verify

STUDY = "sgd-or-adam"


class Breaks:
    """A source whose answers are taken from another one, and that fails at one of them."""

    def __init__(self, source: Any, asked: str, error: Exception):
        self.source, self.asked, self.error = source, asked, error

    def runs(self, query: str = "") -> Any:
        return self._tell("runs", lambda: self.source.runs(query))

    def series(self, run_ids: Any, metrics: Any = None) -> Any:
        return self._tell("series", lambda: self.source.series(run_ids, metrics))

    def _tell(self, asked: str, answer: Callable[[], Any]) -> Any:
        if asked == self.asked:
            raise self.error
        return answer()


@pytest.mark.parametrize("asked", ["runs", "series"])
@pytest.mark.parametrize("error", [KeyError("trainlab.status"), ConnectionResetError("gone"), ValueError("no JSON")])
def test_a_failure_is_one_line_of_bad_input(
    two: Any, written: Callable[[Any], Document], asked: str, error: Exception
) -> None:
    source = Answering(Breaks(two, asked, error), "http://host")
    with pytest.raises(InputError, match=f"http://host could not be read \\({type(error).__name__}") as refused:
        verify(written(two), source)
    assert refused.value.finding.rule == AWAY


def test_a_claim_that_held_is_not_said_to_fail_where_nothing_could_be_read(two: Any) -> None:
    claim = {"says": "It is 0.96", "number": "mean", "task": "cora", "arm": "adam"}
    run = two.of(task="cora", arm="adam", phase="final")[0].run_id
    before = Pins(Path("/c.yaml"), (Pin("It is 0.96", STUDY, "mean", "0.96", (run,)),))
    source = Answering(Breaks(two, "series", ConnectionResetError("gone")), "http://host")
    with pytest.raises(InputError, match="could not be read"):
        judge(read({"study": STUDY, "claims": [claim]}), source, before, at=7)


def test_what_is_read_is_what_the_source_says(two: Any) -> None:
    assert Answering(two, "x").runs() == two.runs()
