"""A run names the operations that do not give the same bits twice on its device, once, and pays for it once."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from experiments import determinism
from experiments.config import resolve
from experiments.determinism import asking
from experiments.partway import Partway
from experiments.progress import RunNotice
from experiments.store.home import Home
from experiments.training import resume, train

SMALL = {
    "task": "digits", "model": {"name": "mlp", "width": 16}, "batch_size": 250, "budget": {"updates": 8},
    "evaluate_every": 4, "device": "cpu", "select": "last",
}  # fmt: skip


class Racing(torch.autograd.Function):
    """An operation whose backward pass says of itself what torch's own kernels say."""

    asked: list[bool] = []  # noqa: RUF012

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:  # type: ignore[override]
        return x.clone()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:  # type: ignore[override]
        Racing.asked.append(torch.are_deterministic_algorithms_enabled())
        if torch.is_deterministic_algorithms_warn_only_enabled():
            warnings.warn(
                "racing_add does not have a deterministic implementation, but you set "
                "'torch.use_deterministic_algorithms(True, warn_only=True)'. You can file an issue",
                stacklevel=2,
            )
        return grad


def racing(monkeypatch: pytest.MonkeyPatch) -> None:
    forward = nn.ReLU.forward
    monkeypatch.setattr(nn.ReLU, "forward", lambda self, x: Racing.apply(forward(self, x)))
    monkeypatch.setattr(Racing, "asked", [])


def test_a_run_names_them_once_and_asks_in_its_first_update_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    racing(monkeypatch)
    notices: list[str] = []
    told = lambda event: notices.append(event.text) if isinstance(event, RunNotice) else None  # noqa: E731
    stopped = train(resolve(SMALL), home=Home(tmp_path), stop=Partway(5), listener=told)
    folder = Home(tmp_path).folder(stopped.record.run_id)
    done = resume(folder, listener=told)
    assert done.record.status == "completed", done.record.traceback
    (warning,) = [event for event in done.record.events if event["name"] == "warning"]
    assert warning["operations"] == ["racing_add"]
    assert warning["text"] == "not deterministic on cpu: racing_add; a run repeats to rounding only"
    assert notices == [warning["text"]]
    layers = len(Racing.asked) // 8
    assert Racing.asked == [True] * layers + [False] * (7 * layers)
    assert not torch.are_deterministic_algorithms_enabled()


def test_on_the_cpu_nothing_is_said_and_no_bit_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = train(resolve(SMALL), home=Home(tmp_path))
    assert one.record.events == ()
    plain = lambda self, name, *given, **words: getattr(self._oracle, name)(*given, **words)  # noqa: E731
    monkeypatch.setattr(determinism.Watching, "_watched", plain)
    other = train(resolve(SMALL), home=Home(tmp_path))
    assert one.record.final == other.record.final


def test_an_operation_of_torch_s_own_is_named() -> None:
    """put_ without accumulate, of repeated places, is the one that torch's CPU build tells of."""
    x = torch.zeros(4)
    with asking() as found:
        x.put_(torch.tensor([0, 0]), torch.tensor([1.0, 2.0]))
    assert found == ["put_"]


def test_other_warnings_pass_and_a_user_s_own_choice_stands() -> None:
    with pytest.warns(UserWarning, match="of theirs"), asking() as found:
        warnings.warn("of theirs", stacklevel=1)
    assert found == []
    torch.use_deterministic_algorithms(True)
    try:
        with asking():
            assert not torch.is_deterministic_algorithms_warn_only_enabled()
        assert torch.are_deterministic_algorithms_enabled()
    finally:
        torch.use_deterministic_algorithms(False)


def test_what_raises_leaves_the_mode_as_it_was() -> None:
    with pytest.raises(ZeroDivisionError), asking():
        raise ZeroDivisionError
    assert not torch.are_deterministic_algorithms_enabled()
    memory: Any = torch.utils.deterministic
    assert memory.fill_uninitialized_memory
