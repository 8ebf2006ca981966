"""Studies of users' own modules and of recorded loops, in a real home, through the spools that they would write."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments.recorder import opened
from experiments.store.home import Home
from experiments.store.schema import Labels, RunFile
from experiments.store.spool import Attempt

UPDATES, EVERY = 400, 40
SEEDS = (1, 2, 3, 4, 5, 6)
LAYERS = "class Layer: ...\n"
SOURCE = "class Net: ...\n\n\nclass Data: ...\n"


def noise(arm: str, seed: int) -> float:
    """What a seed adds to an arm's level: between -0.003 and 0.003, the same each time."""
    return (hashlib.sha256(f"{arm} {seed}".encode()).digest()[0] / 255 - 0.5) * 0.006


def curve(
    attempt: Attempt, level: float, *, updates: int = UPDATES, metric: str = "val/acc", seconds: float = 0.01
) -> None:
    """Evaluations of a run that climbs to its level early on, with the counts beside them."""
    for update in range(EVERY, updates + 1, EVERY):
        value = level - 0.5 * 2 ** (-update / 15)
        counts = {"time/train_s": update * seconds, "count/gradients": update, "count/updates": update}
        attempt.points(update, {metric: value, "train/loss": 1 - value, **counts})


def recorded(
    home: Home,
    arm: str,
    level: float,
    *,
    seeds: Sequence[int] = SEEDS,
    updates: int = UPDATES,
    test: bool = False,
    study: str = "mine",
    logged: str = "val/acc",
    counts: bool = True,
    **told: Any,
) -> list[str]:
    """Final runs of an arm, as a loop of the user's own would record them. The ids."""
    stated = {"metric": "val/acc", "mode": "max", "config": {"optimizer": arm, "lr": 0.1}, **told}
    ids = []
    for seed in seeds:
        folder = opened(study=study, arm=arm, seed=seed, home=home, **stated)
        attempt = folder.begin()
        if counts:
            curve(attempt, level + noise(arm, seed), updates=updates, metric=logged)
        else:
            attempt.points(updates, {logged: level + noise(arm, seed)})
        if test:
            attempt.points(updates, {"test/acc": level + noise(arm, seed) - 0.01})
            attempt.final({"test/acc": level + noise(arm, seed) - 0.01})
        attempt.end("completed")
        ids.append(folder.run_id)
    return ids


def source(folder: Path, text: str = SOURCE) -> Path:
    """The user's file, on disk."""
    file = folder / "net.py"
    file.write_text(text)
    (folder / "layers.py").write_text(LAYERS)
    return file


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _told(file: Path, name: str, text: str) -> dict[str, Any]:
    sha256 = sha(text)
    return {
        "reference": f"net.py:{name}",
        "file": str(file),
        "class": name,
        "sha256": sha256,
        "files": {"net.py": sha256, **({"layers.py": sha(LAYERS)} if name == "Net" else {})},
    }


def task_facts(file: Path, text: str = SOURCE, **changes: Any) -> dict[str, Any]:
    """What a run of a module says of its task."""
    return {
        "name": "Net",
        "metric": "acc",
        "mode": "max",
        "worst": None,
        "target": None,
        "target_source": "",
        "unit": "examples",
        "select": "last",
        "title": "Net",
        "domain": "",
        "cite": "",
        "home": "",
        "sizes": {},
        "digest": "",
        "baselines": {},
        "module": _told(file, "Net", text),
        "data": _told(file, "Data", text),
        **changes,
    }


def module_config(seed: int, optimizer: Mapping[str, Any], **changes: Any) -> dict[str, Any]:
    """A module task's config, with what the user keeps called "own"."""
    return {
        "schema": 1,
        "task": "net.py:Net",
        "model": {"name": "Net", "width": 32},
        "data": {"name": "net.py:Data", "batch_size": 16},
        "optimizer": dict(optimizer),
        "schedule": {"name": "own"},
        "loss": {"name": "own"},
        "precision": {"name": "own"},
        "wrappers": [],
        "compression": [],
        "metric": "val/acc",
        "mode": "max",
        "target": None,
        "worst": None,
        "batch_size": None,
        "accumulate": 1,
        "evaluate_every": None,
        "budget": {"updates": UPDATES},
        "trainer": {"callbacks": "net.py:callbacks"},
        "seed": seed,
        "select": "last",
        "stop": "budget",
        **changes,
    }


def modules(
    home: Home,
    arm: str,
    level: float,
    facts: Mapping[str, Any],
    *,
    optimizer: Mapping[str, Any] | None = None,
    seeds: Sequence[int] = SEEDS,
    trials: int = 0,
    test: bool = False,
    early: Mapping[int, int] | None = None,
    events: Sequence[tuple[str, Mapping[str, Any]]] = (),
    study: str = "mine",
    **config: Any,
) -> list[str]:
    """Runs of an arm on a user's module, as our runner would write them: trials, then seeds. early: the updates at
    which a callback ended a seed's run. The ids."""
    tuned = {"space": {"optimizer.lr": "1e-3:1e-1:log"}, "trials": trials, "sampler": "random"} if trials else {}
    told = {"question": "", "seeds": list(seeds), "trials": trials, "winner": "", "reason": "", "params": {}, **tuned}
    jobs = [("tune", number, 1000 + number) for number in range(trials)]
    jobs += [("final", number, seed) for number, seed in enumerate(seeds)]
    ids = []
    for phase, number, seed in jobs:
        lr = {"lr": 10 ** (-3 + 2 * (number + 0.5) / trials)} if phase == "tune" else {"lr": 0.01} if trials else {}
        if phase == "tune" and number == trials // 2:
            lr = {"lr": 0.01}
        run_id = f"20260101-{len(home.run_ids()):06}-{arm[:6]}"
        file = RunFile(
            run_id=run_id,
            name=run_id,
            labels=Labels("Net", study, arm, phase, number, seed),  # type: ignore[arg-type]
            config=module_config(seed, {**(optimizer or {"name": "own"}), **lr}, **config),
            digest="0" * 64,
            facts={"task": dict(facts), "entries": {}, "study": told, "parameters": 5_000},
            provenance={"commit": "c" * 40, "dirty": False, "packages": {"torch": "2.13.0"}},
            created=1_700_000_000_000 + len(home.run_ids()),
        )
        attempt = home.create(file).begin()
        off = 0.05 * abs(number - trials // 2) if phase == "tune" else -noise(arm, seed)
        updates = (early or {}).get(seed, UPDATES)
        curve(attempt, level - off, updates=updates)
        if updates < UPDATES:
            attempt.event("stopped_early", update=updates, reason="EarlyStopping")
        for name, data in events:
            attempt.event(name, **data)
        final = {"objective": level - off}
        attempt.final({**final, "test/acc": level - off - 0.01} if test and phase == "final" else final)
        attempt.end("completed")
        ids.append(run_id)
    return ids
