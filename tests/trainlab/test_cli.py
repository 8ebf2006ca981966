"""The command: quick and light to start, and one line for every mistake."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from trainlab.cli import main

HEAVY = ("torch", "lightning", "mlflow", "optuna", "pandas", "matplotlib", "sklearn")
COMMANDS = (
    "list",
    "show",
    "check",
    "run",
    "resume",
    "fork",
    "replay",
    "tune",
    "sweep",
    "runs",
    "status",
    "doctor",
    "report",
    "cite",
    "ui",
)


def fresh(*arguments: str, cwd: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    """`trainlab ARGUMENTS` in a fresh process, as a shell would start it."""
    command = Path(sys.executable).with_name("trainlab")
    return subprocess.run(
        [command, *arguments], capture_output=True, text=True, cwd=cwd, env={**os.environ, **environment}, timeout=120
    )


@pytest.mark.parametrize("arguments", [["--help"], ["list"], ["show", "muon"], ["runs"], ["run", "--help"]])
def test_light_commands_import_nothing_heavy(arguments: list[str], tmp_path: Path) -> None:
    probe = (
        f"import sys\nfrom trainlab.cli import main\nmain({arguments})\n"
        f"print('loaded:', *[name for name in {HEAVY} if name in sys.modules])"
    )
    environment = {**os.environ, "TRAINLAB_HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.rpartition("loaded:")[2].split() == []


@pytest.mark.parametrize("argument", ["--help", "list"])
def test_help_and_list_answer_in_half_a_second(argument: str) -> None:
    """In processor time, so that what else the machine does is not measured."""

    def spent() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert fresh(argument).returncode == 0
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    assert min(spent() for _ in range(3)) < 0.5


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    lines = capsys.readouterr().out.partition("Commands:")[2].splitlines()
    told = {words[0]: words[1:] for line in lines if (words := line.split())}
    assert set(COMMANDS) <= set(told)
    assert all(told[name] for name in COMMANDS)  # each says what it does


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["lst"], "did you mean 'list'"),
        (["list", "--jsn"], "--json"),
        (["list", "optimzers"], "did you mean 'optimizers'"),
        (["show"], "missing argument"),
        (["show", "moun"], "did you mean 'muon'"),
        (["show", "digits", "--task", "digits"], "not an optimizer"),
        (["list", "tasks", "more"], "unexpected"),
    ],
)
def test_a_mistake_is_one_line_and_code_2(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("error: ")
    assert len(captured.err.splitlines()) == 1
    assert said in captured.err.lower()


def test_list_tells_of_every_kind(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "--json"]) == 0
    lines = json.loads(capsys.readouterr().out)
    found = {(line["kind"], line["name"]) for line in lines}
    assert {("tasks", "digits"), ("optimizers", "muon"), ("wrappers", "sam"), ("losses", "focal")} <= found
    assert all(line["title"] for line in lines)


def test_show_tells_defaults_ranges_and_whom_to_cite(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "warmup_cosine"]) == 0
    shown = capsys.readouterr().out
    assert "a number in [0, 1)" in shown
    assert "fraction of the budget" in shown
    assert "loshchilov2017sgdr" in shown


def test_show_with_a_task_tells_where_each_parameter_goes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "muon", "--task", "digits", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    rules = {row["rule"] for row in told["parameters"]}
    assert len(rules) == 2  # the matrix rule and the fallback
    assert all(row["shape"] for row in told["parameters"])


def test_show_tells_what_the_constructor_of_a_module_of_yours_takes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "lightning.pytorch.demos.transformer:LightningTransformer", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in told["hyperparameters"]] == ["vocab_size"]
    assert told["hyperparameters"][0]["default"] == 33278
    assert told["file"].endswith("transformer.py")
    assert main(["show", "sgd", "--task", "lightning.pytorch.demos.boring_classes:BoringModel", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["parameters"]
    assert [(row["parameter"], row["shape"]) for row in rows] == [("layer.weight", [2, 32]), ("layer.bias", [2])]


def test_a_broken_entry_of_the_user_breaks_only_its_own_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "optimizers").mkdir()
    (tmp_path / "optimizers" / "mine.py").write_text("SPEC = = 1\n")
    monkeypatch.setenv("TRAINLAB_ENTRIES", str(tmp_path))
    assert main(["list", "optimizers"]) == 0
    lines = capsys.readouterr().out.splitlines()
    (place,) = [i for i, line in enumerate(lines) if line.split()[:1] == ["mine"]]
    assert "cannot be read" in lines[place]
    assert "line 1" in " ".join(lines[place : place + 4])
    assert any(line.split()[:1] == ["adamw"] for line in lines)


def _shadow(folder: Path, kind: str) -> None:
    (folder / "experiments").mkdir()
    if kind == "package":
        (folder / "experiments" / "__init__.py").write_text("")


@pytest.mark.parametrize("kind", ["package", "folder"])
def test_the_command_does_not_care_what_the_users_folder_holds(kind: str, tmp_path: Path) -> None:
    _shadow(tmp_path, kind)
    done = fresh("list", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_shadowed_sibling_is_one_line_in_python(tmp_path: Path) -> None:
    _shadow(tmp_path, "package")
    done = subprocess.run([sys.executable, "-c", "import trainlab"], cwd=tmp_path, capture_output=True, text=True)
    last = done.stderr.splitlines()[-1]
    assert done.returncode == 1
    assert last.startswith("ImportError: trainlab needs its own package 'experiments'")
    assert str(tmp_path / "experiments") in last


def test_a_shadowed_sibling_is_one_line_and_code_2_of_the_command(tmp_path: Path) -> None:
    _shadow(tmp_path, "package")
    done = fresh("list", PYTHONPATH=str(tmp_path))
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert str(tmp_path / "experiments") in done.stderr


def test_a_plain_folder_of_the_users_shadows_nothing(tmp_path: Path) -> None:
    """`reports/` full of pages beside a notebook is not a package of Python's."""
    (tmp_path / "reports").mkdir()
    subprocess.run([sys.executable, "-c", "import trainlab"], cwd=tmp_path, check=True)


def test_a_full_disk_is_one_line_without_a_traceback() -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "trainlab", "list"], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert done.returncode == 1
    assert done.stderr.splitlines()[0] == "error: No space left on device; nothing finished is lost"
    assert "Traceback" not in done.stderr
