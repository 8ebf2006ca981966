"""Compiled steps are the steps, are compiled once, and are not used where a compiler is wrong or missing."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from algos import compiled, forms
from algos.noisy_quadratic import difference, train, weights
from algos.optimizers.adamw import AdamW
from algos.optimizers.lion import Lion
from algos.optimizers.schedule_free_adamw import ScheduleFreeAdamW

#: One larger than those that are gathered in one vector, so that both ways are taken.
SHAPES = ((150, 120), (7, 5), (5,), (), (0, 4))


@pytest.fixture(autouse=True)
def _programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test compiles for itself."""
    monkeypatch.setattr(compiled, "_programs", {})


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_it_takes_the_loop_s_steps(dtype: torch.dtype) -> None:
    ours, loop = weights(dtype, SHAPES), weights(dtype, SHAPES)
    train(ScheduleFreeAdamW(ours, form="compiled"), ours, range(30))
    train(ScheduleFreeAdamW(loop, form="loop"), loop, range(30))
    assert difference(ours, loop) < {torch.float64: 1e-13, torch.float32: 1e-6, torch.bfloat16: 1e-2}[dtype]


@pytest.mark.slow
def test_a_schedule_recompiles_nothing_in_a_hundred_steps() -> None:
    params = weights(torch.float32, SHAPES)
    optimizer = AdamW(params, form="compiled", weight_decay=0.1)
    train(optimizer, params, range(2))
    graphs, programs = torch._dynamo.utils.counters["stats"]["unique_graphs"], len(compiled._programs)
    with torch._dynamo.config.patch(error_on_recompile=True):
        train(optimizer, params, range(2, 102))
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == graphs
    assert len(compiled._programs) == programs == 1, "one graph serves vectors of every length"


@pytest.mark.slow
def test_another_process_finds_it_compiled(tmp_path: Path) -> None:
    program = (
        "import torch, warnings; warnings.simplefilter('ignore')\n"
        "from algos.noisy_quadratic import train, weights\n"
        "from algos.optimizers.lion import Lion\n"
        "params = weights(torch.float32, [(9, 5)]); train(Lion(params, form='compiled'), params, range(2))\n"
        "print(torch._dynamo.utils.counters['inductor']['fxgraph_cache_hit'])\n"
    )
    environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path)}
    found = [
        subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
        for _ in range(2)
    ]
    assert [each.stdout.strip() for each in found] == ["0", "1"]


def _wrong(graph: Any, **_: Any) -> Any:
    """A compiler that forgets to write the weights."""

    def run(*tensors: Tensor) -> Any:
        return graph(*[tensors[0].clone(), *tensors[1:]])

    return run


def test_a_wrong_program_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "compile", _wrong)
    ours, loop = weights(shapes=SHAPES), weights(shapes=SHAPES)
    with pytest.warns(UserWarning, match="compiled step of Lion differs by .* is not used"):
        train(Lion(ours, form="compiled"), ours, range(5))
    train(Lion(loop, form="loop"), loop, range(5))
    assert difference(ours, loop) < 1e-15


def test_where_compiling_fails_it_runs_stacked_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: Any, **__: Any) -> Any:
        raise RuntimeError("the compiler broke\nin many lines")

    monkeypatch.setattr(torch, "compile", failing)
    ours, loop = weights(shapes=SHAPES), weights(shapes=SHAPES)
    with pytest.warns(
        UserWarning, match="the step of Lion could not be compiled, and runs stacked: the compiler broke$"
    ):
        train(Lion(ours, form="compiled"), ours, range(5))
    train(Lion(loop, form="loop"), loop, range(5))
    assert difference(ours, loop) < 1e-15


def test_without_a_compiler_it_is_stacked_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forms, "compiler_missing", lambda device: "there is no C++ compiler")
    with pytest.warns(UserWarning, match=r"Lion.form: 'stacked' in the place of 'compiled', since there is no C\+\+"):
        assert Lion(weights(), form="compiled").form == "stacked"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        optimizer = Lion(weights())
        optimizer.expect(10**12)
        assert optimizer.form == "stacked"


def test_auto_compiles_where_the_steps_to_come_pay_for_it() -> None:
    large = [nn.Parameter(torch.empty(4_000, 1_000))]
    optimizer = Lion(large)
    assert optimizer.form == "loop"
    optimizer.expect(100)
    assert optimizer.form == "loop"
    optimizer.expect(100_000)
    assert optimizer.form == "compiled"
    optimizer.directing = lambda params, grads, directions: directions
    assert optimizer.form == "loop", "components change directions, which a compiled step does not show"
    native = AdamW(large)
    native.expect(100_000)
    assert native.form == "torch"
    asked = Lion(large, form="loop")
    asked.expect(100_000)
    assert asked.form == "loop"


def test_components_that_change_directions_are_refused() -> None:
    optimizer = Lion(weights(), form="compiled")
    with pytest.raises(
        ValueError, match=r"Lion.form: form='compiled' gives no directions to change; give form='stacked'"
    ):
        optimizer.directing = lambda params, grads, directions: directions


def test_whoever_watches_is_told_while_it_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []

    @contextmanager
    def around(what: str) -> Iterator[None]:
        told.append(f"begin {what}")
        yield
        told.append("end")

    monkeypatch.setattr(torch, "compile", lambda graph, **_: graph)
    params = weights()
    with compiled.watching(around):
        train(Lion(params, form="compiled"), params, range(3))
    assert told == ["begin the step of Lion", "end"]
