"""What was measured of the optimizers, as a page of Markdown.

found: entry -> what `optimizers.measure` returns.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from importlib.metadata import version
from typing import Any

Found = dict[str, dict[str, Any]]

MODEL_NAMES = {"transformer": "a transformer of 50 tensors, 13.9 M parameters", "resnet18": "a ResNet-18, 11.7 M"}
#: Element-wise entries: our best form against the fastest of a kind, and how many times that it may take.
ELEMENTWISE = {
    "the fastest compiled or fused peer": (("compiled", "fused"), 1.05),
    "the fastest eager peer": (("eager",), 0.25),
    "a compiled copy of the same bytes": (("copy",), 1.3),
}
#: Matrix entries: against one peer, by the beginning of its label.
NAMED = {"muon": ("torch.optim.Muon", 1.0), "soap": ("pytorch_optimizer", 0.5), "shampoo": ("pytorch_optimizer", 0.1)}
POPULATION = 0.25
#: Our forms, each with a column of its own; "auto" where an entry has none of them.
FORMS = ("loop", "stacked", "compiled", "torch", "auto")


def page(found: Found) -> str:
    packages = ("torch", "pytorch_optimizer", "heavyball", "schedulefree", "prodigyopt", "lion-pytorch", "came-pytorch")
    versions = ", ".join(f"{name} {version(name)}" for name in packages)
    parts = [
        "# Speed of the optimizers",
        f"By `make bench`: one thread, on {platform.machine()} with {os.cpu_count()} cores; {versions}. "
        "All of a row were measured in turns in one process; medians; milliseconds per step, averaged over the steps "
        "after which a method's work repeats. tests/benchmarks/peers.py says how every peer was built.",
        "## Targets",
        targets(found),
    ]
    for model, title in MODEL_NAMES.items():
        if any(model in each.get("models", {}) for each in found.values()):
            parts += [f"## Milliseconds per step on {title}", times(found, model)]
    parts += [
        "## Kernels, bytes, compiling",
        "On the transformer. Bytes: what the operators of a step read and write; least: weights and state both, "
        "gradients once. Launches of a stacked step: for the 50 tensors, and for 10 of each (at width 24). Compiling: "
        "seconds of the first steps with an empty cache, and in a new process with a filled one; two such processes at "
        "a time.",
        kernels(found),
        "## A population of 32",
        "The digits MLP, 64-64-10, batch 64: 32 members one after another, and together, in the form `auto` chooses; "
        "milliseconds of a whole training step, and of the optimizer's part.",
        populations(found),
    ]
    failed = [f"- {name}: {each['error']}" for name, each in found.items() if "error" in each]
    return "\n\n".join(parts + (["## Not measured", "\n".join(failed)] if failed else [])) + "\n"


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


# Targets.


def targets(found: Found) -> str:
    rows = [row for name, each in found.items() if "error" not in each for row in _targets(name, each)]
    met = sum(row[-1] == "yes" for row in rows)
    return f"{met} of {len(rows)} met.\n\n" + table(["optimizer", "on", "against", "at most", "is", "met"], rows)


def _targets(name: str, each: dict[str, Any]) -> Iterator[list[str]]:
    for model, contest in each["models"].items():
        ours = [c["ms"] for c in contest["contestants"] if c["kind"] == "ours" and c["ms"]]
        if not ours:
            continue
        for label, peers, most in _against(name, each["elementwise"], contest["contestants"]):
            yield _row(name, model, label, most, min(ours) / min(peers))
    if isinstance(each["launches"], list):
        few, many = each["launches"]
        yield _row(name, "transformer", "launches for 500 tensors, against 50", 1.0, many / few)
    if "error" not in each["population"]:
        ratio = each["population"]["together"]["step_ms"] / each["population"]["alone"]["step_ms"]
        yield _row(name, "digits MLP", "32 training steps one after another", POPULATION, ratio)


def _row(name: str, model: str, against: str, most: float, ratio: float) -> list[str]:
    return [name, model, against, f"{most:g}x", f"{ratio:.2f}x", "yes" if ratio <= most else "no"]


def _against(
    name: str, elementwise: bool, contestants: list[dict[str, Any]]
) -> Iterator[tuple[str, list[float], float]]:
    timed = [c for c in contestants if c["ms"] and c["kind"] != "ours"]
    if elementwise:
        for label, (kinds, most) in ELEMENTWISE.items():
            peers = [c["ms"] for c in timed if c["kind"] in kinds]
            if peers:
                yield label, peers, most
    if name in NAMED:
        label, most = NAMED[name]
        for c in timed:
            if c["label"].startswith(label):
                yield c["label"], [c["ms"]], most


# Everything measured.


def times(found: Found, model: str) -> str:
    entries = {
        name: each["models"][model]["contestants"] for name, each in found.items() if model in each.get("models", {})
    }
    forms = [form for form in FORMS if any(_of(cs, form) for cs in entries.values())]
    rows = []
    for name, contestants in entries.items():
        peers = [c for c in contestants if c["kind"] != "copy" and c["label"] not in FORMS]
        copy = next((c for c in contestants if c["kind"] == "copy"), None)
        cells = [_cell(_of(contestants, form)) for form in forms]
        rows.append([name, *cells, _cell(copy), "; ".join(f"{c['label']} {_cell(c)}" for c in peers)])
    return table(["optimizer", *forms, "compiled copy", "peers"], rows)


def kernels(found: Found) -> str:
    rows = []
    for name, each in found.items():
        contest = each.get("models", {}).get("transformer")
        if contest is None:
            continue
        counted, cold, cached = contest["counted"], each.get("cold", {}), each.get("cached", {})
        loop, stacked = counted.get("loop", {}), counted.get("stacked", {})
        launches = each["launches"]
        rows.append([
            name, _number(loop.get("kernels")), _number(stacked.get("kernels")), _number(cold.get("kernels")),
            " / ".join(map(str, launches)) if isinstance(launches, list) else "",
            _number(loop.get("mb")), _number(stacked.get("mb")), _number(contest["least_mb"]),
            _number(cold.get("seconds"), 1), _number(cached.get("seconds"), 1),
        ])  # fmt: skip
    head = ["optimizer", "kernels: loop", "stacked", "compiled", "launches 50 / 500", "MB: loop", "stacked", "least",
            "compiling: cold, s", "cached, s"]  # fmt: skip
    return table(head, rows)


def populations(found: Found) -> str:
    rows = []
    for name, each in found.items():
        both = each.get("population", {})
        if "error" in both:
            rows.append([name, both["error"], "", "", "", ""])
        elif both:
            cells = []
            for key in ("step_ms", "optimizer_ms"):
                alone, together = both["alone"][key], both["together"][key]
                cells += [f"{alone:.2f}", f"{together:.2f}", f"{together / alone:.2f}"]
            rows.append([name, *cells])
    head = [
        "optimizer",
        "step: one after another",
        "together",
        "ratio",
        "optimizer: one after another",
        "together",
        "ratio",
    ]
    return table(head, [row + [""] * (len(head) - len(row)) for row in rows])


def is_kernel(event: Any) -> bool:
    """Whether a profiler's event is a kernel: one that inductor made, or an operator that no other operator called."""
    if event.name.startswith("graph_"):
        return True
    inside = event.cpu_parent is not None and event.cpu_parent.name.startswith(("aten::", "graph_"))
    view = event.name.removeprefix("aten::") in VIEWS
    return event.name.startswith("aten::") and not inside and not view


VIEWS = frozenset({
    "view", "reshape", "split", "unbind", "select", "expand", "unsqueeze", "squeeze", "slice", "as_strided", "t",
    "transpose", "permute", "detach", "empty", "empty_like", "empty_strided", "narrow", "split_with_sizes", "flatten",
    "_unsafe_view", "alias", "_reshape_alias", "lift_fresh", "resize_", "unflatten", "numpy_T", "set_",
})  # fmt: skip


def _of(contestants: list[dict[str, Any]], label: str) -> dict[str, Any] | None:
    return next((c for c in contestants if c["label"] == label and c["kind"] == "ours"), None)


def _cell(contestant: dict[str, Any] | None) -> str:
    if contestant is None:
        return ""
    if contestant["error"]:
        return f"failed ({contestant['error'].replace('|', '/')})"
    return f"{contestant['ms']:.2f}" if contestant["ms"] < 100 else f"{contestant['ms']:.0f}"


def _number(value: float | None, digits: int = 0) -> str:
    return "" if value is None else f"{value:.{digits}f}"
