"""A copy is whole or absent, the same twice, and says where it came from and what its source has changed since."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from algos.finding import InputError
from experiments.store import copying, trash
from experiments.store.copying import Judging, copy
from experiments.store.exporting import export
from experiments.store.home import Home
from experiments.store.schema import FINISHED
from experiments.store.sources.delimited import CsvReader
from experiments.store.sources.foreign import Foreign, Read, Told
from experiments.store.sources.home import HomeSource
from reports.table import read

ROOT = Path(__file__).resolve().parents[3]
ROWS = [(arm, seed, step, value + seed / 100 + step / 1000) for arm, value in (("a", 0.5), ("b", 0.25))
        for seed in (1, 2, 3) for step in (100, 200)]  # fmt: skip


@pytest.fixture(autouse=True)
def _no_store(tmp_path, monkeypatch):
    """MLflow's place is the test's own, and nothing is there."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)


def table(path: Path, rows=ROWS, metric="val/acc") -> Foreign:
    text = "".join(f"{arm}-{seed},{arm},{seed},{step},{metric},{value!r}\n" for arm, seed, step, value in rows)
    path.write_text("run,arm,seed,step,metric,value\n" + text)
    return Foreign(CsvReader(path), "paper")


class Given:
    """A reader of runs that a test makes."""

    kind, place, late = "given", "a test", ()

    def __init__(self, *runs: Told, metric: str = "", mode: str = ""):
        self._read = Read(list(runs), metric=metric, mode=mode, written=1_700_000_000_000)

    def read(self) -> Read:
        return self._read

    def points(self, run: Told):
        return run.points


def given(*runs: Told, **more) -> Foreign:
    return Foreign(Given(*runs, **more), "paper")


def test_a_table_becomes_runs_with_their_values_labels_and_origin(tmp_path, home):
    done = copy(table(tmp_path / "r.csv"), home, study="paper", judging=Judging("val/acc"))
    assert len(done.added) == 6
    records = HomeSource(home).runs()
    assert {(r.labels.study, r.labels.arm, r.labels.seed, r.status) for r in records} == {
        ("paper", arm, seed, "completed") for arm in "ab" for seed in (1, 2, 3)
    }
    for record in records:
        source = record.file.facts["source"]
        assert record.file.facts["recorded"] == "imported"
        assert (source["kind"], source["place"]) == ("csv", str(tmp_path / "r.csv"))
        assert (record.task["metric"], record.task["mode"], record.task["logged"]) == ("acc", "max", "val/acc")
        [series] = home.series([record.run_id], ["val/acc"])
        arm, seed = record.labels.arm, record.labels.seed
        assert list(zip(series.updates, series.values)) == [row[2:] for row in ROWS if row[:2] == (arm, seed)]
        assert record.final["objective"] == series.values[-1]


def test_a_report_reads_what_was_copied(tmp_path, home):
    copy(table(tmp_path / "r.csv"), home, study="paper", judging=Judging("val/acc"))
    study = read(HomeSource(home), "paper")
    assert study.arms == ("a", "b")  # in the order of their source
    assert study.tasks["own"].validation == "val/acc"
    [a, b] = [cell.outcomes() for cell in study.of("own")]
    assert a.seeds == b.seeds == (1, 2, 3)
    assert list(a.values - b.values) == pytest.approx([0.25] * 3)


def test_copied_twice_nothing_is_doubled_and_nothing_is_touched(tmp_path, home):
    copy(table(tmp_path / "r.csv"), home, study="paper")
    before = files(home.path)
    (tmp_path / "moved.csv").write_bytes((tmp_path / "r.csv").read_bytes())
    for path in ("r.csv", "moved.csv"):
        again = copy(Foreign(CsvReader(tmp_path / path)), home, study="paper")
        assert (again.added, again.anew, again.already) == ([], [], 6)
    assert files(home.path) == before


def test_a_source_that_grew_gives_only_what_is_new(tmp_path, home):
    copy(table(tmp_path / "r.csv"), home, study="paper")
    done = copy(table(tmp_path / "r.csv", [*ROWS, ("a", 4, 100, 0.75)]), home, study="paper")
    assert (len(done.added), done.already) == (1, 6)
    record = home.folder(done.added[0]).record()
    assert (record.labels.seed, record.labels.number) == (4, 3)


def test_a_source_that_changed_says_what_and_changes_nothing_unless_asked(tmp_path, home):
    copy(table(tmp_path / "r.csv"), home, study="paper")
    before = files(home.path)
    changed = [(arm, seed, step, 0.875 if (arm, seed, step) == ("a", 2, 200) else v) for arm, seed, step, v in ROWS]
    source = table(tmp_path / "r.csv", [*changed, ("c", 1, 100, 0.1)])
    with pytest.raises(InputError, match=r"1 of 7 runs .*val/acc at 200 was 0\.72 and is 0\.875.*--replace") as refused:
        copy(source, home, study="paper")
    assert refused.value.finding.rule == "source-changed"
    assert files(home.path) == before

    done = copy(source, home, study="paper", replacing=True)
    assert (len(done.added), len(done.anew), done.already) == (1, 1, 5)
    records = HomeSource(home).runs("arm=a")
    assert sorted((r.labels.seed, r.labels.number) for r in records) == [(1, 0), (2, 1), (3, 2)]
    assert {r.labels.seed: r.last["val/acc"] for r in records}[2] == 0.875
    assert len(trash.entries(home)) == 1  # the earlier copy can be taken back


def test_a_kill_before_the_earlier_copy_has_gone_leaves_no_double(tmp_path, home, monkeypatch):
    copy(table(tmp_path / "r.csv"), home, study="paper")
    changed = [(arm, seed, step, value + (seed == 2)) for arm, seed, step, value in ROWS]
    monkeypatch.setattr(copying, "_put_away", lambda home, run_ids: [])  # as if it had ended there
    copy(table(tmp_path / "r.csv", changed), home, study="paper", replacing=True)
    assert len(home.run_ids()) == 8
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    assert copy(table(tmp_path / "r.csv", changed), home, study="paper").already == 6
    assert sorted(r.labels.seed for r in home.records()) == [1, 1, 2, 2, 3, 3]
    assert {r.last["val/acc"] for r in home.records()} == {row[3] for row in changed if row[2] == 200}


@pytest.mark.parametrize(
    ("metric", "columns", "said"),
    [
        ("train/loss", "run,arm,seed,step,val/acc,train/loss", "judged by was 'acc' and is 'train/loss'"),
        ("val/acc", "run,arm,rate,seed,step,val/acc,train/loss", "rate was absent and is 'x'"),
        ("val/acc", "run,kind,seed,step,val/acc,train/loss", "arm was 'y' and is 'own'"),
    ],
)
def test_other_words_for_the_same_values_are_changes_too(tmp_path, home, metric, columns, said):
    path = tmp_path / "r.csv"
    path.write_text("run,arm,seed,step,val/acc,train/loss\nr,y,1,10,0.5,0.25\n")
    copy(Foreign(CsvReader(path)), home, study="paper", judging=Judging("val/acc"))
    row = "r,y,x,1,10,0.5,0.25\n" if "rate" in columns else "r,y,1,10,0.5,0.25\n"
    path.write_text(columns + "\n" + row)
    with pytest.raises(InputError) as refused:
        copy(Foreign(CsvReader(path)), home, study="paper", judging=Judging(metric, "min" if "loss" in metric else ""))
    assert said in str(refused.value)


def test_a_run_that_had_not_finished_is_taken_as_it_is_now(home):
    early = Told("r", status="lost", reason="it was RUNNING", started=1000, points={"val/acc": [(1, 0.5, 1500)]})
    late = Told("r", started=1000, ended=3000, points={"val/acc": [(1, 0.5, 1500), (2, 0.75, 2500)]})
    other = Told("s", started=1000, points={"val/acc": [(1, 0.5, 1500)]})
    assert copy(given(early, other), home, study="paper").notes[-1] == "1 of 2 runs has not finished (it was RUNNING)"
    done = copy(given(late, other), home, study="paper")
    assert (len(done.anew), done.already) == (1, 1)
    assert sorted(record.status for record in home.records()) == ["completed", "completed"]


def test_what_a_claim_rests_on_is_not_replaced(tmp_path, home):
    from experiments.store import pins

    done = copy(table(tmp_path / "r.csv"), home, study="paper")
    claim = pins.Pin("a beats b", "paper", "1", "0.25", (done.added[0],))
    pins.save(home.path, pins.Pins(tmp_path / "report.html", (claim,)))
    with pytest.raises(InputError, match="rests on it") as refused:
        copy(table(tmp_path / "r.csv", [(a, s, t, v + 1) for a, s, t, v in ROWS]), home, study="paper", replacing=True)
    assert refused.value.finding.rule == "pinned"
    assert len(home.run_ids()) == 6


def test_times_are_kept_and_an_end_is_not_before_its_beginning(home):
    told = Told("r", started=1_600_000_000_000, ended=1_600_000_009_000, points={"loss": [(1, 2.0, 1_600_000_004_000)]})
    copy(given(told), home, study="paper")
    [record] = home.records()
    assert (record.started, record.ended, record.file.created) == (
        1_600_000_000_000, 1_600_000_009_000, 1_600_000_000_000,
    )  # fmt: skip
    assert record.run_id.startswith("20200913-122640-")
    assert home.series([record.run_id])[0].at == (1_600_000_004_000,)
    assert record.file.facts["source"]["times"] == "told"


def test_without_times_those_of_the_file_stand_and_the_run_says_so(home):
    copy(given(Told("r", points={"loss": [(1, 2.0, 1_700_000_000_000)]})), home, study="paper")
    [record] = home.records()
    assert record.file.facts["source"]["times"] == "of the file"
    assert record.started == record.ended == 1_700_000_000_000


def test_values_that_are_no_finite_numbers_are_events_and_the_last_one_is_a_divergence(home):
    points = {"val/acc": [(1, 0.5, 1), (2, math.nan, 2)], "train/loss": [(1, math.inf, 1), (2, 3.0, 2)]}
    copy(given(Told("r", started=1, points=points)), home, study="paper", judging=Judging("val/acc"))
    [record] = home.records()
    assert record.status == "diverged"
    assert record.reason == "the last val/acc was nan"
    assert set(record.nonfinite) == {"val/acc", "train/loss"}
    assert record.last == {"train/loss": 3.0}
    lines = [json.loads(line) for line in (home.run_folder / record.run_id / "spool.1.jsonl").read_text().splitlines()]
    assert {(x["metric"], x["update"], x["value"]) for x in lines if x["kind"] == "nonfinite"} == {
        ("val/acc", 2, "nan"), ("train/loss", 1, "inf"),
    }  # fmt: skip


def test_a_metric_called_otherwise_is_found_by_reports_under_its_usual_name(home):
    told = Told("r", started=1, points={"eval_accuracy": [(1, 0.5, 1), (2, 0.75, 2)], "test_accuracy": [(2, 0.625, 2)]})
    copy(given(told), home, study="paper", judging=Judging("eval_accuracy", target=0.75))
    [record] = home.records()
    assert record.task["metric"] == "accuracy"
    [series] = home.series([record.run_id], ["val/accuracy"])
    assert series.values == (0.5, 0.75)
    assert record.final == {"objective": 0.75, "test/accuracy": 0.625}
    assert dict(record.reached)["update"] == 2


def test_one_that_would_hide_another_is_refused(home):
    told = Told("r", started=1, points={"acc": [(1, 0.5, 1)], "val/acc": [(1, 0.25, 1)]})
    with pytest.raises(InputError, match="would be stored as 'val/acc'"):
        copy(given(told), home, study="paper", judging=Judging("acc"))
    assert not home.path.exists()


def test_judged_by_a_test_metric_runs_need_no_curve(home):
    runs = [Told(f"{arm}{n}", started=1, final={"test/acc": n / 10}, labels={"arm": arm, "seed": n})
            for arm in "ab" for n in (1, 2, 3)]  # fmt: skip
    copy(given(*runs), home, study="paper", judging=Judging("test/acc"))
    study = read(HomeSource(home), "paper")
    assert study.tasks["own"].outcome == "test/acc"
    assert list(study.of("own")[0].outcomes().values) == [0.1, 0.2, 0.3]
    with pytest.raises(InputError, match="has no steps"):
        copy(given(*runs), home, study="other", judging=Judging("test/acc", target=0.2))


def test_a_source_that_says_how_it_is_judged_is_believed(home):
    told = Told("r", started=1, points={"val/reward": [(1, 5.0, 1)]})
    copy(given(told, metric="val/reward", mode="max"), home, study="paper")
    assert (home.records()[0].task["metric"], home.records()[0].task["mode"]) == ("reward", "max")


@pytest.mark.parametrize(
    ("judging", "said"),
    [
        (Judging("val/acccc", "max"), "did you mean 'val/acc'"),
        (Judging("val/reward"), "cannot be told from its name"),
        (Judging("", "max"), "without a metric"),
    ],
)
def test_a_metric_that_is_none_is_refused(home, judging, said):
    with pytest.raises(InputError, match=said):
        copy(
            given(Told("r", points={"val/acc": [(1, 0.5, 1)], "val/reward": [(1, 1.0, 1)]})),
            home,
            study="paper",
            judging=judging,
        )
    assert not home.path.exists()


@pytest.mark.parametrize("study", ["", " a", "a/b", "a\nb"])
def test_a_name_that_is_none_is_refused(home, study):
    with pytest.raises(InputError, match="name"):
        copy(given(Told("r")), home, study=study)


def test_nothing_finished_and_nothing_at_all_are_refused(home):
    with pytest.raises(InputError, match=r"no finished runs \(1 are lost\)"):
        copy(given(Told("r", status="lost")), home, study="paper")
    with pytest.raises(InputError, match="has no runs"):
        copy(given(), home, study="paper")
    with pytest.raises(InputError, match="no run of a test is selected"):
        copy(given(Told("r")), home, study="paper", query="seed=99")
    assert not home.path.exists()


def test_every_status_and_traceback_is_kept(home):
    runs = [Told(s, status=s, reason="why", traceback="Trace" if s == "crashed" else "", started=1)
            for s in ("completed", "diverged", "pruned", "crashed", "interrupted", "lost")]  # fmt: skip
    copy(given(*runs), home, study="paper")
    for record in home.records():
        assert (record.status, record.reason) == (record.file.facts["source"]["run"], "why")
    assert [r.traceback for r in home.records() if r.traceback] == ["Trace"]


def test_the_same_source_may_be_in_several_studies(tmp_path, home):
    table(tmp_path / "r.csv")
    timed = Told("r", started=1_600_000_000_000, points={"loss": [(1, 2.0, 1_600_000_000_000)]})
    for study in ("one", "two", "three"):
        assert len(copy(Foreign(CsvReader(tmp_path / "r.csv")), home, study=study).added) == 6
        assert len(copy(given(timed), home, study=study).added) == 1
    assert len(home.records()) == 21


def test_runs_that_come_to_a_study_of_ours_get_numbers_of_their_own(home, create, tmp_path):
    for number in (0, 1):
        create(task="own", study="paper", arm="a", phase="final", number=number).begin().end("completed")
    copy(table(tmp_path / "r.csv"), home, study="paper")
    numbers = [r.labels.number for r in home.records() if r.labels.arm == "a"]
    assert sorted(numbers) == [0, 1, 2, 3, 4]


def test_several_runs_of_one_seed_are_told(home):
    runs = [Told(str(n), started=n, labels={"arm": "a", "seed": 1}) for n in (1, 2)]
    assert "arm 'a' has 2 runs of seed 1 on 'own'" in copy(given(*runs), home, study="paper").notes[-1]


def test_steps_below_zero_bad_ends_and_odd_names_are_there_after_an_export_too(home, tmp_path):
    points = {" lead ": [(-2, 0.5, 1), (3, 0.25, 1)], "a\nb": [(3, 1.0, 1)]}
    told = Told("r", name="r", started=1, ended=1, points=points, final={" lead ": math.inf})
    copy(given(told), home, study="paper", judging=Judging(" lead ", "max"))
    homes = [home, Home(tmp_path / "other")]
    export(home, "paper", tmp_path / "p0.csv")
    copy(Foreign(CsvReader(tmp_path / "p0.csv")), homes[1], study="paper")
    export(homes[1], "paper", tmp_path / "p1.csv")
    texts = [(tmp_path / f"p{n}.csv").read_text().replace(homes[n].run_ids()[0], "R") for n in (0, 1)]
    assert texts[0] == texts[1]
    assert texts[0].count("\nR,") == 4 + 3  # the judged metric under its usual name too
    for each in homes:
        [record] = each.records()
        assert (record.status, record.last, set(record.nonfinite)) == (
            "diverged",
            {"a\nb": 1.0},
            {" lead ", "val/ lead "},
        )


def test_settings_of_theirs_that_are_called_like_ours_are_kept_beside_them(home):
    told = Told("r", started=1, said={"task": "mnist", "seed": 4}, config={"task": "x", "seed": 4, "lr": math.nan})
    copy(given(told), home, study="paper")
    assert home.records()[0].config == {
        "schema": 1, "recorded": "imported", "task": "mnist", "seed": 4, "source.task": "x", "lr": "nan",
    }  # fmt: skip


def test_settings_of_theirs_that_are_called_like_our_marks_are_kept_too(home):
    told = Told("r", started=1, config={"schema": "theirs", "recorded": True, "seed": 1.0}, labels={"seed": 1})
    copy(given(told), home, study="paper")
    assert repr(home.records()[0].config) == repr({
        "schema": 1, "recorded": "imported", "task": "own", "seed": 1, "source.schema": "theirs",
        "source.recorded": True,
    })  # fmt: skip


@pytest.mark.parametrize("word", ["nan", "inf", "-inf"])
def test_a_run_that_came_to_no_number_has_diverged_though_its_last_point_is_one(home, word):
    points = {"val/acc": [(1, math.nan, 1), (2, 0.5, 2)]}
    told = Told("r", started=1, ended=3, points=points, final={"val/acc": float(word)})
    alone = Told("s", started=1, ended=3, final={"val/acc": float(word)})
    copy(given(told, alone), home, study="paper", judging=Judging("val/acc"))
    for record in home.records():
        assert (record.status, record.reason, record.final) == ("diverged", f"the last val/acc was {word}", {})
    spools = [(home.run_folder / run_id / "spool.1.jsonl").read_text() for run_id in home.run_ids()]
    lines = [json.loads(line) for text in spools for line in text.splitlines()]
    assert sorted((x["update"], x["value"]) for x in lines if x["kind"] == "nonfinite") == sorted(
        [(1, "nan"), (2, word), (0, word)]
    )


def test_names_are_kept_as_they_are(home):
    name = r"<script>alert(1)</script> \input{/etc/passwd} a_b%&$# 实验 " + "x" * 300
    copy(
        given(Told("r", name=name, started=1, points={name: [(1, 0.5, 1)]}, labels={"arm": name, "seed": 1})),
        home,
        study="paper",
    )
    [record] = home.records()
    assert record.file.name == name
    assert record.last == {name: 0.5}
    assert record.labels.arm == name.replace("/", "-")


def test_a_kill_leaves_whole_runs_and_the_same_command_goes_on(tmp_path, home):
    rows = [(f"arm{n % 40}", n, step, n + step / 1000) for n in range(1200) for step in (10, 20)]
    table(tmp_path / "r.csv", rows)
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from experiments.store import copying\n"
        "from experiments.store.home import Home\n"
        "from experiments.store.sources.delimited import CsvReader\n"
        "from experiments.store.sources.foreign import Foreign\n"
        "copying._BATCH = 20\n"
        "copying.copy(Foreign(CsvReader(sys.argv[2])), Home(sys.argv[3]), study='paper')\n"
    )
    command = [sys.executable, "-c", code, str(ROOT), str(tmp_path / "r.csv"), str(home.path)]
    process = subprocess.Popen(command)
    deadline = time.monotonic() + 200
    while time.monotonic() < deadline and process.poll() is None and len(home.run_ids()) < 100:
        time.sleep(0.005)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    there = home.run_ids()
    assert 100 <= len(there) < 1200
    assert all(record.status in FINISHED and record.last for record in home.records())

    done = copy(Foreign(CsvReader(tmp_path / "r.csv")), home, study="paper")
    assert (done.already, len(done.added)) == (len(there), 1200 - len(there))
    records = home.records()
    assert len(records) == 1200
    assert len({record.labels.trial for record in records}) == 1200
    assert {r.last["val/acc"] for r in records} == {n + 0.02 for n in range(1200)}


def test_a_full_disk_leaves_whole_runs(small_disk, tmp_path):
    home = Home(small_disk("2m") / "home")
    rows = [("a", n, step, n + step / 1000) for n in range(600) for step in (10, 20)]
    with pytest.raises(OSError, match="space"):
        copy(table(tmp_path / "r.csv", rows), home, study="paper")
    assert all(record.status in FINISHED for record in home.records())
    assert not [path for path in home.run_folder.iterdir() if path.name.startswith(".")]


def test_two_copies_at_once_are_one(tmp_path, home):
    table(tmp_path / "r.csv")
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from experiments.store import copying\n"
        "from experiments.store.home import Home\n"
        "from experiments.store.sources.delimited import CsvReader\n"
        "from experiments.store.sources.foreign import Foreign\n"
        "copying.copy(Foreign(CsvReader(sys.argv[2])), Home(sys.argv[3]), study='paper')\n"
    )
    command = [sys.executable, "-c", code, str(ROOT), str(tmp_path / "r.csv"), str(home.path)]
    processes = [subprocess.Popen(command) for _ in range(3)]
    assert [process.wait() for process in processes] == [0, 0, 0]
    assert len(home.run_ids()) == 6


def files(folder: Path) -> dict[str, bytes]:
    """Everything in a folder, but for locks and caches."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name not in ("record.json", "numbers.lock")
    }


def test_what_steps_are_is_kept_through_an_export_and_a_change_of_it_is_a_change(tmp_path, home):
    def steps(where: Home) -> set[str]:
        return {record.file.facts["source"]["steps"] for record in where.records()}

    found = table(tmp_path / "t.csv")
    copy(found, home, study="paper")
    assert steps(home) == {""}
    (tmp_path / "t.csv").write_text((tmp_path / "t.csv").read_text().replace("step", "epoch", 1))
    epochs = Foreign(CsvReader(tmp_path / "t.csv"), "paper")
    with pytest.raises(InputError, match="its steps were of no known kind and are epochs"):
        copy(epochs, home, study="paper")
    copy(epochs, home, study="paper", replacing=True)
    assert steps(home) == {"epochs"}
    for turn in (1, 2):
        export(home, "paper", tmp_path / f"{turn}.csv")
        home = Home(tmp_path / f"home{turn}")
        again = Foreign(CsvReader(tmp_path / f"{turn}.csv"), "paper")
        assert len(copy(again, home, study="paper").added) == 6
        assert steps(home) == {"epochs"}
        assert copy(again, home, study="paper").already == 6


def test_a_counter_among_the_metrics_says_what_the_steps_are(home):
    points = [(step, 0.5, 0) for step in (1, 2, 3)]
    counter = [(step, float(step - 1), 0) for step in (1, 2, 3)]
    copy(
        given(Told("a", points={"loss": points, "epoch": counter}), Told("b", points={"loss": points})), home, study="p"
    )
    found = {record.file.facts["source"]["run"]: record.file.facts["source"]["steps"] for record in home.records()}
    assert found == {"a": "epochs", "b": ""}


def test_runs_that_others_of_their_task_cannot_be_compared_with_are_told(tmp_path, home):
    copy(table(tmp_path / "a.csv", metric="val/accuracy"), home, study="p", judging=Judging("val/accuracy"))
    rows = [("c", seed, step, value) for _, seed, step, value in ROWS[:6]]
    done = copy(table(tmp_path / "b.csv", rows), home, study="p", judging=Judging("val/acc"))
    assert "'own' the study's other runs are judged by 'accuracy', these by 'acc'" in done.notes[-1]
    rows = [("d", *row[1:]) for row in rows]
    more = table(tmp_path / "c.csv", rows, metric="val/accuracy")
    assert not any("judged by" in note for note in copy(more, home, study="p", judging=Judging("val/accuracy")).notes)
