"""`trainlab check` and `tl.check`: anybody's optimizer against the battery, told as a table."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import trainlab as tl
from algos import conformance
from algos.finding import InputError
from algos.optimizers.lion import Lion
from trainlab import checking
from trainlab.cli import main

GOOD = """
from torch import enable_grad, no_grad
from torch.optim import SGD, Optimizer

class Descent(Optimizer):
    def __init__(self, params, lr):
        if not lr >= 0:
            raise ValueError(f"lr={lr} is below 0")
        super().__init__(params, {"lr": lr})

    def step(self, closure=None):
        with enable_grad():
            loss = closure() if closure else None
        with no_grad():
            for group in self.param_groups:
                for param in group["params"]:
                    if param.grad is not None:
                        param.add_(param.grad, alpha=-group["lr"])
        return loss
"""
BAD = GOOD.replace("Descent", "Climb").replace("alpha=-group", "alpha=group")
OURS = """
from algos.optimizers.lion import Lion
from algos.spec import Spec

class Mine(Lion):
    pass

SPEC = Spec(build=Mine, elementwise=True, cite="@misc{none}")
"""
WORDS = (
    GOOD.replace("Descent", "Gained")
    .replace("params, lr)", "params, lr=0.1, **words)")
    .replace(
        "        super()",
        '        if words.get("gain", 0) < 0:\n            raise ValueError("no gain")\n        super()',
    )
)
FEW = ("converges_on_a_quadratic", "no_rate_no_change", "sparse_gradients_are_refused_or_right", "decay_is_decoupled")


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some checks only: all of them take seconds."""
    monkeypatch.setattr(conformance, "CHECKS", {name: conformance.CHECKS[name] for name in FEW})


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], str]:
    monkeypatch.chdir(tmp_path)

    def write(name: str, text: str) -> str:
        (tmp_path / name).write_text(text)
        return name

    return write


@pytest.mark.usefixtures("few")
def test_a_file_that_passes_exits_with_0(
    written: Callable[[str, str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", written("good_descent.py", GOOD)]) == 0
    out = capsys.readouterr().out
    assert "converges on a quadratic" in out
    assert "Descent: 3 passed, 1 not asked" in out
    assert "SGD" not in out, "what a file imports is not its own"


@pytest.mark.usefixtures("few")
def test_a_file_that_fails_exits_with_1_and_says_why(
    written: Callable[[str, str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", written("bad_climb.py", BAD)]) == 1
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("  FAILED")]
    assert "converges on a quadratic" in line
    assert "210 became more at 0.0001 to 1, never below 2.1" in line


@pytest.mark.usefixtures("few")
def test_json_holds_every_optimizer_and_every_result(
    written: Callable[[str, str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", written("both_ways.py", GOOD + BAD), "lr=0.01", "--json"]) == 1
    descent, climb = json.loads(capsys.readouterr().out)
    assert (descent["name"], descent["passed"]) == ("Descent", True)
    assert (climb["name"], climb["passed"]) == ("Climb", False)
    assert [result["check"] for result in climb["results"]] == list(FEW)
    assert climb["results"][0]["fact"].startswith("|w - 1|^2")


@pytest.mark.usefixtures("few")
def test_one_class_of_a_file_and_an_entry_of_the_catalogue(written: Callable[[str, str], str]) -> None:
    name = written("both_again.py", GOOD + BAD)
    assert tl.check(f"{name}:Descent").passed
    checks = tl.check(name)
    assert isinstance(checks, checking.Checks)
    assert [each.name for each in checks] == ["Descent", "Climb"]
    assert not checks.passed
    assert tl.check("sgd").passed


@pytest.mark.usefixtures("few")
def test_a_file_with_a_spec_is_checked_as_an_entry(written: Callable[[str, str], str]) -> None:
    checked = tl.check(written("mine_lion.py", OURS))
    assert isinstance(checked, checking.Checked)
    assert checked.name == "Mine"
    assert {result.check: result.status for result in checked.results}["decay_is_decoupled"] == "passed"


@pytest.mark.usefixtures("few")
def test_a_class_is_checked_and_shows_itself() -> None:
    checked = tl.check(Lion)
    assert isinstance(checked, checking.Checked)
    assert checked.passed
    assert checked.failed == []
    assert "passed   no rate no change" in repr(checked)
    assert "<td>refused</td>" in checked._repr_html_()
    assert checked._repr_html_().count("<tr>") == len(FEW)


@pytest.mark.usefixtures("few")
def test_what_time_does_not_allow_is_not_called_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checking, "LIMIT_S", 0.0)
    checked = tl.check(torch.optim.SGD)
    assert isinstance(checked, checking.Checked)
    assert not checked.passed
    assert "4 NOT RUN" in checked.summary


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["check", "good_one.pi"], ["unknown optimizer 'good_one.pi'"]),
        (["check", "god_one.py"], ["god_one.py is no file", "did you mean 'good_one.py'?"]),
        (["check", "good_one.py", "lr"], ["'lr' is no setting", "lr=0.1"]),
        (["check", "good_one"], ["unknown optimizer 'good_one'", "did you mean the file good_one.py?"]),
        (["check", "good_one.py", "lrr=1"], ["Descent: unknown setting 'lrr'", "did you mean 'lr'?"]),
        (["check", "good_one.py", "lr=-1"], ["Descent takes no step with lr=-1", "lr=-1 is below 0"]),
        (["check", "good_one.py", "lr=fast"], ["Descent takes no step with lr='fast'", "give another value"]),
        (["check", "takes_words.py", "lr=0.1", "gain=-1"], ["Gained takes no step with gain=-1: ValueError: no gain"]),
        (["check", "lion", "lr=-1"], ["lion takes no step with lr=-1: Lion.lr: -1 is not valid; give a number"]),
        (["check", "lion", "lrr=1"], ["lrr", "did you mean 'lr'?"]),
        (["check", "nothing_here.py"], ["defines no subclass of torch.optim.Optimizer"]),
        (["check", "broken_file.py"], ["broken_file.py:1", "SyntaxError"]),
        (["check", "good_one.py:Ascent"], ["Ascent", "did you mean"]),
        (["check", "needs_more.py"], ["Needs cannot be built without inertia"]),
    ],
)
def test_every_mistake_is_one_line(
    arguments: list[str],
    parts: list[str],
    written: Callable[[str, str], str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    written("good_one.py", GOOD)
    written("nothing_here.py", "x = 1\n")
    written("broken_file.py", "def f(:\n")
    written("needs_more.py", GOOD.replace("Descent", "Needs").replace("params, lr)", "params, lr, inertia)"))
    written("takes_words.py", WORDS)
    assert main(arguments) == 2
    out, error = capsys.readouterr()
    assert "mend its constructor" not in error
    assert out == ""
    assert error.count("\n") == 1
    assert all(part in error for part in parts), error


@pytest.mark.usefixtures("few")
def test_a_heading_is_what_to_give_for_the_class(
    written: Callable[[str, str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", written("headed_descent.py", GOOD)]) == 0
    assert capsys.readouterr().out.startswith("headed_descent.py:Descent\n")
    assert main(["check", "sgd"]) == 0
    assert capsys.readouterr().out.startswith("sgd\n")


def test_a_message_is_cut_in_the_table_and_whole_in_json() -> None:
    said = f"NotImplementedError: Could not run 'aten::add'. {'CPU: registered at x. ' * 600}"
    checked = checking.Checked("Long", [conformance.Result("forms_agree", "failed", said)], 1.0)
    assert "Could not run 'aten::add'. ..." in repr(checked)
    assert "registered" not in repr(checked) + checked._repr_html_()
    assert checked.to_json()["results"][0]["detail"] == said
    without_end = checking.line(conformance.Result("forms_agree", "failed", "x" * 12_000))[2]
    assert len(without_end) == 150


@pytest.mark.usefixtures("few")
def test_who_may_have_decoupled_decay_reads_how_to_declare_it() -> None:
    (undeclared,) = conformance.battery(torch.optim.AdamW, ["decay_is_decoupled"])
    assert "`decoupled = True`" in undeclared.detail
    declares = type("Declares", (torch.optim.AdamW,), {"decoupled": True})
    (declared,) = conformance.battery(declares, ["decay_is_decoupled"])
    assert declared.status == "passed"


def test_an_interruption_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(conformance, "CHECKS", {"forms_agree": interrupted})
    assert main(["check", "sgd"]) == 130
    assert capsys.readouterr().err == "interrupted\n"


def test_an_object_is_no_class() -> None:
    with pytest.raises(InputError, match="the class, not an object"):
        tl.check(torch.optim.SGD([torch.nn.Parameter(torch.ones(2))]))  # type: ignore[arg-type]
