"""Every threat: a planted fault is found, and a clean study has none."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from reports.table import read
from reports.threats.checks import CHECKS, threats

NAME = "sgd-or-adam"


def rules(memory: Any, name: str = NAME) -> set[str]:
    return {finding.rule for finding in threats(read(memory, name))}


def test_a_clean_study_has_none(clean: Any) -> None:
    assert threats(read(clean, NAME)) == []


def test_clean_studies_of_other_draws_have_none(made: Any, digits: Any) -> None:
    """Less is better, and three arms: still nothing to say."""
    down = {**digits, "metric": "loss", "mode": "min", "target": 2.4, "title": "Text"}
    down["baselines"] = {"unigram": 3.1}
    memory = made({"a": {"level": 2.0}, "b": {"level": 2.1}, "c": {"level": 2.3}}, tasks={"text": down}, noise=0.01)
    assert rules(memory) == set()


def finals(memory: Any, arm: str = "adam") -> Any:
    return memory.of(arm=arm, phase="final")


def tunes(memory: Any, arm: str = "adam") -> Any:
    return memory.of(arm=arm, phase="tune")


def with_status(memory: Any, records: Any, status: str) -> None:
    memory.change(records, lambda r: dataclasses.replace(r, status=status, final={}))


def with_provenance(memory: Any, records: Any, **changes: Any) -> None:
    memory.change(
        records,
        lambda r: dataclasses.replace(r, file=dataclasses.replace(r.file, provenance={**r.file.provenance, **changes})),
    )


def with_device(memory: Any, records: Any, **changes: Any) -> None:
    with_provenance(memory, records, device={**records[0].file.provenance["device"], **changes})


def with_task(memory: Any, records: Any, **changes: Any) -> None:
    memory.change(
        records,
        lambda r: dataclasses.replace(
            r, file=dataclasses.replace(r.file, facts={**r.file.facts, "task": {**r.task, **changes}})
        ),
    )


def with_facts(memory: Any, records: Any, **facts: Any) -> None:
    memory.change(
        records,
        lambda r: dataclasses.replace(r, file=dataclasses.replace(r.file, facts={**r.file.facts, **facts})),
    )


def relabel(memory: Any, records: Any, **changes: Any) -> None:
    memory.change(
        records,
        lambda r: dataclasses.replace(
            r, file=dataclasses.replace(r.file, labels=dataclasses.replace(r.labels, **changes))
        ),
    )


def drop(memory: Any, records: Any) -> None:
    ids = {record.run_id for record in records}
    memory.records = [record for record in memory.records if record.run_id not in ids]


def rising(memory: Any) -> None:
    for record in finals(memory):
        series = memory.points[record.run_id, "val/accuracy"]
        values = tuple(v + 0.01 * i for i, v in enumerate(series.values))
        memory.points[record.run_id, "val/accuracy"] = dataclasses.replace(series, values=values)


def dearer(memory: Any) -> None:
    """SAM's two gradients an update; at equal gradients it was only half way, and behind."""
    for each in finals(memory):
        for name, factor in (("count/gradients", 2.0), ("time/train_s", 2.0)):
            series = memory.points[each.run_id, name]
            memory.points[each.run_id, name] = dataclasses.replace(
                series, values=tuple(v * factor for v in series.values)
            )


def dearer_and_late(memory: Any) -> None:
    dearer(memory)
    for each in finals(memory):
        series = memory.points[each.run_id, "val/accuracy"]
        values = tuple(v * (0.4 if index < 16 else 1) for index, v in enumerate(series.values))
        memory.points[each.run_id, "val/accuracy"] = dataclasses.replace(series, values=values)


def warmed(memory: Any) -> None:
    for each in memory.records:
        told = {**each.file.facts["study"], "tuner": {"warm_start": "older"}}
        memory.with_file([each], facts={**each.file.facts, "study": told})


def select_on_test(memory: Any) -> None:
    for record in [r for r in memory.records if r.labels.phase == "final"]:
        memory.with_final(record, objective=record.final["test/accuracy"])


def lr(memory: Any, arm: str, value: float) -> None:
    """The arm's best trial and its finals at this learning rate."""
    memory.with_config([tunes(memory, arm)[0], *finals(memory, arm)], optimizer={"name": arm, "lr": value})


def beyond_all_trials(memory: Any) -> None:
    drop(memory, [r for r in tunes(memory) if r.config["optimizer"]["lr"] < 0.01])


def paced(memory: Any, records: Any, factor: float) -> None:
    """Runs whose updates took so many times as long."""
    for each in records:
        series = memory.points[each.run_id, "time/train_s"]
        values = tuple(value * factor for value in series.values)
        memory.points[each.run_id, "time/train_s"] = dataclasses.replace(series, values=values)


def one_was_slow(memory: Any) -> None:
    paced(memory, finals(memory)[:1], 1.6)


def record(memory: Any, records: Any, kind: str = "plain", **config: Any) -> None:
    """As a loop that is not ours would have told them."""
    if config:
        memory.with_config(records, **config)
    ids = {each.run_id for each in records}
    for each in [r for r in memory.records if r.run_id in ids]:
        memory.with_file([each], facts={**each.file.facts, "recorded": kind})


def with_event(memory: Any, records: Any, name: str, **data: Any) -> None:
    memory.change(records, lambda r: dataclasses.replace(r, events=({"name": name, "at": 0, **data},)))


def forget(memory: Any, records: Any, last: bool = False) -> None:
    """No final values; and with `last` none at all."""
    memory.change(records, lambda r: dataclasses.replace(r, final={}, **({"last": {}} if last else {})))


def of_module(memory: Any, records: Any, sha256: str = "ab" * 32, file: str = "/nowhere/net.py") -> None:
    told = {"reference": "net.py:Net", "file": file, "class": "Net", "sha256": sha256, "files": {"net.py": sha256}}
    with_task(memory, records, module=told, data=None)


def two_versions(memory: Any) -> None:
    of_module(memory, memory.of(arm="sgd"))
    of_module(memory, memory.of(arm="adam"), "cd" * 32)


def unmeasured(memory: Any) -> None:
    record(memory, finals(memory))
    forget(memory, finals(memory)[:1], last=True)


def never_tested(memory: Any) -> None:
    record(memory, memory.of(phase="final"))
    forget(memory, memory.of(phase="final"))


def unnamed(memory: Any) -> None:
    with_task(memory, memory.records, metric="", mode="")
    record(memory, memory.records)
    memory.records = [dataclasses.replace(r, final={}) for r in memory.records]


def search(memory: Any, records: Any, space: dict[str, str]) -> None:
    for each in records:
        memory.with_file([each], facts={**each.file.facts, "study": {**each.file.facts["study"], "space": space}})


PLANTS: dict[str, Callable[[Any], None]] = {
    "few-seeds": lambda m: drop(m, [r for r in m.of(phase="final") if r.labels.seed > 3]),
    "unmatched-seeds": lambda m: relabel(m, finals(m)[-1:], seed=77),
    "still-improving": rising,
    "target-not-reached": lambda m: with_task(m, m.records, target=0.95),
    "coarse-test-split": lambda m: with_task(m, m.records, sizes={"test": 360}),
    "selected-on-test": select_on_test,
    "test-split-in-tuning": lambda m: m.with_final(tunes(m)[2], test__accuracy=0.9),
    "stopped-at-target": lambda m: m.with_config(finals(m), stop="target"),
    "small-models-only": lambda m: m.change(
        m.records,
        lambda r: dataclasses.replace(r, file=dataclasses.replace(r.file, facts={**r.file.facts, "parameters": 9_000})),
    ),
    "optimum-at-edge": lambda m: lr(m, "adam", 0.9),
    "optimum-not-bracketed": beyond_all_trials,
    "winner-not-best": lambda m: m.with_config(finals(m), optimizer={"name": "adam", "lr": 0.0033}),
    "unequal-tuning": lambda m: drop(m, tunes(m)[1:2]),
    "unequal-search": lambda m: search(m, m.of(arm="adam"), {"optimizer.weight_decay": "1e-5:1e-1:log"}),
    "no-better-than-baseline": lambda m: with_task(m, m.records, baselines={"majority": 0.94}),
    "unequal-tuning-budgets": lambda m: m.with_config(tunes(m), budget={"updates": 800}),
    "unequal-budgets": lambda m: m.with_config(finals(m), budget={"updates": 800}),
    "mixed-configs": lambda m: m.with_config(finals(m)[:1], batch_size=7),
    "tuned-on-final-seeds": lambda m: relabel(m, tunes(m)[:1], seed=1),
    "pruned-runs": lambda m: with_status(m, tunes(m)[3:5], "pruned"),
    "diverged-runs": lambda m: m.diverge(finals(m)[0]),
    "diverged-trials": lambda m: [m.diverge(record) for record in tunes(m)[1:6]],  # type: ignore[dict-item, return-value]
    "missing-runs": lambda m: with_status(m, finals(m)[:1], "lost"),
    "failed-trials": lambda m: with_status(m, tunes(m)[3:4], "crashed"),
    "mixed-devices": lambda m: with_device(m, finals(m), name="another processor"),
    "mixed-threads": lambda m: with_device(m, finals(m), threads=2),
    "mixed-commits": lambda m: with_provenance(m, finals(m), commit="d" * 40),
    "mixed-packages": lambda m: with_provenance(m, finals(m), packages={"torch": "2.12.0"}),
    "mixed-data": lambda m: with_task(m, finals(m), digest="ab" * 32),
    "arm-left-out": lambda m: drop(m, finals(m)),
    "fewer-than-planned": lambda m: drop(m, m.of(phase="final", seed=6)),
    "repeated-seeds": lambda m: relabel(m, finals(m)[:1], seed=2),
    "confounded-arms": lambda m: m.with_config(m.of(arm="adam"), batch_size=512),
    "same-config": lambda m: m.with_config(m.records, optimizer={"name": "sgd", "lr": 0.1}),
    "mixed-task": lambda m: with_task(m, finals(m), target=0.5),
    "recorded-runs": lambda m: record(m, finals(m)),
    "not-tuned": lambda m: record(m, finals(m)),
    "mixed-runners": lambda m: record(m, finals(m)),
    "budgets-not-given": lambda m: record(m, finals(m), budget={}),
    "metric-not-logged": unmeasured,
    "metric-assumed": unnamed,
    "no-test-split": never_tested,
    "mixed-module-files": two_versions,
    "module-file-changed": lambda m: of_module(m, m.records),
    "file-changed-midway": lambda m: with_event(m, finals(m)[:1], "file_changed", files=["/a/net.py"]),
    "stopped-early": lambda m: with_event(m, finals(m)[:2], "stopped_early", update=200, reason="EarlyStopping"),
    "run-warning": lambda m: with_event(m, finals(m), "warning", text="Look out.\nTwice."),
    "shared-trunk": lambda m: with_facts(m, finals(m)[:2], fork={"trunk": "20261130-104212-7f3a2c", "update": 300}),
    "replayed-runs": lambda m: m.with_file(finals(m)[:1], parent=f"replay of {finals(m)[1].run_id}"),
    "clocks-disagree": dearer_and_late,
    "unequal-use": dearer,
    "scattered-seconds": one_was_slow,
    "shared-clock": lambda m: with_facts(m, finals(m), population={"size": 4}),
    "short-runs": lambda m: paced(m, finals(m), 0.1),
    "unlike-machines": lambda m: record(m, finals(m), kind="imported"),
    "warm-start": warmed,
    "simulated-device": lambda m: with_device(m, finals(m)[:2], name="Ascend 910B (simulated)"),
    "dirty-folder": lambda m: with_provenance(m, finals(m)[:1], dirty=True),
}


@pytest.mark.parametrize("rule", PLANTS)
def test_a_planted_fault_is_found(rule: str, clean: Any) -> None:
    PLANTS[rule](clean)
    found = [finding for finding in threats(read(clean, NAME)) if finding.rule == rule]
    assert found
    assert all(finding.said and (finding.cure or rule == "run-warning") for finding in found)


def test_one_arm_selected_on_test_is_enough(clean: Any) -> None:
    for record in finals(clean):
        clean.with_final(record, objective=record.final["test/accuracy"])
    (found,) = [finding for finding in threats(read(clean, NAME)) if finding.rule == "selected-on-test"]
    assert "6 runs of adam" in found.said


def test_without_curves_nobody_is_said_to_have_missed_the_target(clean: Any) -> None:
    clean.points = {}
    assert "target-not-reached" not in rules(clean)


def test_one_kind_of_difference_is_not_confounded(clean: Any) -> None:
    """Two keys of one optimizer are one thing."""
    clean.with_config(clean.of(arm="adam"), optimizer={"name": "adam", "lr": 0.01, "eps": 1e-6})
    assert "confounded-arms" not in rules(clean)


@pytest.mark.parametrize(("slow", "level"), [(1.0, "note"), (2.0, "caution")])
def test_doubtful_seconds_are_a_caution_where_something_is_said_per_second(clean: Any, slow: float, level: str) -> None:
    """Arms of unlike cost are compared per second; arms of one cost at their ends."""
    one_was_slow(clean)
    paced(clean, clean.of(arm="sgd", phase="final"), slow)
    (found,) = [finding for finding in threats(read(clean, NAME)) if finding.rule == "scattered-seconds"]
    assert found.level == level
    assert "10 to 16 ms for adam" in found.said


def test_seconds_that_vary_little_are_no_threat(clean: Any) -> None:
    paced(clean, finals(clean)[:1], 1.4)
    assert "scattered-seconds" not in rules(clean)


def test_what_an_arm_alone_has_it_may_tune(clean: Any) -> None:
    """Equal trials; adam has an eps, which sgd has not."""
    search(clean, clean.of(arm="adam"), {"optimizer.lr": "1e-4:1.0:log", "optimizer.eps": "1e-9:1e-6:log"})
    assert "unequal-search" not in rules(clean)
    clean.with_config(clean.of(arm="sgd"), optimizer={"name": "sgd", "lr": 0.01, "eps": 1e-8})
    assert "unequal-search" in rules(clean)


def test_imported_trials_are_not_to_be_resumed(clean: Any) -> None:
    with_status(clean, tunes(clean)[3:4], "crashed")
    (ours,) = [f for f in threats(read(clean, NAME)) if f.rule == "failed-trials"]
    record(clean, clean.records, kind="imported")
    (theirs,) = [f for f in threats(read(clean, NAME)) if f.rule == "failed-trials"]
    assert "resumes" in ours.cure
    assert "resume" not in theirs.cure


def test_imported_epochs_are_no_updates(clean: Any) -> None:
    record(clean, clean.records, kind="imported", budget={})
    rising(clean)
    for each in clean.records:
        clean.with_file([each], facts={**each.file.facts, "source": {"kind": "csv", "steps": "epochs"}})
    said = {f.rule: f.said for f in threats(read(clean, NAME))}
    assert "runs made 400 epochs" in said["budgets-not-given"]
    assert "20% of its epochs" in said["still-improving"]


def test_every_check_has_a_plant(clean: Any) -> None:
    """A check whose fault is not planted here is not tested: each must speak on one of the faults."""
    assert len(PLANTS) >= len(CHECKS)
    silent = set(CHECKS)
    for plant in PLANTS.values():
        memory = dataclasses.replace(clean, records=list(clean.records), points=dict(clean.points))
        plant(memory)
        silent -= {check for check in CHECKS if check(read(memory, NAME))}
    assert not silent


def test_an_arm_no_better_than_the_majority_is_named_with_both_numbers(made: Any, digits: Any) -> None:
    arms = {"sgd": {"level": 0.0992}, "adam": {"level": 0.96}}
    memory = made(arms, tasks={"digits": {**digits, "baselines": {"majority": 0.1}}}, noise=0.0)
    (found,) = [f for f in threats(read(memory, NAME)) if f.rule == "no-better-than-baseline"]
    assert found.said == "sgd on digits (0.0992) is no better than the majority class (0.1)"
    assert found.level == "caution"


@pytest.mark.parametrize(
    ("baselines", "level"),
    [({"bigram": 1.9}, "error"), ({"bigram": 1.9, "unigram": 2.5}, "caution"), ({"bigram": 2.5}, "")],
)
def test_a_leader_that_beats_no_baseline_is_an_error(made: Any, digits: Any, baselines: Any, level: str) -> None:
    """Less is better: the leader has 2.0."""
    text = {**digits, "metric": "loss", "mode": "min", "target": None, "baselines": baselines}
    memory = made({"a": {"level": 2.0}, "b": {"level": 2.1}}, tasks={"text": text}, noise=0.001)
    found = {f.said.split()[0]: f.level for f in threats(read(memory, NAME)) if f.rule == "no-better-than-baseline"}
    assert found.get("a", "") == level
    assert found.get("b", "") == ("caution" if level else "")


def test_arms_that_searched_other_hyperparameters_are_told_apart(clean: Any) -> None:
    PLANTS["unequal-search"](clean)
    (found,) = [f for f in threats(read(clean, NAME)) if f.rule == "unequal-search"]
    assert found.said == "arms tuned different hyperparameters (sgd: optimizer.lr; adam: optimizer.weight_decay)"
    assert found.level == "caution"


def test_one_is_no_many(clean: Any) -> None:
    with_status(clean, tunes(clean)[3:4], "pruned")
    with_status(clean, tunes(clean)[5:6], "crashed")
    clean.with_final(tunes(clean)[2], test__accuracy=0.9)
    clean.with_config(finals(clean)[:1], stop="target")
    said = " | ".join(f.said for f in threats(read(clean, NAME)))
    for words in ("1 run was pruned", "1 tuning run has no outcome", "1 tuning run read the", "1 final run was told"):
        assert words in said


@pytest.mark.parametrize(
    ("kind", "words"), [("csv", "a CSV file"), ("optuna", "Optuna's records"), ("other", "another tool's records")]
)
def test_imported_runs_are_not_told_to_become_lightning_modules(clean: Any, kind: str, words: str) -> None:
    for each in clean.records:
        clean.with_file([each], facts={**each.file.facts, "recorded": "imported", "source": {"kind": kind}})
    (found,) = [f for f in threats(read(clean, NAME)) if f.rule == "recorded-runs"]
    assert found.said.startswith(f"28 of 28 runs were imported from {words}")
    assert "Lightning" not in found.cure


def test_recorded_arms_with_trials_are_compared_too(clean: Any) -> None:
    record(clean, clean.records)
    drop(clean, tunes(clean)[1:3])
    assert "unequal-tuning" in rules(clean)


def test_whose_changes_are_not_committed_is_said(clean: Any) -> None:
    with_provenance(clean, clean.records, commit="", trainlab={"commit": "bad4239" + "0" * 33, "dirty": True})
    (found,) = [f for f in threats(read(clean, NAME)) if f.rule == "dirty-folder"]
    assert found.said == "28 of 28 runs were made from code with uncommitted changes (trainlab)"


def test_used_updates_that_differ_are_found_too(clean: Any) -> None:
    record = finals(clean)[0]
    for metric in ("val/accuracy", "time/train_s", "count/gradients"):
        series = clean.points[record.run_id, metric]
        cut = {name: getattr(series, name)[:10] for name in ("updates", "values", "at")}
        clean.points[record.run_id, metric] = dataclasses.replace(series, **cut)
    assert "unequal-budgets" in rules(clean)


def test_the_worst_is_said_first(clean: Any) -> None:
    for rule in ("coarse-test-split", "dirty-folder", "selected-on-test"):
        PLANTS[rule](clean)
    levels = [finding.level for finding in threats(read(clean, NAME))]
    assert levels[0] == "error"
    assert levels == sorted(levels, key=["error", "caution", "note"].index)
