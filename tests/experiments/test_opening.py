from __future__ import annotations

import argparse
import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from algos.finding import InputError
from experiments.opening import opened
from experiments.store.home import Home

_OPEN = """
import sys
from experiments.opening import opened
from experiments.store.home import Home
home = Home(sys.argv[1])
sys.stdin.readline()
for _ in range(5):
    opened(study="s", arm="a", home=home)
print("torch" in sys.modules)
"""


def test_runs_opened_at_once_by_several_processes_are_numbered_without_gap_or_repeat(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _OPEN, str(tmp_path)]
    started = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    said = [process.communicate("go\n", timeout=200)[0].strip() for process in started]
    assert said == ["False"] * 4
    numbers = [Home(tmp_path).folder(run_id).file.labels.number for run_id in Home(tmp_path).run_ids()]
    assert sorted(numbers) == list(range(20))


def test_each_arm_task_and_study_counts_for_itself(tmp_path: Path) -> None:
    home = Home(tmp_path)
    for labels in ({}, {"arm": "b"}, {"task": "t"}, {"study": "other"}):
        assert opened(**{"study": "s", "arm": "a", "home": home, **labels}).file.labels.number == 0  # type: ignore[arg-type]
    again = opened(study="s", arm="a", home=home).file.labels
    assert (again.number, again.phase, again.task) == (1, "final", "own")
    alone = opened(home=home).file.labels
    assert (alone.number, alone.phase, alone.study, alone.arm) == (0, "single", "", "")


def test_the_file_says_what_reports_need(tmp_path: Path) -> None:
    config = {"lr": np.float32(0.5), "layers": (1, 2), "device": "cuda", "act": np.tanh, "nan": float("nan")}
    file = opened(
        study="s", config=config, metric="valid_acc", mode="max", target=0.9, kind="lightning", home=Home(tmp_path),
        facts={"parameters": 7},
    ).file  # fmt: skip
    assert file.config == {
        "schema": 1, "recorded": "lightning", "task": "own", "seed": 1,
        "lr": 0.5, "layers": [1, 2], "device": "cuda", "act": "numpy.tanh", "nan": "nan",
    }  # fmt: skip
    task = file.facts["task"]
    assert {"metric": "acc", "mode": "max", "target": 0.9, "worst": None, "select": "last"}.items() <= task.items()
    assert (file.facts["recorded"], file.facts["entries"], file.facts["parameters"]) == ("lightning", {}, 7)
    assert file.provenance["packages"]["torch"]
    assert json.loads(json.dumps(file.to_json())) == file.to_json()


def test_configs_of_other_shapes_are_the_same_config(tmp_path: Path) -> None:
    @dataclasses.dataclass
    class Settings:
        lr: float = 0.5

    forms = [{"lr": 0.5}, Settings(), argparse.Namespace(lr=0.5)]
    assert len({opened(config=each, home=Home(tmp_path)).file.digest for each in forms}) == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            {"metric": "reward"},
            "mode: whether more or less of 'reward' is better cannot be told from its name; give mode=",
        ),
        ({"metric": "a", "mode": "mx"}, "mode: unknown mode 'mx'; did you mean 'max'"),
        ({"target": 0.9}, "metric: target=0.9 without a metric; give metric"),
        ({"metric": "a", "mode": "max", "target": float("nan")}, "target: target=nan is not a finite number; give one"),
        ({"metric": "a", "mode": "max", "target": "90%"}, "target: target='90%' is not a finite number"),
        ({"seed": "one"}, "seed: seed='one' is not a whole number; give e.g. seed=1"),
        ({"study": "a/b"}, "study: study='a/b' is not a name"),
        ({"config": {"seed": 3}}, "config.seed: seed=3, but the run's is 1; give seed=3 to it too"),
        ({"config": {"schema": 2}}, "config.schema: schema=2, but the run's is 1; call it something else"),
        ({"config": [1]}, "config: config is a list; give a mapping"),
    ],
)
def test_what_cannot_be_right_is_one_line_and_leaves_no_run(
    tmp_path: Path, arguments: dict[str, object], said: str
) -> None:
    with pytest.raises(InputError) as error:
        opened(**arguments, home=Home(tmp_path))  # type: ignore[arg-type]
    assert str(error.value).startswith(said)
    assert "\n" not in str(error.value)
    assert Home(tmp_path).run_ids() == []


def test_the_direction_is_told_from_a_name_that_says_it(tmp_path: Path) -> None:
    modes = [
        opened(metric=metric, home=Home(tmp_path)).file.facts["task"]["mode"] for metric in ("val/acc", "eval_loss")
    ]
    assert modes == ["max", "min"]
