"""Which arm and seed a foreign run is of: named keys, usual words, names; never a pairing that nobody stated."""

from __future__ import annotations

import pytest

from algos.finding import InputError
from experiments.store.sources.foreign import Read
from experiments.store.sources.labelling import Labelling, clean, labelled


def labels(*runs, **how):
    """(task, arm, seed) of runs that say some things, and what is told."""
    told = [(name, said, {}) for name, said in runs]
    found, notes = labelled(told, Labelling(**how), Read([]))
    return [(each.task, each.arm, each.seed) for each in found], notes


def test_seeds_that_nobody_states_are_shared_by_no_two_arms():
    runs = [("", {"arm": arm}) for arm in ("a", "a", "a", "b", "b", "b")]
    found, notes = labels(*runs)
    seeds = {arm: {seed for _, each, seed in found if each == arm} for arm in ("a", "b")}
    assert len(seeds["a"]) == len(seeds["b"]) == 3
    assert not seeds["a"] & seeds["b"]
    assert any("not paired" in note for note in notes)


def test_seeds_that_some_state_are_theirs_and_the_others_are_new_ones():
    found, notes = labels(("", {"arm": "a", "seed": 3}), ("", {"arm": "b", "seed": "3"}), ("", {"arm": "b"}))
    assert [seed for _, _, seed in found] == [3, 3, 4]
    assert any("1 of 3 runs" in note for note in notes)


def test_names_that_end_in_a_seed_are_arms_without_it():
    found, notes = labels(("adamw_seed1", {}), ("adamw_seed2", {}), ("muon/s2", {}))
    assert found == [("own", "adamw", 1), ("own", "adamw", 2), ("own", "muon", 2)]
    assert any("without the seed" in note for note in notes)


def test_names_that_tell_nothing_make_one_arm_not_one_each():
    found, notes = labels(("luxuriant-carp-221", {}), ("gentle-hog-7", {}))
    assert {arm for _, arm, _ in found} == {"own"}
    assert any("nothing says the arms" in note for note in notes)


@pytest.mark.parametrize("key", ["optimizer", "opt.optimizer", "optimizer.name", "Optimizer"])
def test_the_usual_words_are_found_in_nested_settings(key):
    found, _ = labels(("", {key: "sgd", "seed": 1}), ("", {key: "adam", "seed": 1}))
    assert [arm for _, arm, _ in found] == ["sgd", "adam"]


def test_an_arm_may_be_several_settings():
    found, _ = labels(("", {"opt": "sgd", "a.lr": 0.1}), ("", {"opt": "sgd", "a.lr": 0.5}), arm="opt,a.lr")
    assert [arm for _, arm, _ in found] == ["sgd lr=0.1", "sgd lr=0.5"]


def test_names_given_for_all_runs_stand_before_what_they_say():
    found, notes = labels(("", {"arm": "a", "task": "t", "seed": 1}), task_name="mine", arm_name="ours")
    assert found == [("mine", "ours", 1)]
    assert notes == []


def test_a_seed_that_is_no_whole_number_is_refused():
    with pytest.raises(InputError, match=r"run 'x': 'seed' is '1\.5', not a whole number"):
        labels(("x", {"seed": "1.5"}))


def test_a_label_never_holds_a_slash():
    assert clean("cifar/10 实验\n") == "cifar-10 实验"
    found, notes = labels(("", {"arm": "a/b", "seed": 1}))
    assert found[0][1] == "a-b"
    assert any("'/'" in note for note in notes)


@pytest.mark.parametrize("seed", [2**53 + 1, 2**64 - 1, str(2**64 - 1), " 7 ", "-1", 3.0, "4.0"])
def test_a_seed_keeps_every_digit(seed):
    found, _ = labels(("x", {"seed": seed}))
    assert found[0][2] == (int(float(seed)) if str(seed).endswith(".0") else int(seed))


def test_a_task_that_nobody_named_is_told_with_what_names_it():
    _, notes = labels(("", {"arm": "a", "seed": 1}))
    assert notes == [
        "nothing says the task, so it is called 'own' (--task-name gives it a name, --task names a column)"
    ]
    for how in ({"task_name": "digits"}, {"task": "what"}):
        found, notes = labels(("", {"arm": "a", "seed": 1, "what": "digits"}), **how)
        assert (found[0][0], notes) == ("digits", [])


def test_runs_that_do_not_say_what_others_are_told_apart_by_are_counted():
    runs = ("", {"opt": "sgd", "task": "t", "seed": 1}), ("", {"task": "t", "seed": 2}), ("", {"opt": "", "seed": 3})
    found, notes = labels(*runs, arm="opt")
    assert [(task, arm) for task, arm, _ in found] == [("t", "sgd"), ("t", "own"), ("own", "own")]
    assert notes == [
        "1 of 3 runs say no 'task', and are of the task 'own' (--where leaves some out)",
        "2 of 3 runs say no 'opt', and are of the arm 'own' (--where leaves some out)",
    ]
