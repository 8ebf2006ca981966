"""The command that follows: run once, however it ended, told how; its own failure is said and changes nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from algos.finding import InputError
from experiments.progress import StudyPlanned
from experiments.stopping import StopNow
from experiments.store.home import Home
from trainlab.afterwards import afterwards
from trainlab.attending import Watch

TELLS = 'echo "$TRAINLAB_STUDY $TRAINLAB_STATUS $TRAINLAB_RUNS $TRAINLAB_REASON" >> '


@pytest.fixture
def watch(tmp_path: Path) -> Watch:
    return Watch(Home(tmp_path), "s")


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ("complete", "s complete 0 \n"),
        ("until", "s incomplete 0 until 07:00\n"),
        ("left", "s failed 0 work was left that nobody did\n"),
        ("now", "s incomplete 0 Ctrl-C\n"),
        ("raised", "s failed 0 no such metric\n"),
    ],
)
def test_it_is_told_how_it_ended(how: str, told: str, tmp_path: Path, watch: Watch) -> None:
    watch.take(StudyPlanned("s", 1, 0))

    def ends() -> None:
        with afterwards(TELLS + str(tmp_path / "told"), Home(tmp_path), watch) as outcome:
            if how == "complete":
                outcome.complete = True
            elif how == "until":
                watch.stop.request("until 07:00", planned=True)
            elif how == "now":
                watch.stop.request("Ctrl-C")
                raise StopNow
            elif how == "raised":
                raise InputError("no such metric")

    if how in ("now", "raised"):
        with pytest.raises(StopNow if how == "now" else InputError):
            ends()
    else:
        ends()
    assert (tmp_path / "told").read_text() == told


def test_refused_input_is_not_done(tmp_path: Path, watch: Watch) -> None:
    with pytest.raises(InputError), afterwards(TELLS + str(tmp_path / "told"), Home(tmp_path), watch):
        raise InputError("no such optimizer")
    assert not (tmp_path / "told").exists()


def test_its_failure_is_said_and_what_it_prints_is_no_answer(
    tmp_path: Path, watch: Watch, capfd: pytest.CaptureFixture[str]
) -> None:
    with afterwards("echo hello; exit 3", Home(tmp_path), watch) as outcome:
        outcome.complete = True
    out, err = capfd.readouterr()
    assert (out, err) == ("", "hello\n--on-done `echo hello; exit 3` ended with code 3\n")
