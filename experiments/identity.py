"""Identity: what a new run says of itself, once and for all, in its run.json: its name, its config, its facts."""

from __future__ import annotations

from typing import Any

from algos import catalogue
from experiments import devices, initial
from experiments.config import RunConfig, digest
from experiments.loop import Parts
from experiments.store.home import new_run_id
from experiments.store.provenance import provenance
from experiments.store.schema import Labels, RunFile
from experiments.store.spool import now_ms
from experiments.task import TaskData
from experiments.tasks import catalogue as tasks


def run_file(
    config: RunConfig, parts: Parts | None, data: TaskData | None, *, labels: Labels, name: str, parent: str = "",
    **more: Any,
) -> RunFile:  # fmt: skip
    """A new run's run.json. parts, data: None where the run's own code raised instead of making them. more: facts
    besides those of its parts."""
    device = devices.resolve(config.device) if parts is None else parts.device
    return RunFile(
        run_id=new_run_id(),
        name=name,
        labels=labels,
        config=config.to_json(),
        digest=digest(config),
        facts={**facts(config, parts, data), "study": {}, **more},
        provenance={**provenance(), "device": {"asked": config.device, **devices.facts(device)}},
        parent=parent or initial.parent(config.init),
        created=now_ms(),
    )


def facts(config: RunConfig, parts: Parts | None, data: TaskData | None) -> dict[str, Any]:
    """What a report must know of the task, the model and the entries, so that it needs none of them."""
    task = tasks.describe(config.task) if parts is None else parts.task
    chosen = {
        "model": ("architectures", config.model),
        "optimizer": ("optimizers", config.optimizer),
        "schedule": ("schedules", config.schedule),
        "loss": ("losses", config.loss),
        "precision": ("precision", config.precision),
        **{f"wrappers.{entry.name}": ("wrappers", entry) for entry in config.wrappers},
        **{f"compression.{entry.name}": ("compression", entry) for entry in config.compression},
    }
    told = ("metric", "mode", "worst", "target", "target_source", "unit", "select", "title", "domain", "cite", "home")
    described = {key: catalogue.describe(kind, entry.name) for key, (kind, entry) in chosen.items()}
    return {
        "task": {
            "name": config.task,
            **{name: getattr(task, name) for name in told},
            "sizes": dict(data.sizes) if data else {},
            "digest": data.digest if data else "",
            "baselines": dict(data.baselines) if data else {},
        },
        "form": getattr(getattr(parts.algorithm, "optimizer", None), "form", "") if parts else "",  # how it computes
        "parameters": sum(parameter.numel() for parameter in parts.oracle.model.parameters()) if parts else 0,
        "entries": {
            key: {"kind": entry.kind, "name": entry.name, "title": entry.title, "cite": entry.cite}
            for key, entry in described.items()
        },
    }


def run_name(config: RunConfig, labels: Labels, differs: str = "") -> str:
    """What people read in lists: "digits adamw seed 1", "digits adamw lr=0.01 seed 1", "digits muon tune 07"."""
    if labels.phase == "tune":
        return f"{labels.task} {labels.arm} tune {labels.number:02d}"
    told = (labels.task, labels.arm or config.optimizer.name, differs, f"seed {labels.seed}")
    return " ".join(part for part in told if part)
