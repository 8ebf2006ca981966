"""The catalogue: a user's own entries are like any other, to pickle too."""

from __future__ import annotations

import copy
import io
import pickle
from pathlib import Path

import pytest
import torch
from torch import nn

from algos import catalogue
from algos.finding import InputError

OWN = '''"""Halved: half of the gradients' sum."""
from algos.per_tensor import PerTensorOptimizer
from algos.spec import Real, Spec
from torch import zeros_like


class Halved(PerTensorOptimizer):
    """Half of the sum of all gradients."""

    lr: float = Real(0.5, above=0)
    weight_decay: float = Real(0.0, low=0)

    @staticmethod
    def init(param, hyper):
        return {"sum": zeros_like(param)}

    @staticmethod
    def direction(param, grad, state, hyper):
        return (state["sum"] + grad) / 2, {"sum": state["sum"] + grad}


SPEC = Spec(build=Halved)
'''


@pytest.fixture(autouse=True)
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINLAB_ENTRIES", str(tmp_path))
    (tmp_path / "optimizers").mkdir()
    (tmp_path / "optimizers" / "halved.py").write_text(OWN)


def stepped(optimizer: torch.optim.Optimizer) -> float:
    (param,) = optimizer.param_groups[0]["params"]
    param.grad = torch.ones(1)
    optimizer.step()
    return float(param.detach())


def test_an_optimizer_of_a_user_s_own_entry_is_copied_pickled_and_saved() -> None:
    optimizer = catalogue.load("optimizers", "halved").build([nn.Parameter(torch.ones(1))])
    assert stepped(optimizer) == 0.75  # 1 - 0.5 * 1/2
    file = io.BytesIO()
    torch.save(optimizer, file)
    file.seek(0)
    copies = [
        copy.deepcopy(optimizer), pickle.loads(pickle.dumps(optimizer)), torch.load(file, weights_only=False),
    ]  # fmt: skip
    assert [stepped(each) for each in [optimizer, *copies]] == [0.25] * 4  # 0.75 - 0.5 * 2/2: the sum came along
    assert {type(each) for each in copies} == {type(optimizer)}


def test_what_is_no_name_is_told_in_one_line() -> None:
    with pytest.raises(InputError, match=r"^the class SGD is given where a name of the catalogue's optimizers belongs"):
        catalogue.load("optimizers", torch.optim.SGD)  # type: ignore[arg-type]
