"""Every wrapper in a user's own module: equal to our loop, resumed bit for bit, or refused in one line."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import pytest
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from torch import nn

from algos import catalogue
from algos.contracts import Component
from algos.finding import InputError
from algos.optimizers.adamw import AdamW
from algos.optimizers.schedule_free_adamw import ScheduleFreeAdamW
from algos.wrappers.adaptive_clipping import AdaptiveClipping
from algos.wrappers.asam import Asam
from algos.wrappers.cautious import Cautious
from algos.wrappers.centralisation import Centralisation
from algos.wrappers.clipping import Clipping
from algos.wrappers.eight_bit_state import EightBitState
from algos.wrappers.ema import Ema
from algos.wrappers.galore import Galore
from algos.wrappers.lawa import Lawa
from algos.wrappers.lookahead import Lookahead
from algos.wrappers.sam import Sam
from algos.wrappers.swa import Swa
from experiments.modules.components import ComponentCallback
from tests.experiments.modules.test_components import descend, fit, fresh, refused, weights
from tests.experiments.modules.test_components import pytestmark as pytestmark

#: Eight updates of a network whose one hidden matrix is 8x5.
MADE: dict[str, Callable[[], Component]] = {
    "adaptive_clipping": AdaptiveClipping,
    "asam": lambda: Asam(rho=0.2),
    "cautious": Cautious,
    "centralisation": Centralisation,
    "clipping": lambda: Clipping(norm=0.1),
    "eight_bit_state": lambda: EightBitState(block=16, smallest=1),
    "ema": lambda: Ema(decay=0.8),
    "galore": lambda: Galore(rank=2, every=3),
    "lawa": lambda: Lawa(k=2, every=3),
    "lookahead": lambda: Lookahead(k=3),
    "sam": Sam,
    "swa": lambda: Swa(start=0.3, every=2),
}
IN_GRADIENT = ("adaptive_clipping", "asam", "centralisation", "clipping", "sam")


def adamw(model: nn.Module) -> torch.optim.Optimizer:
    return AdamW(model, lr=0.05)


def test_every_wrapper_is_tried() -> None:
    assert set(MADE) == set(catalogue.paths("wrappers"))


@pytest.mark.parametrize("name", MADE)
def test_lightnings_loop_equals_ours(name: str) -> None:
    module, model, plain = fresh(make=adamw), fresh().net, fresh(make=adamw)
    fit(module, ComponentCallback([MADE[name]()]))
    descend(model, adamw, [MADE[name]()])
    assert (weights(module.net) - weights(model)).abs().max() < 1e-12
    fit(plain)
    assert (weights(module.net) - weights(plain.net)).abs().max() > 1e-6, "it did nothing"


@pytest.mark.parametrize("name", MADE)
def test_it_resumes_bit_for_bit_from_a_checkpoint(name: str, tmp_path: Path) -> None:
    whole = fresh(make=adamw)
    saving = ModelCheckpoint(tmp_path, save_top_k=-1, every_n_train_steps=4, filename="{step}")
    callback = ComponentCallback([MADE[name]()])
    fit(whole, callback, saving, epochs=3, enable_checkpointing=True)
    for step in (4, 8):  # ends of epochs, in the midst of a wrapper's three updates
        again = fresh(make=adamw)
        fit(again, ComponentCallback([MADE[name]()]), epochs=3, ckpt_path=tmp_path / f"step={step}.ckpt")
        assert torch.equal(weights(again), weights(whole))


@pytest.mark.parametrize("name", IN_GRADIENT)
def test_those_that_change_the_gradient_are_refused_with_accumulation(name: str) -> None:
    callback = ComponentCallback([MADE[name]()])
    refused("accumulate_grad_batches=2 hands it one micro-batch", fresh(), callback, accumulate_grad_batches=2)


def test_those_that_see_updates_count_them_under_accumulation() -> None:
    """Two batches an update, twelve batches: six updates, of which Lookahead sees the third and the sixth."""
    module = fresh(make=adamw)
    callback = ComponentCallback([Lookahead(k=3)])
    fit(module, callback, epochs=3, accumulate_grad_batches=2)
    assert callback.updates == 6


def test_clipping_twice_is_refused() -> None:
    refused("would clip twice", fresh(), ComponentCallback([AdaptiveClipping()]), gradient_clip_val=0.5)


def test_swa_cannot_collect_statistics_there_and_averages_them_where_asked() -> None:
    refused("give statistics=averaged", fresh(norm=True), ComponentCallback([Swa()]))
    fit(fresh(norm=True), ComponentCallback([Swa(start=0.3, every=2, statistics="averaged")]))


@pytest.mark.parametrize("component", [Swa(), Lawa(), Lookahead()])
def test_beside_others_that_evaluate_elsewhere_they_are_refused(component: Component, tmp_path: Path) -> None:
    free = fresh(make=lambda model: ScheduleFreeAdamW(model))
    refused("evaluates at weights of its own", free, ComponentCallback([copy.deepcopy(component)]))
    both = ComponentCallback([copy.deepcopy(component), Ema()])
    refused("each evaluate at weights of their own", fresh(), both)
    saving = ModelCheckpoint(tmp_path, save_weights_only=True)
    refused("save_weights_only", fresh(), ComponentCallback([component]), saving, enable_checkpointing=True)


def test_galore_needs_an_optimizer_with_a_rule() -> None:
    torchs = fresh(make=lambda model: torch.optim.AdamW(model.parameters()))
    refused("torch's AdamW has none to change: .*tl.optimizer\\(self, 'adamw'", torchs, ComponentCallback([Galore()]))
    free = fresh(make=lambda model: ScheduleFreeAdamW(model))
    refused("moves the weights in its own way", free, ComponentCallback([Galore(rank=2)]))


def test_galore_keeps_low_rank_state_there() -> None:
    module = fresh(make=adamw)
    made = fit(module, ComponentCallback([Galore(rank=2)]))
    state: Any = made.optimizers[0].state[module.net[0].weight]
    assert state["exp_avg"].shape == (8, 2)


def test_an_optimizer_that_steps_by_itself_may_have_low_rank_state() -> None:
    class Manual(type(fresh())):  # type: ignore[misc]
        automatic_optimization = False

        def training_step(self, batch: Any, batch_idx: int) -> None:
            optimizer = self.optimizers()
            optimizer.zero_grad()
            self.manual_backward(nn.functional.cross_entropy(self.net(batch[0]), batch[1]))
            optimizer.step()

    torch.manual_seed(3)
    module, model = Manual(make=adamw), fresh().net
    fit(module, ComponentCallback([Galore(rank=2, every=3)]))
    descend(model, adamw, [Galore(rank=2, every=3)])
    assert (weights(module.net) - weights(model)).abs().max() < 1e-12


def test_a_wrong_setting_is_told_by_name() -> None:
    with pytest.raises(InputError, match=r"Galore\.rank"):
        Galore(rank=0)
    assert isinstance(ComponentCallback([Galore()]), pl.Callback)
