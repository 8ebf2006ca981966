"""bf16: what is computed in it, what is not, and where it is refused."""

import pytest
import torch

from algos.finding import InputError
from algos.losses.cross_entropy import CrossEntropy
from algos.precision import bf16
from algos.precision.bf16 import Bf16


def test_products_are_bfloat16_and_weights_gradients_and_loss_float32():
    model = torch.nn.Linear(4, 3)
    with Bf16().autocast("cpu"):
        predictions = model(torch.randn(5, 4))
        mean, _ = CrossEntropy()(predictions, torch.zeros(5, dtype=torch.long))
    mean.backward()
    assert predictions.dtype == torch.bfloat16
    assert mean.dtype == model.weight.dtype == model.weight.grad.dtype == torch.float32


def test_it_rounds_to_8_bits_of_significand():
    with Bf16().autocast("cpu"):
        product = torch.tensor([[1.0]]) @ torch.tensor([[1.0 + 2**-9]])
    assert product.item() == 1.0


def test_it_ends_with_its_context():
    with Bf16().autocast("cpu"):
        pass
    assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.float32


@pytest.mark.skipif(torch.cuda.is_available(), reason="a CUDA device is there")
def test_without_the_device_it_is_refused_and_not_turned_off_with_a_warning():
    with pytest.raises(InputError, match="precision 'bf16' cannot be used on device 'cuda': no CUDA device is there"):
        Bf16().autocast("cuda")


@pytest.mark.skipif(hasattr(torch, "npu"), reason="torch-npu is there")
def test_on_an_npu_it_asks_for_torch_npu():
    with pytest.raises(InputError, match="torch-npu is not imported; give precision=fp32"):
        Bf16().autocast("npu")


def test_on_an_npu_it_is_the_npus_own_autocast(monkeypatch):
    """Not CUDA's: the device type is passed on as it is."""
    asked = []
    monkeypatch.setattr(torch, "npu", object(), raising=False)
    monkeypatch.setattr(torch, "autocast", lambda kind, dtype: asked.append((kind, dtype)))
    bf16._missing.cache_clear()
    Bf16().autocast("npu")
    bf16._missing.cache_clear()
    assert asked == [("npu", torch.bfloat16)]


@pytest.mark.skipif(torch.backends.mps.is_available(), reason="an Apple GPU is there")
def test_where_the_device_cannot_it_is_refused():
    with pytest.raises(InputError, match="on device 'mps'"):
        Bf16().autocast("mps")
