"""Every optimizer in our own loop: the weights of a plain torch loop bit for bit, in every precision; whole accumulated
batches; clipping, skipping, counting, evaluating and resuming as one would by hand.

Resuming of whole runs is in test_resume.py, SAM in test_wrappers.py, for every optimizer and wrapper.
"""

from __future__ import annotations

import copy
import io
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional as F

from algos import catalogue
from algos.contracts import Component, Progress
from algos.curvature import signs
from algos.finding import InputError
from algos.gradient_descent import GradientDescent
from algos.precision.fp16 import Fp16
from algos.wrappers.clipping import Clipping
from experiments import trainer
from experiments.config import resolve
from experiments.data.batch import Batch
from experiments.oracle import TaskOracle
from experiments.store.home import Home
from experiments.training import build, train

NAMES = tuple(catalogue.paths("optimizers"))
#: L-BFGS asks for several gradients in one update: refused where they are scaled or changed.
OPEN = tuple(name for name in NAMES if "closure" not in catalogue.describe("optimizers", name).needs)
CURVED = tuple(name for name in NAMES if "curvature" in catalogue.describe("optimizers", name).needs)
#: They multiply float32's rounding by more than a hundred.
AMPLIFYING = ("soap", "soap_muon")
#: digits has 1,200 training images: five batches an epoch, the last one smaller.
UPDATES = 7
SMALL = {
    "task": "digits", "model": {"name": "mlp", "width": 16}, "batch_size": 250, "budget": {"updates": UPDATES},
    "evaluate_every": 3, "device": "cpu", "select": "last", "schedule": "warmup_cosine",
}  # fmt: skip
#: A scale at which the first gradients overflow; curvature's products overflow sooner, which is a test of its own.
SCALED = {"name": "fp16", "init_scale": 2.0**19, "growth_interval": 3}
UNSKIPPED = {"name": "fp16", "init_scale": 256.0}
DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}


# A plain torch loop


class Counting(torch.amp.GradScaler):
    """torch's, and how often it skipped."""

    skipped = 0

    def update(self, new_scale: Any = None) -> None:
        before = self.get_scale()
        super().update(new_scale)
        self.skipped += self.get_scale() < before


def autocast(precision: str) -> AbstractContextManager[Any]:
    return torch.autocast("cpu", dtype=DTYPES[precision]) if precision in DTYPES else nullcontext()


def observe(optimizer: Any, model: nn.Module, batch: Batch, precision: str, scale: float) -> None:
    """Hutchinson's estimate by hand: signs, and a second derivative in their direction."""
    params = list(model.parameters())
    probes = [signs(param) for param in params]
    with autocast(precision):
        loss = F.cross_entropy(model(*batch.inputs), batch.targets)
    slope = torch.autograd.grad(loss * scale, params, create_graph=True)
    products = torch.autograd.grad(slope, params, probes, materialize_grads=True)
    optimizer.observe_curvature(
        {param: probe * (product / scale) for param, probe, product in zip(params, probes, products, strict=True)}
    )


def by_hand(
    optimizer: Any, model: nn.Module, batches: Sequence[Batch], factors: Sequence[float], precision: str = "fp32",
    scaler: Counting | None = None,
) -> list[list[Tensor]]:  # fmt: skip
    """The weights after each update of a loop that anybody would write."""
    rates = [group["lr"] for group in optimizer.param_groups]
    seen = []
    for batch, factor in zip(batches, factors, strict=True):
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            group["lr"] = rate * factor

        def closure(batch: Batch = batch) -> Tensor:
            optimizer.zero_grad()
            with autocast(precision):
                loss = F.cross_entropy(model(*batch.inputs), batch.targets)
            (loss if scaler is None else scaler.scale(loss)).backward()
            return loss

        if scaler is None and isinstance(optimizer, torch.optim.LBFGS):
            optimizer.step(closure)
        else:
            closure()
            if getattr(optimizer, "wants_curvature", False):
                scale = 1.0 if scaler is None else scaler.get_scale()
                observe(optimizer, model, batch, precision, scale)
            if scaler is None:
                optimizer.step()
            else:
                scaler.step(optimizer)
                scaler.update()
        seen.append([param.detach().clone() for param in model.parameters()])
    return seen


def plain_run(config: Any) -> tuple[nn.Module, Any, list[list[Tensor]], Counting | None]:
    """A run's model, optimizer, batches and rates in the loop by hand: (model, optimizer, weights, scaler)."""
    parts, _ = build(config)
    model, schedule = parts.oracle.model, _schedule(config)
    optimizer = catalogue.load("optimizers", config.optimizer.name).build(model, **config.optimizer.hyper)
    scaling = parts.oracle._precision if config.precision.name == "fp16" else None
    scaler = None
    if isinstance(scaling, Fp16):
        interval = scaling.growth_interval
        scaler = Counting("cpu", init_scale=scaling.init_scale, growth_interval=interval)
    batches = [parts.source.next() for _ in range(UPDATES)]
    factors = [schedule(Progress(update, update / UPDATES)) for update in range(UPDATES)]
    return model, optimizer, by_hand(optimizer, model, batches, factors, config.precision.name, scaler), scaler


def _schedule(config: Any) -> Any:
    return catalogue.load("schedules", config.schedule.name).build(**config.schedule.hyper)


def stored(home: Home, finished: Any) -> dict[str, Tensor]:
    return load_file(home.folder(finished.record.run_id).path / "model.safetensors")


def saved(home: Home, finished: Any) -> dict[str, Any]:
    """The run's checkpoint."""
    path = home.folder(finished.record.run_id).checkpoints / "last.pt"
    state: dict[str, Any] = torch.load(path, weights_only=True)
    return state


def series(home: Home, finished: Any, metric: str) -> dict[int, float]:
    (line,) = home.series([finished.record.run_id], [metric])
    return dict(zip(line.updates, line.values, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
@pytest.mark.parametrize("name", NAMES)
def test_a_run_is_the_plain_torch_loop_bit_for_bit(name: str, precision: str, tmp_path: Path) -> None:
    """Same optimizer, batches and rates; in fp16 beside torch's own GradScaler. The checkpoint has the weights that are
    trained, the finished model those that are evaluated."""
    scaled = UNSKIPPED if name in CURVED else SCALED
    config = resolve({**SMALL, "optimizer": name, "precision": scaled if precision == "fp16" else precision})
    home = Home(tmp_path)
    if precision == "fp16" and name not in OPEN:
        with pytest.raises(InputError, match="asks for several gradients in one update, and fp16's scaling may make"):
            train(config, home=home)
        return
    run = train(config, home=home)
    assert run.record.status == "completed", run.record.traceback
    with torch.random.fork_rng():
        model, optimizer, seen, scaler = plain_run(config)
    checkpoint = saved(home, run)
    for key, weight in model.state_dict().items():
        assert torch.equal(checkpoint["model"][key], weight), key
    with optimizer.evaluating() if getattr(optimizer, "has_evaluation_weights", False) else nullcontext():
        kept = stored(home, run)
        assert all(torch.equal(kept[key], weight) for key, weight in model.state_dict().items())
    assert any(not torch.equal(one, other) for one, other in zip(seen[0], seen[-1], strict=True)), "it trains"
    assert series(home, run, "count/updates")[UPDATES] == UPDATES, "whatever its groups"
    if scaler is not None:
        skipped = series(home, run, "count/skipped")[UPDATES]
        assert (skipped, checkpoint["oracle"]["scaling"]["scale"]) == (scaler.skipped, scaler.get_scale())
        assert skipped in ((0,) if name in CURVED else (1, 2, 3))


@pytest.mark.parametrize("task", ["digits", "digits_graph", "python_docs"])
@pytest.mark.parametrize("name", CURVED)
def test_curvature_is_found_in_every_task(name: str, task: str, tmp_path: Path) -> None:
    """Through perceptrons, graph convolutions and attention."""
    config = resolve({"task": task, "optimizer": name, "budget": {"updates": 3}, "device": "cpu", "select": "last"})
    home = Home(tmp_path)
    run = train(config, home=home)
    assert run.record.status == "completed", run.record.traceback
    with torch.random.fork_rng():
        start = build(config)[0].oracle.model.state_dict()
    assert not all(torch.equal(start[key], weight) for key, weight in stored(home, run).items())


# In memory: whole batches, clipping, skipping, resuming


def network(dtype: torch.dtype) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 3)).to(
        dtype
    )


def batches(count: int, dtype: torch.dtype) -> list[Batch]:
    """Of eleven examples: three micro-batches of four, four and three."""
    generator = torch.Generator().manual_seed(1)
    drawn = [torch.randn(11, 6, dtype=torch.float64, generator=generator) for _ in range(count)]
    return [Batch((x.to(dtype),), torch.randint(0, 3, (11,), generator=generator)) for x in drawn]


def oracle_for(model: nn.Module, accumulate: int, precision: Any = None) -> TaskOracle:
    loss = catalogue.load("losses", "cross_entropy").build()
    precision = precision or catalogue.load("precision", "fp32").build()
    return TaskOracle(model, loss, precision, accumulate=accumulate, device=torch.device("cpu"))


def optimizer_for(name: str, model: nn.Module) -> Any:
    hyper = {"max_iter": 3} if name == "lbfgs" else {}
    return catalogue.load("optimizers", name).build(model, **hyper)


def trained(
    name: str, dtype: torch.dtype, accumulate: int, components: Sequence[Component] = (), *, updates: int = 5
) -> Tensor:  # fmt: skip
    """The weights after some updates, with probes of one seed."""
    model = network(dtype)
    oracle, algorithm = oracle_for(model, accumulate), GradientDescent(optimizer_for(name, model), components)
    torch.manual_seed(2)
    for update, batch in enumerate(batches(updates, dtype)):
        algorithm.step(oracle, batch, Progress(update, update / 5))
    assert oracle.updates == updates
    return flat(model)


def flat(model: nn.Module) -> Tensor:
    return torch.cat([param.detach().flatten() for param in model.parameters()])


@pytest.mark.parametrize(
    ("name", "dtype", "bound"),
    [
        *((name, torch.float64, 1e-11) for name in NAMES),
        *((name, torch.float32, 1e-5) for name in NAMES if name not in AMPLIFYING),
    ],
)
def test_an_uneven_accumulated_batch_is_the_batch_in_one_piece(name: str, dtype: torch.dtype, bound: float) -> None:
    """A line search of L-BFGS is compared over one update. SOAP's bases are compared in float64 alone: of eleven
    examples most of their directions are anybody's, and in float32 a change of 1e-7 in one batch moves the weights by a
    fifth of what training does."""
    updates = 1 if name == "lbfgs" else 5
    whole = trained(name, dtype, 1, updates=updates)
    assert (trained(name, dtype, 3, updates=updates) - whole).abs().max() < bound
    assert not torch.equal(whole, flat(network(dtype)))


@pytest.mark.parametrize("name", OPEN)
def test_clipping_is_of_the_whole_accumulated_gradient(name: str) -> None:
    """By hand: the gradient of the batch in one piece, torch's clip_grad_norm_, a step. A clip of each micro-batch
    would end elsewhere."""
    found = trained(name, torch.float64, 3, [Clipping(norm=0.05)])
    model = network(torch.float64)
    optimizer = optimizer_for(name, model)
    torch.manual_seed(2)
    for batch in batches(5, torch.float64):
        optimizer.zero_grad()
        F.cross_entropy(model(*batch.inputs), batch.targets).backward()
        assert torch.nn.utils.clip_grad_norm_(model.parameters(), 0.05) > 0.05
        if getattr(optimizer, "wants_curvature", False):
            observe(optimizer, model, batch, "fp32", 1.0)
        optimizer.step()
    assert (found - flat(model)).abs().max() < 1e-11


@pytest.mark.parametrize("name", OPEN)
def test_an_update_that_is_not_finite_is_counted_and_touches_nothing(name: str) -> None:
    """Between two that are finite; the second of them goes on as if there had been none between."""
    ended, data = [], batches(4, torch.float32)
    broken = Batch((data[2].inputs[0] * torch.inf,), data[2].targets)
    for between in ([], [broken]):
        model = network(torch.float32)
        oracle = oracle_for(model, 3, Fp16(init_scale=16.0))
        algorithm = GradientDescent(optimizer_for(name, model), [Clipping(norm=1.0)])
        torch.manual_seed(2)
        for batch in data[:2]:
            algorithm.step(oracle, batch, Progress(0, 0.0))
        before, state = flat(model), copy.deepcopy(algorithm.optimizer.state_dict())
        for batch in between:
            algorithm.step(oracle, batch, Progress(0, 0.0))
            assert torch.equal(flat(model), before)
            assert equal(algorithm.optimizer.state_dict(), state)
            assert (oracle.updates, oracle.skipped, oracle.scale) == (3, 1, 8.0)
        torch.manual_seed(3)
        algorithm.step(oracle, data[3], Progress(0, 0.0))
        assert oracle.updates == 3 + len(between)
        ended.append(flat(model))
        assert not torch.equal(ended[-1], before)
    assert (ended[0] - ended[1]).abs().max() < 2e-3, "but for the scale, which rounds float16 elsewhere"


def equal(one: Any, other: Any) -> bool:
    if isinstance(one, Tensor):
        return torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(equal(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(equal, one, other))
    return bool(one == other)


@pytest.mark.parametrize("name", OPEN)
def test_it_goes_on_bit_for_bit_from_a_state_in_fp16_with_accumulation_and_clipping(name: str) -> None:
    """Saved in the midst of skips (scale 2^20), loaded with weights_only=True."""

    def made() -> tuple[nn.Module, TaskOracle, GradientDescent]:
        model = network(torch.float32)
        oracle = oracle_for(model, 3, Fp16(init_scale=2.0**20, growth_interval=2))
        return model, oracle, GradientDescent(optimizer_for(name, model), [Clipping(norm=0.1)])

    def step(algorithm: GradientDescent, oracle: TaskOracle, update: int) -> None:
        torch.manual_seed(update)
        algorithm.step(oracle, data[update], Progress(update, update / 10))

    data = batches(10, torch.float32)
    model, oracle, algorithm = made()
    file = io.BytesIO()
    for update in range(10):
        if update == 5:
            torch.save([model.state_dict(), oracle.state_dict(), algorithm.state_dict()], file)
        step(algorithm, oracle, update)
    assert oracle.skipped is not None
    assert 0 < oracle.skipped < 8
    file.seek(0)
    weights, scaling, state = torch.load(file, weights_only=True)
    again, other, resumed = made()
    again.load_state_dict(weights)
    other.load_state_dict(scaling)
    resumed.load_state_dict(state)
    for update in range(5, 10):
        step(resumed, other, update)
    assert torch.equal(flat(again), flat(model))
    assert equal(resumed.optimizer.state_dict(), algorithm.optimizer.state_dict())
    assert (other.scale, other.skipped) == (oracle.scale, oracle.skipped)


# Counting


def test_a_composite_counts_one_update(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Muon's matrices and its fallback's two groups are one optimizer: in the store and in Lightning's own count."""
    made: list[pl.Trainer] = []

    class Kept(pl.Trainer):
        def __init__(self, *given: Any, **words: Any):
            super().__init__(*given, **words)
            made.append(self)

    monkeypatch.setattr(trainer.pl, "Trainer", Kept)
    home = Home(tmp_path)
    config = resolve({**SMALL, "optimizer": "muon", "accumulate": 3, "wrappers": ["clipping"]})
    groups = build(config)[0].algorithm.optimizer.param_groups  # type: ignore[attr-defined]
    assert {group.get("rule", "") for group in groups} == {"", "fallback"}
    run = train(config, home=home)
    assert series(home, run, "count/updates")[UPDATES] == UPDATES
    assert series(home, run, "count/gradients")[UPDATES] == UPDATES
    assert made[0].global_step == UPDATES
    assert len(made[0].optimizers) == 1


# Evaluation weights

#: By hand, of the trained weights after each update (index 0: before the first).
AVERAGES: dict[str, tuple[dict[str, Any], Any]] = {
    "ema": ({"decay": 0.7, "warmup": False}, lambda w, n: _ema(w[: n + 1], 0.7)),
    "swa": ({"start": 0.3, "every": 2}, lambda w, n: _mean(w[4 : n + 1 : 2]) if n >= 4 else w[n]),
    "lawa": ({"k": 2, "every": 2}, lambda w, n: _mean(w[2 : n + 1 : 2][-2:]) if n >= 2 else w[n]),
}


def _mean(weights: Sequence[Tensor]) -> Tensor:
    return torch.stack(list(weights)).mean(0)


def _ema(weights: Sequence[Tensor], decay: float) -> Tensor:
    average = weights[0]
    for each in weights[1:]:
        average = decay * average + (1 - decay) * each
    return average


def validation_loss(config: Any, weights: Tensor) -> float:
    """Of the whole split, at these weights."""
    parts, data = build(config)
    torch.nn.utils.vector_to_parameters(weights.clone(), parts.oracle.model.parameters())
    found = [(each, each.targets.numel()) for each in data.evaluation("validation", parts.device)]
    parts.oracle.model.eval()
    with torch.no_grad():
        sums = [F.cross_entropy(parts.oracle.model(*each.inputs), each.targets) * count for each, count in found]
    return float(sum(sums)) / sum(count for _, count in found)


@pytest.mark.parametrize("wrapper", AVERAGES)
def test_averages_are_evaluated_and_kept_and_the_trained_weights_checkpointed(wrapper: str, tmp_path: Path) -> None:
    hyper, expected = AVERAGES[wrapper]
    config = resolve({**SMALL, "evaluate_every": 1, "wrappers": [{"name": wrapper, **hyper}]})
    home = Home(tmp_path)
    run = train(config, home=home)
    start = flat(build(config)[0].oracle.model)
    model, _, seen, _ = plain_run(config)
    weights = [start, *[torch.cat([each.flatten() for each in update]) for update in seen]]
    losses = series(home, run, "val/loss")
    for update in range(UPDATES + 1):
        assert losses[update] == pytest.approx(validation_loss(config, expected(weights, update)), rel=1e-5)
    assert losses[UPDATES] != pytest.approx(validation_loss(config, weights[-1]), rel=1e-4)
    kept, state = stored(home, run), saved(home, run)["model"]
    names = [key for key, _ in model.named_parameters()]
    averaged = torch.cat([kept[key].flatten() for key in names])
    torch.testing.assert_close(averaged, expected(weights, UPDATES), rtol=1e-5, atol=1e-7)
    assert torch.equal(torch.cat([state[key].flatten() for key in names]), weights[-1])


def test_lookahead_evaluates_its_slow_weights_and_checkpoints_the_fast_ones(tmp_path: Path) -> None:
    lookahead = {"name": "lookahead", "k": 3, "alpha": 0.5}
    config = resolve({**SMALL, "optimizer": "sgd", "evaluate_every": 1, "wrappers": [lookahead]})
    home = Home(tmp_path)
    run = train(config, home=home)
    parts, _ = build(config)
    model, schedule = parts.oracle.model, _schedule(config)
    optimizer = catalogue.load("optimizers", "sgd").build(model, **config.optimizer.hyper)
    slow, slows, rates = flat(model), [flat(model)], [group["lr"] for group in optimizer.param_groups]
    for update in range(UPDATES):
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            group["lr"] = rate
        by_hand(optimizer, model, [parts.source.next()], [schedule(Progress(update, update / UPDATES))])
        if (update + 1) % 3 == 0:
            slow = slow + 0.5 * (flat(model) - slow)
            torch.nn.utils.vector_to_parameters(slow.clone(), model.parameters())
        slows.append(slow)
    losses = series(home, run, "val/loss")
    for update, weights in enumerate(slows):
        assert losses[update] == pytest.approx(validation_loss(config, weights), rel=1e-5)
    kept, state = stored(home, run), saved(home, run)["model"]
    for key, weight in model.named_parameters():
        torch.testing.assert_close(state[key], weight.detach(), rtol=1e-5, atol=1e-7)
        assert not torch.equal(kept[key], state[key])
    names = [key for key, _ in model.named_parameters()]
    torch.testing.assert_close(torch.cat([kept[key].flatten() for key in names]), slow, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("name", ["schedule_free_adamw", "schedule_free_sgd"])
def test_schedule_free_is_evaluated_at_its_average(name: str, tmp_path: Path) -> None:
    """Every val/loss is that of the weights that the plain loop's optimizer evaluates at."""
    config = resolve({**SMALL, "optimizer": name, "schedule": "constant", "evaluate_every": 1})
    home = Home(tmp_path)
    losses = series(home, train(config, home=home), "val/loss")
    parts, _ = build(config)
    optimizer = catalogue.load("optimizers", name).build(parts.oracle.model, **config.optimizer.hyper)
    for update in range(1, UPDATES + 1):
        by_hand(optimizer, parts.oracle.model, [parts.source.next()], [1.0])
        elsewhere = validation_loss(config, flat(parts.oracle.model))
        with optimizer.evaluating():
            expected = validation_loss(config, flat(parts.oracle.model))
        assert losses[update] == pytest.approx(expected, rel=1e-6)
        assert update == 1 or losses[update] != pytest.approx(elsewhere, rel=1e-6)


# Refused


@pytest.mark.parametrize("wrapper", ["clipping", "adaptive_clipping", "centralisation", "sam", "asam"])
def test_a_line_search_over_changed_gradients_is_refused(wrapper: str) -> None:
    with pytest.raises(InputError, match="changes the gradient, and LBFGS asks its closure for several") as caught:
        build(resolve({**SMALL, "optimizer": "lbfgs", "wrappers": [wrapper]}))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("wrapper", ["cautious", "galore", "eight_bit_state"])
def test_what_l_bfgs_does_not_show_cannot_be_changed(wrapper: str) -> None:
    with pytest.raises(InputError, match=r"LBFGS (does not show them|has none to change)") as caught:
        build(resolve({**SMALL, "optimizer": "lbfgs", "wrappers": [wrapper]}))
    assert "\n" not in str(caught.value)
