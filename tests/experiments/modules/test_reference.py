"""References: what they mean, what they are called, what a record keeps of them, and every way to get one wrong."""

from __future__ import annotations

import functools
import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest
from lightning.pytorch.callbacks import EarlyStopping
from lightning.pytorch.demos.boring_classes import BoringModel

from algos.finding import InputError
from experiments.modules import reference


def refusal(text: str) -> InputError:
    with pytest.raises(InputError) as caught:
        reference.load(text)
    assert "\n" not in str(caught.value)
    return caught.value


@pytest.mark.parametrize(
    "text", ["a.py:Net", "/x y/a-b.py:Net", "../a.py:Outer.Net", "p.q:Net", "by-value:Net-0123abcd"]
)
def test_these_are_references(text: str) -> None:
    assert reference.is_reference(text)


@pytest.mark.parametrize(
    "text", ["digits", "cuda:0", "a.py", "a.py:", ":Net", "val/acc", "00:12:00", "a.py:9", 3, None]
)
def test_these_are_none(text: object) -> None:
    assert not reference.is_reference(text)


def test_a_class_is_imported_once_however_it_is_written(place: Path) -> None:
    (place / "counted.py").write_text("with open('count', 'a') as f:\n    f.write('x')\nclass A: pass\n")
    first = reference.load("counted.py:A")
    assert reference.load("./counted.py:A") is first
    assert reference.load(f"{place}/counted.py:A") is first
    assert (place / "count").read_text() == "x"


def test_the_module_a_script_has_imported_is_the_one(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(place))
    import my_module  # type: ignore[import-not-found]

    assert reference.load("my_module.py:Net") is my_module.Net
    assert reference.name_of(my_module.Net) == "my_module.py:Net"


def test_names_of_what_other_processes_can_import(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    net = reference.load("my_module.py:Net")
    assert reference.name_of(net) == "my_module.py:Net"
    (place / "deeper").mkdir()
    monkeypatch.chdir(place / "deeper")
    assert reference.name_of(net) == f"{place}/my_module.py:Net"
    assert reference.name_of(BoringModel) == "lightning.pytorch.demos.boring_classes:BoringModel"
    assert reference.load(reference.name_of(BoringModel)) is BoringModel


def test_a_local_class_is_kept_by_value_and_unknown_elsewhere() -> None:
    class Local(BoringModel):
        pass

    text = reference.name_of(Local)
    assert reference.load(text) is Local
    assert reference.name_of(Local) == text
    assert reference.source(text)["sha256"]
    said = refusal(text[:-8] + "00000000")
    assert said.finding.rule == "by-value"
    assert "Local was defined in another process" in str(said)
    assert "give task=FILE.py:Local" in str(said)


def test_two_local_classes_of_one_source_are_two() -> None:
    def made(width: int) -> type:
        class Local(BoringModel):
            size = width

        return Local

    one, other = made(1), made(2)
    assert reference.load(reference.name_of(one)) is one
    texts = reference.name_of(one), reference.name_of(other)
    assert [reference.load(text) for text in texts] == [one, other]


def test_an_instance_is_copied_for_each_run() -> None:
    stopper = EarlyStopping("val/acc", patience=7)
    text = reference.name_of(stopper)
    one, other = reference.fresh(text), reference.fresh(text)
    assert one is not other
    assert one is not stopper
    assert one.patience == 7
    assert reference.name_of(EarlyStopping("val/acc", patience=7)) == text
    assert reference.name_of(EarlyStopping("val/acc", patience=8)) != text


@pytest.mark.slow
def test_an_equal_instance_is_called_the_same_in_another_process() -> None:
    text = reference.name_of(EarlyStopping("val/acc", patience=7))
    program = (
        "from lightning.pytorch.callbacks import EarlyStopping; from experiments.modules import reference;"
        "print(reference.name_of(EarlyStopping('val/acc', patience=7)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split()[-1] == text


def test_a_record_keeps_the_hashes_of_the_file_and_its_siblings(place: Path) -> None:
    told = reference.source("my_module.py:Net")
    digests = {name: hashlib.sha256((place / name).read_bytes()).hexdigest() for name in ("my_module.py", "layers.py")}
    assert told == {
        "reference": "my_module.py:Net",
        "file": str(place / "my_module.py"),
        "class": "Net",
        "sha256": digests["my_module.py"],
        "files": digests,
    }
    json.dumps(told)


def test_a_file_that_changes_later_is_told_and_the_record_keeps_what_ran(place: Path) -> None:
    before = reference.source("my_module.py:Net")
    assert reference.changed("my_module.py:Net") == []
    (place / "layers.py").write_text("WIDTH = 64\n")
    assert reference.changed("my_module.py:Net") == [str(place / "layers.py")]
    assert reference.source("my_module.py:Net") == before


def test_of_an_installed_package_only_its_own_file_is_hashed() -> None:
    told = reference.source("lightning.pytorch.demos.boring_classes:BoringModel")
    assert list(told["files"]) == ["boring_classes.py"]
    assert told["files"]["boring_classes.py"] == told["sha256"]


def test_the_references_of_a_config_are_those_that_are_loaded() -> None:
    """Not its metric, and no argument that happens to look like one."""
    config = {
        "task": "a.py:Net", "metric": "validation_step:loss", "model": {"name": "Net", "root": "s3:bucket"},
        "data": {"name": "a.py:Data", "root": "s3:bucket"},
        "trainer": {"callbacks": ["a.py:Ema", "by-value:Stop-01234567"], "default_root_dir": "a:b", "profiler": "x"},
    }  # fmt: skip
    assert list(reference.within(config)) == ["a.py:Net", "a.py:Data", "a.py:Ema", "by-value:Stop-01234567"]


def test_what_is_not_there_is_said_with_what_is(place: Path) -> None:
    (place / "of_mine.py").touch()
    assert "Python finds no module 'of_mine'; give the file: task=of_mine.py:CLASS" in str(refusal("of_mine:Net"))
    assert "my_module.py has no 'Nett'; did you mean 'Net'?" in str(refusal("my_module.py:Nett"))
    assert f"nope.py is no file (looked for in {place})" in str(refusal("nope.py:Net"))
    assert "no module 'lightning.pytorch.demoss'" in str(refusal("lightning.pytorch.demoss:Net"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import os\nx = 1 / 0\n", "bad.py:2: ZeroDivisionError: division by zero"),
        ("def f(:\n", "bad.py:1: SyntaxError"),
        ("import layers_of_mine\n", "bad.py:1: ModuleNotFoundError: No module named 'layers_of_mine'"),
        ("import sibling\n", "sibling.py:2: ValueError: two lines"),
        ("raise SystemExit(0)\n", "bad.py ends Python when it is imported; put what runs there under `if __name__"),
    ],
)
def test_what_their_code_raises_is_one_line_with_their_own_last_frame(text: str, said: str, place: Path) -> None:
    (place / "bad.py").write_text(text)
    (place / "sibling.py").write_text("\nraise ValueError('two\\nlines')\n")
    error = refusal("bad.py:Net")
    assert said in str(error)
    assert error.finding.rule == "their-code"


def test_a_package_of_this_folder_is_named_where_it_is_not_found(place: Path) -> None:
    (place / "src").mkdir()
    (place / "bad.py").write_text("import src.models\n")
    assert "'src' stands in this folder: put PYTHONPATH=. before the command" in str(refusal("bad.py:Net"))


def test_naming_a_reference_imports_nothing_heavy() -> None:
    program = (
        "import sys; import experiments.config, experiments.study, experiments.modules.task;"
        "assert not {'torch', 'lightning'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_what_looks_alike_is_kept_as_what_it_is() -> None:
    """Lambdas of one line, of a comprehension, partials and a class that is defined anew: each is found again."""
    pair = [lambda: "A", lambda: "B"]
    loop = [lambda word=word: word for word in "CD"]
    partials = [functools.partial(str.upper, word) for word in "ef"]
    for made, words in ((pair, "AB"), (loop, "CD"), (partials, "EF")):
        texts = [reference.name_of(each) for each in made]
        assert "".join(reference.fresh(text) for text in texts) == words
    space: dict[str, type] = {}
    texts = []
    for width in (16, 64):
        exec(f"class Net:\n    width = {width}", space)
        texts.append(reference.name_of(space["Net"]))
    assert [reference.load(text).width for text in texts] == [16, 64]


def test_two_of_which_nobody_can_tell_what_they_hold_are_two_and_each_keeps_its_name() -> None:
    one, other = (functools.partial(print, file=object()) for _ in range(2))
    texts = [reference.name_of(each) for each in (one, other)]
    assert texts[0] != texts[1]
    assert [reference.load(text) for text in texts] == [one, other]
    assert [reference.name_of(each) for each in (one, other)] == texts
