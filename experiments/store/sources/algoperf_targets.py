"""AlgoPerf's targets: what each workload must reach in validation, its budget, and which workloads count.

Source of the numbers of v0.5: mlcommons/submissions_algorithms, workload_targets_v05.json (targets, step hints) and
scoring/compute_speedups.py (the longest training in seconds; a held-out variant has that of its base). How they were
found: Dahl et al. 2023, "Benchmarking Neural Network Training Algorithms". The score asks for validation targets only.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from algos.finding import InputError

Mode = Literal["max", "min"]

_MODES: Mapping[str, Mode] = {
    **dict.fromkeys(("accuracy", "ssim", "mean_average_precision", "bleu"), "max"),
    **dict.fromkeys(("loss", "ce_loss", "ctc_loss", "l1_loss", "wer", "error_rate", "ppl"), "min"),
}
_GOALS: Mapping[str, Mode] = {"maximize": "max", "minimize": "min"}


@dataclass(frozen=True)
class Target:
    """What one workload asks for. value: of the validation metric. steps: the length of a schedule, in updates.
    budget_s: the longest training under the external ruleset, in seconds, or None where that is not known."""

    metric: str
    mode: Mode
    value: float
    steps: int
    budget_s: float | None = None


@dataclass(frozen=True)
class Targets:
    """One version of the benchmark. base: the workloads that are scored; held_out: their variants, whose targets must
    be reached too. longer: times the budget under the self-tuning ruleset."""

    version: str
    base: tuple[str, ...]
    held_out: tuple[str, ...]
    workloads: Mapping[str, Target]
    longer: float = 3.0

    def base_of(self, workload: str) -> str:
        """The scored workload that a variant belongs to; itself where there is none."""
        return next((name for name in self.base if name in workload), workload)


#: Metric, validation target and step hint, by workload.
_V05 = """
cifar accuracy 0.85 4883
criteo1tb loss 0.123735 10666
criteo1tb_test loss 0.123735 10666
criteo1tb_layernorm loss 0.123757 10666
criteo1tb_embed_init loss 0.129657 10666
criteo1tb_resnet loss 0.12415 10666
fastmri ssim 0.723653 18094
fastmri_model_size ssim 0.723559 18094
fastmri_tanh ssim 0.71784 18094
fastmri_layernorm ssim 0.723284 18094
imagenet_resnet accuracy 0.77431 195999
imagenet_resnet_silu accuracy 0.75445 195999
imagenet_resnet_gelu accuracy 0.76765 195999
imagenet_resnet_large_bn_init accuracy 0.76526 195999
imagenet_vit accuracy 0.77309 167999
imagenet_vit_glu accuracy 0.75738 167999
imagenet_vit_post_ln accuracy 0.75312 167999
imagenet_vit_map accuracy 0.77113 167999
librispeech_conformer wer 0.085884 76000
librispeech_conformer_attention_temperature wer 0.109977 76000
librispeech_conformer_layernorm wer 0.09731 76000
librispeech_conformer_gelu wer 0.094114 76000
librispeech_deepspeech wer 0.119936 38400
librispeech_deepspeech_tanh wer 0.150883 38400
librispeech_deepspeech_no_resnet wer 0.131564 38400
librispeech_deepspeech_norm_and_spec_aug wer 0.14342 38400
finewebedu_lm ppl 22.2995 72000
mnist accuracy 0.97 7813
ogbg mean_average_precision 0.28098 52000
ogbg_gelu mean_average_precision 0.27771 52000
ogbg_silu mean_average_precision 0.282178 52000
ogbg_model_size mean_average_precision 0.269446 52000
wmt bleu 30.8491 120000
wmt_post_ln bleu 30.0779 120000
wmt_attention_temp bleu 29.3379 120000
wmt_glu_tanh bleu 29.5779 120000
"""
#: The longest training of each scored workload in v0.5, in seconds, and what it trains.
_V05_BASE = {
    "criteo1tb": (7703.0, "Criteo 1TB clicks, DLRM"),
    "fastmri": (8859.0, "fastMRI reconstruction, U-Net"),
    "imagenet_resnet": (63008.0, "ImageNet, ResNet-50"),
    "imagenet_vit": (77520.0, "ImageNet, vision transformer"),
    "librispeech_conformer": (61068.0, "LibriSpeech, Conformer"),
    "librispeech_deepspeech": (55506.0, "LibriSpeech, DeepSpeech"),
    "ogbg": (18477.0, "OGBG molecules, graph network"),
    "wmt": (48151.0, "WMT translation, transformer"),
}
_V05_HELD_OUT = (
    "criteo1tb_embed_init",
    "fastmri_tanh",
    "imagenet_resnet_large_bn_init",
    "librispeech_conformer_layernorm",
    "ogbg_model_size",
    "wmt_glu_tanh",
)


def _v05() -> Targets:
    found = {}
    for line in _V05.split("\n"):
        if line:
            name, metric, value, steps = line.split()
            budget = next((seconds for base, (seconds, _) in _V05_BASE.items() if base in name), None)
            found[name] = Target(metric, _MODES[metric], float(value), int(steps), budget)
    return Targets("0.5", tuple(_V05_BASE), _V05_HELD_OUT, found)


V05 = _v05()


def title(workload: str, targets: Targets) -> str:
    """What a workload is, for a reader.

    >>> title("fastmri_tanh", V05)
    'fastMRI reconstruction, U-Net: variant tanh'
    """
    base = targets.base_of(workload)
    said = _V05_BASE[base][1] if base in _V05_BASE else base
    variant = workload.removeprefix(base).strip("_").replace("_", " ")
    return f"{said}: variant {variant}" if variant else said


def read(file: Path) -> Targets:
    """Targets of another version, from a file of the form of AlgoPerf's workload_targets.json: benchmark_version,
    base_workloads, held_out_workloads, and of each of the workloads target_metric_name, validation_target_value,
    step_hint and, where known, target_metric_goal and max_allowed_runtime_sec. InputError where it is not of that
    form."""
    try:
        data = json.loads(file.read_text())
    except OSError as error:
        raise InputError(
            f"the targets cannot be read ({error.strerror})", "give another file", source=str(file)
        ) from None
    except ValueError as error:
        raise InputError(f"the targets are not JSON ({error})", _CURE, source=str(file)) from None
    try:
        version = str(data["benchmark_version"])
        base, held = (tuple(map(str, data[key])) for key in ("base_workloads", "held_out_workloads"))
        workloads = {str(name): _target(str(name), told) for name, told in data["workloads"].items()}
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as error:
        if isinstance(error, InputError):
            raise error.at(source=str(file)) from None
        said = f"lacks {error}" if isinstance(error, KeyError) else f"is not of the form expected ({error})"
        raise InputError(f"the file of targets {said}", _CURE, source=str(file)) from None
    lacking = [name for name in (*base, *held) if name not in workloads]
    if lacking or not base:
        said = f"no target for {', '.join(lacking)}" if lacking else "no base_workloads"
        raise InputError(f"the file of targets has {said}", _CURE, source=str(file))
    return Targets(version, base, held, workloads, longer=3.0 if version == "0.5" else 1.5)


_CURE = "take workload_targets.json of mlcommons/submissions_algorithms as an example"


def _target(name: str, told: Mapping[str, Any]) -> Target:
    metric, goal = str(told["target_metric_name"]), told.get("target_metric_goal")
    mode = _GOALS.get(str(goal)) if goal is not None else _MODES.get(metric)
    if mode is None:
        said = f"it is not said whether more {metric} is better" if goal is None else f"the goal is {goal!r}"
        raise InputError(said, "add target_metric_goal: minimize or maximize", place=name)
    budget = told.get("max_allowed_runtime_sec")
    seconds = float(budget) if budget is not None else None
    value, steps = float(told["validation_target_value"]), int(told["step_hint"])
    for word, number in (
        ("validation_target_value", value),
        ("step_hint", steps),
        ("max_allowed_runtime_sec", seconds),
    ):
        if number is not None and (not math.isfinite(number) or (number <= 0 and word != "validation_target_value")):
            raise InputError(f"{word} is {number:g}, which it cannot be", "mend that number", place=name)
    return Target(metric, mode, value, steps, seconds)
