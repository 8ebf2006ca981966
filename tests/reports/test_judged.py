"""Runs of users' own modules and of recorded loops, through a real home to the page: what is compared, by what, and
what is said of the rest."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from algos.finding import Finding, InputError
from experiments.store.home import Home
from experiments.store.sources.home import HomeSource
from reports.clocks import readings
from reports.document import Block, Document, Findings, Paragraph, Parts, Table, Term, Verdict
from reports.judged import Stated
from reports.render.html import render
from reports.report import build
from reports.summary import summarise
from reports.table import StudyTable, read
from reports.writing import write
from trainlab.cli import main

STUDY = "mine"


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


@pytest.fixture
def facts(homes: Any, tmp_path: Path) -> dict[str, Any]:
    told: dict[str, Any] = homes.task_facts(homes.source(tmp_path))
    return told


def table(home: Home, **stated: str) -> StudyTable:
    return read(HomeSource(home), STUDY, Stated(**stated))


def document(home: Home) -> Document:
    report = build(table(home))
    empty = {drawing.name: b'<svg viewBox="0 0 1 1"></svg>' for drawing in report.drawings}
    assert "None" not in re.sub(r"<[^>]+>", " ", render(report.document, empty))
    return report.document


def words(parts: Parts) -> str:
    return "".join(p if isinstance(p, str) else p.term if isinstance(p, Term) else p.text for p in parts)


def under(blocks: Sequence[Block], verdict: Verdict) -> str:
    """A verdict and the paragraphs under it, as text."""
    points = itertools.takewhile(lambda block: isinstance(block, Paragraph), blocks[blocks.index(verdict) + 1 :])
    return " ".join(words(block.parts) for block in (verdict, *points) if isinstance(block, (Verdict, Paragraph)))


def verdict(told: Document) -> tuple[str, str]:
    (block,) = [block for block in told.blocks if isinstance(block, Verdict)]
    return block.verdict, under(told.blocks, block)


def prose(told: Document) -> str:
    return " ".join(words(block.parts) for block in told.blocks if isinstance(block, Paragraph))


def rows(told: Document, caption: str) -> list[list[str]]:
    found = [block for block in told.blocks if isinstance(block, Table) and caption in words(block.caption)]
    return [[words(cell) for cell in row] for block in found for row in block.rows]


def findings(told: Document) -> dict[str, Finding]:
    *_, block = [block for block in told.blocks if isinstance(block, Findings)]  # the first are the summary's
    return {finding.rule: finding for finding in block.findings}


# Modules


def test_a_modules_file_class_and_hash_are_told(home: Home, homes: Any, facts: Any) -> None:
    homes.modules(home, "own", 0.90, facts)
    homes.modules(home, "muon", 0.93, facts, optimizer={"name": "muon"}, trials=6)
    told, sha256 = document(home), homes.sha(homes.SOURCE)
    assert rows(told, "own code") == [
        ["Net", "module", "net.py", "Net", sha256[:12], "18"],
        ["Net", "data module", "net.py", "Data", sha256[:12], "18"],
    ]
    assert ["file net.py (sha256)", sha256, "18"] in rows(told, "Where, with what")
    assert ["file layers.py (sha256)", homes.sha(homes.LAYERS), "18"] in rows(told, "Where, with what")
    assert "module-file-changed" not in findings(told)


def test_what_the_module_keeps_is_called_its_own(home: Home, homes: Any, facts: Any) -> None:
    homes.modules(home, "theirs", 0.90, facts)
    homes.modules(home, "muon", 0.93, facts, optimizer={"name": "muon"}, trials=6)
    told = document(home)
    assert rows(told, "The arms") == [["theirs", "the module's own"], ["muon", "muon, lr tuned"]]
    assert "confounded-arms" not in findings(told)
    assert findings(told)["unequal-tuning"].said.endswith("(theirs: 0, muon: 6)")


def test_without_a_test_split_validation_is_compared_and_that_is_said(home: Home, homes: Any, facts: Any) -> None:
    homes.modules(home, "own", 0.90, facts)
    homes.modules(home, "muon", 0.93, facts, optimizer={"name": "muon"})
    told = document(home)
    assert verdict(told)[0] == "better"
    assert "muon is better than own: validation acc is higher by 0.03" in verdict(told)[1]
    assert "No test split was read: arms are compared by validation." in prose(told)
    assert "no-test-split" in findings(told)
    assert {row["metric"] for row in summarise(HomeSource(home), STUDY)} == {"val/acc"}


def test_a_test_split_is_what_decides_where_there_is_one(home: Home, homes: Any, facts: Any) -> None:
    homes.modules(home, "own", 0.90, facts, test=True)
    homes.modules(home, "muon", 0.93, facts, optimizer={"name": "muon"}, test=True)
    assert "test acc is higher" in verdict(document(home))[1]
    assert "no-test-split" not in findings(document(home))


def test_a_changed_file_and_a_missing_one_are_said(home: Home, homes: Any, facts: Any, tmp_path: Path) -> None:
    homes.modules(home, "own", 0.90, facts)
    (tmp_path / "net.py").write_text("class Net: pass\n")
    assert "net.py has changed since: 6 of 6 runs" in findings(document(home))["module-file-changed"].said
    homes.source(tmp_path)
    (tmp_path / "layers.py").unlink()
    assert "layers.py is not where it was" in findings(document(home))["module-file-changed"].said


def test_two_versions_of_a_file_are_confounded_with_the_arms(home: Home, homes: Any, tmp_path: Path) -> None:
    file = homes.source(tmp_path)
    homes.modules(home, "own", 0.90, homes.task_facts(file))
    homes.modules(home, "muon", 0.93, homes.task_facts(file, "class Net: pass\n"), optimizer={"name": "muon"})
    said = findings(document(home))["mixed-module-files"].said
    first, second = (homes.sha(text)[:12] for text in (homes.SOURCE, "class Net: pass\n"))
    assert f"{first}: 6 of own (final); {second}: 6 of muon (final)" in said
    assert "mixed-task" not in findings(document(home))


def test_runs_that_a_callback_ended_are_compared_where_the_first_of_them_ended(
    home: Home, homes: Any, facts: Any
) -> None:
    """Both arms have one budget and one median, and still the verdict does not take budgets for equal."""
    homes.modules(home, "own", 0.90, facts, early={1: 240, 2: 200}, test=True)
    homes.modules(home, "muon", 0.93, facts, optimizer={"name": "muon"}, test=True)
    updates = readings(table(home), "Net")[0]
    assert (updates.clock, updates.budget, updates.strict, updates.equal) == ("updates", 200, True, False)
    told = document(home)
    assert verdict(told)[1].startswith("Budgets were not equal. Per update, compared at 200 updates: muon is better")
    assert "validation acc is higher" in verdict(told)[1]
    said = findings(told)["stopped-early"].said
    assert said == "runs were ended before their budget by EarlyStopping (own: 2 of 6 final runs at 200 to 240 updates)"
    assert "unequal-budgets" not in findings(told)


def test_each_warning_is_listed_once_with_its_runs(home: Home, homes: Any, facts: Any) -> None:
    event = ("warning", {"text": "The loader\nhas no workers."})
    homes.modules(home, "own", 0.90, facts, events=[event])
    ids = homes.modules(home, "muon", 0.93, facts, seeds=[1], events=[("warning", {"text": "Slow."}), event])
    *_, block = [block for block in document(home).blocks if isinstance(block, Findings)]
    told = [finding.said for finding in block.findings if finding.rule == "run-warning"]
    assert told == ["The loader has no workers (in 7 runs, of own and muon)", f"Slow (in {ids[0]})"]


def test_a_run_that_went_on_with_other_code_is_named(home: Home, homes: Any, facts: Any) -> None:
    (run,) = homes.modules(home, "own", 0.90, facts, seeds=[1], events=[("file_changed", {"files": ["/a/net.py"]})])
    assert run in findings(document(home))["file-changed-midway"].said


# Recorded loops


def test_a_study_of_recorded_runs_alone_has_its_answer(home: Home, homes: Any) -> None:
    homes.recorded(home, "sgd", 0.90)
    homes.recorded(home, "adam", 0.93, config={"optimizer": "adam", "lr": 0.001})
    told = document(home)
    assert verdict(told)[0] == "better"
    assert "adam is better than sgd: validation acc is higher by 0.03" in verdict(told)[1]
    assert rows(told, "The arms") == [
        ["sgd", "a plain PyTorch loop", "sgd", "0.1"],
        ["adam", "a plain PyTorch loop", "adam", "0.001"],
    ]
    found = findings(told)
    assert {"recorded-runs", "not-tuned", "budgets-not-given", "no-test-split", "confounded-arms"} <= set(found)
    assert found["budgets-not-given"].said == "sgd and adam state no budget; runs made 400 updates"
    assert "Nothing was tuned" not in prose(told)
    assert "at one budget" not in prose(told)


@pytest.mark.parametrize(
    "config",
    [
        None,
        {"optimizer": "sgd", "model": "resnet18", "budget": 10, "stop": "target", "select": "best"},
        {"model": {"name": "mlp"}, "optimizer": {"lr": 0.1}, "budget": {"updates": None}, "schedule": None},
        {f"setting_{number}": number for number in range(30)},
    ],
)
def test_any_config_will_do(home: Home, homes: Any, config: Any) -> None:
    homes.recorded(home, "sgd", 0.90, config=config)
    homes.recorded(home, "adam", 0.93, config=None if config is None else {**config, "lr": [1, 2]})
    told = document(home)
    assert verdict(told)[0] == "better"
    assert "stopped-at-target" not in findings(told)


def test_unequal_loops_are_cut_where_the_first_run_ended(home: Home, homes: Any) -> None:
    homes.recorded(home, "short", 0.90, updates=200)
    homes.recorded(home, "long", 0.93, updates=400, seeds=[1, 2, 3, 4])
    homes.recorded(home, "long", 0.93, updates=800, seeds=[5, 6])
    told = document(home)
    assert verdict(told)[1].startswith("Budgets were not equal. Per update, compared at 200 updates: long is better")
    assert "runs made 200 to 800 updates; runs took 2 to 8 s of training" in findings(told)["budgets-not-given"].said


def test_a_final_value_alone_is_enough_to_be_described(home: Home, homes: Any) -> None:
    homes.recorded(home, "sgd", 0.90, counts=False)
    homes.recorded(home, "adam", 0.93, counts=False)
    told = document(home)
    assert verdict(told)[0] == "better"
    assert "Per second of training it cannot be told: it was not recorded by every run" in verdict(told)[1]
    assert "not every run says how many seconds of training it used" in findings(told)["budgets-not-given"].said


def test_seeds_that_nobody_set_are_said(home: Home, homes: Any) -> None:
    for _ in range(3):
        homes.recorded(home, "sgd", 0.90, seeds=[1])
    homes.recorded(home, "adam", 0.93)
    assert "set a seed for each run" in findings(document(home))["repeated-seeds"].cure


def test_the_only_metric_of_runs_that_name_none_is_taken_and_that_is_said(home: Home, homes: Any) -> None:
    homes.recorded(home, "sgd", 0.90, metric="", mode="")
    homes.recorded(home, "adam", 0.93, metric="", mode="")
    told = document(home)
    assert "adam is better than sgd: validation acc is higher" in verdict(told)[1]
    said = findings(told)["metric-assumed"].said
    assert said.endswith("val/acc is the one validation metric logged, and by its name more is better")


def test_a_metric_whose_name_says_no_direction_needs_the_reader(home: Home, homes: Any) -> None:
    homes.recorded(home, "sgd", 0.90, metric="", mode="", logged="val/score")
    homes.recorded(home, "adam", 0.93, metric="", mode="", logged="val/score")
    with pytest.raises(InputError, match=re.escape("--metric val/score --mode max")):
        table(home)
    with pytest.raises(InputError, match=re.escape("give both")):
        table(home, metric="val/score")
    with pytest.raises(InputError, match=re.escape("they logged val/score")):
        table(home, metric="val/f1", mode="max")
    stated = {mode: table(home, metric="val/score", mode=mode) for mode in ("max", "min")}
    assert {mode: readings(told, "own")[0].ranking[0] for mode, told in stated.items()} == {"max": "adam", "min": "sgd"}
    loss = table(home, metric="train/loss", mode="min")
    assert readings(loss, "own")[0].ranking[0] == "adam"


def test_of_two_metrics_none_is_taken(home: Home, homes: Any) -> None:
    homes.recorded(home, "sgd", 0.90, metric="", mode="")
    homes.recorded(home, "adam", 0.93, metric="", mode="", logged="val/f1")
    with pytest.raises(InputError, match=re.escape("they logged val/acc, val/f1")):
        table(home)


def test_what_the_runs_say_themselves_is_not_said_for_them(home: Home, homes: Any) -> None:
    homes.recorded(home, "sgd", 0.90)
    with pytest.raises(InputError, match="leave --metric out"):
        table(home, metric="val/acc", mode="max")


# Both


def test_recorded_runs_are_never_taken_for_an_arms_own(home: Home, homes: Any, facts: Any) -> None:
    homes.modules(home, "muon", 0.93, facts, optimizer={"name": "muon"}, test=True)
    homes.modules(home, "own", 0.90, facts, test=True)
    homes.recorded(home, "muon", 0.99, task="Net", test=True)
    told = table(home)
    assert told.arms == ("muon", "own", "muon (recorded)")
    assert [record.labels.arm for record in told.cells["Net", "muon"].finals] == ["muon"] * 6
    said = " ".join(words(b.parts) for b in document(home).blocks if isinstance(b, (Verdict, Paragraph)))
    assert "muon (recorded) was recorded from another loop: nothing shows that" in said
    assert "mixed-runners" in findings(document(home))


def test_what_a_recorded_arm_did_not_measure_is_not_compared(home: Home, homes: Any, facts: Any) -> None:
    """Two arms have test values, so those decide; an arm that logged only validation, or another metric, stays out."""
    homes.modules(home, "muon", 0.93, facts, optimizer={"name": "muon"}, test=True)
    homes.modules(home, "own", 0.90, facts, test=True)
    homes.recorded(home, "untested", 0.99, task="Net")
    homes.recorded(home, "other", 0.99, task="Net", metric="val/f1", logged="val/f1")
    told = document(home)
    assert "muon is better than own: test acc is higher by" in verdict(told)[1]
    assert "untested has no outcome to compare: its runs logged no test/acc." in verdict(told)[1]
    assert {pair[0] for pair in rows(told, "every pair")} == {"muon − own"}
    assert findings(told)["metric-not-logged"].said.endswith("they logged train/loss, val/f1")
    assert "compared by test/acc are muon and own, not untested and other" in findings(told)["mixed-runners"].said


def test_where_only_one_arm_was_tested_all_are_compared_by_validation(home: Home, homes: Any, facts: Any) -> None:
    homes.modules(home, "muon", 0.93, facts, optimizer={"name": "muon"}, test=True)
    homes.recorded(home, "mine", 0.90, task="Net")
    told = document(home)
    assert "muon is better than mine: validation acc is higher by" in verdict(told)[1]
    assert findings(told)["no-test-split"].said.startswith("only muon read a test split")


def judged_otherwise(home: Home, homes: Any, first: dict[str, Any], second: dict[str, Any]) -> None:
    homes.modules(home, "own", 0.90, first)
    homes.modules(home, "muon", 0.93, second, optimizer={"name": "muon"})


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"mode": "min"}, "acc in different directions (max: own; min: muon)"),
        ({"metric": "f1"}, "different metrics (acc: own; f1: muon)"),
        ({"metric_unit": "%"}, "acc in different units (fraction: own; %: muon)"),
    ],
)
def test_runs_of_one_task_that_are_judged_in_two_ways_are_refused(
    home: Home, homes: Any, facts: Any, change: dict[str, str], said: str
) -> None:
    whole = {**facts, "metric_unit": "fraction"} if "metric_unit" in change else facts
    judged_otherwise(home, homes, whole, {**whole, **change})
    with pytest.raises(InputError, match=re.escape(said)) as error:
        table(home)
    assert "\n" not in str(error.value)
    assert error.value.finding.cure


def test_shares_in_per_cent_are_not_compared_with_fractions(home: Home, homes: Any) -> None:
    homes.recorded(home, "sgd", 0.90)
    homes.recorded(home, "adam", 93.0)
    with pytest.raises(InputError, match=re.escape("acc in different units (a fraction: sgd; per cent: adam)")):
        table(home)


# Through the command line


@pytest.fixture
def said(
    home: Home, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[..., tuple[int, str, str]]:
    monkeypatch.setenv("TRAINLAB_HOME", str(home.path))
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> tuple[int, str, str]:
        code = main(list(arguments))
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def test_recorded_runs_have_every_command(home: Home, homes: Any, said: Any, tmp_path: Path) -> None:
    (run, *_) = homes.recorded(home, "sgd", 0.90, seeds=[1, 2, 3])
    homes.recorded(home, "adam", 0.93, seeds=[1, 2, 3], kind="lightning")
    code, out, err = said("report", STUDY)
    assert (code, err) == (0, "6 of 6 runs were recorded from other loops, not run by trainlab\n")
    page = (tmp_path / "mine-report" / "report.html").read_text()
    assert "Lightning&#39;s Trainer" in page
    assert re.search(r"adam</\w+> is better than", page)
    assert "report.html" in out
    code, out, _ = said("runs", "study=mine optimizer=adam")
    assert (code, out.count("lightning"), len(out.splitlines())) == (0, 3, 4)
    _, out, _ = said("runs", "--json")
    assert {row["recorded"] for row in json.loads(out)} == {"plain", "lightning"}
    assert all(0.8 < row["objective"] < 1 for row in json.loads(out))
    code, out, _ = said("status", STUDY)
    assert code == 0
    assert "6 of 6 runs were recorded" in out
    assert {row["recorded"] for row in json.loads(said("status", STUDY, "--json")[1])} == {3}
    code, out, err = said("cite", run)
    assert (code, out) == (0, "")
    assert "citation" in err


def test_a_recorded_run_is_not_resumed(home: Home, homes: Any, said: Any) -> None:
    from experiments.recorder import opened

    folder = opened(home=home, metric="val/acc", mode="max")
    folder.begin().end("interrupted")
    code, _, err = said("resume", folder.run_id)
    assert (code, len(err.splitlines())) == (2, 1)
    assert "run that code again" in err


def test_a_recorded_run_in_your_hands(home: Home, homes: Any) -> None:
    from trainlab.run_handle import Run

    run = Run(homes.recorded(home, "sgd", 0.90, seeds=[1])[0], home)
    assert dict(run.config)["optimizer"] == "sgd"
    assert run.metrics["val/acc"] == pytest.approx(0.90, abs=0.004)
    with pytest.raises(InputError, match="its model is not stored"):
        _ = run.model


def test_the_commands_say_that_a_file_has_changed(
    home: Home, homes: Any, facts: Any, said: Any, tmp_path: Path
) -> None:
    homes.modules(home, "own", 0.90, facts)
    assert ["Net", "own", "final", "6"] in [line.split() for line in said("status", STUDY)[1].splitlines()]
    (tmp_path / "net.py").write_text("")
    for command in ("status", "report"):
        code, out, err = said(command, STUDY)
        assert code == 0
        assert f"{tmp_path / 'net.py'} has changed since" in out + err


def test_a_report_is_the_same_twice(home: Home, homes: Any, facts: Any, tmp_path: Path) -> None:
    homes.modules(home, "own", 0.90, facts, seeds=[1, 2, 3])
    homes.recorded(home, "sgd", 0.90, task="Net", seeds=[1, 2, 3])
    pages = [write(HomeSource(home), STUDY, tmp_path / name).read_bytes() for name in ("a", "b")]
    assert pages[0] == pages[1]
