"""What is printed of a verification: where, what it was and is, and which runs did it."""

from __future__ import annotations

from reports.quantity import Quantity
from reports.verifying.changes import Change, Changes, Reworded
from reports.verifying.prints import Difference
from reports.verifying.told import changes_json, moved, of_report

ODD = "<script>alert(1)</script> \\input{/etc/passwd} a_b%&$# 学习率"


def number(value: float | None, **arguments: float) -> Quantity:
    return Quantity(value=value, statistic="mean", arguments=arguments, absent="none")


def test_a_change_that_its_digits_do_not_show_is_shown_with_more() -> None:
    assert moved(Change("k", "p", number(0.12341), number(0.12342))) == "0.1234 -> 0.1234 (0.12341 -> 0.12342)"
    assert (
        moved(Change("k", "p", number(1, horizon=9), number(1, horizon=8))) == "1 -> 1 (computed with horizon 9 -> 8)"
    )
    assert moved(Change("k", "p", number(1), None)) == "1 -> (not there)"
    assert moved(Change("k", "p", number(1), number(None))) == "1 -> none"


def test_lines_of_a_report() -> None:
    found = Changes(
        equal=4,
        numbers=(Change("k", "Results, adam", number(1), number(2), ("r1",)),),
        verdicts=(Reworded("digits", "better", "worse"),),
        statements=(Reworded("Results, adam, note", "a", "b"),),
        runs=Difference(("r0",), ("r2",), {"r1": ("status", "final loss")}),
        names={"r0": ODD, "r1": "one"},
    )
    assert list(of_report(found, "report.json", "old")) == [
        "report.json",
        "1 of 5 numbers changed; 4 recomputed and equal; 1 verdict changed; words changed in 1 place",
        "note: old",
        f"deleted run r0 ({ODD})",
        "added run r2",
        "edited run r1 (one): status, final loss",
        "verdict, digits: better -> worse",
        "number, Results, adam: 1 -> 2 (rests on r1)",
        "words, Results, adam, note: a -> b",
    ]
    data = changes_json(found)
    assert data["runs"] == {"deleted": ["r0"], "added": ["r2"], "edited": {"r1": ["status", "final loss"]}}
    assert data["numbers"][0]["new"]["value"] == 2
    assert not data["holds"]


def test_many_numbers_are_told_by_section_and_counts_of_provenance_in_one_line() -> None:
    def counted(value: float) -> Quantity:
        return Quantity(value=value, statistic="count")

    changed = [Change(f"r{n}", f"Results, digits, Seeds {n}", counted(4), counted(3)) for n in range(9)]
    changed.append(Change("m", "Results, digits, adam", number(1), number(2), ("r0",)))
    changed.append(Change("p", "Provenance, gone, Runs", counted(89), None))
    changed += [Change(f"p{n}", f"Provenance, fact {n}, Runs", counted(89), counted(88)) for n in range(23)]
    words = tuple(Reworded(f"Summary, {n}", "a", "b") for n in range(30))
    found = Changes(equal=4, numbers=tuple(changed), statements=words, runs=Difference(("r0",)))
    assert list(of_report(found, "r")) == [
        "r",
        "34 of 38 numbers changed; 4 recomputed and equal; words changed in 30 places",
        "deleted run r0",
        "numbers, Results: 10 changed",
        "  digits, adam: 1 -> 2 (rests on r0)",
        "  digits, Seeds 0: 4 -> 3",
        "  digits, Seeds 1: 4 -> 3",
        "  and 7 more (--json has all)",
        "numbers, Provenance: 24 counts of runs changed, as 89 -> 88",
        *(f"words, Summary, {n}: a -> b" for n in range(3)),
        "words: in 27 more places (--json has all)",
    ]
    assert len(changes_json(found)["numbers"]) == 34


def test_nothing_changed_is_one_line_with_the_count() -> None:
    assert list(of_report(Changes(7), "report.json"))[1:] == ["all 7 numbers recomputed and equal"]


def test_what_cannot_be_made_again_says_why_and_no_count() -> None:
    assert list(of_report(Changes(0, broken="no runs"), "r"))[1:] == ["the report cannot be made again: no runs"]


def test_many_runs_are_counted() -> None:
    runs = Difference(deleted=tuple(f"r{n}" for n in range(40)))
    lines = list(of_report(Changes(1, runs=runs), "r"))
    assert "deleted: 28 more runs" in lines


def test_what_would_write_over_other_lines_is_spelt_out() -> None:
    found = Changes(
        3, statements=(Reworded("Summary\nall 3 numbers recomputed and equal", "\x1b[2J", "\u202e a\ud800"),)
    )
    lines = list(of_report(found, "re\x07port"))
    assert lines == [
        "re\\x07port",
        "all 3 numbers recomputed and equal; words changed in 1 place",
        "words, Summary all 3 numbers recomputed and equal: \\x1b[2J -> \\u202e a\\ud800",
    ]


def test_numbers_that_rest_on_other_runs_than_they_say_are_told() -> None:
    found = Changes(3, misplaced=("results/a",))
    assert list(of_report(found, "r"))[1:] == [
        "all 3 numbers recomputed and equal; 1 rests on other runs than it says",
        "rests on other runs than it says: results/a",
    ]
    assert not changes_json(found)["holds"]
