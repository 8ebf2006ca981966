"""Columns of a table that are known by their names: settings that are numbers, and times that passed."""

from __future__ import annotations

import re

#: Hyperparameters as they are usually called. One that is the same all through each run is its setting.
_SETTINGS = """
    lr learning_rate base_lr init_lr peak_lr max_lr min_lr eta weight_decay wd l2 batch_size bs train_batch_size
    per_device_train_batch_size global_batch_size momentum beta beta1 beta2 betas eps epsilon rho gamma dropout
    label_smoothing warmup warmup_steps warmup_ratio warmup_epochs max_steps total_steps epochs num_epochs
    max_epochs clip grad_clip clip_norm max_grad_norm gradient_clip accumulation gradient_accumulation_steps width
    depth layers num_layers n_layers hidden hidden_size hidden_dim d_model heads num_heads n_heads
"""
#: Seconds that passed, of whatever: not when something was, and not training time.
_ELAPSED = """
    wall wall_time walltime wall_clock time time_s times seconds secs sec elapsed elapsed_s elapsed_time
    time_elapsed timestamp runtime _runtime duration relative_time total_time minutes hours
"""


def is_setting(name: str) -> bool:
    """Whether a column is called like a hyperparameter.

    >>> is_setting("optimizer.lr"), is_setting("Batch Size"), is_setting("val/acc")
    (True, True, False)
    """
    return _last(name) in _SETTINGS.split()


def is_elapsed(name: str) -> bool:
    """Whether a column is called like time that passed. `time/train_s` is a metric, and the clock of trainlab.

    >>> is_elapsed("Wall time"), is_elapsed("time/train_s")
    (True, False)
    """
    return _last(name) in _ELAPSED.split()


def _last(name: str) -> str:
    return re.sub(r"[\s-]+", "_", re.split(r"[./]", name.strip().lower())[-1])
