"""Eight-bit state: every per-tensor optimizer trains with it, in a quarter of the memory, as the same in every form."""

from __future__ import annotations

import copy
import io
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from algos import catalogue
from algos.formulas.blockwise import decode
from algos.noisy_quadratic import difference, same, train, weights
from algos.optimizers.adamw import AdamW
from algos.optimizers.lion import Lion
from algos.optimizers.muon import Muon
from algos.per_tensor import PerTensorOptimizer
from algos.wrappers.eight_bit_state import EightBitState

SHAPES = ((80, 70), (9000,), (4,))


def _per_tensor(name: str) -> bool:
    built = catalogue.load("optimizers", name).build
    return isinstance(built, type) and issubclass(built, PerTensorOptimizer)


PER_TENSOR = [name for name in catalogue.paths("optimizers") if _per_tensor(name)]


def _eight_bit(optimizer: Any, **hyper: Any) -> Any:
    optimizer.replace_rule(EightBitState(**hyper).rule)
    return optimizer


def _bytes(state: dict[str, Tensor]) -> int:
    return sum(tensor.nbytes for tensor in state.values())


def test_the_codes_are_the_state() -> None:
    """Lion's momentum after one step is (1 - b2)*g; decoded, it is that to the format's half percent or so."""
    param = nn.Parameter(torch.zeros(64, 64))
    param.grad = torch.randn(64, 64, generator=torch.Generator().manual_seed(1))
    optimizer = _eight_bit(Lion([param]))
    optimizer.step()
    state = optimizer.state[param]
    assert state["exp_avg"].dtype == torch.uint8
    momentum = decode(state["exp_avg"], state["exp_avg_largest"], 256, signed=True)
    torch.testing.assert_close(momentum, 0.01 * param.grad, rtol=0.08, atol=2e-5)


@pytest.mark.parametrize("name", PER_TENSOR)
def test_every_entry_trains_with_it(name: str) -> None:
    """Weights after 20 steps are those of 32 bits to two fifths of how far they moved (Lion's are signs), and the
    loop's are the stacked ones."""
    found = {}
    for form, bits in (("loop", 32), ("loop", 8), ("stacked", 8)):
        params = weights(torch.float32, SHAPES)
        optimizer = catalogue.load("optimizers", name).build(params, form=form)
        if bits == 8:
            _eight_bit(optimizer)
        train(optimizer, params, range(20))
        found[form, bits] = params, optimizer
    moved = difference(found["loop", 32][0], weights(torch.float32, SHAPES))
    apart = difference(found["loop", 8][0], found["loop", 32][0])
    assert apart < 0.4 * moved
    assert difference(found["stacked", 8][0], found["loop", 8][0]) < max(1e-5, 0.02 * moved)
    whole, encoded = (sum(_bytes(optimizer.state[p]) for p in params) for params, optimizer in list(found.values())[:2])
    exact = set(catalogue.load("optimizers", name).build.exact_state)  # type: ignore[attr-defined]
    if not exact:
        assert encoded < 0.3 * whole


@pytest.mark.parametrize("form", ["loop", "stacked"])
def test_it_goes_on_bit_for_bit_from_what_was_saved(form: str) -> None:
    params = weights(torch.float32, SHAPES)
    optimizer = _eight_bit(AdamW(params, form=form))
    train(optimizer, params, range(5))
    file = io.BytesIO()
    torch.save(optimizer.state_dict(), file)
    copies = copy.deepcopy(params)
    other = _eight_bit(AdamW(copies, form=form))
    file.seek(0)
    other.load_state_dict(torch.load(file, weights_only=True))
    train(optimizer, params, range(5, 10))
    train(other, copies, range(5, 10))
    assert same(params, copies)
    assert {tensor.dtype for p in copies[:2] for tensor in other.state[p].values()} == {torch.uint8, torch.float32}


def test_a_state_of_32_bits_is_refused() -> None:
    params, copies = weights(torch.float32, SHAPES), weights(torch.float32, SHAPES)
    plain = Lion(params)
    train(plain, params, range(2))
    with pytest.raises(ValueError, match=r"the loaded state lacks exp_avg_largest"):
        _eight_bit(Lion(copies)).load_state_dict(plain.state_dict())


def test_the_fallback_s_state_is_encoded_too_and_exact_state_is_not() -> None:
    params = weights(torch.float32, SHAPES)
    optimizer = _eight_bit(Muon(params))
    train(optimizer, params, range(2))
    assert optimizer.state[params[0]]["momentum_buffer"].dtype == torch.uint8
    assert optimizer.state[params[1]]["exp_avg"].dtype == torch.uint8
    free = weights(torch.float32, SHAPES)
    schedule_free = _eight_bit(catalogue.load("optimizers", "schedule_free_adamw").build(free))
    train(schedule_free, free, range(2))
    assert schedule_free.state[free[0]]["z"].dtype == torch.float32
    assert schedule_free.state[free[0]]["exp_avg_sq"].dtype == torch.uint8


def test_in_a_population_members_are_lone_runs() -> None:
    rates = [1e-2, 1e-3]
    params = weights(torch.float32, SHAPES, population=2)
    train(_eight_bit(AdamW(params, population=2, lr=rates)), params, range(10))
    for member, lr in enumerate(rates):
        lone = weights(torch.float32, SHAPES)
        train(_eight_bit(AdamW(lone, lr=lr)), lone, range(10))
        assert difference([param[member] for param in params], lone) < 1e-6


@pytest.mark.parametrize("spread", [0.5, 1.5])
@pytest.mark.parametrize("density", [0.1, 1.0])
def test_adamw_does_not_leap_where_a_block_has_gradients_of_all_sizes(spread: float, density: float) -> None:
    """Scales of a lognormal spread, most gradients missing at most steps: second moments that vanish in 8 bits beside
    first moments that do not would make steps of m/eps, thousands of times too long."""
    random = torch.Generator().manual_seed(0)
    param = nn.Parameter(torch.zeros(64, 64))
    scales = torch.exp(spread * torch.randn(64, 64, generator=random))
    optimizer = _eight_bit(AdamW([param], lr=1e-3, weight_decay=0.0))
    for _ in range(100):
        seen = torch.rand(64, 64, generator=random) < density
        param.grad = scales * torch.randn(64, 64, generator=random) * seen
        optimizer.step()
    assert float(param.detach().abs().max()) < 0.1, "100 steps of at most about 1e-3"
