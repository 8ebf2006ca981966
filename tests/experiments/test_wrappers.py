"""Wrappers in our own loop: whole accumulated batches, BatchNorm in its place, resuming with their state at work."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from algos import catalogue
from algos.contracts import Progress
from algos.finding import InputError
from algos.gradient_descent import GradientDescent
from algos.wrappers.asam import Asam
from algos.wrappers.sam import Sam
from experiments.config import resolve
from experiments.data.batch import Batch
from experiments.oracle import TaskOracle
from experiments.stopping import Stop
from experiments.store.home import Home
from experiments.training import resume, train

#: digits has about 1,200 training images: five batches an epoch, the last one smaller.
SMALL = {
    "task": "digits", "model": {"name": "resnet", "width": 4, "blocks": 1}, "batch_size": 250, "select": "last",
    "budget": {"updates": 12}, "evaluate_every": 4, "device": "cpu",
}  # fmt: skip
#: Settings under which each has something to remember within a dozen updates.
AT_WORK: dict[str, dict[str, Any]] = {
    "asam": {}, "centralisation": {}, "adaptive_clipping": {}, "lookahead": {"k": 4},
    "swa": {"start": 0.3, "every": 3}, "lawa": {"k": 2, "every": 3}, "galore": {"rank": 2, "every": 5},
}  # fmt: skip


class StopAfter(Stop):
    """Requested once the loop has asked so often: it asks before every update."""

    def __init__(self, updates: int):
        super().__init__()
        self._left = updates

    @property
    def requested(self) -> bool:  # type: ignore[override]
        self._left -= 1
        return self._left < 0


def kept(home: Home, run_id: str) -> dict[str, torch.Tensor]:
    return load_file(home.folder(run_id).path / "model.safetensors")


def configured(**changes: Any) -> Any:
    return resolve({**SMALL, **changes})


@pytest.mark.parametrize("accumulate", [1, 3])
@pytest.mark.parametrize("name", AT_WORK)
def test_a_run_resumes_bit_for_bit_with_its_state_at_work(name: str, accumulate: int, tmp_path: Path) -> None:
    config = configured(wrappers=[{"name": name, **AT_WORK[name]}], accumulate=accumulate)
    home = Home(tmp_path)
    straight = train(config, home=home)
    assert straight.record.status == "completed", straight.record.traceback
    finished = train(config, home=home, stop=StopAfter(7))
    assert finished.record.status == "interrupted"
    finished = resume(home.folder(finished.record.run_id), stop=StopAfter(3))
    assert finished.record.status == "interrupted"
    finished = resume(home.folder(finished.record.run_id))
    assert finished.record.status == "completed", finished.record.traceback
    assert finished.record.final == straight.record.final
    one, two = kept(home, straight.record.run_id), kept(home, finished.record.run_id)
    assert one.keys() == two.keys()
    assert all(torch.equal(one[key], two[key]) for key in one)
    plain = train(configured(accumulate=accumulate), home=home)
    assert any(not torch.equal(one[key], each) for key, each in kept(home, plain.record.run_id).items())


@pytest.mark.parametrize("name", ["lookahead", "swa", "lawa"])
def test_how_often_one_evaluates_changes_nothing(name: str, tmp_path: Path) -> None:
    home, wrapper = Home(tmp_path), {"name": name, **AT_WORK[name]}
    runs = [train(configured(wrappers=[wrapper], evaluate_every=every), home=home) for every in (1, 12)]
    one, two = (kept(home, each.record.run_id) for each in runs)
    assert all(torch.equal(one[key], two[key]) for key in one)


# SAM


def oracle_for(model: nn.Module, accumulate: int) -> TaskOracle:
    loss, precision = catalogue.load("losses", "cross_entropy").build(), catalogue.load("precision", "fp32").build()
    return TaskOracle(model, loss, precision, accumulate=accumulate, device=torch.device("cpu"))


def network(*, norm: bool) -> nn.Module:
    torch.manual_seed(0)
    norms: list[nn.Module] = [nn.BatchNorm1d(6)] if norm else []
    return nn.Sequential(nn.Linear(4, 6), *norms, nn.Tanh(), nn.Linear(6, 3)).double()


def batch(size: int) -> Batch:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(size, 4, dtype=torch.float64, generator=generator)
    return Batch((x,), torch.randint(0, 3, (size,), generator=generator))


@pytest.mark.parametrize("sam", [Sam(rho=0.3), Asam(rho=1.0)])
@pytest.mark.parametrize("size", [12, 11, 7])
def test_both_passes_see_the_whole_accumulated_batch(sam: Any, size: int) -> None:
    """Also where the last micro-batch is smaller: the step is that of the batch in one piece, and every part of it
    counts in the climb (a climb along one micro-batch alone would end elsewhere)."""
    ends = []
    for accumulate in (1, 3):
        model = network(norm=False)
        oracle = oracle_for(model, accumulate)
        algorithm = GradientDescent(torch.optim.SGD(model.parameters(), lr=0.5), [sam])
        algorithm.step(oracle, batch(size), Progress(0, 0.0))
        assert oracle.gradients == 2
        assert oracle.updates == 1
        ends.append(torch.cat([weight.detach().flatten() for weight in model.parameters()]))
    torch.testing.assert_close(ends[0], ends[1], rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("sam", [Sam(rho=0.3), Asam(rho=1.0)])
def test_batchnorm_moves_once_per_micro_batch_of_the_first_pass_only(sam: Any) -> None:
    model, plain = network(norm=True), network(norm=True)
    GradientDescent(torch.optim.SGD(model.parameters(), lr=0.5), [sam]).step(
        oracle_for(model, 3), batch(12), Progress(0, 0.0)
    )
    for part in batch(12).split(3):
        plain(*part.inputs)
    for mine, theirs in zip(model.buffers(), plain.buffers(), strict=True):
        assert torch.equal(mine, theirs)
    assert int(model[1].num_batches_tracked) == 3


# SWA and BatchNorm


@pytest.mark.parametrize(("statistics", "batches"), [("collected", 5), ("averaged", 10)])
def test_swa_s_statistics_are_those_of_the_averaged_weights(statistics: str, batches: int, tmp_path: Path) -> None:
    """Collected over the training set's five batches; or averaged, with the count of the last average's update."""
    home = Home(tmp_path)
    run = train(configured(wrappers=[{"name": "swa", "start": 0.3, "every": 5, "statistics": statistics}]), home=home)
    assert run.model is not None
    norms = [each for each in run.model.modules() if isinstance(each, nn.BatchNorm2d)]
    assert {int(each.num_batches_tracked) for each in norms} == {batches}


@pytest.mark.parametrize("pair", [["swa", "ema"], ["lookahead", "lawa"]])
def test_two_that_evaluate_elsewhere_are_refused(pair: list[str], tmp_path: Path) -> None:
    with pytest.raises(InputError, match="each evaluate at weights of their own, and only one can be evaluated"):
        train(configured(wrappers=pair), home=Home(tmp_path))


@pytest.mark.parametrize("name", ["swa", "lawa", "lookahead"])
def test_beside_schedule_free_they_are_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="evaluates at weights of its own"):
        train(configured(wrappers=[name], optimizer="schedule_free_adamw"), home=Home(tmp_path))
