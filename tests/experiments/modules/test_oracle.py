"""What a component may ask of a LightningModule in training: losses, gradients and curvature of its training_step."""

from __future__ import annotations

from collections import deque
from typing import Any

import lightning.pytorch as pl
import pytest
import torch
from torch import Tensor, nn

from algos import catalogue
from algos.contracts import Component, Gradient, InnerGradient, Oracle
from algos.finding import InputError
from experiments.modules.components import ComponentCallback


class Quadratic(pl.LightningModule):
    """loss = w.A.w/2 * scale, A = diag(1, 2, 3), scale the batch's."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.tensor([1.0, 1.0, 1.0], dtype=torch.float64))
        self.unused = nn.Parameter(torch.ones(2))
        self.frozen = nn.Parameter(torch.ones(2), requires_grad=False)
        self.register_buffer("calls", torch.zeros(()))

    def training_step(self, batch: Tensor) -> dict[str, Tensor]:
        self.calls += 1  # type: ignore[operator]
        scales = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
        return {"loss": (self.w**2 * scales).sum() / 2 * batch.double().mean()}

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD([self.w], lr=0.0)


class Asks(Component):
    """Asks everything once."""

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {}

    def gradient(self, oracle: Oracle, batch: Any, inner: InnerGradient) -> Gradient:
        first = inner(batch)
        at = {"w": torch.tensor([2.0, 0.0, 1.0], dtype=torch.float64)}
        graph = oracle.gradient(batch, at=at, create_graph=True, buffers="keep")
        self.answers = {
            "names": [name for name, _ in oracle.named_parameters()],
            "first": first,
            "again": oracle.gradient(batch, buffers="keep"),
            "at": oracle.gradient(batch, at=at, buffers="keep"),
            "loss": oracle.loss(batch, at=at),
            "graph": graph,
            "product": oracle.product(batch, {"w": torch.ones(3, dtype=torch.float64)}, at=at),
        }
        with pytest.raises(InputError, match="which are its predictions"):
            oracle.predict(batch)
        with pytest.raises(InputError, match="which are its predictions"):
            oracle.product(batch, {}, matrix="ggn")
        return first


def test_losses_gradients_and_curvature_by_hand() -> None:
    component, module = Asks(), Quadratic()
    callback = ComponentCallback([component])
    pl.Trainer(
        max_epochs=1, logger=False, enable_checkpointing=False, enable_progress_bar=False, accelerator="cpu",
        enable_model_summary=False, callbacks=[callback],
    ).fit(module, torch.utils.data.DataLoader(torch.full((2,), 2.0), batch_size=2))  # fmt: skip
    found = component.answers
    assert found["names"] == ["w"]  # what the optimizer trains
    assert found["first"].loss == 6.0
    assert found["first"].grads["w"].tolist() == found["again"].grads["w"].tolist() == [2.0, 4.0, 6.0]
    assert found["at"].grads["w"].tolist() == [4.0, 0.0, 6.0]
    assert found["at"].loss == found["loss"] == 7.0
    assert found["graph"].grads["w"].requires_grad
    assert found["product"]["w"].tolist() == [2.0, 4.0, 6.0]
    assert callback.gradients == 5  # again, at, with its graph, and two for the product
    assert module.calls == 1
    assert module.w.tolist() == [1.0, 1.0, 1.0]


class Attends(pl.LightningModule):
    """Attention with itself over three tokens, by torch's own choice of kernel."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        self.w = nn.Parameter(torch.randn(6, generator=torch.Generator().manual_seed(0)))

    def training_step(self, batch: Tensor) -> Tensor:
        q = self.w.reshape(1, 1, 3, 2)
        return nn.functional.scaled_dot_product_attention(q, q, q).square().sum() * batch.mean()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        built: torch.optim.Optimizer = catalogue.load("optimizers", self.name).build(self)
        return built


class Differentiates(Component):
    """Takes the gradient with its graph, and differentiates it."""

    def __init__(self) -> None:
        self.curved: Tensor | None = None

    def gradient(self, oracle: Oracle, batch: Any, inner: InnerGradient) -> Gradient:
        w = dict(oracle.named_parameters())["w"].detach().requires_grad_()
        slope = oracle.gradient(batch, at={"w": w * 1}, create_graph=True, buffers="keep").grads["w"]
        (self.curved,) = torch.autograd.grad(slope.sum(), w)
        return inner(batch)


@pytest.mark.parametrize("name", ["sophia", "adahessian"])
def test_curvature_goes_through_attention(name: str) -> None:
    component, module = Differentiates(), Attends(name)
    before = module.w.detach().clone()
    pl.Trainer(
        max_epochs=3, logger=False, enable_checkpointing=False, enable_progress_bar=False, accelerator="cpu",
        enable_model_summary=False, callbacks=[ComponentCallback([component])],
    ).fit(module, torch.utils.data.DataLoader(torch.full((2,), 2.0), batch_size=2))  # fmt: skip
    assert component.curved is not None
    assert component.curved.isfinite().all()
    assert (module.w != before).all()


class Counter:
    """An object of one's own, whose inside is nobody else's business."""

    def __init__(self) -> None:
        self.calls = 0


class Counting(nn.Module):
    """A plain module in a LightningModule, with a count and a running mean as plain attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0
        self.running = torch.zeros(2)
        self.seen: set[int] = set()

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        self.running += 1
        self.seen.add(self.calls)
        return x


class Leaky(Quadratic):
    """Keeps in its training step whatever a researcher may keep."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(Counting())
        self.history: dict[str, Any] = {"loss": [], "deep": {"queue": deque(maxlen=3)}, "sum": torch.zeros(())}
        self.pair = ([], {"n": 0})
        self.itself: list[Any] = []
        self.itself.append(self.itself)
        self.long = [[0] for _ in range(1000)]
        self.step_number, self.said, self.meter = 0, "", Counter()

    def training_step(self, batch: Tensor) -> dict[str, Tensor]:
        output = super().training_step(self.inner(batch))
        self.history["loss"].append(1)
        self.history["deep"]["queue"].append(self.step_number)
        self.history["sum"] += 1
        self.pair[0].append(1)
        self.pair[1]["n"] += 1
        self.itself.append(1)
        self.long.append([1])
        self.long[0][0] += 1
        self.step_number += 1
        self.said += "x"
        self.meter.calls += 1
        return output


class Again(Component):
    """One more pass an update."""

    def gradient(self, oracle: Oracle, batch: Any, inner: InnerGradient) -> Gradient:
        first = inner(batch)
        oracle.gradient(batch, buffers="keep")
        return first


def test_a_second_pass_leaves_no_trace_in_plain_attributes_of_any_module() -> None:
    module = Leaky()
    history, queue, running = module.history, module.history["deep"]["queue"], module.inner[0].running
    pl.Trainer(
        max_epochs=1, logger=False, enable_checkpointing=False, enable_progress_bar=False, accelerator="cpu",
        enable_model_summary=False, callbacks=[ComponentCallback([Again()])],
    ).fit(module, torch.utils.data.DataLoader(torch.full((8,), 2.0), batch_size=2))  # fmt: skip
    assert module.history is history
    assert history["deep"]["queue"] is queue
    assert (history["loss"], list(queue), history["sum"].item()) == ([1] * 4, [1, 2, 3], 4)
    assert (len(module.pair[0]), module.pair[1]["n"], len(module.itself)) == (4, 4, 5)
    assert (len(module.long), module.step_number, module.said) == (1004, 4, "xxxx")
    inner: Any = module.inner[0]
    assert inner.running is running
    assert (inner.calls, inner.running.tolist(), inner.seen) == (4, [4.0, 4.0], {1, 2, 3, 4})
    assert module.meter.calls == 8  # as documented: the inside of other objects stays,
    assert module.long[0] == [8]  # and that of the things in a long list


pytestmark = [
    pytest.mark.filterwarnings("ignore:The '.*_dataloader' does not have many workers"),
    pytest.mark.filterwarnings("ignore:The number of training batches .* is smaller than the logging interval"),
]
