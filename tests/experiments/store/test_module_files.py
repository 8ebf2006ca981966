"""Whether a user's file is what a run was made from is read from the disk, and nothing is imported for it."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from experiments.store.module_files import GONE, changed, sources, versions
from experiments.store.schema import Labels, RunFile, RunRecord


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def run(folder: Path, **files: str) -> RunRecord:
    """A run of a module in folder/net.py, made from these texts."""
    told: dict[str, Any] = {"file": str(folder / "net.py"), "class": "Net", "sha256": sha(files["net"])}
    told["files"] = {f"{name}.py": sha(text) for name, text in files.items()}
    facts = {"task": {"module": told, "data": None}}
    return RunRecord(RunFile("r1", "r1", Labels("Net"), {}, "", facts), "completed")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "net.py").write_text("a")
    (tmp_path / "layers.py").write_text("b")
    return tmp_path


def test_files_as_they_were_are_not_changed(folder: Path) -> None:
    assert changed([run(folder, net="a", layers="b")]) == []


def test_a_changed_file_is_named_with_both_hashes(folder: Path) -> None:
    (folder / "layers.py").write_text("c")
    assert changed([run(folder, net="a", layers="b")]) == [(str(folder / "layers.py"), sha("b"), sha("c"))]


def test_a_file_that_is_not_there_is_gone(folder: Path) -> None:
    (folder / "net.py").unlink()
    assert changed([run(folder, net="a", layers="b")]) == [(str(folder / "net.py"), sha("a"), GONE)]


def test_of_two_versions_only_the_other_one_is_changed_and_said_once(folder: Path) -> None:
    runs = [run(folder, net="a"), run(folder, net="old"), run(folder, net="old")]
    assert [(each.stored, each.now) for each in changed(runs)] == [(sha("old"), sha("a"))]


def test_runs_of_the_catalogue_have_no_files() -> None:
    record = RunRecord(RunFile("r1", "r1", Labels("digits"), {}, "", {"task": {"metric": "accuracy"}}), "completed")
    assert (sources(record), list(versions(record)), changed([record])) == ({}, [], [])


def test_a_file_that_module_and_data_share_is_one(folder: Path) -> None:
    record = run(folder, net="a", layers="b")
    record.file.facts["task"]["data"] = record.file.facts["task"]["module"]
    assert [version.name for version in versions(record)] == ["net.py", "layers.py"]


def test_nothing_of_the_users_is_imported(folder: Path) -> None:
    """A file that fails when imported is hashed all the same, and torch stays away."""
    (folder / "net.py").write_text("raise SystemExit(3)")
    code = (
        "import sys; from experiments.store.module_files import changed;"
        "from experiments.store.schema import Labels, RunFile, RunRecord;"
        f"told = {{'file': {str(folder / 'net.py')!r}, 'sha256': 'x', 'files': {{}}}};"
        "record = RunRecord(RunFile('r', 'r', Labels('Net'), {}, '', {'task': {'module': told}}), 'completed');"
        "print(len(changed([record])), 'torch' in sys.modules, 'net' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1", "False", "False"]


def test_a_file_that_module_and_data_both_tell_is_one(tmp_path: Path) -> None:
    """However the path to it is written from the folder of either."""
    for name in ("models", "data"):
        (tmp_path / name).mkdir()
    (tmp_path / "models" / "net.py").write_text("a")
    (tmp_path / "data" / "digits.py").write_text("c")
    net = {"net.py": sha("a"), "../data/digits.py": sha("b")}
    module = {"file": str(tmp_path / "models" / "net.py"), "class": "Net", "sha256": sha("a"), "files": net}
    digits = {"digits.py": sha("b"), "../models/net.py": sha("a")}
    data = {"file": str(tmp_path / "data" / "digits.py"), "class": "Data", "sha256": sha("b"), "files": digits}
    record = RunRecord(
        RunFile("r1", "r1", Labels("Net"), {}, "", {"task": {"module": module, "data": data}}), "completed"
    )
    assert [version.path for version in versions(record)] == [
        str(tmp_path / "models/net.py"),
        str(tmp_path / "data/digits.py"),
    ]
    assert [found.path for found in changed([record])] == [str(tmp_path / "data/digits.py")]
