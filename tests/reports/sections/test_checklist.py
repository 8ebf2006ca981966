"""The checklist answers from the runs, and changes with them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from reports.document import Parts, Table, Term
from reports.sections.checklist import ITEMS, checklist
from reports.table import read

NAME = "sgd-or-adam"
COMPUTE = "Is the compute stated, failed and preliminary runs too?"


def words(parts: Parts) -> str:
    return "".join(p if isinstance(p, str) else p.term if isinstance(p, Term) else p.text for p in parts)


def answers(memory: Any) -> dict[str, tuple[str, str]]:
    (table,) = [block for block in checklist(read(memory, NAME)) if isinstance(block, Table)]
    return {words(item): (words(word), words(why)) for item, word, why in table.rows}


def test_a_clean_study_has_a_yes_for_all_that_it_tells(clean: Any) -> None:
    found = answers(clean)
    assert set(found) == set(ITEMS)
    assert {item for item, (word, _) in found.items() if word != "yes"} == {COMPUTE}, "tuning runs tell no time"
    assert all(why for _, why in found.values())


BREAKS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "Are results of several seeds reported?": (
        lambda m: setattr(m, "records", [r for r in m.records if r.labels.phase == "tune" or r.labels.seed < 3]),
        "no",
    ),
    "Was every arm tuned equally?": (lambda m: m.records.remove(m.of(arm="sgd", phase="tune")[0]), "no"),
    "Had every arm the same budget?": (lambda m: m.with_config(m.of(arm="sgd"), budget={"updates": 9}), "no"),
    "Was the test split read only once, at the end?": (
        lambda m: m.with_final(m.of(phase="tune")[0], test__accuracy=0.9),
        "no",
    ),
    "Is the code's version known, without uncommitted changes?": (
        lambda m: m.with_file(m.records[:1], provenance={"commit": "c", "dirty": True}),
        "no",
    ),
    "Are versions of packages stored?": (lambda m: m.with_file(m.records[:1], provenance={}), "not recorded"),
    "Is the device stated?": (lambda m: m.with_file(m.records, provenance={}), "not recorded"),
    "Are the makers of methods and data cited?": (
        lambda m: m.with_file(m.records, facts={**m.records[0].file.facts, "entries": {}}),
        "not recorded",
    ),
}


@pytest.mark.parametrize("item", BREAKS)
def test_what_is_broken_is_no_yes(clean: Any, item: str) -> None:
    spoil, word = BREAKS[item]
    spoil(clean)
    assert answers(clean)[item][0] == word


CODE = "Is the code's version known, without uncommitted changes?"
TUNED = "Was every arm tuned equally?"
RANGES = "Are ranges, ways of choosing and chosen values of hyperparameters given?"


def of_study(memory: Any, records: Any, **told: Any) -> None:
    for each in records:
        memory.with_file([each], facts={**each.file.facts, "study": {**each.file.facts["study"], **told}})


def test_trainlabs_own_commit_is_a_commit(clean: Any) -> None:
    """A study in a folder that is no repository, by a changed checkout of trainlab."""
    own = {"commit": "bad4239" + "0" * 33, "dirty": True, "diff_sha256": "ab"}
    clean.with_file(clean.records, provenance={"commit": "", "dirty": False, "diff_sha256": "", "trainlab": own})
    word, why = answers(clean)[CODE]
    assert word == "no"
    assert why.startswith("trainlab at bad4239 with uncommitted changes")
    assert "none" not in why


def test_clean_commits_of_both_are_named(clean: Any) -> None:
    own = {"commit": "bad4239" + "0" * 33, "dirty": False}
    clean.with_file(clean.records, provenance={"commit": "c" * 40, "dirty": False, "trainlab": own})
    word, why = answers(clean)[CODE]
    assert word == "yes"
    assert "trainlab at bad4239; folder at ccccccc" in why


def test_arms_that_searched_other_things_were_not_tuned_equally(clean: Any) -> None:
    of_study(clean, clean.of(arm="adam"), space={"optimizer.weight_decay": "1e-5:1e-1:log"})
    word, why = answers(clean)[TUNED]
    assert word == "no"
    assert "adam: optimizer.weight_decay" in why


def test_a_budget_that_is_not_stated_is_not_the_same(clean: Any) -> None:
    clean.with_config(clean.of(phase="tune"), budget={})
    word, why = answers(clean)[TUNED]
    assert word == "not recorded"
    assert "not stated for sgd and adam" in why


def test_one_arm_is_not_tuned_equally_to_another(made: Any) -> None:
    assert answers(made({"sgd": {"level": 0.93}}))[TUNED] == ("does not apply", "there is one arm")


def test_a_sampler_that_nobody_told_is_missing(clean: Any) -> None:
    of_study(clean, clean.records, sampler="")
    word, why = answers(clean)[RANGES]
    assert word == "not recorded"
    assert why.endswith("the sampler of sgd and adam is not recorded")


EQUAL = "Was every arm tuned equally?"


def searching(memory: Any, records: Any, *keys: str) -> None:
    space = dict.fromkeys(("optimizer.lr", *keys), "1e-4:1.0:log")
    for each in records:
        memory.with_file([each], facts={**each.file.facts, "study": {**each.file.facts["study"], "space": space}})


def test_equal_trials_with_unlike_values_left_untuned_are_equal_in_part(clean: Any) -> None:
    clean.with_config(clean.of(arm="adam"), optimizer={"name": "adam", "lr": 0.01, "weight_decay": 0.05})
    clean.with_config(clean.of(arm="sgd"), optimizer={"name": "sgd", "lr": 0.01, "weight_decay": 0.0})
    word, why = answers(clean)[EQUAL]
    assert word == "in part"
    assert why.startswith("as many trials, with the same budget, for every arm; ")
    assert "not tuned, and unlike: optimizer.weight_decay (sgd 0, adam 0.05)" in why


def test_a_hyperparameter_of_its_own_is_not_unfair(clean: Any) -> None:
    clean.with_config(clean.of(arm="adam"), optimizer={"name": "adam", "lr": 0.01, "fallback_lr": 0.05})
    searching(clean, clean.of(arm="adam"), "optimizer.fallback_lr")
    word, why = answers(clean)[EQUAL]
    assert word == "yes"
    assert why.endswith("; adam also tuned what it alone has (optimizer.fallback_lr)")


def test_what_one_tuned_and_another_left_fixed_is_unequal(clean: Any) -> None:
    clean.with_config(clean.records, optimizer={"name": "sgd", "lr": 0.01, "weight_decay": 0.05})
    searching(clean, clean.of(arm="adam"), "optimizer.weight_decay")
    assert answers(clean)[EQUAL][0] == "no"


def test_the_compute_has_its_unit(clean: Any) -> None:
    for each in clean.records:
        clean.change([each], lambda r: dataclasses.replace(r, last={**r.last, "time/train_s": 4.0}))
    assert answers(clean)[COMPUTE] == ("yes", "112 s of training in all, told by 28 of 28 runs, failed ones too")


def test_runs_that_diverged_did_not_use_their_budget(clean: Any) -> None:
    clean.diverge(clean.of(arm="adam", phase="final")[0])
    word, why = answers(clean)["Had every arm the same budget?"]
    assert (word, why) == (
        "yes",
        "all final runs of a task had one budget, and used it but for 1 that did not complete",
    )
