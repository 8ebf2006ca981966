"""What every optimizer must do, one fact a function.

A check takes the Spec of a per-tensor optimizer, returns nothing, and raises AssertionError where its fact does not
hold; name and docstring say which fact. `conformance` runs them.
"""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from algos import observe
from algos.finding import InputError
from algos.forms import Form
from algos.noisy_quadratic import Tensors, difference, give_gradient, rate, same, train, weights
from algos.per_tensor import PerTensorOptimizer
from algos.spec import Hyper, Spec


def _forms(spec: Spec) -> list[Form]:
    native = spec.build.native is not PerTensorOptimizer.native  # type: ignore[attr-defined]
    return ["loop", "stacked", *(["torch"] if native else [])]  # type: ignore[list-item]


def _started(spec: Spec, form: str, steps: int = 10, dtype: torch.dtype = torch.float64, **hyper: Any) -> Any:
    """(parameters, optimizer) after some steps."""
    params = weights(dtype)
    optimizer = spec.build(params, form=form, **hyper)
    train(optimizer, params, range(steps))
    return params, optimizer


def converges_on_a_quadratic(spec: Spec) -> None:
    """With a rate that falls to zero, the noiseless quadratic is solved to a hundredth of where it began."""
    rates = {name: 0.03 for name in spec.hyper if name.endswith("lr")}
    params = weights()
    optimizer = spec.build(params, **rates)
    before = sum(float((param.detach() - 1).square().sum()) for param in params)
    for step in range(600):
        for group in optimizer.param_groups:
            group["lr"] = group["initial_lr"] * (1 - step / 600)
        for param in params:
            param.grad = param.detach() - 1
        optimizer.step()
    with optimizer.evaluating():
        after = sum(float((param.detach() - 1).square().sum()) for param in params)
    assert after < 1e-2 * before, f"{before:.3g} fell to {after:.3g} only"


def state_survives_saving(spec: Spec) -> None:
    """Saved with torch.save, loaded with weights_only=True, 20 more steps are equal bit for bit, in every form."""
    for form in _forms(spec):
        params, optimizer = _started(spec, form)
        file = io.BytesIO()
        torch.save(optimizer.state_dict(), file)
        copies = [nn.Parameter(param.detach().clone()) for param in params]
        other = spec.build(copies, form=form)
        file.seek(0)
        other.load_state_dict(torch.load(file, weights_only=True))
        for each, those in ((optimizer, params), (other, copies)):
            train(each, those, range(10, 30))
        assert same(params, copies), f"form {form} went on differently"


def state_moves_between_forms(spec: Spec) -> None:
    """The state of one form, loaded into another before or after its first step, gives the same 20 steps."""
    for source in _forms(spec):
        params, optimizer = _started(spec, source)
        saved, at = optimizer.state_dict(), [param.detach().clone() for param in params]
        train(optimizer, params, range(10, 30))
        for target in _forms(spec):
            for steps_before in (0, 3):
                copies, other = _started(spec, target, steps_before)
                for param, value in zip(copies, at, strict=True):
                    param.data.copy_(value)
                other.load_state_dict(saved)
                train(other, copies, range(10, 30))
                found = difference(copies, params)
                assert found < 1e-9, f"{source} into {target} after {steps_before} steps differs by {found:.1e}"


def state_dict_is_a_snapshot(spec: Spec) -> None:
    """Later steps do not change a state_dict, and it holds no more memory than its own tensors."""
    for form in _forms(spec):
        params, optimizer = _started(spec, form)
        saved = optimizer.state_dict()
        before = copy.deepcopy(saved)
        train(optimizer, params, range(10, 12))
        for key, state in saved["state"].items():
            for name, tensor in state.items():
                assert torch.equal(tensor, before["state"][key][name]), f"form {form}: {name} changed"
                assert tensor.untyped_storage().nbytes() <= tensor.nbytes + 8, f"form {form}: {name} holds more"


def state_dtype_is_kept(spec: Spec) -> None:
    """bfloat16 weights have float32 state, also once it is loaded; and 20 steps with it move them as float32 would."""
    for form in ("loop", "stacked"):
        params, optimizer = _started(spec, form, dtype=torch.bfloat16)
        other = spec.build(weights(torch.bfloat16), form=form)
        other.load_state_dict(optimizer.state_dict())
        for each in (optimizer, other):
            dtypes = {tensor.dtype for state in each.state.values() for tensor in state.values()}
            assert dtypes == {torch.float32}, f"form {form}: {dtypes}"
        assert all(param.dtype == torch.bfloat16 and torch.isfinite(param).all() for param in params)


def forms_agree(spec: Spec) -> None:
    """Every form takes the steps of the loop: after 30, to 1e-12 in float64 and 1e-5 in float32."""
    for dtype, tolerance in ((torch.float64, 1e-12), (torch.float32, 1e-5)):
        reference, _ = _started(spec, "loop", 30, dtype)
        for form in _forms(spec):
            params, _ = _started(spec, form, 30, dtype)
            found = difference(params, reference)
            assert found < tolerance, f"form {form}, {dtype}: differs by {found:.1e}"


def stacks_have_constant_kernels(spec: Spec) -> None:
    """A stacked step runs as many kernels for 100 tensors of one shape as for 10."""
    for shape in ((4, 3), (5,)):
        counts = []
        for number in (10, 100):
            params = weights(torch.float32, [shape] * number)
            optimizer = spec.build(params, form="stacked")
            train(optimizer, params, range(2))
            counts.append(observe.kernels(optimizer.step))
        assert counts[0] == counts[1], f"{counts[0]} for 10, {counts[1]} for 100"


def groups_are_independent(spec: Spec) -> None:
    """Two groups with two rates take the steps of two optimizers."""
    for form in _forms(spec):
        params, alone = weights(), weights()
        both = spec.build([{"params": params[:2], "lr": 0.01}, {"params": params[2:3], "lr": 0.002}], form=form)
        train(both, params[:3], range(10))
        first, second = spec.build(alone[:2], form=form, lr=0.01), spec.build(alone[2:3], form=form, lr=0.002)
        train(first, alone[:2], range(10))
        for step in range(10):
            second.param_groups[0]["lr"] = rate(0.002, step)
            give_gradient(alone[2], 2, step)
            second.step()
        assert difference(params[:3], alone[:3]) < 1e-12, f"form {form}"


def a_group_can_be_added(spec: Spec) -> None:
    """Parameters added after 5 steps begin their own count then, and the others go on."""
    for form in _forms(spec):
        params, alone = weights(), weights()
        optimizer = spec.build(params[:1], form=form)
        train(optimizer, params[:1], range(5))
        optimizer.add_param_group({"params": params[2:3]})
        train(optimizer, [params[0], params[2]], range(5, 10))
        for index, steps in ((0, range(10)), (2, range(5, 10))):
            lone = spec.build(alone[index : index + 1], form="loop")
            for step in steps:
                lone.param_groups[0]["lr"] = rate(lone.param_groups[0]["initial_lr"], step)
                give_gradient(alone[index], 0 if index == 0 else 1, step)
                lone.step()
            assert difference([params[index]], [alone[index]]) < 1e-12, f"form {form}, parameter {index}"


def a_closure_is_called(spec: Spec) -> None:
    """step(closure) computes gradients in it, returns its loss, and equals the step without it."""
    for form in _forms(spec):
        params, reference = weights(), weights()
        optimizer, plain = spec.build(params, form=form), spec.build(reference, form=form)

        def closure(params: Tensors = params) -> Tensor:
            loss = sum((param.square().sum() for param in params), torch.zeros(()))
            loss.backward()  # type: ignore[no-untyped-call]
            return loss

        loss = optimizer.step(closure)
        closure(reference)
        plain.step()
        assert loss.requires_grad, "the closure ran without autograd"
        assert same(params, reference), f"form {form}"


def missing_gradients_are_skipped(spec: Spec) -> None:
    """A parameter frozen at first and thawed later, or missing steps in between, counts its own steps only."""
    having = {step: ([0, 2, 3] if step < 4 else [0, 1, 2, 3, 4] if step % 3 else [0, 1, 4]) for step in range(12)}
    for form in _forms(spec):
        params, alone = weights(), weights()
        optimizer = spec.build(params, form=form)
        for step, some in having.items():
            train(optimizer, params, [step], some)
        for index in range(len(params) - 1):
            lone = spec.build(alone, form="loop")
            for step in [step for step, some in having.items() if index in some]:
                train(lone, alone, [step], [index])
        found = difference(params, alone)
        assert found < 1e-12, f"form {form} differs by {found:.1e}"


def copies_go_on(spec: Spec) -> None:
    """deepcopy and pickle of parameters and optimizer together go on bit for bit."""
    for form in _forms(spec):
        params, optimizer = _started(spec, form)
        copies = [copy.deepcopy((params, optimizer)), pickle.loads(pickle.dumps((params, optimizer)))]
        train(optimizer, params, range(10, 20))
        for copied, other in copies:
            assert other.form == form
            train(other, copied, range(10, 20))
            assert same(params, copied), f"form {form}"


def every_real_hyperparameter_matters(spec: Spec) -> None:
    """Each, changed alone by a fifth, changes where 5 steps lead."""
    base: dict[str, Any] = {
        name: 0.1 for name, hyper in spec.hyper.items() if hyper.kind == "real" and hyper.default == 0
    }
    reference, _ = _started(spec, "loop", 5, **base)
    for name, value in _perturbed(spec.hyper, base):
        params, _ = _started(spec, "loop", 5, **{**base, name: value})
        assert not same(params, reference), f"{name}={value} changes nothing"


def _perturbed(declared: Any, base: dict[str, float]) -> Iterator[tuple[str, Any]]:
    for name, hyper in declared.items():
        value = base.get(name, hyper.default)
        if hyper.kind == "real":
            yield name, value * 0.8 if not name.endswith("eps") else 1e-2
        if hyper.kind == "pair":
            yield name, (value[0] * 0.8, value[1])
            yield name, (value[0], value[1] * 0.8)


def hyperparameters_change_between_steps(spec: Spec) -> None:
    """A real number set in a group between steps counts from the next step on, in every form alike."""
    for form in _forms(spec):
        params, optimizer = _started(spec, form, 5)
        reference, loop = _started(spec, "loop", 5)
        for each, those in ((optimizer, params), (loop, reference)):
            for group in each.param_groups:
                group["weight_decay"] = 0.3
                for name in set(group) & {"momentum", "eps"}:
                    group[name] = 0.4
                if "betas" in group:
                    group["betas"] = (0.5, 0.7)
            train(each, those, range(5, 10))
        unchanged, _ = _started(spec, form, 10)
        assert difference(params, reference) < 1e-12, f"form {form}"
        assert not same(params, unchanged), f"form {form} did not see the change"


def bad_values_are_refused(spec: Spec) -> None:
    """A value of the wrong type or out of range raises ValueError naming argument, value and range."""
    for name, hyper in spec.hyper.items():
        for bad in _invalid(hyper):
            shown = "/".join(map(str, bad)) if isinstance(bad, tuple) else repr(bad)
            said = _complaint(spec, **{name: bad})
            for part in (name, shown, hyper.range()):
                assert part in said, f"{name}={shown}: {part!r} is not in {said!r}"


def unknown_names_are_refused(spec: Spec) -> None:
    """A hyperparameter that is not there is not ignored."""
    assert "weight_decays" in _complaint(spec, weight_decays=0.1)


def _complaint(spec: Spec, **hyper: Any) -> str:
    """What is said of these hyperparameters; empty where they are taken."""
    try:
        spec.build(weights(), **hyper)
    except InputError as error:
        return str(error)
    return ""


def _invalid(hyper: Hyper) -> Iterator[Any]:
    yield "a word"
    if hyper.kind in ("real", "int"):
        yield hyper.low - 1 if hyper.low > float("-inf") else float("nan")
        if hyper.high < float("inf"):
            yield hyper.high + 1
    if hyper.kind == "pair":
        yield (hyper.low - 1, 0.5)
        yield (0.5, hyper.high + 1)


def no_rate_no_change(spec: Spec) -> None:
    """With lr 0 from the beginning nothing moves."""
    for form in _forms(spec):
        params, reference = weights(), weights()
        optimizer = spec.build(params, form=form, weight_decay=0.1)
        for group in optimizer.param_groups:
            group["initial_lr"] = 0.0
        train(optimizer, params, range(5))
        with optimizer.evaluating():
            assert difference(params, reference) < 1e-15, f"form {form}"


def decay_is_decoupled(spec: Spec) -> None:
    """Without a gradient, a step of decay alone multiplies every weight by 1 - lr*wd."""
    decays = {name: 0.1 for name in spec.hyper if name.endswith("weight_decay")}
    for form in _forms(spec):
        params, reference = weights(), weights()
        optimizer = spec.build(params, form=form, **decays)
        for group in optimizer.param_groups:
            group["lr"] = 0.5
        for param in params:
            param.grad = torch.zeros_like(param)
        optimizer.step()
        found = difference(params, [param * (1 - 0.5 * 0.1) for param in reference])
        assert found < 1e-15, f"form {form} differs by {found:.1e}"


def the_host_never_waits(spec: Spec) -> None:
    """No step after the first reads a number from the device, also when the rate changes."""
    for form in _forms(spec):
        params, optimizer = _started(spec, form, 2, torch.float32)
        for step in range(2, 5):
            train(optimizer, params, [step])
            assert observe.host_synchronisations(optimizer.step) == 0, f"form {form}"


def members_equal_lone_runs(spec: Spec) -> None:
    """A population's members, with rates of their own, take the steps of lone runs, to 1e-12 in float64 and 1e-6 in
    float32; and those of another population bit for bit."""
    rates = [spec.hyper["lr"].default * factor for factor in (1.0, 0.5, 0.2)]
    for form in ("loop", "stacked"):
        for dtype, tolerance in ((torch.float64, 1e-12), (torch.float32, 1e-6)):
            found = {size: _population(spec, form, dtype, rates[:size]) for size in (2, 3)}
            for member, lr in enumerate(rates):
                lone = weights(dtype)
                train(spec.build(lone, form=form, lr=lr), lone, range(20))
                differs = difference([param[member] for param in found[3]], lone)
                assert differs < tolerance, f"form {form}, {dtype}: member {member} differs by {differs:.1e}"
            assert same([param[:2] for param in found[3]], found[2]), f"form {form}, {dtype}: sizes 2 and 3 differ"


def _population(spec: Spec, form: str, dtype: torch.dtype, rates: list[float]) -> Tensors:
    params = weights(dtype, population=len(rates))
    train(spec.build(params, form=form, population=len(rates), lr=rates), params, range(20))
    return params


def evaluation_weights_come_and_go(spec: Spec) -> None:
    """Evaluation weights differ where the entry says so, a step at them raises, and training weights come back."""
    for form in _forms(spec):
        params, optimizer = _started(spec, form)
        before = [param.detach().clone() for param in params]
        with optimizer.evaluating():
            assert same(params, before) != optimizer.has_evaluation_weights, f"form {form}"
            try:
                optimizer.step()
            except RuntimeError:
                pass
            else:
                raise AssertionError("step() inside evaluating() was taken")
        assert same(params, before), f"form {form}: the training weights did not come back"


def directions_can_be_changed(spec: Spec) -> None:
    """`directing` sees every parameter's gradient and direction; without decay, doubled directions double a step."""
    for form in ("loop", "stacked"):
        plain, doubled, start = weights(), weights(), weights()
        seen: list[tuple[torch.Size, ...]] = []

        def hook(params: Any, grads: Any, directions: Any, seen: Any = seen) -> list[Tensor]:
            seen.extend((p.shape, g.shape, d.shape) for p, g, d in zip(params, grads, directions, strict=True))
            return [2 * direction for direction in directions]

        for params, directing in ((plain, None), (doubled, hook)):
            optimizer = spec.build(params, form=form, weight_decay=0.0)
            optimizer.directing = directing
            train(optimizer, params, [1])
        assert sorted(seen) == sorted((param.shape,) * 3 for param in start), f"form {form}"
        expected = [begin + 2 * (end - begin) for begin, end in zip(start, plain, strict=True)]
        assert difference(doubled, expected) < 1e-12, f"form {form}"


def declarations_agree(spec: Spec) -> None:
    """SPEC says of elementwise what the class says; there are a citation and a search space for the rate."""
    assert spec.elementwise == spec.build.elementwise  # type: ignore[attr-defined]
    assert "@" in spec.cite, "no BibTeX"
    assert spec.hyper["lr"].search, "no search space for lr"
