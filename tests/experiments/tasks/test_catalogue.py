"""Tasks are found by file name and read without importing anything heavy."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from algos import catalogue as entries
from algos.finding import InputError
from algos.spec import resolve
from experiments.task import TaskSpec
from experiments.tasks import catalogue
from experiments.tasks.metrics import METRICS

NAMES = catalogue.names()

OWN = '''"""Mine: a task of my own."""
from experiments.task import TaskSpec

def load(root):
    return f"data from {root}"

TASK = TaskSpec(
    load=load, model={"name": "mlp"}, metric="accuracy", mode="max", worst=0.0, target=0.5, target_source="a guess",
    unit="images", budget={"updates": 10}, batch_size=4, evaluate_every=5,
)
'''


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's folder with a task of his own; where his task is to be written."""
    monkeypatch.setenv("TRAINLAB_ENTRIES", str(tmp_path))
    path = tmp_path / "tasks" / "cv" / "mine.py"
    path.parent.mkdir(parents=True)
    path.write_text(OWN)
    return path


def test_there_are_six() -> None:
    assert NAMES == ["cora", "digits", "digits_graph", "fashion_mnist", "python_docs", "tiny_shakespeare"]


def test_listing_them_imports_no_torch_and_no_task() -> None:
    program = (
        "import sys; from experiments.tasks import catalogue as c; [c.describe(n) for n in c.names()];"
        "heavy = ('torch', 'sklearn', 'numpy');"
        "bad = [m for m in sys.modules if m.split('.')[0] in heavy or m.startswith('experiments.tasks.cv')];"
        "sys.exit(str(bad) if bad else 0)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", NAMES)
def test_what_is_read_is_what_is_loaded(name: str) -> None:
    read, loaded = catalogue.describe(name), catalogue.load(name)
    for field in fields(TaskSpec):
        if field.name != "load":
            assert getattr(read, field.name) == getattr(loaded, field.name), field.name
    assert read.name == name
    assert catalogue.find(name).parent.name == read.domain
    assert read.title.endswith((".", ")")) or read.title


@pytest.mark.parametrize("name", NAMES)
def test_every_default_is_an_entry_with_valid_hyperparameters(name: str) -> None:
    task = catalogue.describe(name)
    chosen = {
        "architectures": task.model,
        "optimizers": task.optimizer,
        "schedules": task.schedule,
        "losses": task.loss,
    }
    for kind, entry in chosen.items():
        declared = entries.describe(kind, entry["name"]).hyper
        resolve(declared, {key: value for key, value in entry.items() if key != "name"}, entry["name"])


@pytest.mark.parametrize("name", NAMES)
def test_facts_agree_with_one_another(name: str) -> None:
    task = catalogue.describe(name)
    assert task.metric in task.metrics
    assert set(task.metrics) <= set(METRICS)
    better = max(task.worst, task.target) if task.mode == "max" else min(task.worst, task.target)
    assert better == task.target != task.worst
    assert len(task.budget) == 1
    assert task.home
    assert task.target_source


def test_a_misspelt_task_gets_a_suggestion() -> None:
    with pytest.raises(InputError, match="task: unknown task 'fashion-mnits'; did you mean 'fashion_mnist'"):
        catalogue.describe("fashion-mnits")


def test_a_users_own_task_is_found_described_and_loaded(own: Path) -> None:
    assert "mine" in catalogue.names()
    assert catalogue.describe("mine").title == "Mine: a task of my own."
    assert catalogue.load("mine").load(Path("there")) == "data from there"
    assert catalogue.describe("mine").load(None) == "data from None"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("metric=", "metrik=", "unknown field of TaskSpec 'metrik'; did you mean 'metric'"),
        ("target=0.5, ", "", "TASK lacks target"),
        ("target=0.5", "target=1 / 2", "line 8: `1 / 2` is not a literal"),
        ("TASK =", "TUSK =", "no `TASK = TaskSpec(...)` at the top level"),
    ],
)
def test_a_wrong_task_file_says_what_and_where(own: Path, old: str, new: str, said: str) -> None:
    own.write_text(OWN.replace(old, new))
    with pytest.raises(InputError) as refused:
        catalogue.describe("mine")
    assert said in str(refused.value)
    assert str(own) in str(refused.value)
