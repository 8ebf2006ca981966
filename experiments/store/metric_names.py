"""Metric names: what a user's metric is called without its split, and which way it is better. Torch-free."""

from __future__ import annotations

import re

_BETTER = {
    "min": ("loss", "error", "err", "perplexity", "ppl", "mse", "mae", "rmse", "bpc", "nll"),
    "max": ("acc", "accuracy", "auc", "auroc", "f1", "precision", "recall", "r2", "iou", "map", "bleu", "psnr", "ssim"),
}
_PREFIX = re.compile(r"^(validation_step:|(val|valid|validation)[/_])")
_HUGGINGFACE = re.compile(r"^(eval|val|valid|validation)[/_]")


def canonical_metric(metric: str, kind: str = "") -> str:
    """The metric's name without saying twice that it is measured in validation. Hugging Face's word for that is eval.

    >>> [canonical_metric(name) for name in ("val/acc", "valid_loss", "validation_step:loss", "bpc", "val/")]
    ['acc', 'loss', 'loss', 'bpc', 'val/']
    >>> canonical_metric("eval_loss"), canonical_metric("eval_loss", "huggingface")
    ('eval_loss', 'loss')
    """
    return (_HUGGINGFACE if kind == "huggingface" else _PREFIX).sub("", metric) or metric


def inferred_mode(metric: str) -> str:
    """ "max", "min" or "", by the last word of a metric's name.

    >>> [inferred_mode(name) for name in ("val/acc", "MulticlassAccuracy", "top_acc@5", "reward", "")]
    ['max', 'max', 'max', '', '']
    """
    segments = [part for part in re.split(r"[^A-Za-z0-9]+", metric) if part and not part.isdigit()]
    if not segments:
        return ""
    pieces = re.findall(r"[A-Z]?[a-z]+\d*|[A-Z]+\d*", segments[-1])
    words = {segments[-1].lower(), *(piece.lower() for piece in pieces[-1:])}
    words |= {word.rstrip("0123456789") for word in words}
    return next((mode for mode, known in _BETTER.items() if words & set(known)), "")
