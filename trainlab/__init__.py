"""trainlab, the front door: `import trainlab as tl`. Every verb of the command line is a function here.

    run = tl.run("task=digits", "optimizer=muon", seed=3)
    run.history.plot(y="train/loss")
    tl.sweep("my-study.yaml").report()

And our parts for code that is not ours: `tl.optimizer`, `tl.schedule`, `tl.loss`, `tl.precision` and `tl.callback` are
torch's and Lightning's own objects; `tl.Logger`, `tl.record` and `tl.huggingface_callback` give any loop our store.

Lazy: importing trainlab loads nothing heavy; a verb loads what it needs when it is first used.
"""

from __future__ import annotations

import builtins
import importlib
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from experiments.huggingface import huggingface_callback as huggingface_callback
    from experiments.modules.logger import Logger as Logger
    from experiments.modules.task import Task as Task
    from experiments.recorder import record as record
    from experiments.study import StudyConfig as StudyConfig
    from trainlab.checking import check as check
    from trainlab.evidence import delete as delete
    from trainlab.evidence import gc as gc
    from trainlab.evidence import verify as verify
    from trainlab.importing import import_runs as import_runs
    from trainlab.parts import callback as callback
    from trainlab.parts import loss as loss
    from trainlab.parts import optimizer as optimizer
    from trainlab.parts import param_groups as param_groups
    from trainlab.parts import precision as precision
    from trainlab.parts import schedule as schedule
    from trainlab.plot import style as style
    from trainlab.run_handle import Run as Run
    from trainlab.study_handle import Study as Study
    from trainlab.verbs import cite as cite
    from trainlab.verbs import doctor as doctor
    from trainlab.verbs import fork as fork
    from trainlab.verbs import list as list
    from trainlab.verbs import replay as replay
    from trainlab.verbs import resume as resume
    from trainlab.verbs import run as run
    from trainlab.verbs import runs as runs
    from trainlab.verbs import show as show
    from trainlab.verbs import status as status
    from trainlab.verbs import study as study
    from trainlab.verbs import sweep as sweep
    from trainlab.verbs import tune as tune

__version__ = "0.1.0"

_VERBS = (
    "cite", "doctor", "fork", "list", "replay", "resume", "run", "runs", "show", "status", "study", "sweep", "tune",
)  # fmt: skip
_PARTS = ("callback", "loss", "optimizer", "param_groups", "precision", "schedule")
_EVIDENCE = ("delete", "gc", "verify")
_MODULES = ("plot",)
_HOMES = {
    "Run": "trainlab.run_handle",
    "Study": "trainlab.study_handle",
    "StudyConfig": "experiments.study",
    "Task": "experiments.modules.task",
    "check": "trainlab.checking",
    "import_runs": "trainlab.importing",
    "style": "trainlab.plot",
    "Logger": "experiments.modules.logger",
    "record": "experiments.recorder",
    "huggingface_callback": "experiments.huggingface",
    **dict.fromkeys(_VERBS, "trainlab.verbs"),
    **dict.fromkeys(_PARTS, "trainlab.parts"),
    **dict.fromkeys(_EVIDENCE, "trainlab.evidence"),
}
__all__ = [
    "Logger", "Run", "Study", "StudyConfig", "Task", "callback", "check", "cite", "delete", "doctor", "fork", "gc",
    "huggingface_callback", "import_runs", "list", "loss", "optimizer", "param_groups", "plot", "precision", "record",
    "replay", "resume", "run", "runs", "schedule", "show", "status", "study", "style", "sweep", "tune", "verify",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"trainlab.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'trainlab' has no attribute '{name}' (it has {', '.join(sorted(_HOMES))})")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> builtins.list[str]:
    return sorted([*_HOMES, *_MODULES])


def shadowed() -> str:
    """One line that names what stands before a package of trainlab's on the import path; "" where nothing does."""
    ours = Path(__file__).resolve().parent.parent
    for name in ("algos", "experiments", "reports"):
        module = sys.modules.get(name)
        spec = getattr(module, "__spec__", None) if module else find_spec(name)
        places = [Path(place) for place in getattr(spec, "submodule_search_locations", None) or []]
        if spec and spec.origin:
            places.append(Path(spec.origin).parent)
        if not any(place.resolve() == ours / name for place in places):
            what = places[0] if places else "nothing of that name on the import path"
            return (
                f"trainlab needs its own package '{name}' ({ours / name}), but Python finds {what}; "
                f"rename yours, or start Python in another folder"
            )
    return ""


def _refuse(said: str) -> None:
    """The command `trainlab` says it in its own way: one line and exit code 2."""
    if Path(sys.argv[0]).stem == "trainlab":
        print(f"error: {said}", file=sys.stderr)
        raise SystemExit(2)
    raise ImportError(said)


if said := shadowed():
    _refuse(said)
