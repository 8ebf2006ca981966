"""`trainlab verify`, `delete` and `gc` as their users meet them: exit codes, one line for bad input, nothing lost."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import trainlab as tl
from experiments.recorder import opened
from experiments.store.home import Home
from reports.document import Document
from reports.table import read
from reports.verifying.report import again
from trainlab.cli import main
from trainlab.evidence import opened as store

Said = Callable[..., tuple[int, str, str]]
ODD = "<script>alert(1)<script> a_b%&$# \\input{etc} 学习率"


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Said:
    """Runs a command; (exit code, stdout, stderr)."""

    def call(*arguments: str) -> tuple[int, str, str]:
        code = main(list(arguments))
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to work in."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TRAINLAB_HOME", raising=False)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/mlflow.db")
    return tmp_path


def record(arm: str, level: float, seeds: int = 4, task: str = "") -> list[str]:
    """Final runs of an arm, as a loop of the user's own records them."""
    ids = []
    for seed in range(1, seeds + 1):
        config = {"optimizer": arm, "lr": 0.1}
        folder = opened(
            study="mine", arm=arm, seed=seed, metric="val/acc", mode="max", config=config, home=Home.default()
        )
        attempt = folder.begin()
        for update in (10, 20):
            values = {
                "val/acc": level - 0.3 / update + 0.001 * seed,
                "count/updates": update,
                "time/train_s": update / 9,
            }
            attempt.points(update, values)
        attempt.end("completed")
        ids.append(folder.run_id)
    return ids


@pytest.fixture
def runs() -> dict[str, list[str]]:
    return {"adam": record("adam", 0.9), "sgd": record("sgd", 0.8)}


def report(name: str = "report.json") -> Path:
    """The study's report, as it is written."""
    path = Path(name)
    path.write_text(again(read(store("").source, "mine")).to_json())
    return path


def claims(text: str, name: str = "claims.yaml") -> Path:
    path = Path(name)
    path.write_text(text)
    return path


CLAIMS = """\
study: mine
claims:
  - says: "Adam's mean validation accuracy is {adam} (n = 4)."
    number: mean
    arm: adam
  - says: "SGD's is {sgd}."
    number: mean
    arm: sgd
"""


@pytest.fixture
def bound(runs: dict[str, list[str]]) -> Path:
    """Claims that hold: 0.9 - 0.015 + 0.0025, and 0.1 less."""
    return claims(CLAIMS.format(adam="0.8875", sgd="0.7875"))


def edit(run: str, by: float = -0.05) -> None:
    """Somebody edits a run's last value."""
    (path,) = (Home.default().run_folder / run).glob("spool.*.jsonl")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        if line["kind"] == "points" and line["update"] == 20:
            line["values"]["val/acc"] += by
    path.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))


def test_a_report_that_is_as_its_evidence_exits_0(said: Said, runs: dict[str, list[str]]) -> None:
    count = len(list(Document.from_json(report().read_text()).quantities()))
    code, out, _ = said("verify", "report.json")
    assert (code, out.splitlines()[-1]) == (0, f"all {count} numbers recomputed and equal")


def test_an_edited_run_exits_1_and_is_named_with_what_it_touches(said: Said, runs: dict[str, list[str]]) -> None:
    report()
    edit(runs["adam"][1])
    code, out, _ = said("verify", "report.json")
    assert code == 1
    assert f"edited run {runs['adam'][1]}" in out
    assert "edited" not in out.replace(f"edited run {runs['adam'][1]}", "")
    code, out, _ = said("verify", "report.json", "--json")
    data = json.loads(out)
    assert (code, data["holds"]) == (1, False)
    assert list(data["runs"]["edited"]) == [runs["adam"][1]]
    assert all(run == runs["adam"][1] for change in data["numbers"] for run in change["because"])


def test_the_reports_numbers_are_listed_by_the_keys_to_cite(said: Said, runs: dict[str, list[str]]) -> None:
    report()
    code, out, _ = said("verify", "report.json", "--numbers", "--json")
    listed = json.loads(out)
    assert code == 0
    assert len({each["key"] for each in listed}) == len(listed)
    mean = next(each for each in listed if "student.mean_interval" in each["key"] and "adam" in each["key"])
    text = f"claims:\n  - says: It is {mean['number']}\n    study: mine\n    number: {json.dumps(mean['key'])}\n"
    claims(text)
    assert said("verify", "claims.yaml")[0] == 0


def test_what_trainlab_report_writes_is_verified(said: Said, runs: dict[str, list[str]]) -> None:
    assert said("report", "mine")[0] == 0
    code, out, _ = said("verify", "mine-report")
    assert code == 0, out
    edit(runs["sgd"][0])
    assert said("verify", "mine-report")[0] == 1


def test_claims_that_hold_exit_0_and_pin_their_runs(said: Said, runs: dict[str, list[str]], bound: Path) -> None:
    code, out, _ = said("verify", "claims.yaml")
    assert code == 0, out
    assert "all 2 claims hold" in out
    assert all(r.pinned_by == (str(bound.absolute()),) for r in Home.default().records())


def test_a_claim_that_is_no_longer_supported_exits_1_and_says_why(
    said: Said, runs: dict[str, list[str]], bound: Path
) -> None:
    said("verify", "claims.yaml")
    edit(runs["adam"][2])
    code, out, _ = said("verify", "claims.yaml")
    assert code == 1
    assert "does not hold: “Adam's mean validation accuracy is 0.8875 (n = 4).”" in out
    assert f"edited run {runs['adam'][2]}" in out
    assert "does not hold: “SGD's" not in out
    assert "1 of 2 claims do not hold" in out
    code, out, _ = said("verify", "claims.yaml", "--json")
    first, second = json.loads(out)["claims"]
    assert (first["holds"], second["holds"]) == (False, True)
    assert list(first["runs"]["edited"]) == [runs["adam"][2]]


def test_a_verdicts_p_value_is_checked_and_several_numbers_are_refused(said: Said, runs: dict[str, list[str]]) -> None:
    edit(runs["adam"][0], 0.002)  # differences that are all the same allow no test
    text = "study: mine\nclaims:\n  - says: Adam beats SGD{}\n    holds: better\n    arm: adam\n    than: sgd\n"
    claims(text.format(" (p = 0.9, n = 4)"))
    code, out, _ = said("verify", "claims.yaml")
    assert code == 1
    assert "p = 0.9 is written, and" in out
    claims(text.format(", 0.99 against 0.10, p = 0.9"))
    code, out, err = said("verify", "claims.yaml")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "the sentence has several numbers (0.99, 0.10)" in err


def test_a_claim_misspelt_is_one_line_with_its_place_and_the_closest(said: Said, bound: Path) -> None:
    before = bound.read_text()
    claims(before.replace("arm: sgd", "arm: sdg"))
    code, out, err = said("verify", "claims.yaml")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "line 8, column 5 (claims.1.arm)" in err
    assert "did you mean 'sgd'" in err
    claims(before.replace("study: mine", "study: mime"))
    assert "did you mean 'mine'" in said("verify", "claims.yaml")[2]


@pytest.mark.parametrize(
    ("arguments", "content"),
    [
        (["verify", "file.json"], None),
        (["verify", "file.json"], "{}"),
        (["verify", "file.json"], '{"schema": 99, "study": "mine", "blocks": []}'),
        (["verify", "file.yaml"], "claims: [a: b: c"),
        (["verify", "file.yaml"], "- says: x\n"),
        (["verify", "file.yaml"], "claims:\n  - says: x\n    says: y\n"),
        (["verify", "file.txt"], "x"),
        (["verify", "file.json", "--source", "sqlite:///none/mlflow.db"], None),
        (["delete"], None),
        (["delete", "nobody"], None),
        (["delete", "--study", "nobody"], None),
        (["delete", "--restore", "nobody"], None),
        (["gc", "--unpin", "nobody.yaml"], None),
        (["gc", "--older-than", "-1"], None),
        (["gc", "--older-than", "nan"], None),
    ],
)
def test_bad_input_is_one_line_and_changes_nothing(
    said: Said, runs: dict[str, list[str]], here: Path, arguments: list[str], content: str | None
) -> None:
    if content is not None:
        (here / arguments[1]).write_text(content)
    Home.default().records()  # what is kept of them to list them sooner
    before = {p: p.read_bytes() for p in here.rglob("*") if p.is_file()}
    code, out, err = said(*arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert {p: p.read_bytes() for p in here.rglob("*") if p.is_file()} == before


def test_a_store_that_is_gone_is_bad_input_and_is_not_made(said: Said, runs: dict[str, list[str]], here: Path) -> None:
    report()
    Home.default().path.rename(here / "moved")
    for more in ([], ["--source", "home"], ["--source", "mlflow"], ["--source", "nowhere"]):
        code, out, err = said("verify", "report.json", *more)
        assert (code, out, err.count("\n")) == (2, "", 1), more
    assert not (here / ".trainlab").exists()
    assert not (here / "mlflow.db").exists()
    assert said("verify", "report.json", "--source", str(here / "moved"))[0] == 0


def test_delete_leaves_alone_what_claims_rest_on_until_they_are_unpinned(
    said: Said, runs: dict[str, list[str]], bound: Path
) -> None:
    said("verify", "claims.yaml")
    run = runs["sgd"][0]
    code, out, err = said("delete", run)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert f"run {run} is pinned by {bound.absolute()}; it says “SGD's is 0.7875.”" in err
    assert said("gc", "--unpin", "claims.yaml")[0] == 0
    code, out, _ = said("delete", run)
    assert code == 0
    assert f"deleted: {run}" in out
    assert run not in Home.default().run_ids()
    assert said("delete", "--restore", run)[0] == 0
    assert run in Home.default().run_ids()


def test_a_report_pins_its_runs_when_asked(said: Said, runs: dict[str, list[str]]) -> None:
    report()
    said("verify", "report.json")
    assert said("delete", "--study", "mine", "--dry-run")[0] == 0
    assert said("verify", "report.json", "--pin")[0] == 0
    assert said("delete", "--study", "mine", "--dry-run")[0] == 2


def test_deleted_runs_are_told_by_verify_and_come_back(said: Said, runs: dict[str, list[str]]) -> None:
    report()
    said("delete", *runs["adam"][:1])
    code, out, _ = said("verify", "report.json")
    assert code == 1
    assert f"deleted run {runs['adam'][0]}" in out
    said("delete", "--restore", *runs["adam"][:1])
    assert said("verify", "report.json")[0] == 0


def test_a_study_is_deleted_freed_and_gone(said: Said, runs: dict[str, list[str]]) -> None:
    code, out, _ = said("delete", "--study", "mine", "--json")
    told = json.loads(out)
    assert (code, len(told["deleted"])) == (0, 8)
    assert said("gc")[1] == "nothing to free\n"
    trash = sum(p.stat().st_size for p in (Home.default().path / "trash").rglob("*") if p.is_file())
    assert trash >= told["bytes"] > 8000
    assert f"{trash:,} bytes would be freed" in said("gc", "--older-than", "0", "--dry-run")[1]
    code, out, _ = said("gc", "--older-than", "0", "--json")
    assert (code, json.loads(out)["bytes"]) == (0, trash)
    assert not list((Home.default().path / "trash").iterdir())
    assert said("delete", "--restore", "--study", "mine")[0] == 2


def test_a_report_of_a_deleted_study_says_that_it_can_be_brought_back(said: Said, runs: dict[str, list[str]]) -> None:
    report()
    said("delete", "--study", "mine")
    code, _, err = said("verify", "report.json")
    assert (code, err.count("\n")) == (2, 1)
    assert "study 'mine' was deleted; `trainlab delete --restore --study mine`" in err
    assert said("delete", "--restore", "--study", "mine")[0] == 0
    assert said("verify", "report.json")[0] == 0


def test_names_of_every_kind_are_shown_as_they_are(said: Said) -> None:
    record(ODD, 0.9)
    (ids,) = [record("sgd", 0.8)]
    report("ein bericht.json")
    edit(Home.default().run_ids()[0])
    assert ODD in said("verify", "ein bericht.json")[1]
    assert ODD in said("delete", "--study", "mine", "--dry-run")[1]
    assert ids


def test_the_same_from_python(runs: dict[str, list[str]], bound: Path) -> None:
    found = tl.verify("claims.yaml")
    assert found.holds
    assert "all 2 claims hold" in repr(found)
    assert tl.gc(dry_run=True).size_bytes == 0
    with pytest.raises(ValueError, match="pinned"):
        tl.delete(runs["adam"][0])


def test_a_home_that_cannot_be_written_is_a_note_and_no_failure(
    said: Said, bound: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*given: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("experiments.store.pins.save", refuse)
    code, out, _ = said("verify", "claims.yaml")
    assert code == 0
    assert "could not be pinned" in out


# All at once


def test_everything_that_pins_runs_is_verified_a_line_each(said: Said, runs: dict[str, list[str]], bound: Path) -> None:
    report("old.json")
    assert said("verify", "claims.yaml")[0] == 0
    assert said("verify", "old.json", "--pin")[0] == 0
    code, out, _ = said("verify", "--all")
    assert code == 0
    assert len(out.splitlines()) == 3
    assert out.splitlines()[-1] == "2 of 2 files hold"
    edit(runs["adam"][2])
    code, out, _ = said("verify", "--all")
    assert code == 1
    assert [line.split(":")[0] for line in out.splitlines()] == ["does not hold", "does not hold", "0 of 2 files hold"]
    assert f"{bound.absolute()}: 1 of 2 claims do not hold" in out
    code, out, _ = said("verify", "--all", "--json")
    told = json.loads(out)
    assert (code, told["holds"], [each["holds"] for each in told["files"]]) == (1, False, [False, False])


def test_one_that_cannot_be_verified_keeps_no_other_from_it(
    said: Said, runs: dict[str, list[str]], bound: Path, here: Path
) -> None:
    for name in ("gone.yaml", "broken.yaml"):
        claims(bound.read_text(), name)
        assert said("verify", name)[0] == 0
    assert said("verify", "claims.yaml")[0] == 0
    Path("gone.yaml").unlink()
    Path("broken.yaml").write_text("claims: [")
    (Home.default().path / "claims" / "0.json").write_text("{")
    code, out, err = said("verify", "--all")
    assert (code, err) == (1, "")
    held, broken, gone, unread, total = sorted(out.splitlines(), key=lambda line: ("holds:" not in line, line))[:5]
    assert held.startswith(f"holds: {here / 'claims.yaml'}: all 2 claims hold")
    told = "\n".join((broken, gone, unread, total))
    assert "broken.yaml: line" in told
    assert "gone.yaml: it is gone, and still pins 8 runs" in told
    assert "0.json cannot be read" in told
    assert "1 of 4 files hold" in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "no file is named"),
        (("claims.yaml", "--all"), "a file and --all are given"),
        (("--all", "--pin"), "--all takes no --pin"),
        (("--all", "--numbers"), "--all takes no --numbers"),
        (("--all",), "nothing is pinned in"),
    ],
)
def test_all_that_means_nothing_is_refused(
    said: Said, runs: dict[str, list[str]], arguments: tuple[str, ...], words: str
) -> None:
    code, _, err = said("verify", *arguments)
    assert code == 2
    assert words in err
    assert len(err.splitlines()) == 1


def test_a_pinned_report_that_is_written_again_pins_its_new_runs(said: Said, runs: dict[str, list[str]]) -> None:
    path = report()
    said("verify", str(path), "--pin")
    more = record("lion", 0.85)
    report()
    assert said("verify", str(path))[0] == 0
    assert said("delete", more[0])[0] == 2
    data = json.loads(path.read_text())
    data["basis"]["runs"] = data["basis"]["runs"][:2]  # somebody's edit lets nothing go
    path.write_text(json.dumps(data))
    assert said("verify", str(path))[0] == 1
    assert said("delete", more[0])[0] == 2
    assert said("delete", runs["adam"][0])[0] == 2


@pytest.mark.parametrize("text", ["a: !!python/object/apply:os.system [id]", "a: " + "9" * 5000, "a: " + "[" * 3000])
def test_yaml_that_its_reader_cannot_read_is_one_line(said: Said, runs: dict[str, list[str]], text: str) -> None:
    claims(text)
    code, out, err = said("verify", "claims.yaml")
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == 1


def test_claims_that_are_too_large_are_refused(said: Said, runs: dict[str, list[str]]) -> None:
    claims("study: s\n" + "# much\n" * 800_000)
    code, _, err = said("verify", "claims.yaml")
    assert code == 2
    assert "too large" in err


def test_a_damaged_run_in_the_trash_hides_no_other(said: Said, runs: dict[str, list[str]]) -> None:
    path = report()
    said("delete", "--study", "mine")
    first = sorted((Home.default().path / "trash").iterdir())[0]
    (first / "run.json").write_text("{")
    code, _, err = said("verify", str(path))
    assert code == 2
    assert "--restore --study mine" in err


def test_a_run_that_is_in_the_trash_already_is_said_to_be(said: Said, runs: dict[str, list[str]]) -> None:
    said("delete", runs["adam"][0])
    code, _, err = said("delete", runs["adam"][0])
    assert code == 2
    assert "is in the trash already" in err
