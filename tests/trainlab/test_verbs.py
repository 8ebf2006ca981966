"""The front door from Python: what `import trainlab as tl` gives."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import trainlab as tl
from algos.finding import InputError

pytestmark = pytest.mark.usefixtures("place")
SHORT = ("task=digits", "budget.updates=60", "evaluate_every=20")


@pytest.fixture(scope="module")
def run(place: Path) -> tl.Run:
    found = tl.run(*SHORT, optimizer={"name": "adamw", "lr": 0.01}, seed=3)
    assert isinstance(found, tl.Run)
    return found


def test_a_run_tells_what_it_was_asked(run: tl.Run) -> None:
    assert run.status == "completed"
    assert run.config.task == "digits"
    assert (run.config.seed, run.config.optimizer.hyper["lr"]) == (3, 0.01)


def test_its_history_has_a_row_an_update_and_a_column_a_metric(run: tl.Run) -> None:
    history = run.history
    assert history.index.name == "update"
    assert {"train/loss", "val/accuracy", "count/examples"} <= set(history.columns)
    evaluated = history["val/accuracy"].dropna()
    assert list(evaluated.index) in ([20, 40, 60], [0, 20, 40, 60])
    assert history["count/examples"].loc[60] == 3 * 1200 + 3 * 64  # three epochs of 19 batches, and three batches


def test_its_metrics_are_the_last_values(run: tl.Run) -> None:
    assert run.metrics["val/accuracy"] == run.history["val/accuracy"].loc[60]
    assert run.metrics["objective"] == run.metrics["val/accuracy"]
    assert 0.5 < run.metrics["test/accuracy"] <= 1


def test_its_model_predicts_as_well_as_was_recorded(run: tl.Run) -> None:
    from experiments.training import load_data

    (batch,) = load_data("digits", None).evaluation("test", torch.device("cpu"))
    with torch.no_grad():
        right = run.model(*batch.inputs).argmax(-1) == batch.targets
    assert right.double().mean().item() == pytest.approx(run.metrics["test/accuracy"], abs=1e-6)


def test_its_folder_is_in_the_home(run: tl.Run, place: Path) -> None:
    assert run.path == place / ".trainlab" / "runs" / run.run_id
    assert (run.path / "run.json").exists()


def test_mlflow_has_it_under_its_own_id(run: tl.Run) -> None:
    assert run.mlflow.data.tags["trainlab.run_id"] == run.run_id
    assert run.mlflow.data.metrics["val/accuracy"] == run.metrics["val/accuracy"]
    assert run.mlflow.info.status == "FINISHED"


def test_cite_prints_the_optimizer_and_the_data(run: tl.Run, capsys: pytest.CaptureFixture[str]) -> None:
    tl.cite(run)
    cited = capsys.readouterr().out
    assert "loshchilov2019" in cited.lower().replace("_", "")
    assert "alpaydin" in cited
    assert cited.count("@") >= 2


def test_it_shows_itself_as_text_and_as_a_table(run: tl.Run) -> None:
    assert "completed" in repr(run)
    assert "<table>" in run._repr_html_()


def test_an_override_with_several_values_gives_a_list() -> None:
    runs = tl.run("task=digits", "budget.updates=5", seed=[1, 2])
    assert isinstance(runs, list)
    assert [each.config.seed for each in runs] == [1, 2]
    assert all(each.status == "completed" for each in runs)


def test_runs_selects_and_sorts(run: tl.Run) -> None:
    found = tl.runs("task=digits seed=3", sort="-created")
    assert [each.run_id for each in found] == [run.run_id]


@pytest.mark.parametrize(
    ("overrides", "config"),
    [
        (["task=digts"], {}),
        (["task=digits"], {"optimzer": "adamw"}),
        (["task=digits", "seed=1"], {"seed": 2}),
        (["task=digits", "optimizer.lr=1e-4:1e-1:log"], {}),
    ],
)
def test_bad_input_makes_no_run(overrides: list[str], config: dict[str, object]) -> None:
    before = len(tl.runs())
    with pytest.raises(InputError):
        tl.run(*overrides, **config)  # type: ignore[arg-type]
    assert len(tl.runs()) == before


STUDY = {"name": "of-a-dict", "tasks": ["digits"], "arms": ["adamw"], "budget": {"updates": 5}, "seeds": 2}


def test_a_study_is_a_dict_and_a_population_a_number() -> None:
    study = tl.sweep(STUDY, population=4)
    assert [run.status for run in study.runs] == ["completed", "completed"]
    with pytest.raises(InputError, match="off, auto or a whole number from 2"):
        tl.sweep(STUDY, population=1)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: tl.tune("task=digits", "optimizer.lr=1e-3:1:log", worker=2), "workers"),
        (lambda: tl.tune("task=digits", "optimizer.lr=1e-3:1:log", pruner="median"), "tune.pruner=median"),
        (lambda: tl.sweep(STUDY, worker=2), "workers"),
        (lambda: tl.sweep(STUDY, pruner="median"), "tune: {pruner"),
        (lambda: tl.sweep(STUDY, on_done=""), "give a command"),
        (lambda: tl.sweep({**STUDY, "tasks": ["digts"]}), "digits"),
    ],
)
def test_a_wrong_word_is_refused_with_what_was_meant(call: Callable[[], object], said: str) -> None:
    with pytest.raises(InputError, match=re.escape(said)):
        call()


def test_a_study_in_the_background_is_found_at_once_run_once_and_stopped() -> None:
    study = tl.sweep({**STUDY, "name": "later", "budget": {"updates": 100_000}}, wait=False)
    found = tl.study("later")
    assert found.pid == study.pid is not None
    assert str(found.pid) in repr(found)
    with pytest.raises(InputError, match=f"being run by pid {found.pid}"):
        tl.sweep({**STUDY, "name": "later"}, wait=False)
    found.stop()
    study.wait()
    assert study.pid is None


def test_list_shows_the_catalogue_whole() -> None:
    found = tl.list("optimizers")
    assert {"adamw", "lion", "muon", "sgd"} <= {line.name for line in found}
    assert all(f"\n{line.name} " in repr(found) for line in found)
    assert found._repr_html_().count("<tr>") == len(found) + 1  # the head
    losses = tl.list("losses")
    assert all(line.title in repr(losses) for line in losses)
    assert losses._repr_html_().count("<tr>") == len(losses)


def test_what_is_not_there_is_an_attribute_error_that_lists_what_is() -> None:
    with pytest.raises(AttributeError, match="sweep"):
        _ = tl.swep  # type: ignore[attr-defined]


@pytest.mark.slow
def test_a_run_in_the_background_is_the_run_in_the_foreground(run: tl.Run) -> None:
    other = tl.run(*SHORT, optimizer={"name": "adamw", "lr": 0.01}, seed=3, wait=False)
    assert isinstance(other, tl.Run)
    assert other.status in ("waiting", "running")
    other.wait()
    assert other.status == "completed"
    assert other.history["train/loss"].equals(run.history["train/loss"])


@pytest.mark.slow
def test_a_run_in_the_background_stops_when_asked_and_goes_on() -> None:
    run = tl.run("task=digits", "budget.updates=100000", "evaluate_every=50", wait=False)
    assert isinstance(run, tl.Run)
    run.run_id  # waits for the start  # noqa: B018
    while run.history.empty or run.history.index.max() < 50:  # the first evaluation is before any update
        time.sleep(0.1)
    run.stop()
    assert run.wait().status == "interrupted"


@pytest.mark.slow
def test_what_the_background_refuses_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    run = tl.run("task=digits", wait=False)
    assert isinstance(run, tl.Run)
    with pytest.raises(InputError, match="does not answer"):
        run.wait()
