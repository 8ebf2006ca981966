from __future__ import annotations

import functools
import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from algos.finding import InputError
from experiments import recorder
from experiments.recorder import record
from experiments.store.home import Home
from experiments.store.schema import RunRecord
from experiments.termination import Terminated


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """A home without a mirror."""
    monkeypatch.setattr(recorder, "session", functools.partial(recorder.session, mirror=False))
    return Home(tmp_path)


def only(home: Home) -> RunRecord:
    (found,) = home.records()
    return found


def loop(home: Home, error: BaseException | None = None) -> None:
    with record("s", arm="a", metric="val/acc", mode="max", budget=2, home=home) as run:
        run.log({"train/loss": 0.5}, update=1)
        with run.evaluating():
            accuracy = 0.75
        run.log({"val/acc": accuracy}, update=2)
        if error is not None:
            raise error


def test_a_block_is_a_run(home: Home) -> None:
    loop(home)
    found = only(home)
    assert (found.status, found.final, found.config["budget"]) == ("completed", {"objective": 0.75}, {"updates": 2})
    assert found.labels.trial == "s/own/a/final/0"


@pytest.mark.parametrize(
    ("error", "status", "reason"),
    [
        (ValueError("no such layer"), "crashed", "ValueError: no such layer"),
        (SystemExit(2), "crashed", "SystemExit: 2"),
        (SystemExit(0), "completed", ""),
        (KeyboardInterrupt(), "interrupted", "Ctrl-C"),
        (Terminated(), "interrupted", "SIGTERM"),
    ],
)
def test_a_block_that_raises_says_how_it_ended_and_the_error_goes_on(
    home: Home, error: BaseException, status: str, reason: str
) -> None:
    with pytest.raises(type(error)) as raised:
        loop(home, error)
    assert raised.value is error
    found = only(home)
    assert (found.status, found.reason) == (status, reason)
    assert ("in loop" in found.traceback) == (status == "crashed")
    assert found.last["val/acc"] == 0.75


def nested(home: Home) -> None:
    with record("s", arm="inner", home=home):
        os.kill(os.getpid(), signal.SIGTERM)


def test_sigterm_ends_the_run_whatever_the_block_makes_of_it(home: Home) -> None:
    with record("s", arm="a", home=home) as run:
        with pytest.raises(SystemExit):
            nested(home)
        run.log({"a": 1.0}, update=1)
    assert [(found.status, found.reason) for found in home.records()] == [("interrupted", "SIGTERM")] * 2
    with record("s", arm="later", home=home) as run:
        run.log({"a": 1.0}, update=1)
    assert run.status == "completed"


def test_a_metric_that_was_never_logged_costs_no_result(home: Home) -> None:
    said = r"'val/acc' was never logged \(logged: val/loss\)"
    with pytest.warns(UserWarning, match=said) as warned, record("s", metric="val/acc", mode="max", home=home) as run:
        run.log({"val/loss": 1.0}, update=1)
    assert only(home).status == "completed"
    assert warned[0].filename == __file__


def test_what_is_apart_is_no_training(home: Home, jump: Callable[[float], None]) -> None:
    with record("s", arm="a", home=home) as run:
        with run.apart():
            jump(1000)
        run.log({"a": 1.0}, update=1)
    assert only(home).last["time/train_s"] < 500


def test_logging_where_there_is_no_run_is_one_line(home: Home) -> None:
    run = record("s", home=home)
    with pytest.raises(InputError, match=r"^the run has not begun; write `with tl.record\(...\) as run:`"):
        run.log({"a": 1.0}, update=1)
    with run:
        pass
    with pytest.raises(InputError, match=r"^run .* is over \(completed\)"):
        run.log({"a": 1.0}, update=1)
    with pytest.raises(InputError, match=r"^this record was used before"), run:
        pass
    assert only(home).status == "completed"


def inner(home: Home) -> None:
    with record("s", arm="inner", home=home) as run:
        run.log({"a": 1.0}, update=1)
        raise ValueError


def test_a_record_inside_a_record_is_a_run_of_its_own(home: Home) -> None:
    with record("s", arm="outer", home=home) as outer:
        with pytest.raises(ValueError):
            inner(home)
        outer.log({"a": 2.0}, update=1)
    assert {r.labels.arm: (r.status, r.last["a"]) for r in home.records()} == {
        "outer": ("completed", 2.0),
        "inner": ("crashed", 1.0),
    }


def test_threads_may_open_records_of_their_own(home: Home) -> None:
    def fit(seed: int) -> None:
        with record("s", arm="a", seed=seed, home=home) as run:
            run.log({"a": seed}, update=1)

    threads = [threading.Thread(target=fit, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = home.records()
    assert [(r.status, r.last["a"] == r.labels.seed) for r in found] == [("completed", True)] * 4
    assert sorted(r.labels.number for r in found) == [0, 1, 2, 3]


@pytest.mark.parametrize("budget", [{"steps": 5}, 0, True, {"updates": "many"}])
def test_a_budget_that_is_none_is_refused(home: Home, budget: object) -> None:
    with pytest.raises(InputError, match=r"^budget: "):
        record("s", budget=budget, home=home)  # type: ignore[arg-type]


_LOOP = """
    import functools, os, signal, sys, time
    from experiments import recorder
    recorder.session = functools.partial(recorder.session, mirror=False)
    from experiments.recorder import record
    try:
        with record("s", arm="a") as run:
            run.log({"train/loss": 0.5}, update=1)
            print("ready", flush=True)
            time.sleep(600)
    finally:
        print("torch" in sys.modules, signal.getsignal(signal.SIGTERM) is signal.SIG_DFL, flush=True)
"""


@pytest.mark.parametrize(
    ("number", "status", "reason", "code"),
    [
        (signal.SIGTERM, "interrupted", "SIGTERM", 143),
        (signal.SIGINT, "interrupted", "Ctrl-C", -signal.SIGINT),
        (signal.SIGKILL, "lost", "its process vanished", -signal.SIGKILL),
    ],
)
def test_real_signals_end_a_real_process(tmp_path: Path, number: int, status: str, reason: str, code: int) -> None:
    started = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(_LOOP)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "TRAINLAB_HOME": str(tmp_path)},
    )  # fmt: skip
    assert started.stdout is not None
    assert started.stdout.readline() == "ready\n"
    started.send_signal(number)
    said, _ = started.communicate(timeout=300)
    assert said == ("" if number == signal.SIGKILL else "False True\n")
    assert started.returncode == code
    found = only(Home(tmp_path))
    assert (found.status, found.reason) == (status, reason)


@pytest.mark.slow
def test_a_record_is_mirrored_and_its_end_does_not_wait(tmp_path: Path) -> None:
    """The process is over in less time than mlflow takes to import; the uploader outlives it and sends the run."""
    code = """
        from experiments.recorder import record
        with record("s", arm="a", metric="val/acc", mode="max") as run:
            run.log({"val/acc": 0.75, "odd@name": 1.0}, update=1)
    """
    uri = f"sqlite:///{tmp_path}/mlflow.db"
    environment = {**os.environ, "TRAINLAB_HOME": str(tmp_path / "home"), "MLFLOW_TRACKING_URI": uri}
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], env=environment, check=True, timeout=300)
    from experiments.store.uploads import start_uploader

    uploader = start_uploader(Home(tmp_path / "home"), uri)
    assert not uploader.finish(300)
    from mlflow import MlflowClient

    (run,) = MlflowClient(uri).search_runs([e.experiment_id for e in MlflowClient(uri).search_experiments()])
    assert run.data.metrics["val/acc"] == 0.75
    assert run.data.metrics["odd_x40_name"] == 1.0
    assert run.info.status == "FINISHED"
