"""What a component may ask of a LightningModule in training: losses, gradients and curvature of its training_step."""

from __future__ import annotations

from typing import Any

import lightning.pytorch as pl
import pytest
import torch
from torch import Tensor, nn

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


pytestmark = [
    pytest.mark.filterwarnings("ignore:The '.*_dataloader' does not have many workers"),
    pytest.mark.filterwarnings("ignore:The number of training batches .* is smaller than the logging interval"),
]
