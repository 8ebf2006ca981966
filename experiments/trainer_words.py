"""Lightning's own words, `trainer.*`: which pass, which mean something of ours, which our loop owns. Torch-free.

Lightning's manual optimization refuses clipping and accumulation, and its counters are not ours, so those words are
turned into the settings that our loop honours. The rest goes to `lightning.pytorch.Trainer` as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from algos.finding import InputError, unknown

PASSED = frozenset({
    "barebones", "benchmark", "detect_anomaly", "deterministic", "enable_model_summary", "inference_mode", "num_nodes",
    "num_sanity_val_steps", "plugins", "profiler", "strategy", "sync_batchnorm",
})  # fmt: skip
MAPPED = frozenset({
    "accelerator", "accumulate_grad_batches", "devices", "gradient_clip_algorithm", "gradient_clip_val",
    "log_every_n_steps", "max_epochs", "max_steps", "precision",
})  # fmt: skip
#: Word -> what to do instead.
OWNED = {
    "callbacks": "write a wrapper (wrappers=...), or use Lightning directly with algos",
    "check_val_every_n_epoch": "use evaluate_every=UPDATES",
    "default_root_dir": "set TRAINLAB_HOME",
    "enable_autolog_hparams": "every hyperparameter is recorded already; leave it out",
    "enable_checkpointing": "checkpoints are how a run resumes; use checkpoint_every=UPDATES",
    "enable_progress_bar": "progress goes to stderr; redirect it",
    "fast_dev_run": "use budget.updates=1",
    "limit_predict_batches": "there is no predict loop; leave it out",
    "limit_test_batches": "the test split is read whole, once; leave it out",
    "limit_train_batches": "use budget.updates=N",
    "limit_val_batches": "the validation split is read whole; use a larger evaluate_every",
    "logger": "every run is recorded already; MLFLOW_TRACKING_URI says where its mirror is",
    "max_time": "use budget.seconds=S",
    "min_epochs": "runs use their whole budget; leave it out",
    "min_steps": "runs use their whole budget; leave it out",
    "model_registry": "use MLflow's registry on the finished run",
    "overfit_batches": "use a task with less data",
    "reload_dataloaders_every_n_epochs": "the batch source shuffles by itself; leave it out",
    "use_distributed_sampler": "the batch source splits by rank itself; leave it out",
    "val_check_interval": "use evaluate_every=UPDATES",
}
_PRECISIONS = {
    "32": "fp32", "32-true": "fp32", "bf16": "bf16", "bf16-mixed": "bf16", "16": "fp16", "16-mixed": "fp16",
}  # fmt: skip


def translate(layer: Mapping[str, Any]) -> dict[str, Any]:
    """A merged tidy layer with Lightning's words turned into ours; InputError for one that our loop owns.

    batch_size counts per micro-batch where accumulate_grad_batches is given, as in Lightning; so it is multiplied.
    """
    said = layer.get("trainer") or {}
    if not isinstance(said, Mapping):
        cure = "give words of Lightning's Trainer, e.g. trainer.benchmark=true"
        raise InputError(f"{said!r} is not valid", cure, place="trainer")
    words = dict(said)
    ours = {key: value for key, value in layer.items() if key != "trainer"}
    for word in words:
        place = f"trainer.{word}"
        if word in OWNED:
            raise InputError("this loop does not take Lightning's word", OWNED[word], rule="trainer-word", place=place)
        if word not in PASSED | MAPPED:
            raise unknown("word of Lightning's Trainer", word, PASSED | MAPPED, place=place)
    given = {word: words.pop(word) for word in sorted(MAPPED) if word in words}
    _clipping(ours, given)
    if "accumulate_grad_batches" in given:
        parts = given["accumulate_grad_batches"]
        if not isinstance(parts, int) or isinstance(parts, bool) or parts < 1:
            place = "trainer.accumulate_grad_batches"
            raise InputError(f"{parts!r} is not valid", "give a whole number above 0", place=place)
        ours |= {"accumulate": parts, "batch_size": ours["batch_size"] * parts}
    for word, unit in (("max_steps", "updates"), ("max_epochs", "epochs")):
        if word in given:
            ours["budget"] = {unit: given[word]}
    if "max_steps" in given and "max_epochs" in given:
        raise InputError("with max_epochs it makes two budgets", "give one of them", place="trainer.max_steps")
    if "precision" in given:
        ours["precision"] = {"name": _precision(given["precision"])}
    for word, key in (("log_every_n_steps", "log_every"), ("devices", "devices"), ("accelerator", "device")):
        if word in given:
            ours[key] = "cuda" if given[word] == "gpu" else given[word]
    return {**ours, "trainer": words}


def one_budget(layers: Sequence[Mapping[str, Any]]) -> None:
    """A budget is not given beside one of Lightning's words for it."""
    words = [layer["trainer"] for layer in layers if isinstance(layer.get("trainer"), Mapping)]
    for word in ("max_steps", "max_epochs"):
        if any(word in given for given in words) and any("budget" in layer for layer in layers):
            raise InputError("with a budget it makes two budgets", "give one of them", place=f"trainer.{word}")


def _clipping(ours: dict[str, Any], given: Mapping[str, Any]) -> None:
    """The clipping wrapper, outermost, so that what is clipped is what the optimizer gets."""
    value = given.get("gradient_clip_val")
    algorithm = given.get("gradient_clip_algorithm", "norm")
    if algorithm not in ("norm", "value"):
        raise InputError(f"{algorithm!r} is not valid", "give norm or value", place="trainer.gradient_clip_algorithm")
    if value is None or value == 0:
        return
    present = list(ours.get("wrappers", []))
    if any(entry["name"] == "clipping" for entry in present):
        place = "trainer.gradient_clip_val"
        raise InputError("the clipping wrapper is there already", "give one of the two", place=place)
    bounds = {"norm": value} if algorithm == "norm" else {"norm": None, "value": value}
    ours["wrappers"] = [*present, {"name": "clipping", **bounds}]


def _precision(word: Any) -> str:
    if str(word) not in _PRECISIONS:
        raise InputError(
            f"trainer.precision={word!r} is not valid here", f"give precision=NAME, or one of {', '.join(_PRECISIONS)}",
            place="trainer.precision",
        )  # fmt: skip
    return _PRECISIONS[str(word)]
