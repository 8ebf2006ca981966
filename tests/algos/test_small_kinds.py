"""What every schedule, loss, precision, wrapper and compression must do, over the whole catalogue."""

from __future__ import annotations

import io
import math
from typing import Any

import pytest
import torch
from torch import nn

from algos import catalogue
from algos.contracts import Component, Progress
from algos.gradient_descent import GradientDescent
from algos.losses.cross_entropy import CrossEntropy

SMALL = ("schedules", "losses", "precision", "wrappers", "compression")
ENTRIES = [(kind, name) for kind in SMALL for name in catalogue.paths(kind)]
COMPONENTS = [(kind, name) for kind, name in ENTRIES if kind in ("wrappers", "compression")]
UPDATES = 24

#: A value that must change the result, for each hyperparameter; and what else must be set for it to matter.
PERTURBED: dict[str, dict[str, tuple[Any, dict[str, Any]]]] = {
    "warmup_cosine": {"warmup": (0.3, {}), "initial": (0.5, {}), "final": (0.1, {})},
    "warmup_stable_decay": {
        "warmup": (0.3, {}),
        "decay": (0.5, {}),
        "shape": ("linear", {}),
        "initial": (0.5, {}),
        "final": (0.1, {}),
    },
    "linear": {"initial": (0.5, {}), "final": (0.1, {})},
    "cosine": {"final": (0.1, {})},
    "polynomial": {"power": (2.0, {}), "final": (0.1, {})},
    "inverse_sqrt": {"warmup": (0.3, {}), "initial": (0.5, {})},
    "one_cycle": {
        "pct_start": (0.2, {}),
        "div_factor": (5.0, {}),
        "final_div_factor": (2.0, {}),
        "anneal_strategy": ("linear", {}),
        "three_phase": (True, {}),
    },
    "cyclic": {
        "cycles": (3, {}),
        "base": (0.5, {}),
        "up": (0.3, {}),
        "mode": ("triangular2", {}),
        "gamma": (0.5, {"mode": "exp_range"}),
    },
    "cross_entropy": {"label_smoothing": (0.1, {}), "ignore_index": (1, {})},
    "focal": {"gamma": (1.0, {}), "alpha": (0.3, {}), "ignore_index": (1, {})},
    "sam": {"rho": (0.2, {})},
    "asam": {"rho": (0.2, {}), "eta": (0.5, {})},
    "lookahead": {"k": (3, {}), "alpha": (0.4, {})},
    "swa": {"start": (0.3, {}), "every": (3, {}), "statistics": ("averaged", {})},
    "lawa": {"k": (3, {}), "every": (3, {})},
    "galore": {"rank": (3, {}), "every": (3, {}), "scale": (0.5, {}), "everywhere": (True, {})},
    "eight_bit_state": {"block": (16, {}), "smallest": (20, {})},
    "bf16_weights": {"rounding": ("nearest", {})},
    "adaptive_clipping": {"clip": (0.001, {}), "eps": (1.0, {}), "head": (True, {})},
    "centralisation": {"convolutions_only": (True, {})},
    "clipping": {"norm": (0.05, {}), "value": (0.01, {})},
    "cautious": {"xi": (5.0, {})},
    "ema": {"decay": (0.5, {"warmup": False}), "warmup": (False, {})},
    "fp16": {
        "init_scale": (1024.0, {}),
        "growth_factor": (4.0, {}),
        "backoff_factor": (0.25, {}),
        "growth_interval": (3, {}),
    },
    "magnitude_pruning": {
        "sparsity": (0.5, {}),
        "initial": (0.4, {}),
        "begin": (0.5, {}),
        "end": (1.0, {}),
        "every": (3, {}),
        "scope": ("layer", {}),
    },
}
#: Small problems are short: marks are made more often than by default.
GIVEN: dict[str, dict[str, Any]] = {
    "magnitude_pruning": {"every": 2},
    "galore": {"rank": 2, "every": 5},
    "eight_bit_state": {"smallest": 4},
    "swa": {"start": 0.25, "every": 4},
    "lawa": {"k": 2, "every": 5},
}
#: What only the loop acts on: tested there.
LOOPS: dict[str, set[str]] = {
    "swa": {"statistics"},
    "bf16_weights": {"rounding"},
    "fp16": {"init_scale", "growth_factor", "backoff_factor", "growth_interval"},
}


@pytest.mark.parametrize(("kind", "name"), ENTRIES)
def test_it_says_what_it_is_without_being_imported(kind, name):
    entry = catalogue.describe(kind, name)
    assert entry.cite.startswith("@"), "a BibTeX entry"
    assert entry.cite.count("{") == entry.cite.count("}")
    assert "year = {" in entry.cite
    assert entry.builds == "".join(part.capitalize() for part in name.split("_"))
    assert entry.title.endswith(".")
    assert catalogue.load(kind, name).build().__class__.__doc__


@pytest.mark.parametrize(("kind", "name"), ENTRIES)
def test_each_hyperparameter_has_a_value_that_must_matter(kind, name):
    assert set(catalogue.describe(kind, name).hyper) == set(PERTURBED.get(name, {}))


@pytest.mark.parametrize("name", catalogue.paths("schedules"))
def test_a_schedule_is_a_pure_function_finite_and_not_negative(name):
    schedule = catalogue.load("schedules", name).build()
    fractions = [i / 997 for i in range(998)] + [1.5]
    factors = [schedule(Progress(0, fraction)) for fraction in fractions]
    assert all(isinstance(factor, float) and math.isfinite(factor) and 0 <= factor <= 1 for factor in factors)
    assert factors[0] > 0
    assert factors == [schedule(Progress(5, fraction)) for fraction in fractions]
    assert schedule(Progress(0, 1.0)) == schedule(Progress(0, 1.5))


@pytest.mark.parametrize("name", catalogue.paths("losses"))
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_a_loss_gives_a_mean_and_its_weight(name, dtype):
    loss = catalogue.load("losses", name).build()
    predictions = torch.randn(2, 6, 5, dtype=dtype, generator=torch.Generator().manual_seed(0)).requires_grad_()
    targets = torch.randint(5, (2, 6), generator=torch.Generator().manual_seed(1))
    mean, weight = loss(predictions, targets)
    mean.backward()
    assert mean.shape == ()
    assert mean.dtype == (torch.float32 if dtype == torch.bfloat16 else dtype)
    assert float(weight) == 12
    assert predictions.grad.dtype == dtype
    assert torch.isfinite(predictions.grad).all()
    halves = [loss(p, t) for p, t in zip(predictions.detach().split(1), targets.split(1), strict=True)]
    torch.testing.assert_close(sum(m * w for m, w in halves) / 12, mean.detach())


@pytest.mark.parametrize("name", catalogue.paths("precision"))
def test_a_precision_leaves_weights_and_gradients_as_they_are(name):
    model = network()
    with catalogue.load("precision", name).build().autocast("cpu"):
        mean, _ = CrossEntropy()(model(batch_of(0)[0]), batch_of(0)[1])
    mean.backward()
    assert {weight.dtype for weight in model.parameters()} == {torch.float32}
    assert {weight.grad.dtype for weight in model.parameters()} == {torch.float32}


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 4))


def batch_of(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(16, 6, generator=generator), torch.randint(4, (16,), generator=generator)


class Training:
    """A component around SGD with momentum whose directions can be seen."""

    def __init__(self, oracle_class: Any, component: Component, parts: int = 1):
        model = network()
        component.prepare(model)
        optimizer = catalogue.load("optimizers", "sgd").build(model, lr=0.1, momentum=0.9, form="stacked")
        self.oracle = oracle_class(model, CrossEntropy(), parts=parts)
        self.algorithm = GradientDescent(optimizer, [component])

    def run(self, start: int = 0, stop: int = UPDATES) -> Training:
        for update in range(start, stop):
            self.algorithm.step(self.oracle, batch_of(update), Progress(update, update / UPDATES))
        return self

    def evaluated(self) -> dict[str, torch.Tensor]:
        with self.algorithm.evaluating(self.oracle):
            return {name: tensor.clone() for name, tensor in self.oracle.model.state_dict().items()}

    def state_dict(self) -> dict[str, Any]:
        return {"model": self.oracle.model.state_dict(), "algorithm": self.algorithm.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.oracle.model.load_state_dict(state["model"])
        self.algorithm.load_state_dict(state["algorithm"])


def built(kind: str, name: str, **hyper: Any) -> Any:
    return catalogue.load(kind, name).build(**{**GIVEN.get(name, {}), **hyper})


def same(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> bool:
    return all(torch.equal(tensor, second[name]) for name, tensor in first.items())


@pytest.mark.parametrize(("kind", "name"), COMPONENTS)
@pytest.mark.parametrize("stop", [1, 7, 16, 23])
@pytest.mark.parametrize("parts", [1, 3])
def test_a_component_resumes_bit_for_bit_from_a_safe_checkpoint(kind, name, stop, parts, plain_oracle):
    whole = Training(plain_oracle, built(kind, name), parts).run()
    stored = io.BytesIO()
    torch.save(Training(plain_oracle, built(kind, name), parts).run(0, stop).state_dict(), stored)
    stored.seek(0)
    resumed = Training(plain_oracle, built(kind, name), parts)
    resumed.load_state_dict(torch.load(stored, weights_only=True))
    resumed.run(stop)
    assert not same(network().state_dict(), whole.evaluated()), "nothing was trained"
    assert same(whole.evaluated(), resumed.evaluated())
    assert same(whole.oracle.model.state_dict(), resumed.oracle.model.state_dict())


@pytest.mark.parametrize(("kind", "name"), COMPONENTS)
def test_evaluating_leaves_no_trace_on_training(kind, name, plain_oracle):
    watched = Training(plain_oracle, built(kind, name))
    for update in range(UPDATES):
        watched.run(update, update + 1).evaluated()
    assert same(
        watched.oracle.model.state_dict(), Training(plain_oracle, built(kind, name)).run().oracle.model.state_dict()
    )


@pytest.mark.parametrize(("kind", "name"), COMPONENTS)
def test_finalize_leaves_the_weights_that_are_evaluated(kind, name, plain_oracle):
    training = Training(plain_oracle, built(kind, name)).run()
    evaluated = training.evaluated()
    component = training.algorithm.components[0]
    with training.algorithm.evaluating(training.oracle):
        component.finalize(training.oracle.model)
    assert same(evaluated, training.oracle.model.state_dict())


@pytest.mark.parametrize(
    ("kind", "name", "hyper"),
    [
        (kind, name, hyper)
        for kind, name in ENTRIES
        for hyper in PERTURBED.get(name, {})
        if hyper not in LOOPS.get(name, ())
    ],
)
def test_each_hyperparameter_changes_the_result(kind, name, hyper, plain_oracle):
    value, others = PERTURBED[name][hyper]
    plain, perturbed = built(kind, name, **others), built(kind, name, **others, **{hyper: value})
    if kind == "schedules":
        fractions = [i / 100 for i in range(101)]
        assert [plain(Progress(0, f)) for f in fractions] != [perturbed(Progress(0, f)) for f in fractions]
    elif kind == "losses":
        predictions, targets = torch.randn(16, 4, generator=torch.Generator().manual_seed(0)), batch_of(0)[1]
        assert plain(predictions, targets)[0] != perturbed(predictions, targets)[0]
    else:
        first, second = (Training(plain_oracle, each).run().evaluated() for each in (plain, perturbed))
        assert not same(first, second)
