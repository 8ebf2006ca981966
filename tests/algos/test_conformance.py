"""Every optimizer of the catalogue passes every check of the battery, as docs/support.md says it does."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from algos import catalogue, conformance
from algos.compiled import compiler_missing
from algos.optimizers.sgd import SGD
from tests.algos import tables

#: What takes seconds for every entry.
SLOW = {
    "converges_on_a_quadratic", "converges_on_rosenbrock", "state_moves_between_forms", "members_equal_lone_runs",
    "every_hyperparameter_matters",
}  # fmt: skip
CHECKS = [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in conformance.CHECKS]
#: What the compiled form, which takes a minute to make, is held to.
COMPILED = (
    "forms_agree",
    "state_survives_saving",
    "missing_gradients_are_skipped",
    "hyperparameters_change_between_steps",
)


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("name", tables.names())
def test_optimizer_conforms(name: str, check: str) -> None:
    result = conformance.run(check, catalogue.load("optimizers", name))
    assert result.passed, result.detail
    stored = tables.stored_support().get(name, {}).get(check, result.status)  # what it lacks is the next test's matter
    assert stored == result.status, f"docs/support.md says '{stored}'; run `make tables`"


def test_the_support_matrix_has_every_optimizer_and_every_fact() -> None:
    stored = tables.stored_support()
    assert sorted(stored) == sorted(tables.names()), "run `make tables`"
    assert all(list(facts) == list(conformance.CHECKS) for facts in stored.values()), "run `make tables`"
    assert "failed" not in {status for facts in stored.values() for status in facts.values()}


def test_the_support_page_can_be_read_back() -> None:
    """What is written is what is read, and the reasons come first."""
    found = {
        name: [
            conformance.Result(check, "not applicable" if name == "lbfgs" else "passed") for check in conformance.CHECKS
        ]
        for name in ("adamw", "lbfgs", "sgd")
    }
    page = tables.support_page(found)
    read = tables.read_support(page)
    assert read == {name: {each.check: each.status for each in results} for name, results in found.items()}
    places = [page.index(title) for title in ("## What is refused, and what is not asked", "## Facts", "## Grid")]
    assert places == sorted(places)


@pytest.mark.slow
@pytest.mark.skipif(compiler_missing("cpu") != "", reason="there is no compiler")
@pytest.mark.parametrize("check", COMPILED)
@pytest.mark.parametrize("name", ["adamw", "muon", "prodigy", "soap", "sophia"])
def test_the_compiled_form_conforms(name: str, check: str) -> None:
    """One entry of each kind: elementwise, of matrices, looking across tensors, in phases, with curvature."""
    about = replace(conformance.subject(catalogue.load("optimizers", name)), compiled=True)
    result = conformance.run(check, about)
    assert result.passed, result.detail


def test_every_allowed_refusal_names_a_check_and_somebody() -> None:
    for refusal in conformance.ALLOWED:
        assert refusal.check in conformance.CHECKS
        assert refusal.who in ("*", "closure", "plain", *tables.names())


def test_what_is_asked_of_per_tensor_mathematics_only() -> None:
    """A plain optimizer answers exactly these with "not applicable" for that reason."""
    plain = conformance.subject(torch.optim.SGD)
    slow_or_not = [name for name in conformance.CHECKS if not name.startswith("converges")]
    found = {name for name in slow_or_not if "not per-tensor mathematics" in conformance.run(name, plain).detail}
    assert found == conformance.OURS_ONLY


@pytest.mark.parametrize("theirs", [torch.optim.SGD, torch.optim.RMSprop, torch.optim.AdamW])
def test_torch_s_own_pass(theirs: type[torch.optim.Optimizer]) -> None:
    checks = [name for name in conformance.CHECKS if name not in SLOW]
    assert [result for result in conformance.battery(theirs, checks) if not result.passed] == []


def test_torch_s_lbfgs_is_stepped_by_closures() -> None:
    """It converges; what torch's issues say of it is found: copies lose its parameters, scalers refuse it."""
    about = conformance.subject(torch.optim.LBFGS)
    assert conformance.run("converges_on_rosenbrock", about).status == "passed"
    assert conformance.run("an_fp16_scaler_skips_what_is_not_finite", about).status == "refused"
    assert "_params" in conformance.run("copies_go_on", about).detail


def test_torch_s_muon_is_checked_on_matrices() -> None:
    about = conformance.subject(torch.optim.Muon)
    assert {len(shape) for shape in about.shapes} == {2}
    assert conformance.run("forms_agree", about).status == "not applicable"
    assert conformance.run("every_rank_is_trained", about).status == "refused"
    assert conformance.run("missing_gradients_are_skipped", about).status == "passed"


def test_torch_s_adafactor_reads_the_device() -> None:
    """It asks for norms as Python numbers."""
    assert conformance.run("the_host_never_waits", torch.optim.Adafactor).status == "failed"


def test_what_is_no_optimizer_is_refused_in_one_line() -> None:
    for wrong in (torch.nn.Linear, SGD([torch.nn.Parameter(torch.ones(2))]), 3):
        with pytest.raises(ValueError, match="no optimizer's class"):
            conformance.battery(wrong)  # type: ignore[arg-type]


def test_an_argument_without_a_default_must_be_given() -> None:
    class Needs(torch.optim.SGD):
        def __init__(self, params: object, lr: float, inertia: float):
            super().__init__(params, lr=lr, momentum=inertia)  # type: ignore[arg-type]

    with pytest.raises(ValueError, match=r"Needs cannot be built without inertia; give check\(Needs, inertia=...\)"):
        conformance.battery(Needs)
    (result,) = conformance.battery(Needs, ["gradients_are_left_alone"], inertia=0.9)
    assert result.passed
