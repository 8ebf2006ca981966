"""A run knows its code: commit and changes, also where there is no repository."""

from __future__ import annotations

import json
import subprocess
import time
from importlib import metadata

from experiments.store.provenance import diff, provenance


def git(folder, *arguments: str) -> str:
    identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
    return subprocess.run(
        ["git", "-C", folder, *identity, *arguments], capture_output=True, text=True, check=True
    ).stdout


def test_a_folder_without_a_repository_is_fine(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = provenance()
    assert (found["commit"], found["dirty"], diff()) == ("", False, "")
    assert found["packages"]["torch"] == metadata.version("torch")
    json.dumps(found)


def test_no_git_at_all_is_fine(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert provenance()["commit"] == ""


def test_changes_and_new_source_files_are_seen(tmp_path, monkeypatch):
    clean, dirty = tmp_path / "clean", tmp_path / "dirty"
    for folder in (clean, dirty):
        folder.mkdir()
        git(folder, "init", "-q")
        (folder / "model.py").write_text("width = 1\n")
        git(folder, "add", ".")
        git(folder, "commit", "-qm", "first")
    monkeypatch.chdir(clean)
    assert provenance()["commit"] == git(clean, "rev-parse", "HEAD").strip()
    assert not provenance()["dirty"]
    (dirty / "model.py").write_text("width = 2\n")
    (dirty / "mine.py").write_text("secret sauce\n")
    monkeypatch.chdir(dirty)
    assert provenance()["dirty"]
    assert "+width = 2" in diff()
    assert "secret sauce" in diff()


def test_it_is_quick_and_keeps_secrets(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hush")
    provenance()
    took = []
    for _ in range(5):
        begun = time.perf_counter()
        found = provenance()
        took.append(time.perf_counter() - begun)
    assert min(took) < 0.05
    assert found["environment"]["OMP_NUM_THREADS"] == "3"
    assert "hush" not in json.dumps(found)
