"""The commands end to end, in a folder of their own: exit codes, what is printed, what is left behind."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import trainlab as tl
from algos.finding import InputError
from experiments import training
from experiments.overrides import parse
from experiments.store.home import Home
from experiments.store.locks import Lock
from trainlab.cli import main
from trainlab.running import asked, resolved, spelled

pytestmark = pytest.mark.usefixtures("place")
STUDY = """\
name: tiny
tasks: {digits: {budget: {updates: 20}, evaluate_every: 10}}
arms: {adamw: {optimizer: adamw}, lion: {optimizer: lion}}
tune: {trials: 2, space: [optimizer.lr]}
seeds: 3
"""


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Runs a command; (exit code, stdout, stderr)."""

    def call(*arguments: str) -> tuple[int, str, str]:
        code = main(list(arguments))
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def ids() -> list[str]:
    return Home.default().run_ids()


def test_dry_run_prints_what_can_be_given_again(said: Callable[..., tuple[int, str, str]]) -> None:
    overrides = ["task=digits", "wrappers=cautious+sam", "wrappers.sam.rho=0.1", "model.norm=none", "seed=1,2"]
    before = ids()
    code, out, _ = said("run", *overrides, "--dry-run")
    assert (code, ids()) == (0, before)
    blocks = out.split("\n\n")
    assert len(blocks) == 2
    for block, config in zip(blocks, resolved(parse(overrides)), strict=True):
        lines = [line.strip("'") for line in block.splitlines() if not line.startswith("#")]
        assert asked(lines) == [config]
        assert lines == spelled(config)


@pytest.mark.parametrize(
    ("overrides", "why"),
    [
        (["optimizer=adamw,lbfgs", "precision=fp16"], "precision: LBFGS asks for several gradients"),
        (["optimizer=lbfgs", "wrappers=none,sam"], "wrappers: Sam changes the gradient"),
        (["optimizer=adamw,muon", "form=torch"], "form='torch' is not there"),
    ],
)
@pytest.mark.parametrize("dry", [["--dry-run"], []])
def test_what_does_not_go_together_is_refused_before_the_first_run(
    overrides: list[str], why: str, dry: list[str], said: Callable[..., tuple[int, str, str]]
) -> None:
    before = ids()
    code, out, err = said("run", "task=digits", "budget.updates=5", *overrides, *dry)
    assert (code, out, ids()) == (2, "", before)
    assert why in err
    if not dry:
        for wait in (True, False):
            with pytest.raises(InputError, match=why):
                tl.run("task=digits", "budget.updates=5", *overrides, wait=wait)
        assert ids() == before


@pytest.mark.parametrize("how", ["--plan", "--dry-run", ""])
@pytest.mark.parametrize(
    ("arm", "why"),
    [
        ("{optimizer: lbfgs, precision: fp16}", "arms.wrong.precision: LBFGS asks"),
        ('{optimizer: muon, form: "auto,torch"}', "arms.wrong: form='torch' is not there"),  # an option of those tried
        ("{optimizer: muon, form: torch}", "arms.wrong: form='torch' is not there"),
    ],
)
def test_an_arm_that_does_not_go_together_is_refused_before_the_first_run(
    how: str, arm: str, why: str, said: Callable[..., tuple[int, str, str]], place: Path
) -> None:
    file, before = place / "unfit.yaml", ids()
    tune = "tune: {trials: 2}\n" if "," in arm.partition("form")[2] else ""
    file.write_text(
        f"name: unfit\ntasks: [digits]\narms: {{good: {{optimizer: adamw}}, wrong: {arm}}}\n{tune}seeds: 2\n"
    )
    code, _, err = said("sweep", str(file), *filter(None, [how]))
    assert (code, ids()) == (2, before)
    assert why in err


def test_a_dry_run_downloads_nothing_and_says_what_it_did_not_check(
    said: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("urllib.request.urlopen", lambda *_, **__: pytest.fail("it went online"))
    training.load_data.cache_clear()
    code, out, err = said("run", "task=cora", "--dry-run")
    assert (code, list(tmp_path.iterdir())) == (0, [])
    assert "task=cora" in out
    assert "the data of cora are not on this machine" in err


def test_dry_run_as_json_is_a_file_of_configs(said: Callable[..., tuple[int, str, str]], tmp_path: Path) -> None:
    overrides = ["task=digits", "optimizer=adamw,muon", "optimizer.lr=0.02"]
    _, out, _ = said("run", *overrides, "--dry-run", "--json")
    file = tmp_path / "configs.json"
    file.write_text(out)
    assert asked([], str(file)) == resolved(parse(overrides))


def test_run_prints_progress_on_stderr_and_the_result_on_stdout(said: Callable[..., tuple[int, str, str]]) -> None:
    code, out, err = said("run", "task=digits", "budget.updates=5", "--json")
    (row,) = json.loads(out)
    assert code == 0
    assert (row["status"], row["updates"], row["task"]) == ("completed", 5, "digits")
    assert f"{row['name']}: completed" in err


def test_a_run_that_diverges_is_code_1(said: Callable[..., tuple[int, str, str]]) -> None:
    code, out, _ = said("run", "task=digits", "optimizer=sgd", "optimizer.lr=1e9", "budget.updates=50", "--json")
    assert (code, json.loads(out)[0]["status"]) == (1, "diverged")


def test_a_run_that_crashes_is_code_1_with_its_traceback(
    said: Callable[..., tuple[int, str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "wrappers").mkdir()
    (tmp_path / "wrappers" / "faulty.py").write_text(
        '"""Faulty: raises at the third update."""\n\n'
        "from algos.contracts import Component\nfrom algos.spec import Spec\n\n\n"
        "class Faulty(Component):\n    def updated(self, oracle, progress):\n"
        "        if progress.update == 3:\n            raise RuntimeError('as asked')\n        return {}\n\n\n"
        "SPEC = Spec(build=Faulty)\n"
    )
    monkeypatch.setenv("TRAINLAB_ENTRIES", str(tmp_path))
    code, out, err = said("run", "task=digits", "wrappers=faulty", "budget.updates=5", "--json")
    assert (code, json.loads(out)[0]["status"]) == (1, "crashed")
    assert "RuntimeError: as asked" in err
    assert "Traceback" in err


@pytest.mark.parametrize(
    ("arguments", "cure"),
    [
        (["run"], "task=digits"),
        (["run", "digits"], "task=digits"),
        (["run", "task=digts"], "did you mean 'digits'"),
        (["run", "task=digits", "lr=0.1"], "optimizer.lr"),
        (["run", "task=digits", "optimizer.lr=-1"], "(0, inf)"),
        (["run", "task=digits", "device=cuda:99"], "cuda"),
        (["run", "task=digits", "--config", "x.json"], "one of them"),
        (["run", "--config", "x.json"], "--dry-run --json"),
        (["tune", "optimizer=muon"], "task=digits"),
        (["tune", "task=digits", "--trials", "0"], "--trials"),
        (["sweep", "dmo"], "did you mean 'demo'"),
        (["sweep", "none.yaml"], "none.yaml"),
        (["resume", "nothing"], "trainlab runs"),
        (["report", "nothing"], "unknown study"),
        (["status", "nothing"], "unknown study"),
        (["runs", "nothing"], "task=digits"),
        (["cite", "nothing"], "trainlab runs"),
    ],
)
def test_bad_input_is_one_line_code_2_and_no_run(
    arguments: list[str], cure: str, said: Callable[..., tuple[int, str, str]]
) -> None:
    before = ids()
    code, out, err = said(*arguments)
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == 1
    assert err.startswith("error: ")
    assert cure in err
    assert ids() == before


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("name: a\nname: b\n", "line 2"),
        ("name: [\n", "line"),
        ("name: a\ntasks: [digits]\n", "arms"),
        ("name: a\ntasks: [digits]\narms: {x: {optimizer: adamw, optimizer.lr: -1}}\n", "line 3"),
    ],
)
def test_a_wrong_study_says_where(
    text: str, where: str, said: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    file = tmp_path / "wrong.yaml"
    file.write_text(text)
    code, _, err = said("sweep", str(file))
    assert code == 2
    assert len(err.splitlines()) == 1
    assert where in err
    assert "wrong.yaml" in err


TUNED = """\
name: warmed
tasks: {digits: {budget: {updates: 5}}}
arms: {adamw: {optimizer: adamw, optimizer.lr: "1e-4:1e-1:log"}}
tune: {trials: 2, sampler: tpe, warm_start: nobody}
seeds: 1
"""


@pytest.mark.parametrize("how", ["--plan", "--dry-run", ""])
def test_a_warm_start_from_nowhere_is_refused_and_leaves_nothing(
    how: str, said: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    (tmp_path / "warmed.yaml").write_text(TUNED)
    code, _, err = said("sweep", str(tmp_path / "warmed.yaml"), *filter(None, [how]))
    assert code == 2
    assert "unknown study 'nobody'" in err
    assert "warmed" not in said("status")[1]


@pytest.mark.parametrize(
    ("flags", "cure"),
    [
        (["--launcher-option", "gpus=1"], "leave --launcher-option out, or give --launcher ray or slurm"),
        (["--on-done", ""], "give a command, or leave it out"),
    ],
)
def test_flags_that_mean_nothing_are_refused(
    flags: list[str], cure: str, said: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    (tmp_path / "tiny.yaml").write_text(STUDY)
    code, _, err = said("sweep", str(tmp_path / "tiny.yaml"), *flags)
    assert (code, len(err.splitlines())) == (2, 1)
    assert cure in err


@pytest.mark.parametrize("flags", [[], ["--detach"]])
def test_a_study_that_is_being_run_is_refused_in_the_foreground_with_the_process(
    flags: list[str], said: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    (tmp_path / "held.yaml").write_text(STUDY.replace("tiny", "held"))
    place = Home.default().path / "studies" / "held"
    place.mkdir(parents=True, exist_ok=True)
    with Lock(place / "lock").take():
        code, _, err = said("sweep", str(tmp_path / "held.yaml"), *flags)
    assert code == 2
    assert f"error: study held is being run by pid {os.getpid()}" in err
    assert not list(place.glob("*.log"))


def test_an_amendment_is_told_when_it_was_accepted_only(
    said: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    study = tmp_path / "grows.yaml"
    text = "name: grows\ntasks: {digits: {budget: {updates: 5}}}\narms: [adamw]\nseeds: 1\n"
    study.write_text(text)
    assert said("sweep", str(study))[0] == 0
    study.write_text(text.replace("seeds: 1", "seeds: [2, 3]"))
    code, _, err = said("sweep", str(study), "--amend")
    assert (code, "is amended" in err) == (2, False)
    study.write_text(text.replace("seeds: 1", "seeds: 2"))
    code, _, err = said("sweep", str(study), "--amend")
    assert (code, err.count("study grows is amended:")) == (0, 1)


def test_a_range_with_a_condition_in_the_wrong_place_is_shown_the_right_one(
    said: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    wrong = 'optimizer: {name: sgd, momentum: {range: "0.5:0.9", when: {optimizer: sgd}}}'
    (tmp_path / "wrong.yaml").write_text(STUDY.replace("optimizer: adamw", wrong))
    code, _, err = said("sweep", str(tmp_path / "wrong.yaml"), "--plan")
    assert code == 2
    assert 'when: {"optimizer=sgd": {optimizer.momentum: 0.5:0.9}}' in err
    assert "Range(" not in err


@pytest.mark.slow
def test_a_study_from_its_plan_to_its_report(said: Callable[..., tuple[int, str, str]], place: Path) -> None:
    file = place / "tiny.yaml"
    file.write_text(STUDY)

    code, out, _ = said("sweep", str(file), "--plan")
    assert code == 0
    assert "10 runs (4 tuning, 6 final)" in out
    _, out, _ = said("sweep", str(file), "--dry-run", "--json")
    assert {job["phase"] for job in json.loads(out)} == {"tune"}

    code, _, err = said("sweep", str(file))
    assert code == 0
    assert "[10/10]" in err
    made = {run_id for run_id in ids() if Home.default().folder(run_id).file.labels.study == "tiny"}
    assert len(made) == 10

    code, _, err = said("sweep", str(file))  # again: nothing is repeated
    assert code == 0
    assert {run_id for run_id in ids() if Home.default().folder(run_id).file.labels.study == "tiny"} == made

    _, out, _ = said("status", "tiny", "--json")
    assert sum(row["completed"] for row in json.loads(out)) == 10
    _, out, _ = said("runs", "study=tiny phase=final", "--sort", "-objective", "--json")
    values = [row["objective"] for row in json.loads(out)]
    assert len(values) == 6
    assert values == sorted(values, reverse=True)

    code, out, _ = said("report", "tiny", "-o", "out")
    page = Path(out.strip().removeprefix("the report: "))
    assert code == 0
    assert page.exists()
    assert "<svg" in page.read_text()

    file.write_text(STUDY.replace("updates: 20", "updates: 30"))
    code, _, err = said("sweep", str(file))
    assert code == 2
    assert "new name" in err

    import trainlab as tl

    study = tl.study("tiny")
    assert len(study.runs) == 10
    assert set(study.table()["arm"]) == {"adamw", "lion"}
    assert {len(each.trials) for name, each in study.optuna.items() if name.endswith("/final")} == {3}


@pytest.mark.slow
def test_tune_makes_a_study_without_a_file(said: Callable[..., tuple[int, str, str]]) -> None:
    tuned = ("tune", "task=digits", "optimizer.lr=1e-3:1e-1:log", "budget.updates=10", "--trials", "3", "--name", "t")
    code, _, _ = said(*tuned)
    assert code == 0
    _, out, _ = said("status", "t", "--json")
    counts = {row["phase"]: row["completed"] for row in json.loads(out)}
    assert counts == {"tune": 3, "final": 1}


def start(*arguments: str) -> subprocess.Popen[str]:
    command = Path(sys.executable).with_name("trainlab")
    return subprocess.Popen([command, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_ctrl_c_stops_after_the_update_and_resume_gives_the_same_run(
    said: Callable[..., tuple[int, str, str]],
) -> None:
    asked_for = ("task=digits", "budget.updates=3000", "evaluate_every=100", "model.width=256", "seed=7")
    process = start("run", *asked_for, "--events")
    assert process.stdout
    for line in process.stdout:
        if json.loads(line).get("update", 0) >= 200:
            break
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130
    (told,) = [line for line in err.splitlines() if "trainlab resume" in line]
    run_id = told.split()[-1]

    code, _, _ = said("resume", run_id)
    assert code == 0
    code, _, err = said("resume", run_id)
    assert (code, "completed" in err) == (2, True)

    code, out, _ = said("run", *asked_for, "--json")
    whole = json.loads(out)[0]["run"]
    folders = [Home.default().folder(each) for each in (run_id, whole)]
    losses = [{s.metric: s.values for s in folder.series(["train/loss", "val/accuracy"])} for folder in folders]
    assert losses[0] == losses[1]
    assert folders[0].record().final == folders[1].record().final


@pytest.mark.slow
def test_ui_serves_mlflows_pages_on_the_store_of_this_folder(said: Callable[..., tuple[int, str, str]]) -> None:
    import urllib.request

    said("run", "task=digits", "budget.updates=2")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    process = start("ui", "--port", address.partition(":")[2])
    try:
        deadline = time.monotonic() + 200
        while time.monotonic() < deadline:
            try:
                with urllib.request.urlopen(f"http://{address}/health", timeout=2) as answer:
                    assert answer.status == 200
                    break
            except OSError:
                time.sleep(0.5)
        else:
            raise AssertionError("no answer")
    finally:
        os.kill(process.pid, signal.SIGINT)
        out, _ = process.communicate(timeout=120)
    assert f"http://{address}" in out
