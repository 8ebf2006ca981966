"""A user's file is imported as Python would, once, and never silently with another package than its own."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from algos.finding import InputError
from experiments.modules import private, reference


def write(folder: Path, **files: str) -> None:
    for name, text in files.items():
        path = folder / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def refusal(text: str) -> InputError:
    with pytest.raises(InputError) as caught:
        reference.load(text)
    assert "\n" not in str(caught.value)
    return caught.value


def test_a_name_of_ours_as_a_file_hides_nothing(place: Path) -> None:
    import reports

    write(place, reports="class Net: pass\n", experiments="class Net: pass\n")
    for name in ("reports", "experiments"):
        assert reference.load(f"{name}.py:Net").__module__ == private.name(place / f"{name}.py")
    assert sys.modules["reports"] is reports


def test_a_file_that_imports_relatively_is_a_part_of_its_package(place: Path) -> None:
    write(place, pkg__sub__net="from ..layers import WIDTH\nclass Net: width = WIDTH\n", pkg__layers="WIDTH = 7\n")
    (place / "pkg" / "__init__.py").touch()
    (place / "pkg" / "sub" / "__init__.py").touch()
    net = reference.load("pkg/sub/net.py:Net")
    assert (net.__module__, net.width) == ("pkg.sub.net", 7)
    assert set(reference.source("pkg/sub/net.py:Net")["files"]) == {
        "net.py",
        "__init__.py",
        "../__init__.py",
        "../layers.py",
    }


def test_a_relative_import_outside_a_package_is_one_line(place: Path) -> None:
    write(place, net="from .layers import WIDTH\n")
    assert "net.py imports relatively, but is in no package" in str(refusal("net.py:Net"))


@pytest.mark.parametrize("kind", ["package", "folder", "file"])
@pytest.mark.parametrize("name", ["experiments", "algos", "reports"])
@pytest.mark.parametrize("who", ["the file", "its sibling", "a function of it"])
def test_their_own_package_of_our_name_is_refused_with_both_places(kind: str, name: str, who: str, place: Path) -> None:
    if kind == "file":
        write(place, **{name: "x = 1\n"})
    else:
        write(place, **{f"{name}__config": "x = 1\n"})
        if kind == "package":
            (place / name / "__init__.py").touch()
    statement = f"import {name}\n" if kind == "file" else f"from {name}.config import x\n"
    if who == "its sibling":
        write(place, net="\nimport sibling\nclass Net: pass\n", sibling=statement)
    elif who == "a function of it":
        write(place, net=f"class Net:\n    def f(self):\n        {statement}")
    else:
        write(place, net=f"{statement}class Net: pass\n")
    error = refusal("net.py:Net")
    assert error.finding.rule == "shadowed"
    assert f"imports '{name}', which stands beside it ({place / name}" in str(error)
    assert "trainlab's own package; rename yours" in str(error)


def test_such_a_package_that_is_not_imported_is_none_of_our_business(place: Path) -> None:
    write(place, experiments__config="x = 1\n", net="from typing import TYPE_CHECKING\nclass Net: pass\n")
    assert reference.load("net.py:Net")


def test_our_own_packages_can_be_imported_where_none_stands_beside(place: Path) -> None:
    write(place, net="from algos.finding import InputError\nclass Net: error = InputError\n")
    assert reference.load("net.py:Net").error is InputError


def test_two_folders_with_siblings_of_one_name_are_never_mixed(place: Path) -> None:
    write(place, a__net="import shared\nclass Net: x = shared.x\n", a__shared="x = 1\n")
    write(place, b__net="import shared\nclass Net: x = shared.x\n", b__shared="x = 2\n")
    assert reference.load("a/net.py:Net").x == 1
    error = refusal("b/net.py:Net")
    assert f"({place / 'b' / 'shared.py'}), but Python has another one already ({place / 'a' / 'shared.py'})" in str(
        error
    )


def test_a_sibling_that_is_imported_late_is_not_mixed_either(place: Path) -> None:
    late = "class Net:\n    def x(self):\n        import late\n        return late.x\n"
    write(place, a__net=late, a__late="x = 1\n", b__net=late, b__late="x = 2\n")
    net = reference.load("a/net.py:Net")
    assert refusal("b/net.py:Net").finding.rule == "shadowed"
    assert net().x() == 1


def test_a_file_that_runs_trainlab_when_imported_is_told_how(place: Path) -> None:
    write(place, net="from experiments.modules import reference\nreference.load('net.py:Net')\nclass Net: pass\n")
    assert "net.py runs trainlab while it is imported; put what runs there under" in str(refusal("net.py:Net"))


def test_a_fresh_process_with_the_same_folders_finds_a_class_by_its_private_name(place: Path) -> None:
    """As a DataLoader's worker does that is spawned and not forked."""
    write(place, **{"a_set-of.data": "class Rows: pass\n"})
    sent = pickle.dumps(reference.load("a_set-of.data.py:Rows")())
    program = f"import pickle, sys; sys.path[:0] = {sys.path[:1]}; print(type(pickle.loads({sent!r})).__name__)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd="/")
    assert done.stdout == "Rows\n"


def command(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    path = Path(sys.executable).with_name("trainlab")
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("TRAINLAB", "PYTHONPATH"))}
    return subprocess.run([path, *arguments], capture_output=True, text=True, cwd=cwd, env=environment, timeout=120)


@pytest.mark.slow
def test_the_command_works_in_a_folder_with_a_package_experiments(place: Path) -> None:
    write(
        place,
        experiments__config="x = 1\n",
        shadowed="import experiments.config\nclass Net: 1\n",
    )
    (place / "experiments" / "__init__.py").touch()
    said = ["run", "task=my_module.py:Net", "data=my_module.py:Data", "data.root=x", "metric=val/acc", "--dry-run"]
    done = command(*said, cwd=place)
    assert (done.returncode, done.stderr) == (0, "")
    assert "model.width=32" in done.stdout
    refused = command("run", "task=shadowed.py:Net", "metric=val/acc", "--dry-run", cwd=place)
    assert refused.returncode == 2
    assert refused.stderr.count("\n") == 1
    assert "shadowed.py:1 imports 'experiments', which stands beside it" in refused.stderr


def test_python_in_such_a_folder_says_so_in_one_line(place: Path) -> None:
    write(place, experiments__config="x = 1\n")
    (place / "experiments" / "__init__.py").touch()
    done = subprocess.run([sys.executable, "-c", "import trainlab"], cwd=place, capture_output=True, text=True)
    assert done.returncode == 1
    assert "trainlab needs its own package 'experiments'" in done.stderr.splitlines()[-1]
    assert str(place / "experiments") in done.stderr.splitlines()[-1]
