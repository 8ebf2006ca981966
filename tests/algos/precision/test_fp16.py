"""fp16: what is computed in it, how its scale moves (as torch's GradScaler's does), and where it is refused."""

import pytest
import torch
from torch import nn

from algos.contracts import Scaling
from algos.finding import InputError
from algos.losses.cross_entropy import CrossEntropy
from algos.precision import fp16
from algos.precision.bf16 import Bf16
from algos.precision.fp16 import Fp16


def test_products_are_float16_and_weights_gradients_and_loss_float32():
    model = nn.Linear(4, 3)
    with Fp16().autocast("cpu"):
        predictions = model(torch.randn(5, 4))
        mean, _ = CrossEntropy()(predictions, torch.zeros(5, dtype=torch.long))
    mean.backward()
    assert predictions.dtype == torch.float16
    assert mean.dtype == model.weight.dtype == model.weight.grad.dtype == torch.float32


def test_a_gradient_too_small_for_float16_survives_only_scaled():
    """1e-9 on the way back is zero in float16, whose smallest number is 6e-8."""
    gradients = []
    for scaled in (False, True):
        precision, w = Fp16(), nn.Parameter(torch.ones(1, 1))
        with precision.autocast("cpu"):
            loss = (torch.ones(1, 1) @ w).float().sum() * 1e-9
        (precision.scaled(loss) if scaled else loss).backward()
        if scaled:
            precision.unscaled([w.grad])
        gradients.append(w.grad.item())
    assert gradients[0] == 0
    assert gradients[1] == pytest.approx(1e-9, rel=1e-3)


def test_its_scale_moves_as_torch_s_grad_scaler_s_does():
    ours = Fp16(init_scale=8.0, growth_factor=4.0, backoff_factor=0.25, growth_interval=3)
    theirs = torch.amp.GradScaler("cpu", init_scale=8.0, growth_factor=4.0, backoff_factor=0.25, growth_interval=3)
    random = torch.Generator().manual_seed(0)
    scales = []
    for _ in range(60):
        w, twin = nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(3))
        slope = torch.where(torch.rand((), generator=random) < 0.2, torch.inf, 1.5)
        optimizer = torch.optim.SGD([twin], lr=1.0)
        ours.scaled((w * slope).sum()).backward()
        theirs.scale((twin * slope).sum()).backward()
        (grad,), finite = ours.unscaled([w.grad])
        theirs.unscale_(optimizer)
        assert torch.equal(grad.nan_to_num(), twin.grad.nan_to_num())
        assert bool(finite) == bool(slope.isfinite())
        ours.updated(finite)
        theirs.step(optimizer)
        theirs.update()
        assert bool((twin == 1).all()) != bool(finite), "torch skips what we call not finite"
        assert float(ours.scale) == theirs.get_scale()
        scales.append(float(ours.scale))
    assert len(set(scales)) > 4


def test_derivatives_with_a_graph_keep_it_and_others_are_divided_in_place():
    precision = Fp16(init_scale=4.0)
    w = nn.Parameter(torch.tensor([3.0]))
    (slope,) = torch.autograd.grad(precision.scaled(w.square().sum()), [w], create_graph=True)
    (found,), finite = precision.unscaled([slope])
    assert (found.item(), bool(finite)) == (6.0, True)
    assert torch.autograd.grad(found.sum(), [w])[0].item() == 2.0
    plain = torch.tensor([4.0, torch.nan])
    (same,), finite = precision.unscaled([plain])
    assert same is plain
    assert plain[0] == 1.0
    assert not bool(finite)


def test_its_state_is_tensors_and_a_snapshot():
    one, two = Fp16(init_scale=8.0, growth_interval=2), Fp16(growth_interval=2)
    one.updated(torch.tensor(True))
    saved = one.state_dict()
    one.updated(torch.tensor(True))
    assert float(one.scale) == 16
    two.load_state_dict(saved)
    assert float(two.scale) == 8
    two.updated(torch.tensor(True))
    assert float(two.scale) == 16
    assert float(saved["scale"]) == 8


def test_it_scales_and_bf16_does_not():
    assert isinstance(Fp16(), Scaling)
    assert not isinstance(Bf16(), Scaling)


@pytest.mark.parametrize(
    ("hyper", "range_"),
    [({"init_scale": 0.0}, "(0, inf)"), ({"growth_factor": 1.0}, "(1, inf)"), ({"backoff_factor": 1.0}, "(0, 1)"),
     ({"growth_interval": 0}, "[1, inf)")],
)  # fmt: skip
def test_wrong_hyperparameters_are_refused(hyper, range_):
    with pytest.raises(InputError, match="is not valid") as raised:
        Fp16(**hyper)
    assert range_ in str(raised.value)


@pytest.mark.skipif(torch.cuda.is_available(), reason="a CUDA device is there")
def test_without_the_device_it_is_refused():
    with pytest.raises(InputError, match="precision 'fp16' cannot be used on device 'cuda': no CUDA device is there"):
        Fp16().autocast("cuda")


def test_on_an_npu_it_is_the_npus_own_autocast(monkeypatch):
    asked = []
    monkeypatch.setattr(torch, "npu", object(), raising=False)
    monkeypatch.setattr(torch, "autocast", lambda kind, dtype: asked.append((kind, dtype)))
    fp16._missing.cache_clear()
    Fp16().autocast("npu")
    fp16._missing.cache_clear()
    assert asked == [("npu", torch.float16)]
