"""From a space to Optuna and back: labels for options of any kind, and no parameter that does not hold."""

from __future__ import annotations

from typing import Any

import optuna
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.scalars import parse_value
from experiments.tuning import suggesting
from experiments.tuning.ranges import Options, Range, parse_dimension
from experiments.tuning.spaces import Axis, Given, Space

ANY = (None, "none", "a,b", 1, 0.5, True, (0.9, 0.95), {"name": "sam", "rho": 0.05}, ("x", None), "", "1e-4", 'say "x"')

scalars = st.none() | st.booleans() | st.integers(-(10**6), 10**6) | st.floats(allow_nan=False) | st.text(max_size=12)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3).map(tuple) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@settings(deadline=None)
@given(st.lists(values, min_size=2, max_size=6))
def test_labels_round_trip(found: list[Any]) -> None:
    """Each is read back as the value that it stands for; all together as the options that they are."""
    distinct: list[Any] = []
    for value in found:
        if Options(tuple(distinct)).find(value) is None:
            distinct.append(value)
    options = Options(tuple(distinct))
    assert len(set(options.labels)) == len(distinct)
    for of, value in zip(options.labels, options.values):
        assert options.value(of) == value
        assert options.find(value) == of
        assert Options((parse_value(of),)).labels == (of,)
    if len(distinct) > 1:
        read = parse_dimension(str(options))
        assert isinstance(read, Options)
        assert read.labels == options.labels


def test_labels_are_what_a_command_line_has() -> None:
    assert Options(ANY).labels == (
        "none", '"none"', '"a,b"', "1", "0.5", "true", "0.9/0.95", '{"name": "sam", "rho": 0.05}', '["x", null]', "",
        '"1e-4"', '"say \\"x\\""',
    )  # fmt: skip
    one, other = {"rho": 0.05, "name": "sam"}, {"name": "sam", "rho": 0.05}
    assert Options((one,)).labels == Options((other,)).labels


def test_optuna_sees_labels_and_the_run_the_value() -> None:
    space = Space((Axis("x", Options(ANY)),))
    for value in ANY:
        params = {"x": value}
        number, distribution = suggesting.stored(space, params)["x"]
        assert isinstance(distribution, optuna.distributions.CategoricalDistribution)
        assert all(isinstance(choice, str) for choice in distribution.choices)
        label = distribution.to_external_repr(number)
        assert suggesting.internal(space, params) == {"x": label}
        assert suggesting.external(space, {"x": label}) == params
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=1))
    trial = study.ask()
    found = suggesting.suggested(trial, space)
    assert any(found["x"] is value or found["x"] == value for value in ANY)
    assert isinstance(study.trials[0].params["x"], str)


def test_what_does_not_hold_is_no_parameter() -> None:
    muon = Given("optimizer", ("muon",))
    space = Space(
        (
            Axis("optimizer", Options(("adamw", "muon"))),
            Axis("lr", Range(1e-4, 1e-1, log=True), given=Given("optimizer", ("adamw",))),
            Axis("lr", Range(0.01, 1.0), given=muon),
            Axis("steps", Range(3, 7, whole=True), given=muon),
        )
    )
    adamw, other = {"optimizer": "adamw", "lr": 0.01}, {"optimizer": "muon", "lr": 0.5, "steps": 5}
    assert set(suggesting.distributions(space, adamw)) == {"optimizer", "lr when optimizer=adamw"}
    kinds = suggesting.distributions(space, other)
    assert kinds["lr when optimizer=muon"] == optuna.distributions.FloatDistribution(0.01, 1.0)
    assert kinds["steps"] == optuna.distributions.IntDistribution(3, 7)
    for params in (adamw, other):
        assert suggesting.external(space, suggesting.internal(space, params)) == params
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=1))
    for _ in range(30):
        trial = study.ask()
        params = suggesting.suggested(trial, space)
        assert set(params) == ({"optimizer", "lr"} | ({"steps"} if params["optimizer"] == "muon" else set()))
        assert suggesting.external(space, trial.params) == params
        study.tell(trial, params["lr"])


def test_a_trials_seed_is_its_own_for_ever() -> None:
    """sha256 of "1\\x1fs/digits/a\\x1f0", its first four bytes."""
    import hashlib

    expected = int(hashlib.sha256(b"1\x1fs/digits/a\x1f0").hexdigest()[:8], 16)
    assert suggesting.seed_of(1, "s/digits/a", 0) == expected
    seeds = {suggesting.seed_of(seed, name, n) for seed in (1, 2) for name in ("a", "b") for n in range(9)}
    assert len(seeds) == 36
