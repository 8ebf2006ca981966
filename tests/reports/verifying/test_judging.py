"""Claims held against a store: which hold, which do not, and which runs did it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from algos.finding import InputError
from experiments.store.pins import Pins
from reports.table import read as read_table
from reports.verifying.claims import read
from reports.verifying.judging import Judged, Judgement, judge
from reports.verifying.numbers import Named, number
from reports.verifying.told import of_claims

STUDY = "sgd-or-adam"
NOTHING = Pins(Path("/paper/claims.yaml"))
Ask = Callable[..., Judgement]


def text_of(source: Any, statistic: str = "mean", task: str = "cora", arm: str = "adam", than: str = "") -> str:
    """The number as the report would write it."""
    return number(read_table(source, STUDY), Named(statistic, task, arm, than)).quantity.number


@pytest.fixture
def ask(two: Any) -> Ask:
    """Judges claims of the study: ask({...}, {...}, before=pins)."""

    def asked(*claims: dict[str, Any], before: Pins = NOTHING) -> Judgement:
        return judge(read({"study": STUDY, "claims": list(claims)}), two, before, at=7)

    return asked


def mean_claim(source: Any, task: str = "cora", arm: str = "adam", **more: Any) -> dict[str, Any]:
    says = f"The mean of {arm} on {task} is {text_of(source, task=task, arm=arm)}"
    return {"says": says, "number": "mean", "task": task, "arm": arm, **more}


def edit(source: Any, by: float, **labels: Any) -> str:
    run = source.of(phase="final", **labels)[0]
    final = {**run.final, "test/accuracy": run.final["test/accuracy"] + by}
    source.change([run], lambda r: dataclasses.replace(r, final=final))
    return str(run.run_id)


def only(found: Judgement) -> Judged:
    (one,) = found.claims
    return one


def test_what_the_report_writes_holds_and_is_pinned(two: Any, ask: Ask) -> None:
    found = ask(mean_claim(two))
    assert found.holds
    (pin,) = found.pins.claims
    assert set(pin.runs) == {run.run_id for run in two.of(task="cora", arm="adam", phase="final")}
    assert found.pins.prints.keys() == set(pin.runs)


@pytest.mark.parametrize("statistic", ["difference", "probability_better", "time_ratio"])
def test_numbers_of_two_arms_hold_as_the_report_writes_them(two: Any, ask: Ask, statistic: str) -> None:
    text = text_of(two, statistic, than="sgd")
    claim = {"says": f"It is {text}", "number": statistic, "task": "cora", "arm": "adam", "than": "sgd"}
    assert ask(claim).holds, text


def test_an_edit_breaks_the_claims_that_rest_on_it_and_says_which_run(two: Any, ask: Ask) -> None:
    mine, other = mean_claim(two), mean_claim(two, task="digits")
    before = ask(mine, other).pins
    run = edit(two, 0.05, task="cora", arm="adam")
    broken, whole = ask(mine, other, before=before).claims
    assert not broken.holds
    assert broken.runs.edited == {run: ("final test/accuracy",)}
    assert broken.old != broken.new
    assert whole.holds
    assert not whole.runs.runs
    lines = list(of_claims(ask(mine, other, before=before), "claims.yaml"))
    assert any(mine["says"] in line for line in lines)
    assert any(run in line for line in lines)
    assert lines[-1] == "1 of 2 claims do not hold"


def test_an_edit_below_the_precision_that_is_written_leaves_the_claim_true(two: Any, ask: Ask) -> None:
    claim = {**mean_claim(two), "says": "It is 0.96"}
    before = ask(claim).pins
    run = edit(two, 1e-6, task="cora", arm="adam")
    found = only(ask(claim, before=before))
    assert found.holds
    assert found.runs.edited == {run: ("final test/accuracy",)}


def test_deleted_and_added_runs_are_named(two: Any, ask: Ask) -> None:
    claim = {**mean_claim(two), "says": "It is 0.96 (n = 6)"}
    gone = two.of(task="cora", arm="adam", phase="final")[0]
    before = ask(claim).pins
    two.records.remove(gone)
    found = only(ask(claim, before=before))
    assert "n = 6 is written, and it is 5" in found.why
    assert found.runs.deleted == (gone.run_id,)
    fewer = {**claim, "says": "It is 0.96 (n = 5)"}
    again = ask(fewer).pins
    two.records.append(gone)
    assert only(ask(fewer, before=again)).runs.added == (gone.run_id,)


def test_a_claim_that_fails_keeps_its_pins_and_says_so_until_it_holds(two: Any, ask: Ask) -> None:
    claim = mean_claim(two)
    before = ask(claim).pins
    edit(two, 0.05, task="cora", arm="adam")
    after = ask(claim, before=before).pins
    assert after.claims == before.claims
    assert after.prints == before.prints


def test_a_wrong_number_is_said_with_the_right_one(two: Any, ask: Ask) -> None:
    found = only(ask({**mean_claim(two), "says": "It is 0.5"}))
    assert found.why == "0.5 is written"
    assert found.new == text_of(two)


def test_a_wrong_interval_is_found(two: Any, ask: Ask) -> None:
    assert only(ask({**mean_claim(two), "says": "It is 0.96 [0.1, 0.2]"})).why == "0.1 is written; 0.2 is written"


def test_a_wrong_confidence_is_found(two: Any, ask: Ask) -> None:
    text = text_of(two).replace("[", "(90 % CI [").replace("]", "])")
    assert "its interval is of 95 %" in only(ask({**mean_claim(two), "says": f"It is {text}"})).why


def test_a_percentage_is_a_share(two: Any, ask: Ask) -> None:
    assert ask({**mean_claim(two), "says": "96 % are right"}).holds


def test_bounds_hold_or_say_which_does_not(two: Any, ask: Ask) -> None:
    claim = {**mean_claim(two), "says": "Adam is above nine tenths, at least 0.9", "at_least": 0.9}
    assert ask(claim).holds
    assert only(ask({**claim, "says": "Adam is poor", "below": 0.5})).why == "it is not below 0.5"


@pytest.mark.parametrize(("holds", "true"), [("better", True), ("worse", False), ("not shown", False)])
def test_a_verdict_holds_as_the_report_rules(two: Any, ask: Ask, holds: str, true: bool) -> None:
    found = only(ask({"says": "Adam wins", "holds": holds, "task": "cora", "arm": "adam", "than": "sgd"}))
    assert found.holds == true


VERDICT = {"holds": "better", "task": "cora", "arm": "adam", "than": "sgd"}


def test_the_p_value_of_a_verdict_is_the_tests_and_no_difference(two: Any, ask: Ask) -> None:
    """The difference is 0.03 and p is far below 0.001: both below 0.05, and only one above 0.01."""
    assert ask({**VERDICT, "says": "Adam is better than SGD (p < 0.05)"}).holds
    wrong = only(ask({**VERDICT, "says": "Adam is better than SGD (p > 0.01)"}))
    assert wrong.why == "p > 0.01 is written, and the test's is < 0.001"
    assert not ask({**VERDICT, "says": "Adam is better than SGD, p = 0.03"}).holds
    assert not ask({**VERDICT, "says": "Adam is better than SGD (p < 1e-30)"}).holds


def test_a_difference_and_its_p_value_are_both_checked(two: Any, ask: Ask) -> None:
    claim = {key: value for key, value in VERDICT.items() if key != "holds"} | {"number": "difference"}
    text = text_of(two, "difference", than="sgd")
    assert ask({**claim, "says": f"Adam is better by {text} (p < 0.001)"}).holds
    assert "p = 0.9 is written" in only(ask({**claim, "says": f"Adam is better by {text} (p = 0.9)"})).why
    assert "0.5 is written" in only(ask({**claim, "says": "Adam is better by 0.5, p < 0.001"})).why
    alone = only(ask({**mean_claim(two), "says": "It is 0.96 (p < 0.05)"}))
    assert alone.why == "p < 0.05 is written, and there is no test"


def test_a_verdict_by_ranks_has_its_p_value_and_count_checked_too(two: Any, ask: Ask) -> None:
    two.diverge(two.of(task="cora", arm="sgd", phase="final")[0])
    claim = {**VERDICT, "holds": "not shown", "says": "Nothing is shown (p < 0.2, n = 6)"}
    assert ask(claim).holds
    assert "p = 0.9 is written" in only(ask({**claim, "says": "Nothing is shown (p = 0.9)"})).why
    assert only(ask({**claim, "says": "Nothing is shown (n = 60)"})).why == "n = 60 is written, and it is 6"


def test_several_numbers_of_a_verdict_are_refused_until_one_is_named(two: Any, ask: Ask) -> None:
    says = "Adam beats SGD, 0.99 against 0.10, p = 0.9"
    with pytest.raises(InputError, match="several numbers"):
        ask({**VERDICT, "says": says})
    why = only(ask({**VERDICT, "says": says, "written": "0.99"})).why
    assert "0.99 is written" in why
    assert "p = 0.9 is written" in why


def test_a_bound_of_the_claim_does_not_excuse_a_number_of_the_sentence(two: Any, ask: Ask) -> None:
    """The mean is 0.96: that it is at least 0.5 is true, and that it is 0.50 is not."""
    claim = {**mean_claim(two), "at_least": 0.5}
    assert only(ask({**claim, "says": "The accuracy of Adam is 0.50"})).why == "0.50 is written"
    assert ask({**claim, "says": "The accuracy of Adam is at least 0.50"}).holds
    assert ask({**claim, "says": "The accuracy of Adam is ≥ 50 %"}).holds
    assert not ask({**claim, "says": "The accuracy of Adam is at most 0.50"}).holds


def test_the_difference_of_one_seed_supports_nothing(made: Callable[..., Any]) -> None:
    source = made({"sgd": {"level": 0.93}, "adam": {"level": 0.96}}, seeds=1, trials=0)
    told = {"says": "Adam is better", "number": "difference", "arm": "adam", "than": "sgd", "above": 0.0}
    found = only(judge(read({"study": STUDY, "claims": [told]}), source, NOTHING, at=7))
    assert found.why == "it has no value now: no difference is formed of fewer than 3 seeds"


def test_what_a_claim_does_not_use_is_refused(two: Any, ask: Ask) -> None:
    from reports.verifying.places import numbers
    from reports.verifying.report import again

    with pytest.raises(InputError, match="leave `clock:` out") as refused:
        ask({**mean_claim(two), "clock": "seconds"})
    assert refused.value.finding.place == "claims.0.clock"
    known = numbers(again(read_table(two, STUDY)))
    key = next(key for key in known if "student.mean_interval" in key and "cora" in key)
    with pytest.raises(InputError, match="leave `arm:` out"):
        ask({"says": f"It is {known[key].quantity.number}", "number": key, "arm": "sgd"})


def test_a_verdict_that_is_lost_says_what_it_is_now(two: Any, ask: Ask) -> None:
    claim = {"says": "Adam is better", "holds": "better", "task": "cora", "arm": "adam", "than": "sgd"}
    before = ask(claim).pins
    for index, run in enumerate(two.of(task="cora", arm="adam", phase="final")):
        value = 0.93 + 0.02 * (-1) ** index
        two.change([run], lambda r, value=value: dataclasses.replace(r, final={**r.final, "test/accuracy": value}))
    found = only(ask(claim, before=before))
    assert "not shown" in found.why
    assert len(found.runs.edited or {}) == 6


def test_a_key_of_the_report_can_be_cited(two: Any, ask: Ask) -> None:
    from reports.verifying.places import numbers
    from reports.verifying.report import again

    known = numbers(again(read_table(two, STUDY)))
    key = next(key for key in known if "student.mean_interval" in key and "cora" in key)
    assert ask({"says": f"It is {known[key].quantity.number}", "number": key}).holds
    with pytest.raises(InputError, match="did you mean") as refused:
        ask({"says": "It is 1", "number": key.replace("student", "stdent")})
    assert refused.value.finding.place == "claims.0.number"


def test_a_cited_number_that_the_report_has_no_more_is_no_misspelling(two: Any, ask: Ask) -> None:
    from reports.verifying.places import numbers
    from reports.verifying.report import again

    known = numbers(again(read_table(two, STUDY)))
    key = next(key for key in known if "student.mean_interval" in key and "cora" in key and "adam" in key)
    claim = {"says": f"It is {known[key].quantity.number}", "number": key}
    before = ask(claim).pins
    two.diverge(two.of(task="cora", arm="adam", phase="final")[0])  # no mean is formed now
    assert "no longer a number of the report" in only(ask(claim, before=before)).why


@pytest.mark.parametrize(
    ("change", "said", "place"),
    [
        ({"study": "sgd-or-adm"}, "did you mean 'sgd-or-adam'", "claims.0.study"),
        ({"number": "meen"}, "did you mean 'mean'", "claims.0.number"),
        ({"arm": "adm"}, "did you mean 'adam'", "claims.0.arm"),
        ({"task": "coral"}, "did you mean 'cora'", "claims.0.task"),
    ],
)
def test_a_misspelt_name_is_refused_with_the_closest(
    two: Any, ask: Ask, change: dict[str, str], said: str, place: str
) -> None:
    with pytest.raises(InputError) as refused:
        ask({**mean_claim(two), **change})
    assert said in str(refused.value)
    assert refused.value.finding.place == place


def test_a_misspelling_after_it_held_is_one_too(two: Any, ask: Ask) -> None:
    before = ask(mean_claim(two)).pins
    with pytest.raises(InputError, match="did you mean 'adam'"):
        ask({**mean_claim(two), "arm": "adm"}, before=before)


def test_an_arm_whose_runs_were_all_deleted_is_no_misspelling(two: Any, ask: Ask) -> None:
    claim = mean_claim(two)
    before = ask(claim).pins
    two.records = [record for record in two.records if record.labels.arm != "adam"]
    found = only(ask(claim, before=before))
    assert not found.holds
    assert len(found.runs.deleted) == 6
    assert ask(claim, before=before).pins.claims == before.claims


def test_the_runs_that_a_p_value_is_corrected_with_are_pinned_too(two: Any, ask: Ask) -> None:
    """Holm's correction of two arms rests on the third: without its runs the p-value is another."""
    claim = {key: value for key, value in VERDICT.items() if key != "holds"} | {"number": "difference"}
    text = text_of(two, "difference", than="sgd")
    third = {run.run_id for run in two.of(task="cora", arm="lion", phase="final")}
    without = ask({**claim, "says": f"Adam is better by {text}"}).pins
    assert not third & set(without.runs)
    assert third <= set(ask({**claim, "says": f"Adam is better by {text} (p < 0.001)"}).pins.runs)


def test_a_claim_that_cannot_be_made_any_more_says_what_was_edited(two: Any, ask: Ask) -> None:
    claim = mean_claim(two)
    before = ask(claim).pins
    run = two.of(task="cora", arm="adam", phase="final")[0]
    two.change([run], lambda r: dataclasses.replace(r, final={"objective": 0.5}))
    asked = ask(claim, before=before)
    found = only(asked)
    assert "has no final" in found.why
    assert "final test/accuracy" in (found.runs.edited or {})[run.run_id]
    assert not any("none of its runs has changed" in line for line in of_claims(asked, "claims.yaml"))


def test_an_arm_whose_runs_were_given_another_name_is_no_misspelling(two: Any, ask: Ask) -> None:
    claim = mean_claim(two)
    before = ask(claim).pins

    def renamed(record: Any) -> Any:
        labels = dataclasses.replace(record.labels, arm="adm")
        return dataclasses.replace(record, file=dataclasses.replace(record.file, labels=labels))

    two.change([record for record in two.records if record.labels.arm == "adam"], renamed)
    found = only(ask(claim, before=before))
    assert "unknown arm 'adam'" in found.why
    assert set(map(tuple, (found.runs.edited or {}).values())) == {("labels",)}


def test_what_no_claim_is_about_is_said(two: Any, ask: Ask) -> None:
    says = f"Adam comes to {text_of(two)} and SGD to {text_of(two, arm='sgd').split()[0]}, 3 tasks"
    alone = ask({**mean_claim(two), "says": says})
    assert alone.holds
    assert len(alone.unbound[says]) == 2
    both = ask(
        {**mean_claim(two), "says": says},
        {**mean_claim(two, arm="sgd"), "says": says, "written": text_of(two, arm="sgd").split()[0]},
    )
    assert both.unbound[says] == ("3",)
    lines = list(of_claims(both, "claims.yaml"))
    assert any(line.startswith("not checked: 3 in “Adam comes to") for line in lines)
    assert lines[-1].endswith("1 other number of their sentences not checked")


def test_of_a_claim_that_holds_it_is_said_what_it_was_held_against(two: Any, ask: Ask) -> None:
    """Words are not checked: who reads that the number is one per update sees that the sentence speaks of time."""
    text = text_of(two, "time_ratio", than="sgd")
    told = {"says": f"{text} of the time", "number": "time_ratio", "task": "cora", "arm": "adam", "than": "sgd"}
    lines = list(of_claims(ask({**told, "at_most": 2}), "claims.yaml"))
    assert f"  time ratio of adam against sgd on cora per update: {text} (at most 2)" in lines


def test_a_confidence_of_a_number_without_an_interval_is_found(made: Callable[..., Any]) -> None:
    source = made({"sgd": {"level": 0.93}, "adam": {"level": 0.96}}, seeds=2, trials=0)
    told = {"says": "It is 0.96 (95 % CI)", "number": "mean", "arm": "adam"}
    found = only(judge(read({"study": STUDY, "claims": [told]}), source, NOTHING, at=7))
    assert "and it has no interval" in found.why


def test_what_is_too_coarse_says_so(two: Any, ask: Ask) -> None:
    assert only(ask({**mean_claim(two), "says": "It is 1"})).why == "1 is written, which is too coarse to say it"
