"""What a run does, counts, records and leaves behind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from algos.architectures.mlp import MLP
from algos.contracts import Gradient
from algos.finding import InputError
from algos.optimizers.adamw import AdamW
from algos.precision.fp16 import Fp16
from algos.wrappers.clipping import Clipping
from experiments import training
from experiments.config import resolve
from experiments.evaluation import Evaluator
from experiments.partway import Partway
from experiments.progress import RunProgress
from experiments.stopping import Stop, StopNow
from experiments.store.home import Home
from experiments.store.schema import Labels
from experiments.training import load_model, resume, train

SMALL = {
    "task": "digits", "model": {"name": "mlp", "width": 16}, "batch_size": 250, "budget": {"updates": 12},
    "evaluate_every": 4, "device": "cpu",
}  # fmt: skip


def run(home: Path, labels: Labels | None = None, **changes: Any) -> Any:
    return train(resolve({**SMALL, **changes}), home=Home(home), labels=labels)


def weights(finished: Any, home: Path) -> dict[str, torch.Tensor]:
    return load_file(home / "runs" / finished.record.run_id / "model.safetensors")


def same(one: dict[str, torch.Tensor], two: dict[str, torch.Tensor]) -> bool:
    return one.keys() == two.keys() and all(torch.equal(one[name], two[name]) for name in one)


def values(home: Path, run_id: str, metric: str) -> dict[int, float]:
    (line,) = Home(home).series([run_id], [metric])
    return dict(zip(line.updates, line.values, strict=True))


def test_the_same_seed_gives_the_same_numbers_and_another_seed_others(tmp_path: Path) -> None:
    one, two, other = run(tmp_path), run(tmp_path), run(tmp_path, seed=2)
    assert same(weights(one, tmp_path), weights(two, tmp_path))
    assert one.record.final == two.record.final
    assert not same(weights(one, tmp_path), weights(other, tmp_path))


@pytest.mark.parametrize("model", ["mlp", {"name": "resnet", "width": 4, "blocks": 1}])
@pytest.mark.parametrize("averages", [{"optimizer": "schedule_free_adamw"}, {"wrappers": ["ema"]}])
def test_how_often_one_evaluates_changes_nothing(tmp_path: Path, model: Any, averages: Any) -> None:
    rarely = run(tmp_path, model=model, evaluate_every=12, **averages)
    often = run(tmp_path, model=model, evaluate_every=1, **averages)
    assert same(weights(rarely, tmp_path), weights(often, tmp_path))


def test_a_run_leaves_its_caller_s_randomness_alone(tmp_path: Path) -> None:
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    run(tmp_path)
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize(
    ("budget", "updates"),
    [({"updates": 7}, 7), ({"epochs": 2}, 10), ({"examples": 1000}, 4), ({"gradients": 6}, 6)],
)
def test_each_budget_ends_the_run_when_it_is_used(tmp_path: Path, budget: dict[str, float], updates: int) -> None:
    finished = run(tmp_path, budget=budget)
    last = finished.record.last
    assert last["count/updates"] == updates
    assert last["count/gradients"] == updates
    # 1,200 images in batches of 250: every fifth has 200.
    assert last["count/examples"] == sum(200 if update % 5 == 0 else 250 for update in range(1, updates + 1))
    assert last["count/epochs"] == updates / 5


def test_a_budget_of_gradients_counts_both_of_sam(tmp_path: Path) -> None:
    last = run(tmp_path, budget={"gradients": 6}, wrappers=["sam"]).record.last
    assert (last["count/updates"], last["count/gradients"]) == (3, 6)


def test_a_budget_of_seconds_is_of_training_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jump: Callable[[float], None]
) -> None:
    measure = Evaluator.measure
    monkeypatch.setattr(Evaluator, "measure", lambda self, split: (jump(1000), measure(self, split))[1])
    finished = run(tmp_path, budget={"seconds": 0.15}, evaluate_every=5)
    last = finished.record.last
    assert 0.15 <= last["time/train_s"] < 500
    assert last["time/evaluate_s"] >= 2000
    assert last["count/updates"] >= 5
    assert finished.record.status == "completed"


def test_every_metric_is_recorded_where_it_was_measured(tmp_path: Path) -> None:
    finished = run(tmp_path, log_every=3)
    run_id = finished.record.run_id
    assert list(values(tmp_path, run_id, "train/loss")) == [3, 6, 9, 12]
    for metric in ("val/accuracy", "val/loss", "time/train_s", "count/examples"):
        assert list(values(tmp_path, run_id, metric)) == [0, 4, 8, 12], metric
    assert list(values(tmp_path, run_id, "train/lr")) == [4, 8, 12], "before the first update no rate was used"
    assert finished.record.final["objective"] == values(tmp_path, run_id, "val/accuracy")[12]
    assert set(finished.record.final) == {"objective", "test/accuracy", "test/loss"}


def test_a_tuning_run_never_reads_the_test_split(tmp_path: Path) -> None:
    labels = Labels(task="digits", study="s", arm="a", phase="tune", number=3, seed=1)
    finished = run(tmp_path, labels)
    assert set(finished.record.final) == {"objective"}


def test_the_stored_weights_are_the_tested_ones_and_can_be_started_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRAINLAB_HOME", str(tmp_path))
    finished = run(tmp_path, wrappers=["ema"])
    folder = Home(tmp_path).folder(finished.record.run_id)
    again = load_model(folder)
    assert same(dict(again.state_dict()), weights(finished, tmp_path))
    child = run(tmp_path, init=f"run:{finished.record.run_id}")
    assert child.record.file.parent == finished.record.run_id
    start = values(tmp_path, child.record.run_id, "val/accuracy")[0]
    assert start == finished.record.final["objective"]
    file = run(tmp_path, init=str(folder.path / "model.safetensors"))
    assert values(tmp_path, file.record.run_id, "val/accuracy")[0] == start
    with pytest.raises(InputError, match="do not fit the model"):
        run(tmp_path, init=f"run:{finished.record.run_id}", model={"name": "mlp", "width": 16, "depth": 4})
    with pytest.raises(InputError, match="has shape"):
        run(tmp_path, init=f"run:{finished.record.run_id}", model={"name": "mlp", "width": 17})


def test_the_best_weights_are_those_of_the_best_evaluation(tmp_path: Path) -> None:
    finished = run(tmp_path, select="best", optimizer={"name": "adamw", "lr": 0.3}, evaluate_every=1)
    curve = values(tmp_path, finished.record.run_id, "val/accuracy")
    assert finished.record.final["objective"] == max(curve.values())
    assert max(curve.values()) > curve[12], "a rate this high must fall back, or the test shows nothing"


def test_divergence_is_found_within_an_evaluation_interval_and_tested_nothing(tmp_path: Path) -> None:
    finished = run(tmp_path, optimizer={"name": "sgd", "lr": 1e12}, budget={"updates": 100}, evaluate_every=10)
    record = finished.record
    assert record.status == "diverged"
    assert "update" in record.reason
    assert 0 < record.last["count/updates"] <= 10, "what it used is told"
    assert record.last["count/gradients"] == record.last["count/updates"]
    assert record.last["time/train_s"] > 0
    assert record.final == {}
    assert finished.model is None


def test_a_step_that_raises_is_a_crashed_run_with_its_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(self: Clipping, oracle: Any, batch: Any, inner: Any) -> Gradient:
        raise RuntimeError("the step failed")

    monkeypatch.setattr(Clipping, "gradient", fails)
    finished = run(tmp_path, wrappers=["clipping"])
    assert finished.record.status == "crashed"
    assert finished.record.reason == "RuntimeError: the step failed"
    assert "in fails" in finished.record.traceback
    assert isinstance(finished.error, RuntimeError)


def raises(error: BaseException) -> Any:
    def fails(*arguments: Any, **more: Any) -> Any:
        raise error

    return fails


#: What a run is made of -> where it is made.
MADE = {"model": (MLP, "__init__"), "optimizer": (AdamW, "__init__"), "data": (training, "load_data")}


@pytest.mark.parametrize("made", MADE)
@pytest.mark.parametrize("error", [RuntimeError("no such width"), SystemExit(3)])
def test_what_a_run_s_own_code_raises_while_it_is_built_crashes_that_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made: str, error: BaseException
) -> None:
    monkeypatch.setattr(*MADE[made], raises(error))
    training.check(resolve(SMALL))  # it is the run that says so
    finished = run(tmp_path)
    record = finished.record
    assert (record.status, record.reason, record.attempts) == ("crashed", training.last_line(error), 1)
    assert "in fails" in record.traceback
    assert finished.error is error
    assert (record.task["metric"], record.task["mode"], record.labels.task) == ("accuracy", "max", "digits")
    assert record.file.provenance["device"]["type"] == "cpu"
    monkeypatch.undo()
    assert run(tmp_path).record.status == "completed"


@pytest.mark.parametrize("error", [KeyboardInterrupt(), StopNow("SIGTERM")])
def test_who_stops_a_run_that_is_being_built_leaves_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    monkeypatch.setattr(MLP, "__init__", raises(error))
    with pytest.raises(type(error)):
        run(tmp_path)
    assert not list(tmp_path.glob("runs/*"))


def test_a_run_that_can_no_longer_be_built_crashes_when_it_goes_on_unless_it_may_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(tmp_path)
    folder = home.folder(train(resolve(SMALL), home=home, stop=Partway(5)).record.run_id)
    monkeypatch.setattr(training, "load_data", raises(ConnectionError("the disk is away")))
    assert resume(folder).record.status == "interrupted"
    monkeypatch.undo()
    monkeypatch.setattr(MLP, "__init__", raises(RuntimeError("another class now")))
    record = resume(folder).record
    assert (record.status, record.reason, record.attempts) == ("crashed", "RuntimeError: another class now", 3)


@pytest.mark.parametrize(
    "changes",
    [
        {"optimizer": "adam"}, {"task": "mnist"}, {"optimizer": {"name": "adamw", "lr": -1}}, {"model": "gcn"},
        {"device": "cuda"}, {"init": "run:nobody"}, {"compression": ["magnitude_pruning"], "select": "best"},
    ],
)  # fmt: skip
def test_what_cannot_be_run_leaves_no_half_made_run(tmp_path: Path, changes: dict[str, Any]) -> None:
    if changes == {"device": "cuda"} and torch.cuda.is_available():
        pytest.skip("this machine has the device")
    with pytest.raises(InputError):
        run(tmp_path, **changes)
    assert not list(tmp_path.glob("runs/*"))


def test_stop_target_ends_at_the_first_evaluation_that_reaches_it(tmp_path: Path) -> None:
    finished = run(
        tmp_path,
        stop="target",
        budget={"updates": 400},
        evaluate_every=20,
        batch_size=64,
        model={"name": "mlp", "width": 128},
    )
    record = finished.record
    assert record.status == "completed"
    assert record.reached is not None
    curve = values(tmp_path, record.run_id, "val/accuracy")
    first = next(update for update, value in curve.items() if value >= record.task["target"])
    assert record.reached["update"] == first == max(curve)


def test_a_stop_in_mid_interval_checkpoints_without_evaluating(tmp_path: Path) -> None:
    stop = Stop()

    def listen(event: Any) -> None:
        if isinstance(event, RunProgress) and event.update == 4:
            stop.request("enough")

    finished = train(resolve({**SMALL}), home=Home(tmp_path), listener=listen, stop=stop)
    assert finished.record.status == "interrupted"
    assert finished.record.reason == "enough"
    folder = Home(tmp_path).folder(finished.record.run_id)
    done = resume(folder)
    assert done.record.status == "completed"
    assert list(values(tmp_path, done.record.run_id, "val/accuracy")) == [0, 4, 8, 12]


def test_dying_between_the_last_checkpoint_and_the_last_word_repeats_no_update(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    undisturbed = run(tmp_path)

    def dies(*arguments: Any) -> Any:
        raise StopNow

    with monkeypatch.context() as patch:
        patch.setattr(training, "finish", dies)
        finished = run(tmp_path)
    assert finished.record.status == "interrupted"
    done = resume(Home(tmp_path).folder(finished.record.run_id))
    assert done.record.status == "completed"
    assert done.record.final == undisturbed.record.final
    assert max(values(tmp_path, done.record.run_id, "count/updates")) == 12


def test_the_recorded_rate_is_that_of_the_optimizer_s_own_rule(tmp_path: Path) -> None:
    finished = run(tmp_path, optimizer={"name": "muon", "lr": 0.02}, schedule="constant")
    assert set(values(tmp_path, finished.record.run_id, "train/lr").values()) == {0.02}


def test_the_objective_is_that_of_the_stored_weights_where_finalizing_changed_them(tmp_path: Path) -> None:
    """Pruning that had not come to its end prunes the rest when training ends."""
    pruning = {"name": "magnitude_pruning", "sparsity": 0.97, "begin": 0.0, "end": 1.0, "every": 1000}
    finished = run(tmp_path, compression=[pruning], budget={"updates": 60}, batch_size=64)
    kept = load_model(Home(tmp_path).folder(finished.record.run_id))
    data = training.load_data("digits", None)
    right = total = 0
    for batch in data.evaluation("validation", torch.device("cpu")):
        right += int((kept(*batch.inputs).argmax(-1) == batch.targets).sum())
        total += len(batch.targets)
    assert finished.record.final["objective"] == right / total
    assert finished.record.final["objective"] < values(tmp_path, finished.record.run_id, "val/accuracy")[60]


def test_a_run_that_stops_at_its_target_reports_no_test_metric(tmp_path: Path) -> None:
    assert set(run(tmp_path, stop="target").record.final) == {"objective"}


def test_an_average_of_weights_that_are_not_evaluated_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="evaluates at weights of its own"):
        run(tmp_path, optimizer="schedule_free_adamw", wrappers=["ema"])


def test_a_batch_in_which_nothing_counts_has_no_gradient_and_no_nan(tmp_path: Path) -> None:
    for accumulate in (1, 2):
        parts, _ = training.build(
            resolve({**SMALL, "accumulate": accumulate, "loss": {"name": "cross_entropy", "ignore_index": 3}})
        )
        batch = parts.source.next()
        nothing = batch._replace(targets=torch.full_like(batch.targets, 3))
        found = parts.oracle.gradient(nothing)
        assert float(found.loss) == 0
        assert all(float(grad.abs().sum()) == 0 for grad in found.grads.values())
        at = {name: p.detach().clone() for name, p in parts.oracle.named_parameters()}
        assert float(parts.oracle.gradient(nothing, at=at).loss) == 0


# Optimizers that need more than a gradient, and losses that are scaled


def test_fp16_tells_what_it_skipped_and_goes_on(tmp_path: Path) -> None:
    """At a scale of 2^27 the first updates overflow; they are counted, and the rest trains."""
    done = run(tmp_path, precision={"name": "fp16", "init_scale": 2.0**27}, select="last")
    assert done.record.status == "completed"
    skipped = values(tmp_path, done.record.run_id, "count/skipped")
    assert skipped[0] == 0
    assert 0 < skipped[12] < 12
    assert values(tmp_path, done.record.run_id, "count/updates")[12] == 12
    plain = run(tmp_path, select="last")
    assert Home(tmp_path).series([plain.record.run_id], ["count/skipped"]) == []


def test_gradients_that_no_scale_makes_finite_end_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Fp16, "unscaled", lambda self, tensors: (list(tensors), torch.tensor(False)))
    done = run(tmp_path, precision={"name": "fp16", "init_scale": 2.0**-38})
    assert done.record.status == "diverged"
    assert "however little the loss is scaled" in done.record.reason


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"precision": "fp16"}, "LBFGS asks for several gradients in one update, and fp16's scaling"),
        ({"wrappers": ["sam"]}, "Sam changes the gradient, and LBFGS asks its closure for several"),
        ({"wrappers": ["clipping"]}, "Clipping changes the gradient, and LBFGS"),
        ({"wrappers": ["cautious"]}, "Cautious changes the directions of steps, and LBFGS does not show them"),
        ({"form": "stacked"}, "form 'stacked' is not there for L-BFGS"),
    ],
)
def test_what_does_not_go_with_a_closure_is_refused_before_there_is_a_run(
    tmp_path: Path, changes: dict[str, Any], said: str
) -> None:
    with pytest.raises(InputError, match=said) as raised:
        run(tmp_path, optimizer="lbfgs", **changes)
    assert "\n" not in str(raised.value)
    assert not list((tmp_path / "runs").glob("*")) if (tmp_path / "runs").exists() else True


def test_every_gradient_of_a_line_search_and_of_curvature_is_counted(tmp_path: Path) -> None:
    """A budget of gradients is spent by what was evaluated: 12 updates with a product every third take 12 + 4*2."""
    curved = run(tmp_path, optimizer={"name": "sophia", "update_period": 3, "estimator": "gauss_newton"})
    assert values(tmp_path, curved.record.run_id, "count/gradients")[12] == 20
    searched = run(tmp_path, optimizer={"name": "lbfgs", "max_iter": 4}, budget={"gradients": 60})
    counts = values(tmp_path, searched.record.run_id, "count/gradients")
    last = max(counts)
    assert last < 60
    assert 60 <= counts[last] < 60 + 5
