"""AlgoPerf's logs as runs: what is in them, how they ended, and what could not be used."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from algos.finding import InputError
from experiments.store.copying import copy
from experiments.store.home import Home
from experiments.store.sources.algoperf import AlgoPerfSource
from experiments.store.sources.algoperf_targets import V05, read, title
from experiments.store.sources.home import HomeSource

#: v0.5 asks 0.123735 of criteo1tb within 7,703 s and 10,666 updates; less is better.
GOOD, BAD = 0.12, 0.13
HEAD = "accumulated_submission_time,global_step,score,test/loss,total_duration,validation/loss,validation/num_examples"

Write = Callable[..., Path]


@pytest.fixture
def logs(tmp_path) -> Path:
    return tmp_path / "logs"


@pytest.fixture
def write(logs) -> Write:
    """Writes the log of a trial: its validation losses, so many seconds and updates apart. Returns its file."""

    def make(
        path: str, losses: Sequence[float | str], seconds: float = 3000.0, updates: int = 3000, end: str = "\n"
    ) -> Path:
        folder = logs / path
        folder.mkdir(parents=True)
        rows = [
            f"{seconds * (i + 1)},{updates * (i + 1)},{seconds * (i + 1)},{loss},{seconds * (i + 1) + 10},{loss},100"
            for i, loss in enumerate(losses)
        ]
        file = folder / "eval_measurements.csv"
        file.write_text("\n".join([HEAD, *rows]) + end)
        return file

    return make


def trials(source: AlgoPerfSource) -> list[tuple[float, float]]:
    return [(trial.evaluation, trial.seconds) for trial in source.trials()]


def test_a_trial_is_a_run(write, logs):
    write("lion/study_2/criteo1tb_jax/trial_3", [BAD, GOOD, 0.11])
    write("lion/study_2/criteo1tb_jax/trial_1", [BAD, 0.125])
    source = AlgoPerfSource(logs, study="v05")
    near, best = source.runs()
    labels = best.labels
    assert (labels.study, labels.task, labels.arm, labels.seed, labels.number) == ("v05", "criteo1tb", "lion", 2, 1)
    assert best.config["trial"] == 3
    assert best.config["framework"] == "jax"
    assert best.file.name == "lion/study_2/criteo1tb_jax/trial_3"
    assert (near.labels.phase, best.labels.phase) == ("tune", "final")
    assert best.reached == {"update": 6000, "value": GOOD, "train_s": 6000.0, "evaluation": 1}
    assert (best.task["metric"], best.task["mode"], best.task["target"]) == ("loss", "min", 0.123735)
    assert best.final == {"test/loss": 0.11, "objective": 0.11}
    assert best.last["time/train_s"] == 9000.0
    assert best.task["sizes"] == {"validation": 100}
    assert trials(source) == [(math.inf, math.inf), (1.0, 6000.0)]


def test_the_series_of_a_run(write, logs):
    file = write("lion/study_0/criteo1tb_jax/trial_1", [BAD, "", GOOD])
    source = AlgoPerfSource(logs)
    run = source.runs()[0]
    series = {line.metric: line for line in source.series([run.run_id])}
    assert set(series) == {"count/updates", "test/loss", "time/train_s", "val/loss"}
    assert series["val/loss"].updates == (3000, 9000)
    assert series["val/loss"].values == (BAD, GOOD)
    assert series["time/train_s"].values == (3000.0, 6000.0, 9000.0)
    written = file.stat().st_mtime_ns // 1_000_000
    assert series["time/train_s"].at == (written - 6_000_000, written - 3_000_000, written)
    assert run.nonfinite == ("test/loss", "val/loss")
    bad = source.nonfinite([run.run_id])
    assert [(line.metric, line.updates) for line in bad] == [("test/loss", (6000,)), ("val/loss", (6000,))]
    assert [line.metric for line in source.series([run.run_id], ["val/loss"])] == ["val/loss"]


@pytest.mark.parametrize(
    ("losses", "seconds", "updates", "status", "reason"),
    [
        ([BAD, GOOD], 10, 10, "completed", "reached its target"),
        ([BAD, BAD], 3000, 10, "completed", "used its time"),  # the next one would be at 9,000 s
        ([BAD] * 6, 1000, 10, "crashed", "ends after 6,000 of 7,703 s"),
        ([BAD] * 2, 3900, 10, "completed", "used its time"),
        ([BAD] * 7, 1000, 10, "completed", "used its time"),
        ([BAD] * 3, 10, 3000, "completed", "used its steps"),
        ([BAD], 50, 1, "crashed", "does not say why"),
        ([BAD, "nan"], 3000, 3000, "diverged", "loss is not a number"),
        ([BAD, GOOD, "nan"], 10, 10, "completed", "reached its target"),
        ([BAD, "", BAD], 3900, 3000, "completed", "used its time"),
        ([], 1, 1, "crashed", "logged nothing"),
    ],
)
def test_how_a_trial_ended(write, logs, losses, seconds, updates, status, reason):
    """External tuning: 7,703 s and 10,666 updates."""
    write("a/study_0/criteo1tb_jax/trial_1", losses, seconds, updates)
    run = AlgoPerfSource(logs, "external").runs()[0]
    assert run.status == status
    assert reason in run.reason


def test_the_trial_that_counts_has_the_fewest_evaluations_else_the_best_value(write, logs):
    for trial, losses in enumerate(([BAD, BAD, GOOD], [BAD, GOOD], [0.1241, BAD]), start=1):
        write(f"a/study_0/criteo1tb_jax/trial_{trial}", losses)
    for trial, losses in enumerate(([BAD, BAD], ["nan", "nan"], [0.1241, BAD]), start=1):
        write(f"a/study_1/criteo1tb_jax/trial_{trial}", losses)
    finals = [run.file.name for run in AlgoPerfSource(logs).runs() if run.labels.phase == "final"]
    assert finals == ["a/study_0/criteo1tb_jax/trial_2", "a/study_1/criteo1tb_jax/trial_3"]


def test_every_run_has_a_key_and_an_id_of_its_own_which_stay(write, logs):
    for study in range(3):
        for trial in (1, 2, 10):
            write(f"a/study_{study}/criteo1tb_jax/trial_{trial}", [BAD, GOOD])
    runs = AlgoPerfSource(logs, study="s").runs()
    assert len({run.labels.trial for run in runs}) == len({run.run_id for run in runs}) == 9
    assert [run.config["trial"] for run in runs] == [1, 2, 10] * 3
    assert [run.run_id for run in AlgoPerfSource(logs, study="s").runs()] == [run.run_id for run in runs]
    assert AlgoPerfSource(logs, study="t").runs()[0].run_id != runs[0].run_id


def test_a_query_selects(write, logs):
    write("a/study_0/criteo1tb_jax/trial_1", [GOOD])
    write("b/study_0/criteo1tb_pytorch/trial_1", [GOOD])
    assert [run.labels.arm for run in AlgoPerfSource(logs).runs("framework=pytorch")] == ["b"]


def test_logs_that_lie_elsewhere_are_told(write, logs):
    write("a/study_0/criteo1tb_jax/trial_1", [GOOD])
    write("a/study_0/trial_4", [GOOD])
    write("a/study_0/criteo1tb_jax/attempt", [GOOD])
    write("a/notes", [GOOD])
    source = AlgoPerfSource(logs)
    assert [run.file.name for run in source.runs()] == ["a/study_0/criteo1tb_jax/trial_1"]
    told = "; ".join(source.notes)
    for path in ("a/study_0/trial_4", "a/study_0/criteo1tb_jax/attempt", "a/notes"):
        assert path in told
    assert "2 logs" in told
    assert any("trial_4" in said for said in source.runs()[0].file.facts["algoperf"]["left_out"])


def test_a_trial_without_a_file_and_one_that_is_empty_are_counted(write, logs):
    write("a/study_0/criteo1tb_jax/trial_1", [GOOD])
    (logs / "a/study_0/criteo1tb_jax/trial_2").mkdir()
    write("a/study_0/criteo1tb_jax/trial_3", []).write_text("")
    source = AlgoPerfSource(logs)
    runs = source.runs()
    assert [run.status for run in runs] == ["completed", "crashed", "crashed"]
    assert [event["text"] for run in runs[1:] for event in run.events] == [
        "there is no eval_measurements.csv", "it is empty",
    ]  # fmt: skip
    assert len(source.findings) == 2
    assert trials(source) == [(0.0, 3000.0), (math.inf, math.inf), (math.inf, math.inf)]
    assert source.series([runs[1].run_id]) == []


def test_what_is_no_row_of_numbers_is_left_out_and_told(write, logs):
    """Also where the others of its kind are whole: those are read as ever."""
    write("a/study_0/criteo1tb_jax/trial_1", [BAD, GOOD])
    file = write("a/study_0/criteo1tb_jax/trial_2", [BAD, BAD, GOOD, GOOD])
    lines = file.read_text().splitlines()
    lines[2] = "oops"
    lines[4] = lines[4].replace("0.12", "good")
    file.write_text("\n".join(lines) + "\n")
    source = AlgoPerfSource(logs)
    assert trials(source) == [(1.0, 6000.0), (1.0, 9000.0)]
    said = [event["text"] for event in source.runs()[1].events if event["name"] == "warning"]
    assert said == ["line 3 was left out (1 values for 7 columns)", "line 5 was left out (a word for a number)"]


def test_half_a_last_line_is_not_believed(write, logs):
    """0.12 may be the beginning of 0.129."""
    file = write("a/study_0/criteo1tb_jax/trial_1", [BAD, 0.1299])
    text = file.read_text()
    file.write_text(text[: text.rindex("0.1299") + 4])
    source = AlgoPerfSource(logs)
    assert trials(source) == [(math.inf, math.inf)]
    assert "not whole" in source.runs()[0].events[0]["text"]


@pytest.mark.parametrize("change", [str.upper, lambda text: text.replace("\n", "\r\n")])
def test_values_are_read_alike_fast_and_row_by_row(write, logs, change):
    """CRLF is read as LF; a file of another header has no time that is scored, so no target is met."""
    file = write("a/study_0/criteo1tb_jax/trial_1", [BAD, 0.12345678901234567])
    plain = AlgoPerfSource(logs).runs()[0]
    file.write_bytes(change(file.read_text()).encode())
    other = AlgoPerfSource(logs).runs()[0]
    assert (other.last == plain.last) == (change is not str.upper)
    assert (other.reached == plain.reached) == (change is not str.upper)


def test_columns_that_are_missing_are_told(write, logs):
    file = write("a/study_0/criteo1tb_jax/trial_1", [GOOD])
    file.write_text(file.read_text().replace("validation/loss", "validation/wer"))
    source = AlgoPerfSource(logs)
    assert source.runs()[0].reached is None
    assert "no column validation/loss" in source.notes[0]


def test_workloads_without_a_target_are_told(write, logs):
    write("a/study_0/criteo1tb_jax/trial_1", [GOOD])
    write("a/study_0/nanogpt_jax/trial_1", [GOOD])
    source = AlgoPerfSource(logs)
    assert [run.labels.task for run in source.runs()] == ["criteo1tb"]
    assert "no target for workload 'nanogpt'" in source.notes[0]
    shutil.rmtree(logs / "a/study_0/criteo1tb_jax")
    with pytest.raises(InputError, match="none of the workloads"):
        AlgoPerfSource(logs)


def test_one_workload_in_two_frameworks_is_refused(write, logs):
    write("a/study_0/criteo1tb_jax/trial_1", [GOOD])
    write("a/study_1/criteo1tb_pytorch/trial_1", [GOOD])
    with pytest.raises(InputError, match="two frameworks"):
        AlgoPerfSource(logs)


def test_the_ruleset_is_told_by_folders_or_by_trials(write, logs):
    write("one/self_tuning/a/study_0/criteo1tb_jax/trial_1", [BAD] * 7, 3000, 10)
    source = AlgoPerfSource(logs / "one")
    assert (source.ruleset, source.runs()[0].labels.arm) == ("self", "a")
    assert source.runs()[0].config["budget"] == {"seconds": 3 * 7703.0}
    write("two/b/study_0/criteo1tb_jax/trial_1", [GOOD])
    assert AlgoPerfSource(logs / "two").ruleset == "self"
    assert AlgoPerfSource(logs / "two", "external").ruleset == "external"
    write("two/b/study_0/criteo1tb_jax/trial_2", [GOOD])
    assert AlgoPerfSource(logs / "two").ruleset == "external"
    write("two/c/study_0/criteo1tb_jax/trial_1", [GOOD])
    with pytest.raises(InputError, match=r"--ruleset external or --ruleset self"):
        AlgoPerfSource(logs / "two")


def test_both_rulesets_in_one_folder_need_to_be_told_apart(write, logs):
    write("self_tuning/a/study_0/criteo1tb_jax/trial_1", [GOOD])
    write("external_tuning/b/study_0/criteo1tb_jax/trial_1", [GOOD])
    with pytest.raises(InputError, match="both rulesets"):
        AlgoPerfSource(logs)
    assert [run.labels.arm for run in AlgoPerfSource(logs, "self").runs()] == ["a"]
    with pytest.raises(InputError, match="does not exist"):
        AlgoPerfSource(logs, "extern")


def test_folders_that_are_no_logs(tmp_path, write, logs):
    write("a/study_0/criteo1tb_jax/trial_1", [GOOD])
    for given, said in ((tmp_path / "none", "no folder"), (logs / "a/study_0/criteo1tb_jax/trial_1", "no logs")):
        with pytest.raises(InputError, match=said):
            AlgoPerfSource(given)
    packed = tmp_path / "logs.tar.xz"
    packed.write_bytes(b"")
    with pytest.raises(InputError, match="archive"):
        AlgoPerfSource(packed)
    assert AlgoPerfSource(logs / "a").runs()[0].labels.arm == "a"  # one submission's own folder


def test_hyperparameters_that_lie_beside_a_log(write, logs):
    file = write("a/study_0/criteo1tb_jax/trial_1", [GOOD])
    (file.parent / "hparams.json").write_text(json.dumps({"learning_rate": 0.01}))
    assert AlgoPerfSource(logs).runs("hyperparameters.learning_rate=0.01")


@pytest.mark.parametrize("name", ["<script>alert(1)</script>".replace("/", "_"), "a_b%&$#", "提交", "x" * 200])
def test_any_name_of_a_submission_is_kept(write, logs, name):
    write(f"{name}/study_0/criteo1tb_jax/trial_1", [GOOD])
    assert AlgoPerfSource(logs).runs()[0].labels.arm == name


def test_a_copy_in_a_home_says_what_the_logs_say(write, logs, tmp_path):
    write("a/study_0/criteo1tb_jax/trial_1", [BAD, GOOD])
    write("a/study_0/criteo1tb_jax/trial_2", [BAD, "nan"])
    (logs / "a/study_0/criteo1tb_jax/trial_3").mkdir()
    home = Home(tmp_path / "home")
    copied = copy(AlgoPerfSource(logs), home, study="v05")
    assert len(copied.added) == 3
    assert any("trial_3" in note for note in copied.notes)
    told = {run.file.name: run for run in AlgoPerfSource(logs).runs()}
    for run in HomeSource(home).runs():
        mine = told[run.file.name]
        assert (run.status, run.reason, run.reached) == (mine.status, mine.reason, mine.reached)
        assert (run.labels.phase, run.labels.number) == (mine.labels.phase, mine.labels.number)
        assert set(run.nonfinite) == set(mine.nonfinite)
        assert {**run.last, **mine.last} == run.last
    assert copy(AlgoPerfSource(logs), home, study="v05").already == 3


def test_targets_of_another_version(write, logs, tmp_path):
    spec = {"target_metric_name": "loss", "validation_target_value": 0.5, "step_hint": 10}
    told = {
        "benchmark_version": "0.7",
        "base_workloads": ["lm"],
        "held_out_workloads": [],
        "workloads": {"lm": {**spec, "target_metric_goal": "minimize", "max_allowed_runtime_sec": 100}},
    }
    file = tmp_path / "targets.json"
    file.write_text(json.dumps(told))
    write("a/study_0/lm_jax/trial_1", [0.6, 0.4], 10, 1)
    source = AlgoPerfSource(logs, targets=file)
    assert source.trials()[0].evaluation == 1.0
    run = source.runs()[0]
    assert run.task["target_source"] == "AlgoPerf v0.7"
    assert run.config["budget"] == {"seconds": 150.0}  # one trial: self-tuning, allowed half as long again since 0.6
    for broken, said in (
        ({**told, "base_workloads": ["gpt"]}, "no target for gpt"),
        ({**told, "workloads": {"lm": {**spec, "target_metric_name": "reward"}}}, "target_metric_goal"),
        ({**told, "workloads": {"lm": {}}}, "target_metric_name"),
        ([], "not of the form"),
        *(
            ({**told, "workloads": {"lm": {**spec, "target_metric_goal": "minimize", word: value}}}, said)
            for word, value, said in (
                ("validation_target_value", math.nan, "validation_target_value is nan"),
                ("step_hint", 0, "step_hint is 0"),
                ("step_hint", math.inf, "not of the form"),
                ("max_allowed_runtime_sec", -1, "max_allowed_runtime_sec is -1"),
            )
        ),
    ):
        file.write_text(json.dumps(broken))
        with pytest.raises(InputError, match=said):
            read(file)
    file.write_text("{")
    with pytest.raises(InputError, match="not JSON"):
        read(file)
    with pytest.raises(InputError, match="cannot be read"):
        read(tmp_path / "gone.json")


def test_v05_is_as_published():
    """8 workloads and 6 variants; imagenet_resnet: 77.431 % within 63,008 s; WER is less when better."""
    assert (len(V05.base), len(V05.held_out)) == (8, 6)
    assert all(V05.base_of(name) in V05.base for name in V05.held_out)
    resnet, conformer = V05.workloads["imagenet_resnet"], V05.workloads["librispeech_conformer_layernorm"]
    assert (resnet.value, resnet.mode, resnet.budget_s) == (0.77431, "max", 63008.0)
    assert (conformer.value, conformer.mode, conformer.budget_s) == (0.09731, "min", 61068.0)
    assert title("wmt", V05) == "WMT translation, transformer"


@pytest.mark.data
def test_the_built_in_targets_are_those_of_the_published_file():
    import os

    if "TRAINLAB_DATA" not in os.environ:
        pytest.skip("TRAINLAB_DATA is not set: the published file is not part of the project")
    published = read(Path(os.environ["TRAINLAB_DATA"]) / "algoperf" / "workload_targets_v0.5.json")
    assert (published.base, published.held_out) == (V05.base, V05.held_out)
    for name, target in published.workloads.items():
        mine = V05.workloads[name]
        assert (mine.metric, mine.mode, mine.value, mine.steps) == (
            target.metric, target.mode, target.value, target.steps,
        )  # fmt: skip
    assert set(published.workloads) == set(V05.workloads)


def test_numbers_are_read_to_the_last_digit(write, logs):
    values = np.random.default_rng(0).uniform(0.124, 0.2, 50).tolist()
    write("a/study_0/criteo1tb_jax/trial_1", values, 1.0, 1)
    source = AlgoPerfSource(logs)
    assert source.series([source.runs()[0].run_id], ["val/loss"])[0].values == tuple(values)
