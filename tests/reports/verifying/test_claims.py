"""A file of claims that cannot be meant is refused, and where."""

from __future__ import annotations

from typing import Any

import pytest

from algos.finding import InputError
from reports.verifying.claims import read

VERDICT = {"study": "s", "holds": "better", "arm": "adam", "than": "sgd"}
GOOD = {"says": "Adam's mean is 0.96", "study": "s", "number": "mean", "arm": "adam"}


def test_what_the_file_says_holds_for_claims_that_do_not() -> None:
    one, two = read({"study": "s", "metric": "val/acc", "mode": "max", "claims": [{**GOOD, "study": "t"}, {**GOOD}]})
    assert (one.study, two.study, two.metric) == ("t", "s", "val/acc")
    bare = {key: value for key, value in GOOD.items() if key != "study"}
    assert read({"study": "s", "claims": [bare]})[0].study == "s"


def test_a_bound_may_stand_for_the_number() -> None:
    (claim,) = read({"claims": [{**GOOD, "says": "Adam is good", "at_least": 0.9, "below": 1}]})
    assert claim.bounds == {"at_least": 0.9, "below": 1.0}


@pytest.mark.parametrize(
    ("data", "said", "place"),
    [
        ({}, "the file holds no claims", "claims"),
        ({"claims": {}}, "the file holds no claims", "claims"),
        ({"claims": [], "studdy": "x"}, "did you mean 'study'", "studdy"),
        ({"claims": ["text"]}, "'text' is no claim", "claims.0"),
        ({"claims": [{**GOOD, "tsk": "x"}]}, "did you mean 'task'", "claims.0.tsk"),
        ({"claims": [{**GOOD, "study": ""}]}, "no `study:`", "claims.0"),
        ({"claims": [{**GOOD, "number": ""}]}, "neither `number:` nor `holds:`", "claims.0"),
        ({"claims": [{**GOOD, "holds": "better", "than": "sgd"}]}, "both `number:` and `holds:`", "claims.0"),
        (
            {"claims": [{**GOOD, "number": "", "holds": "bettr", "than": "x"}]},
            "did you mean 'better'",
            "claims.0.holds",
        ),
        ({"claims": [{**GOOD, "number": "", "holds": "better"}]}, "the verdict needs `than:`", "claims.0"),
        ({"claims": [{**GOOD, "says": "Adam is good"}]}, "the sentence has no number", "claims.0"),
        ({"claims": [{**GOOD, "says": "3 of 5 at 0.9"}]}, "several numbers (3, 5, 0.9)", "claims.0"),
        ({"claims": [{**VERDICT, "says": "0.99 against 0.10, p = 0.9"}]}, "several numbers (0.99, 0.10)", "claims.0"),
        ({"claims": [{**VERDICT, "says": "p = 0.9, then p = 0.1"}]}, "several numbers (0.9, 0.1)", "claims.0"),
        ({"claims": [{**GOOD, "says": "0.9 against 0.1", "above": 0.5}]}, "several numbers (0.9, 0.1)", "claims.0"),
        ({"claims": [{**GOOD, "written": "0.97"}]}, "no number '0.97'", "claims.0.written"),
        ({"claims": [{**GOOD, "at_least": "much"}]}, "'much' is no number", "claims.0.at_least"),
        ({"claims": [{**GOOD, "arm": ["adam"]}]}, "is no text", "claims.0.arm"),
    ],
)
def test_what_cannot_be_meant_is_refused(data: dict[str, Any], said: str, place: str) -> None:
    with pytest.raises(InputError) as refused:
        read(data)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)
    assert refused.value.finding.place == place


@pytest.mark.parametrize(
    ("says", "said"),
    [
        ("It is 0.96\u202e", "U+202E"),
        ("It is \x1b[2J0.96", "U+001B"),
        ("It is 0.96 \ud800", "U+D800"),
        ("It is 0.96 \0", "U+0000"),
        ("It is 0.96" + " and so on" * 300, "characters"),
        ("It is 0.96 × 10^3", "several numbers"),
        ("It is 0.96 million", "only a part"),
        ("It is 0.96 (n = 5, n = 6)", "n = 5 and n = 6"),
    ],
)
def test_what_would_not_be_read_as_it_is_written_is_refused(says: str, said: str) -> None:
    with pytest.raises(InputError) as refused:
        read({"claims": [{**GOOD, "says": says}]})
    assert said in str(refused.value)
    assert refused.value.finding.place.startswith("claims.0")


def test_words_of_every_language_are_sentences() -> None:
    says = "Adam 的准确率是 0.96 – دقت، naïve ☺"
    assert read({"claims": [{**GOOD, "says": says}]})[0].says == says
