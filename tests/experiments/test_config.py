"""A config is resolved to the last hyperparameter, frozen, refused with the fix named, and hashed by meaning."""

from __future__ import annotations

import copy
import json
import math
import pickle
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from algos import catalogue
from algos.finding import InputError
from experiments.config import Budget, Entry, Frozen, RunConfig, canonical, digest, elided, resolve

TASK = '''
"""A task for these tests."""
TASK = TaskSpec(
    load=None, model={"name": "mlp", "width": 32}, optimizer={"name": "sgd", "lr": 0.25}, metric="accuracy", mode="max",
    worst=0.0, target=0.9, target_source="here", unit="images", budget={"updates": 7}, batch_size=12, evaluate_every=3,
)
'''


@pytest.fixture(autouse=True)
def _task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A task `toy`: an mlp of width 32, sgd with lr 0.25, 7 updates of 12."""
    (tmp_path / "tasks" / "cv").mkdir(parents=True)
    (tmp_path / "tasks" / "cv" / "toy.py").write_text(TASK.replace("load=None", "load=load"))
    monkeypatch.setenv("TRAINLAB_ENTRIES", str(tmp_path))


def refusal(*layers: dict[str, Any]) -> str:
    with pytest.raises(InputError) as caught:
        resolve(*layers)
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_the_task_gives_the_defaults_and_the_entries_the_rest() -> None:
    config = resolve({"task": "toy"})
    assert (config.model.name, config.model.hyper["width"], config.optimizer.hyper["lr"]) == ("mlp", 32, 0.25)
    assert config.model.hyper["depth"] == catalogue.describe("architectures", "mlp").hyper["depth"].default
    assert set(config.optimizer.hyper) == set(catalogue.describe("optimizers", "sgd").hyper)
    assert (config.budget.unit, config.budget.amount, config.batch_size, config.evaluate_every) == ("updates", 7, 12, 3)


def test_the_same_entry_keeps_the_tasks_hyperparameters_and_another_starts_from_its_own() -> None:
    assert resolve({"task": "toy", "optimizer": {"name": "sgd", "momentum": 0.5}}).optimizer.hyper["lr"] == 0.25
    other = resolve({"task": "toy", "optimizer": "lion"})
    assert other.optimizer.hyper["lr"] == catalogue.describe("optimizers", "lion").hyper["lr"].default


def test_later_layers_lie_over_earlier_ones() -> None:
    config = resolve({"task": "toy", "optimizer.lr": 0.1, "seed": 2}, {"optimizer.lr": 0.2}, {"budget": {"epochs": 1}})
    assert (config.optimizer.name, config.optimizer.hyper["lr"], config.seed) == ("sgd", 0.2, 2)
    assert config.budget == Budget(epochs=1)


def test_wrappers_are_a_list_and_one_is_changed_by_its_name() -> None:
    config = resolve({"task": "toy", "wrappers": "cautious+sam", "wrappers.sam.rho": 0.07})
    assert [entry.name for entry in config.wrappers] == ["cautious", "sam"]
    assert config.wrappers[1].hyper["rho"] == 0.07
    assert resolve({"task": "toy", "wrappers": "none"}).wrappers == ()
    assert resolve({"task": "toy", "compression": "magnitude_pruning"}).compression[0].name == "magnitude_pruning"


def test_it_is_frozen_to_the_leaves() -> None:
    config = resolve({"task": "toy", "wrappers": ["sam"], "optimizer": "adamw"})
    for change in (lambda: setattr(config, "seed", 2), lambda: setattr(config.optimizer, "name", "sgd")):
        with pytest.raises(ValidationError):
            change()
    with pytest.raises(TypeError):
        config.optimizer.hyper["lr"] = 1.0  # type: ignore[index]
    assert isinstance(config.optimizer.hyper["betas"], tuple)
    assert hash(config) == hash(resolve(config.to_json()))


def test_it_survives_json_pickle_and_copy() -> None:
    config = resolve({"task": "toy", "wrappers": ["sam"], "optimizer": "adamw", "trainer": {"plugins": ["a", "b"]}})
    assert RunConfig.from_json(json.loads(json.dumps(config.to_json()))) == config
    assert resolve(config.to_json()) == config
    assert pickle.loads(pickle.dumps(config)) == config == copy.deepcopy(config)


def test_json_is_in_the_users_words() -> None:
    data = resolve({"task": "toy"}).to_json()
    assert (data["schema"], data["budget"]) == (1, {"updates": 7})
    assert data["optimizer"]["name"] == "sgd"
    assert data["optimizer"]["lr"] == 0.25


def test_the_digest_is_of_the_meaning() -> None:
    one = resolve({"task": "toy", "optimizer": {"name": "adamw", "lr": 1}, "budget": {"epochs": 2}})
    other = resolve({"budget.epochs": 2.0, "optimizer.lr": 1.0, "optimizer": "adamw", "task": "toy", "log_every": 10.0})
    assert digest(one) == digest(other)
    assert digest(one) != digest(
        resolve({"task": "toy", "optimizer": {"name": "adamw", "lr": 1.5}, "budget.epochs": 2})
    )
    assert len(digest(one)) == 64


def test_a_field_at_its_default_is_not_in_the_digest_and_a_hyperparameter_is() -> None:
    kept = elided(resolve({"task": "toy", "log_every": 10, "accumulate": 2}))
    assert "log_every" not in kept
    assert "trainer" not in kept
    assert kept["accumulate"] == 2
    assert kept["schema"] == 1
    assert kept["optimizer"] == resolve({"task": "toy"}).to_json()["optimizer"]


def test_canonical_json_has_one_spelling_for_each_number() -> None:
    assert canonical({"b": 1.0, "a": [1e-4, math.inf, True, None]}) == '{"a":[0.0001,"inf",true,null],"b":1}'


@pytest.mark.parametrize(
    ("layer", "said"),
    [
        ({"task": "digts"}, "task: unknown task 'digts'; did you mean 'digits'?"),
        ({}, "task: no task; give one, e.g. task=digits"),
        ({"task": "toy", "optimizer": "adamv"}, "optimizer: unknown optimizer 'adamv'; did you mean 'adamw'?"),
        ({"task": "toy", "optimzer": "adamw"}, "unknown key 'optimzer'; did you mean 'optimizer'?"),
        ({"task": "toy", "lr": 0.1}, "unknown key 'lr'; did you mean optimizer.lr?"),
        (
            {"task": "toy", "optimizer.momentun": 1},
            "unknown hyperparameter of sgd 'momentun'; did you mean 'momentum'?",
        ),
        ({"task": "toy", "optimizer.lr": -1}, "optimizer.lr: -1 is not valid; give a number in (0, inf)"),
        ({"task": "toy", "optimizer.lr": "x"}, "optimizer.lr: 'x' is not valid; give a number in (0, inf)"),
        ({"task": "toy", "model.width": 1.5}, "model.width: 1.5 is not valid; give a whole number"),
        ({"task": "toy", "batch_size": "x"}, "batch_size: 'x' is not valid; give a whole number above 0"),
        ({"task": "toy", "batch_size": True}, "batch_size: True is not valid; give a whole number above 0"),
        ({"task": "toy", "batch_size": 1.5}, "batch_size: 1.5 is not valid; give a whole number above 0"),
        ({"task": "toy", "seed": -1}, "seed: -1 is not valid; give a whole number from 0"),
        ({"task": "toy", "budget": {"updates": 0}}, "budget.updates: 0 is not valid; give a whole number above 0"),
        ({"task": "toy", "budget": {"steps": 9}}, "budget.steps: unknown key 'steps'"),
        (
            {"task": "toy", "budget": {"updates": 9, "epochs": 1}},
            "budget: a budget has updates and epochs; give exactly one",
        ),
        ({"task": "toy", "budget": {}}, "budget: a budget has no unit; give exactly one"),
        ({"task": "toy", "budget": 9}, "budget: 9 is not valid"),
        (
            {"task": "toy", "devices": 2},
            "devices: 2 is not valid; give 1; a run on several devices is not supported yet",
        ),
        ({"task": "toy", "device": "gpu"}, "device: 'gpu' is not valid; give auto, cpu, cuda"),
        ({"task": "toy", "init": "runs:17"}, "init: 'runs:17' is not valid; give run:ID"),
        ({"task": "toy", "form": "fast"}, "form: 'fast' is not valid; give auto, torch, loop, stacked or compiled"),
        ({"task": "toy", "divergence_bound": math.nan}, "divergence_bound: nan is not valid; give a number above 0"),
        ({"task": "toy", "accumulate": 13}, "accumulate: a batch of 12 cannot be split into 13 micro-batches"),
        (
            {"task": "toy", "wrappers.sam.rho": 0.1},
            "wrappers.sam: 'sam' is not among the wrappers here (none); give wrappers=sam",
        ),
        ({"task": "toy", "wrappers": "sam+sam"}, "wrappers: 'sam' stands there twice; name each once"),
        ({"task": "toy", "wrappers": "sam", "wrappers.sma.rho": 1}, "'sma' is not among the wrappers here (sam)"),
        ({"task": "toy", "optimizer": 3}, "optimizer: 3 is not an entry; give a name"),
        ({"task": "toy", "schema": 2}, "schema: 2 is not valid; give 1"),
        ({"task": "toy", "trainer": 3}, "trainer: 3 is not valid; give words of Lightning's Trainer"),
    ],
)
def test_bad_input_gets_one_line_that_names_the_fix(layer: dict[str, Any], said: str) -> None:
    assert said in refusal(layer)


def test_a_range_is_refused_where_one_run_is_asked_for() -> None:
    from experiments.tuning.ranges import Range

    text = refusal({"task": "toy", "optimizer.lr": Range(1e-4, 1e-1, log=True)})
    assert "optimizer.lr: 0.0001:0.1:log is a range; give one value, or tune it" in text


def test_none_is_an_option_where_one_is_called_so() -> None:
    assert resolve({"task": "toy", "model.norm": None}).model.hyper["norm"] == "none"


def test_entries_lists_everything_a_run_uses() -> None:
    config = resolve({"task": "toy", "wrappers": "cautious+sam"})
    assert [(key, entry.name) for key, _, entry in config.entries()] == [
        ("model", "mlp"), ("optimizer", "sgd"), ("schedule", "constant"), ("loss", "cross_entropy"),
        ("precision", "fp32"), ("wrappers", "cautious"), ("wrappers", "sam"),
    ]  # fmt: skip


def test_an_entry_is_written_three_ways() -> None:
    same = [Entry.model_validate({"name": "muon", "lr": 0.02}), Entry(name="muon", hyper=Frozen({"lr": 0.02}))]
    assert same[0] == same[1]
    assert Entry.model_validate("muon") == Entry(name="muon")


@pytest.mark.parametrize("word", ["max_steps", "max_epochs"])
def test_a_budget_beside_lightning_s_word_for_one_is_refused(word: str) -> None:
    with pytest.raises(InputError, match="two budgets"):
        resolve({"task": "digits", "budget": {"updates": 20}, "trainer": {word: 3}})


def test_infinity_is_no_rate() -> None:
    with pytest.raises(InputError, match=r"optimizer\.lr: inf is not valid"):
        resolve({"task": "digits", "optimizer": {"name": "adamw", "lr": float("inf")}})
