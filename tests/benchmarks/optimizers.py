"""Every optimizer of the catalogue at full speed: each form of ours, its peers and a compiled copy, side by side.

    python -m tests.benchmarks.optimizers [--only muon,soap] [--quick] [--output FILE]

First everything is compiled, two processes at a time: ours with an empty compiler cache and again with what that left,
which are the compile times, then the peers'. Then each entry is measured in a process of its own, one at a time: in
turns with its peers (`optimizer_timing`) and as a population (`optimizer_population`). Prints Markdown; progress goes
to stderr. Run by `make bench`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from algos import catalogue
from tests.benchmarks import optimizer_table

#: Seconds of turns per entry and model, and how long its process may take.
BUDGET_S = {"elementwise": 3.0, "other": 10.0}
LIMIT_S = 420


def measure_timing(name: str, quick: bool) -> dict[str, Any]:
    """All but compile times; in a process of its own."""
    from tests.benchmarks import optimizer_population, optimizer_shapes, optimizer_timing

    spec = catalogue.load("optimizers", name)
    budget_s = BUDGET_S["elementwise" if spec.elementwise else "other"] * (0.2 if quick else 1.0)
    found: dict[str, Any] = {"elementwise": spec.elementwise}
    found["models"] = {
        model: optimizer_timing.contest(name, model, budget_s, slow_to_compile=not quick)
        for model in list(optimizer_shapes.MODELS)[: 1 if quick else None]
    }
    found["launches"] = attempted(lambda: optimizer_timing.launches(name))
    found["population"] = attempted(lambda: optimizer_population.compare(name))
    return found


def measure_compiling(name: str) -> dict[str, Any]:
    """Seconds that the first steps compile, and kernels of a step then; in a process of its own."""
    from torch.profiler import ProfilerActivity, profile

    from tests.benchmarks import optimizer_shapes, optimizer_timing

    every = optimizer_timing.period(catalogue.load("optimizers", name))
    if "compiled" not in optimizer_timing.forms_of(name):
        return {}
    params = optimizer_shapes.make(optimizer_shapes.transformer())
    step = optimizer_timing.stepper(optimizer_timing.build_ours(name, params, "compiled"), params)
    own = [gradient.clone() for gradient in params.gradients]
    times_s = []
    for _ in range(every + 3):
        params.give(own)
        started = time.perf_counter()
        step()
        times_s.append(time.perf_counter() - started)
    params.give(own)
    with profile(activities=[ProfilerActivity.CPU], acc_events=True) as watched:
        step()
    kernels = sum(optimizer_table.is_kernel(event) for event in watched.events() or ())
    ordinary_s = sorted(times_s)[len(times_s) // 2]
    return {"seconds": sum(max(0.0, each - ordinary_s) for each in times_s), "kernels": kernels}


def compile_peers(name: str) -> dict[str, Any]:
    """Fills the compiler's cache with what the contests compile; in a process of its own."""
    from tests.benchmarks import optimizer_shapes, optimizer_timing

    for model in optimizer_shapes.MODELS:
        optimizer_timing.contest(name, model, 0.0, slow_to_compile=True, only=("compiled", "copy"))
    return {}


def attempted(measure: Any) -> Any:
    """Its result, or what it said when it failed."""
    from tests.benchmarks.optimizer_timing import first_words

    try:
        return measure()
    except Exception as error:
        return {"error": f"{type(error).__name__}: {first_words(error)}"}


def in_process(what: str, name: str, quick: bool, cache: Path) -> dict[str, Any]:
    """What a process of its own measures, or {"error": ...}."""
    command = [sys.executable, "-W", "ignore", "-m", "tests.benchmarks.optimizers", "--measure", what, "--only", name]
    environment = {
        **os.environ, "OMP_NUM_THREADS": "1", "TORCHINDUCTOR_CACHE_DIR": str(cache / name),
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
    }  # fmt: skip
    try:
        done = subprocess.run(
            command + ["--quick"] * quick, env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return {"error": f"over {LIMIT_S} s"}
    if done.returncode:
        return {"error": (done.stderr.strip().splitlines() or ["it died"])[-1][:120]}
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def compile_all(name: str, cache: Path) -> dict[str, Any]:
    times = {label: in_process("compiling", name, False, cache) for label in ("cold", "cached")}
    in_process("peers", name, False, cache)
    return times


#: What a process of its own can be asked for.
MEASURES: dict[str, Callable[[str, bool], dict[str, Any]]] = {
    "timing": measure_timing,
    "compiling": lambda name, _: measure_compiling(name),
    "peers": lambda name, _: compile_peers(name),
}


def settle() -> None:
    """One thread; and each compiled kernel is an event for the profiler."""
    import torch
    import torch._inductor.config

    torch.set_num_threads(1)
    torch._inductor.config.cpp.enable_kernel_profile = True


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="", help="entries, separated by commas")
    parser.add_argument("--quick", action="store_true", help="the transformer only, few rounds, no compile times")
    parser.add_argument("--output", type=Path, help="a file for the tables, in place of the terminal")
    parser.add_argument("--measure", choices=list(MEASURES), help=argparse.SUPPRESS)
    given = parser.parse_args()
    names = given.only.split(",") if given.only else list(catalogue.paths("optimizers"))
    if given.measure:
        settle()
        (name,) = names
        print(json.dumps(MEASURES[given.measure](name, given.quick)))
        return
    found: dict[str, dict[str, Any]] = {name: {} for name in names}
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(2) as pool:
        if not given.quick:
            found = dict(zip(names, pool.map(lambda name: compile_all(name, Path(folder)), names), strict=True))
            print(f"compiled after {time.perf_counter() - started:.0f} s", file=sys.stderr, flush=True)
        for name in names:
            found[name] |= in_process("timing", name, given.quick, Path(folder))
            print(f"{name} after {time.perf_counter() - started:.0f} s", file=sys.stderr, flush=True)
    text = optimizer_table.page(found)
    if given.output:
        given.output.write_text(text)
    else:
        print(text)


if __name__ == "__main__":
    main()
