"""L-BFGS: one iteration by hand, torch's trajectory, state that resumes, and what it refuses."""

from __future__ import annotations

import copy
import io
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from algos.finding import InputError
from algos.noisy_quadratic import difference, same, take_step, weights
from algos.optimizers.lbfgs import LBFGS
from tests.algos.parity import Case


class OwnClosure:
    """A step without arguments, as the harness calls it, over gradients that are there."""

    def step(self, closure: Any = None) -> Any:
        def given() -> Tensor:
            params = self.param_groups[0]["params"]  # type: ignore[attr-defined]
            return torch.stack([param.grad.square().sum() for param in params]).sum()

        return super().step(given)  # type: ignore[misc]


class Ours(OwnClosure, LBFGS):
    pass


class Torchs(OwnClosure, torch.optim.LBFGS):
    pass


PARITY = [
    Case(
        "torch.optim.LBFGS",
        lambda params: Ours(params, lr=0.1, max_iter=3, history_size=5, line_search_fn="none"),
        lambda params: Torchs(params, lr=0.1, max_iter=3, history_size=5),
        variant="line_search_fn=none, max_iter=3, history_size=5",
    )
]


@pytest.mark.parametrize("search", ["none", "strong_wolfe"])
def test_a_hundred_steps_equal_torch_with_gradients_evaluated_anew(search: str) -> None:
    ours, theirs = weights(), weights()
    given = {"lr": 0.5, "max_iter": 4, "history_size": 3}
    optimizer = LBFGS(ours, line_search_fn=search, **given)
    reference = torch.optim.LBFGS(theirs, line_search_fn=None if search == "none" else search, **given)
    for step in range(100):
        take_step(optimizer, list(enumerate(ours)), step)
        take_step(reference, list(enumerate(theirs)), step)
    assert difference(ours, theirs) == 0
    assert optimizer.state[ours[0]]["func_evals"] == reference.state[theirs[0]]["func_evals"] > 200


def test_two_iterations_by_hand() -> None:
    """loss = a*w^2/2. First -g, shortened; then -H g with H = s/y = 1/a: Newton's step to the minimum."""
    w = nn.Parameter(torch.tensor([2.0], dtype=torch.float64))
    seen: list[float] = []

    def closure() -> Tensor:
        seen.append(w.item())
        w.grad = 3.0 * w.detach()
        return 1.5 * w.detach().square().sum()

    loss = LBFGS([w], max_iter=2, max_eval=9, line_search_fn="none").step(closure)
    assert loss.item() == 6.0, "the loss where the step began"
    assert seen == [2.0, pytest.approx(2.0 - 6.0 / 6.0, rel=1e-14)]  # t = 1/||g||_1 = 1/6
    assert w.item() == pytest.approx(0.0, abs=1e-14)


def test_a_saved_state_goes_on_bit_for_bit_and_is_a_snapshot() -> None:
    params = weights()
    optimizer = LBFGS(params, lr=0.1, max_iter=3, history_size=4)
    for step in range(5):
        take_step(optimizer, list(enumerate(params)), step)
    saved, file = optimizer.state_dict(), io.BytesIO()
    torch.save(saved, file)
    copies = [nn.Parameter(param.detach().clone()) for param in params]
    for step in range(5, 12):
        take_step(optimizer, list(enumerate(params)), step)
    other = LBFGS(copies, lr=0.1, max_iter=3, history_size=4)
    file.seek(0)
    other.load_state_dict(torch.load(file, weights_only=True))
    assert torch.equal(saved["state"][0]["d"], other.state_dict()["state"][0]["d"]), (
        "later steps changed what was saved"
    )
    for step in range(5, 12):
        take_step(other, list(enumerate(copies)), step)
    assert same(params, copies)


def test_it_takes_a_model_pairs_or_one_group_and_refuses_more() -> None:
    model = nn.Linear(2, 3)
    for given in (model, model.parameters(), model.named_parameters(), [{"params": [*model.parameters()], "lr": 0.3}]):
        optimizer = LBFGS(given)
        assert [param.shape for param in optimizer.param_groups[0]["params"]] == [(3, 2), (3,)]
    assert optimizer.param_groups[0]["lr"] == 0.3
    with pytest.raises(InputError, match="no use for 2 groups; give it the model"):
        LBFGS([{"params": [model.weight]}, {"params": [model.bias]}])


@pytest.mark.parametrize(
    ("hyper", "said"),
    [
        ({"form": "stacked"}, "form 'stacked' is not there for L-BFGS"),
        ({"population": 2}, "would mix the members of a population"),
        ({"line_search_fn": "armijo"}, "give one of strong_wolfe, none"),
        ({"max_iter": 0}, "LBFGS.max_iter"),
        ({"weight_decay": 0.1}, "unknown hyperparameter of LBFGS"),
    ],
)
def test_what_it_refuses(hyper: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        LBFGS([nn.Parameter(torch.ones(2))], **hyper)


def test_copies_go_on_and_gradients_may_lie_in_any_order() -> None:
    """torch's own loses its parameters in a pickle, and cannot view a gradient that lies channels last."""
    weight = torch.randn(2, 3, 4, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    plain, last = nn.Parameter(weight.clone()), nn.Parameter(weight.to(memory_format=torch.channels_last))
    given = {"lr": 0.1, "max_iter": 2, "line_search_fn": "none"}
    copied = copy.deepcopy((last, LBFGS([last], **given)))
    for param, optimizer in ((plain, LBFGS([plain], **given)), copied):
        for step in range(3):
            take_step(optimizer, [(0, param)], step)
    assert copied[0].grad is not None
    assert difference([copied[0]], [plain]) < 1e-9


def test_at_a_rate_of_zero_nothing_moves() -> None:
    """Where a schedule begins or ends at zero, torch's line search divides by it."""
    w = nn.Parameter(torch.ones(2))
    optimizer = LBFGS([w])
    optimizer.param_groups[0]["lr"] = 0.0
    take_step(optimizer, [(0, w)], 0)
    assert w.tolist() == [1.0, 1.0]
    assert not optimizer.state


def test_a_step_is_one_step_to_its_hooks_also_where_torchs_own_was_made_before() -> None:
    """torch wraps the step of every class that it makes one of, and a schedule counts the calls of the hooks."""
    torch.optim.LBFGS([nn.Parameter(torch.ones(2))])
    w, seen = nn.Parameter(torch.ones(2)), []
    optimizer = LBFGS([w])
    optimizer.register_step_post_hook(lambda *_: seen.append(1))
    take_step(optimizer, [(0, w)], 0)
    assert len(seen) == 1
    assert not torch.equal(w, torch.ones(2))
