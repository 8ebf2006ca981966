"""Pins: kept in the home by the file that made them, seen on the records, never lost silently."""

from __future__ import annotations

from pathlib import Path

import pytest

from algos.finding import InputError
from experiments.store import pins
from experiments.store.pins import Pin, Pins
from experiments.store.sources.home import HomeSource
from experiments.store.uncached import UncachedHome


def kept(file: Path, *runs: str) -> Pins:
    return Pins(
        file, (Pin("It is so.", "s", "mean", "1.0", runs),), {run: {"sha256": "0", "parts": {}} for run in runs}, 5
    )


def test_a_record_says_which_files_rest_on_it(home, create, tmp_path) -> None:
    one, other = create(), create()
    pins.save(home.path, kept(tmp_path / "b.yaml", one.run_id))
    pins.save(home.path, kept(tmp_path / "a.yaml", one.run_id))
    files = (str(tmp_path / "a.yaml"), str(tmp_path / "b.yaml"))
    for records in (home.records(), HomeSource(home).runs(), UncachedHome(home).runs()):
        assert {r.run_id: r.pinned_by for r in records} == {one.run_id: files, other.run_id: ()}
    assert home.folder(one.run_id).record().pinned_by == files


def test_pins_are_read_back_as_they_were_kept(home, tmp_path) -> None:
    home.prepare()
    told = kept(tmp_path / "学习 率.yaml", "r1", "r2")
    pins.save(home.path, told)
    assert pins.load(home.path, tmp_path / "学习 率.yaml") == told
    assert pins.load(home.path, tmp_path / "other.yaml") == Pins(tmp_path / "other.yaml")
    assert pins.by_run(pins.every(home.path))["r2"] == [(told.path, told.claims[0])]


def test_a_file_is_the_same_by_whatever_path_it_is_named(home, tmp_path, monkeypatch) -> None:
    home.prepare()
    pins.save(home.path, kept(tmp_path / "a.yaml", "r"))
    monkeypatch.chdir(tmp_path)
    assert pins.load(home.path, Path("./x/../a.yaml")).runs == ("r",)


def test_pins_of_a_file_that_is_gone_stay_until_they_are_taken_away(home, tmp_path) -> None:
    home.prepare()
    file = tmp_path / "claims.yaml"
    file.write_text("claims: []")
    pins.save(home.path, kept(file, "r"))
    assert not pins.every(home.path)[0].gone
    file.unlink()
    assert pins.every(home.path)[0].gone
    assert pins.remove(home.path, file).runs == ("r",)
    assert pins.every(home.path) == []


def test_who_has_no_pins_is_told_who_has(home, tmp_path) -> None:
    home.prepare()
    pins.save(home.path, kept(tmp_path / "claims.yaml", "r"))
    with pytest.raises(InputError, match=r"did you mean .*claims\.yaml"):
        pins.remove(home.path, tmp_path / "claim.yaml")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema": 99}', '{"schema": 1, "path": "x"}'])
def test_pins_that_cannot_be_read_hide_no_run_and_stop_who_would_remove(home, create, tmp_path, text) -> None:
    create()
    place = pins.place(home.path, tmp_path / "a.yaml")
    place.parent.mkdir()
    place.write_text(text)
    assert len(home.records()) == 1
    with pytest.raises(InputError, match="not known which runs it pins"):
        pins.every(home.path)


def test_a_file_is_the_same_through_a_link_and_two_of_one_name_are_two(home, tmp_path) -> None:
    """link/../claims.yaml is beside the folder that the link leads to, and not beside the link."""
    home.prepare()
    (tmp_path / "paper" / "real").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "paper" / "real")
    pins.save(home.path, kept(tmp_path / "claims.yaml", "r1"))
    pins.save(home.path, kept(tmp_path / "link" / ".." / "claims.yaml", "r2"))
    assert pins.load(home.path, tmp_path / "claims.yaml").runs == ("r1",)
    assert pins.load(home.path, tmp_path / "paper" / "claims.yaml").runs == ("r2",)
    (tmp_path / "papers").symlink_to(tmp_path / "paper")
    assert pins.remove(home.path, tmp_path / "papers" / "claims.yaml").runs == ("r2",)
    assert len(pins.every(home.path)) == 1


def test_pins_that_were_kept_under_another_spelling_are_the_files_too(home, tmp_path) -> None:
    """As an earlier trainlab kept them, which did not follow links."""
    home.prepare()
    (tmp_path / "paper").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "paper")
    pins.save(home.path, kept(tmp_path / "link" / "claims.yaml", "r1"))
    (now,) = (home.path / pins.FOLDER).iterdir()
    now.rename(now.with_name("0123456789abcdef.json"))
    file = tmp_path / "paper" / "claims.yaml"
    assert pins.load(home.path, file).runs == ("r1",)
    pins.save(home.path, kept(file, "r2"))
    assert [each.runs for each in pins.every(home.path)] == [("r2",)]
    now.rename(now.with_name("0123456789abcdef.json"))
    pins.remove(home.path, file)
    assert pins.every(home.path) == []


def test_those_that_can_be_read_are_told_beside_what_is_wrong_with_others(home, tmp_path) -> None:
    home.prepare()
    pins.save(home.path, kept(tmp_path / "a.yaml", "r1"))
    (home.path / pins.FOLDER / "bad.json").write_text("{}")
    found, wrong = pins.readable(home.path)
    assert [each.runs for each in found] == [("r1",)]
    assert ["bad.json cannot be read" in str(error) for error in wrong] == [True]
