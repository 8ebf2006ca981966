"""`trainlab import` and `export` as they are called: exit codes, what is said, what is left behind."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import trainlab as tl
from algos.finding import InputError
from experiments.store.exporting import POINT_COLUMNS, RUN_COLUMNS
from experiments.store.home import Home
from trainlab import importing
from trainlab.cli import main

pytestmark = pytest.mark.usefixtures("place")
ROWS = [(arm, seed, step, level + seed / 100 + step / 10_000) for arm, level in (("adamw", 0.5), ("甲 <b>", 0.25))
        for seed in (1, 2, 3) for step in (100, 200, 300)]  # fmt: skip
TABLE = "run,method,seed,dataset,step,val/acc\n" + "".join(
    f"{arm}-{seed},{arm},{seed},digits,{step},{value!r}\n" for arm, seed, step, value in ROWS
)

Said = Callable[..., tuple[int, str, str]]


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Said:
    """Runs a command; (exit code, stdout, stderr)."""

    def call(*arguments: str) -> tuple[int, str, str]:
        code = main(list(arguments))
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


@pytest.fixture(scope="module")
def table(place: Path) -> str:
    (place / "results.csv").write_text(TABLE)
    return "results.csv"


def left() -> list[str]:
    return sorted(path.name for path in Path().iterdir())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("csv", "gone.csv", "--name", "x"), "gone.csv cannot be read"),
        (("csv", "results.csv", "--name", "a/b"), "'a/b' is no study's name"),
        (("csv", "results.csv", "--name", "x", "--metric", "val/ac"), "did you mean 'val/acc'"),
        (("csv", "results.csv", "--name", "x", "--arm", "metod"), "did you mean 'method'"),
        (("csv", "results.csv", "--name", "x", "--where", "seed=9"), "is selected by 'seed=9'"),
        (("csv", "results.csv", "--name", "x", "--where", "sed=9"), "no run has a field 'sed'"),
        (("csv", "results.csv", "--name", "x", "--mode", "max"), "without a metric"),
        (("csv", "results.csv"), "--name"),
        (("mlflow", "sqlite:///gone.db", "--name", "x"), "gone.db is not there"),
        (("mlflow", "ftp://me:hunter2@host/x", "--name", "x"), "is not a place MLflow knows"),
        (("optuna", "gone.log", "--name", "x"), "gone.log is not there"),
        (("tensorboard", "gone", "--name", "x"), "gone is not there"),
        (("tensorboard", "results.csv", "--name", "x"), "is a file"),
        (("wandb", "gone.wandb", "--name", "x"), "gone.wandb is not there"),
        (("algoperf", "gone", "--name", "x"), "gone"),
        (("csvv", "results.csv", "--name", "x"), "no such command"),
    ],
)
def test_what_cannot_be_imported_is_one_line_and_changes_nothing(
    said: Said, table: str, arguments: tuple[str, ...], message: str
) -> None:
    before = left()
    code, out, error = said("import", *arguments)
    assert (code, out, error.count("\n")) == (2, "", 1)
    assert message in error
    assert "hunter2" not in error
    assert left() == before


def test_options_of_another_kind_are_refused_by_name() -> None:
    with pytest.raises(InputError, match="did you mean 'step'"):
        importing.source("csv", "results.csv", "x", {"stepp": "a"})
    with pytest.raises(InputError, match="unknown kind of source 'tensorbord'; did you mean 'tensorboard'"):
        tl.import_runs("tensorbord", "x", name="x")
    with pytest.raises(InputError, match="unknown option of wandb 'pattern'"):
        importing.source("wandb", "x", "x", {"pattern": "a"})


def test_every_option_of_every_kind_is_taken_by_its_reader(place: Path) -> None:
    for kind, options in importing.OPTIONS.items():
        if kind != "algoperf":
            given = {
                word: ["OOM=crashed"] if word == "status_words" else "arm" for word in (*options, *importing.LABELS)
            }
            assert importing.source(kind, place / "x", "x", given).kind == kind  # type: ignore[attr-defined]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*noload.*:DeprecationWarning")
def test_a_table_becomes_a_study_that_is_mirrored_reported_and_written_out_again(said: Said, table: str) -> None:
    code, out, error = said("import", "csv", table, "--name", "paper", "--metric", "val/acc", "--target", "0.53")
    assert (code, out) == (0, "study paper: 6 runs added (6 completed)\n")
    assert "note: arm is read from 'method'" in error
    again = said("import", "csv", table, "--name", "paper", "--metric", "val/acc", "--target", "0.53")
    assert again[:2] == (0, "study paper: 6 already there\n")

    found = tl.runs("study=paper seed=2", sort="val/acc")
    assert len(found) == 2
    from experiments.store.sources.home import HomeSource
    from experiments.store.sources.mlflow import MLflowSource

    ours, mirrored = HomeSource().runs("study=paper"), MLflowSource(study="paper").runs()
    assert mirrored == ours
    code, _, error = said("import", "mlflow", "sqlite:///mlflow.db", "--name", "twice")
    assert (code, "trainlab's own mirror" in error) == (2, True)

    code, out, _ = said("report", "paper", "--out", "page")
    assert code == 0
    page = Path("page/report.html").read_text()
    assert "甲 &lt;b&gt;" in page
    assert "甲 <b>" not in page

    code, out, _ = said("export", "csv", "paper", "-o", "out.csv")
    assert (code, out) == (0, "wrote out.csv\nwrote out.runs.csv\n")
    code, out, error = said("export", "csv", "paper", "-o", "out.csv")
    assert (code, error.count("\n")) == (2, 1)
    assert "exists already" in error
    assert said("export", "csv", "paper", "-o", "out.csv", "--force")[0] == 0
    assert said("export", "xlsx", "paper")[0] == 2
    assert [path.name for path in tl.study("paper").export("p.json")] == ["p.json"]
    assert len(json.loads(Path("p.json").read_text())["runs"]) == 6

    study = tl.import_runs("csv", "out.csv", name="back")
    assert len(study.runs) == 6
    assert {record.task["metric"] for record in Home.default().records("study=back")} == {"acc"}


def test_the_tables_of_the_page_are_read_as_it_says(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "importing.md").read_text()
    long, wide = re.findall(r"```csv\n(.*?)```", page, re.DOTALL)[:2]
    (tmp_path / "long.csv").write_text(long)
    (tmp_path / "wide.csv").write_text(wide)
    runs = importing.source("csv", tmp_path / "long.csv", "x", {}).runs()
    assert [(r.labels.task, r.labels.arm, r.last) for r in runs] == [
        ("digits", "adamw", {"val/acc": 0.94}),
        ("digits", "muon", {"val/acc": 0.95}),
    ]
    [run] = importing.source("csv", tmp_path / "wide.csv", "x", {"config": "lr"}).runs()
    assert (run.labels.arm, run.config["lr"], run.last) == ("adamw", 0.001, {"val/acc": 0.94, "train/loss": 0.4})


@pytest.mark.parametrize("few", [5, 6])
def test_mlflow_is_waited_for_where_it_can_have_the_runs_soon(
    table: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    waits = []

    @contextmanager
    def recorded(home: Home, wait_s: float) -> Iterator[None]:
        waits.append(wait_s)
        yield

    monkeypatch.setattr("trainlab.running.recorded", recorded)
    monkeypatch.setattr(importing, "_FEW", few)
    done = importing.copied("csv", table, "paper", Home(tmp_path / "home"), {}, lambda done: None)
    assert (len(done.added), waits) == (6, [15.0 if few == 6 else 0.0])


def test_the_page_names_every_column_and_every_option() -> None:
    page = (Path(__file__).parents[2] / "docs" / "importing.md").read_text()
    for name in (*POINT_COLUMNS, *RUN_COLUMNS):
        assert f"`{name}`" in page
    for kind in importing.OPTIONS:
        assert f"| `{kind}` |" in page


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*noload.*:DeprecationWarning")
def test_a_changed_table_is_refused_until_it_is_asked_for(said: Said, table: str) -> None:
    Path("grows.csv").write_text(TABLE)
    assert said("import", "csv", "grows.csv", "--name", "grows")[0] == 0
    Path("grows.csv").write_text(TABLE.replace("0.54", "0.94"))
    code, _, error = said("import", "csv", "grows.csv", "--name", "grows")
    assert (code, error.count("\n")) == (2, 1)
    assert "--replace" in error
    code, out, _ = said("import", "csv", "grows.csv", "--name", "grows", "--replace")
    assert (code, "copied anew" in out) == (0, True)
    assert len(Home.default().records("study=grows")) == 6


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*noload.*:DeprecationWarning")
def test_an_optuna_study_without_final_runs_has_a_report(said: Said) -> None:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(storage="sqlite:///o.db", study_name="o", direction="maximize")
    study.optimize(lambda trial: trial.suggest_float("lr", 1e-3, 1.0, log=True), n_trials=6)
    shutil.copy("o.db", "moved.db")
    assert said("import", "optuna", "sqlite:///o.db", "--name", "tuned", "--arm-name", "adamw")[0] == 0
    assert said("import", "optuna", "sqlite:///moved.db", "--name", "tuned", "--arm-name", "adamw")[1].endswith(
        "6 already there\n"
    )
    assert said("report", "tuned")[0] == 0
    assert Path("tuned-report/report.html").exists()


@pytest.mark.parametrize("half", ["drafts", "store"])
def test_a_stop_by_hand_is_one_line_and_says_how_to_go_on(
    said: Said, table: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, half: str
) -> None:
    def stopped(*given: object, **more: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setenv("TRAINLAB_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path / 'm.db'}")
    monkeypatch.setattr(f"experiments.store.copying.{half}", stopped)
    code, out, error = said("import", "csv", table, "--name", "x")
    assert (code, out, error) == (130, "", "interrupted: the same command goes on\n")


@pytest.mark.slow
def test_a_stop_while_mlflow_is_waited_for_ends_at_once_and_keeps_the_runs(table: str, tmp_path: Path) -> None:
    """The store is a server that answers when it is looked for, and hangs when it is sent a run."""
    environment = os.environ | {"TRAINLAB_HOME": str(tmp_path / "home"), "MLFLOW_TRACKING_URI": ""}
    code = (
        "import sys, time, experiments.session as s\n"
        "class Slow:\n"
        "    def finish(self, wait_s, on_wait, since):\n"
        "        print('waits', wait_s, flush=True)\n"
        "        time.sleep(wait_s if wait_s < 3 else 600)\n"
        "s.start_uploader = lambda home, uri: Slow()\n"
        "s.check_store = lambda home, uri: ''\n"
        "from trainlab.cli import main\n"
        f"sys.exit(main(['import', 'csv', {table!r}, '--name', 'x']))\n"
    )
    ran = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )
    assert ran.stdout is not None
    assert [ran.stdout.readline() for _ in range(2)] == ["study x: 6 runs added (6 completed)\n", "waits 15.0\n"]
    ran.send_signal(signal.SIGINT)
    _, error = ran.communicate(timeout=60)
    assert (ran.returncode, error.splitlines()[-1]) == (130, "interrupted: the same command goes on")
    assert len(Home(tmp_path / "home").records("study=x")) == 6


def test_an_export_to_a_place_that_takes_no_file_is_one_line(said: Said, table: str) -> None:
    tl.import_runs("csv", table, name="placed", task_name="digits")
    said("export", "json", "gone")  # what the import had to say
    for place in ("/proc/x.json", "gone/x.json", "results.csv/x.json", "."):
        code, out, error = said("export", "json", "placed", "-o", place, "--force")
        assert (code, out, error.count("\n")) == (2, "", 1), place


def test_a_metric_that_is_judged_is_one_whatever_it_is_called(table: str, place: Path) -> None:
    (place / "times.csv").write_text("method,seed,time\na,1,3.5\nb,1,4.5\n")
    found = importing.source("csv", place / "times.csv", "x", {}, "time")
    assert [record.final for record in found.runs()] == [{"time": 3.5}, {"time": 4.5}]
    with pytest.raises(InputError, match="holds a metric"):
        importing.source("csv", place / "times.csv", "x", {}).runs()
