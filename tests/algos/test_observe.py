"""What is counted is what torch's profiler counts; views and allocations are not."""

from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile

from algos import catalogue, observe
from algos.checks.subject import give_curvature
from algos.noisy_quadratic import train, weights

VIEWS = {
    "view", "reshape", "split", "unbind", "select", "expand", "unsqueeze", "squeeze", "slice", "as_strided", "t",
    "transpose", "permute", "detach", "empty", "empty_like", "empty_strided", "narrow", "split_with_sizes", "flatten",
    "_unsafe_view", "alias", "_reshape_alias", "lift_fresh", "resize_", "unflatten", "numpy_T",
}  # fmt: skip
#: L-BFGS has no stacks.
STACKED = [name for name in catalogue.paths("optimizers") if name != "lbfgs"]


def profiled(function: object) -> dict[str, int]:
    with profile(activities=[ProfilerActivity.CPU], acc_events=True) as watched:
        function()  # type: ignore[operator]
    names = [event.name.removeprefix("aten::") for event in watched.events() or () if event.name.startswith("aten::")]
    return {name: names.count(name) for name in set(names) - VIEWS}


def test_counts_are_the_profiler_s() -> None:
    a, b = torch.randn(4, 4), torch.randn(4, 4)

    def work() -> None:
        torch.addmm(a, a, b).view(2, 8).exp_().t().sum()

    found = observe.kernels(work)
    assert found == {"addmm": 1, "exp_": 1, "sum": 1}
    seen = profiled(work)
    assert {name: seen[name] for name in found} == found


def test_a_host_synchronisation_is_a_number_read() -> None:
    x = torch.ones(3)
    assert observe.host_synchronisations(lambda: x.mul_(2)) == 0
    assert observe.host_synchronisations(lambda: bool(x.sum() > 1) and float(x[0])) == 2


@pytest.mark.parametrize("name", STACKED)
@pytest.mark.parametrize("shape", [(4, 3), (5,)])
def test_a_stacked_step_profiles_alike_for_10_and_100_tensors(name: str, shape: tuple[int, ...]) -> None:
    counts = []
    for number in (10, 100):
        params: list[nn.Parameter] = weights(torch.float32, [shape] * number)
        optimizer = catalogue.load("optimizers", name).build(params, form="stacked")
        train(optimizer, params, range(2))
        give_curvature(optimizer, params)
        counts.append(profiled(optimizer.step))
    assert counts[0] == counts[1]
    assert sum(counts[0].values()) > 3


def test_an_imagined_accelerator_counts_what_the_host_reads_of_it() -> None:
    """A count on the CPU is read for nothing; reading a norm does, and so does bringing one over."""

    def calls(device: str) -> Callable[[], None]:
        weight, count = torch.ones(3, device=device), torch.ones(())

        def call() -> None:
            count.item()
            weight.norm().item()
            weight.sum().cpu()

        return call

    assert observe.imagined_synchronisations(calls) == 2
