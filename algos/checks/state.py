"""State: it survives saving, copying and moving, exactly."""

from __future__ import annotations

import copy
import io
import pickle
from typing import Any

import torch
from torch import Tensor, nn

from algos.checks.subject import Subject
from algos.noisy_quadratic import difference, same, train


def state_survives_saving(subject: Subject) -> None:
    """Saved with torch.save, loaded with weights_only=True: 20 more steps are equal bit for bit."""
    for form in subject.forms:
        params, optimizer = subject.started(form)
        file = io.BytesIO()
        torch.save(optimizer.state_dict(), file)
        copies = _copied(params)
        other = subject.build(copies, form)
        file.seek(0)
        other.load_state_dict(torch.load(file, weights_only=True))
        for each, those in ((optimizer, params), (other, copies)):
            train(each, those, range(10, 30))
        found = difference(copies, params)
        assert same(params, copies), f"{form or 'it'} went on differently, by {found:.1e}{_hint(subject)}"


def state_moves_between_forms(subject: Subject) -> None:
    """The state of one form, loaded into another before or after its first step, gives the same 20 steps."""
    subject.needs_ours("forms")
    for source in subject.forms:
        params, optimizer = subject.started(source)
        saved, at = optimizer.state_dict(), [param.detach().clone() for param in params]
        train(optimizer, params, range(10, 30))
        for target in subject.forms:
            for steps_before in (0, 3):
                copies, other = subject.started(target, steps_before)
                for param, value in zip(copies, at, strict=True):
                    param.data.copy_(value)
                other.load_state_dict(saved)
                train(other, copies, range(10, 30))
                found = difference(copies, params)
                assert found < 1e-9, f"{source} into {target} after {steps_before} steps differs by {found:.1e}"


def state_dict_is_a_snapshot(subject: Subject) -> None:
    """Later steps do not change a state_dict, and it holds no more memory than its own tensors."""
    subject.needs_ours("state_dict of its own: torch's shares memory with the optimizer")
    for form in subject.forms:
        params, optimizer = subject.started(form)
        saved = optimizer.state_dict()
        before = copy.deepcopy(saved)
        train(optimizer, params, range(10, 12))
        for key, state in saved["state"].items():
            for name, tensor in state.items():
                assert torch.equal(tensor, before["state"][key][name]), f"form {form}: {name} changed"
                assert tensor.untyped_storage().nbytes() <= tensor.nbytes + 8, f"form {form}: {name} holds more"


def state_dtype_is_kept(subject: Subject) -> None:
    """State of bfloat16 weights has the dtypes it had once it is loaded, float32 for ours; 20 more steps are equal."""
    for form in subject.forms:
        if form == "torch":
            continue  # torch's own version is not used for low-precision weights
        params, optimizer = subject.started(form, dtype=torch.bfloat16)
        copies = _copied(params)
        other = subject.build(copies, form)
        other.load_state_dict(copy.deepcopy(optimizer.state_dict()))
        kept, loaded = _dtypes(optimizer, params), _dtypes(other, copies)
        assert kept == loaded, f"{kept} became {loaded}: torch casts state to the weights' dtype when it loads"
        if subject.ours:
            assert {dtype for dtype in kept.values() if dtype.is_floating_point} == {torch.float32}, str(kept)
        for each, those in ((optimizer, params), (other, copies)):
            train(each, those, range(10, 30))
        assert same(params, copies), f"{form or 'it'} went on differently{_hint(subject)}"
        assert all(param.dtype == torch.bfloat16 and torch.isfinite(param).all() for param in params)


def copies_go_on(subject: Subject) -> None:
    """deepcopy and pickle of parameters and optimizer together go on bit for bit."""
    for form in subject.forms:
        params, optimizer = subject.started(form)
        copies = {"deepcopy": copy.deepcopy((params, optimizer))}
        if "<locals>" not in subject.kind.__qualname__:  # Python cannot pickle an object of a function's own class
            copies["pickle"] = pickle.loads(pickle.dumps((params, optimizer)))
        train(optimizer, params, range(10, 20))
        for how, (copied, other) in copies.items():
            if subject.ours:
                assert other.form == form
            try:
                train(other, copied, range(10, 20))
            except AttributeError as error:
                raise AssertionError(f"{how}: {error}{_hint(subject)}") from error
            assert same(params, copied), f"{how} of {form or 'it'} goes on differently{_hint(subject)}"


def _hint(subject: Subject) -> str:
    return "" if subject.ours else " (torch keeps what is in state, param_groups and defaults, and nothing else)"


def _copied(params: list[nn.Parameter]) -> list[nn.Parameter]:
    return [nn.Parameter(param.detach().clone()) for param in params]


def _dtypes(optimizer: Any, params: list[nn.Parameter]) -> dict[str, torch.dtype]:
    return {
        f"{name} of parameter {index}": value.dtype
        for index, param in enumerate(params)
        for name, value in optimizer.state.get(param, {}).items()
        if isinstance(value, Tensor)
    }
