"""Focal loss: cross-entropy that turns down what is already classified well.

Paper: Lin et al. 2017, equations 4 and 5. Deviations: the softmax over K classes in place of the sigmoid (equal for K
= 2 when the logit is the difference of the two), and the mean over the targets in place of the sum over anchors
divided by the number of anchors with an object.

    p_t = softmax(z)(y)
    FL  = -alpha_t * (1 - p_t)**gamma * log p_t

alpha_t is 1 without `alpha`; with it, 1 - alpha for class 0 (the background) and alpha for every other. gamma 0
without alpha is cross-entropy. z predictions (..., K), y targets (...). 1 - p_t is computed as -expm1(log p_t), which
keeps its digits where p_t is near 1. Half-precision predictions are raised to float32 first. Every target counts, and
one that is no class is torch's error; with `ignore_index` targets equal to it do not count, and the mean over none is
0.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from algos.spec import Declared, Int, Real, Spec

#: A number that is no target, so that nothing is ignored where nothing was asked to be.
NOTHING = -(2**31)


class Focal(Declared):
    """predictions (..., classes) logits, targets (...) class numbers -> (mean loss, targets counted).

    A target with p_t = 1/2 counts a quarter at gamma 2: (1 - 1/2)**2 * log 2.

    >>> mean, weight = Focal()(torch.zeros(1, 2), torch.tensor([1]))
    >>> round(mean.item(), 4), int(weight)
    (0.1733, 1)
    """

    gamma: float = Real(2.0, low=0, high=10, search="0.5:5", unit="power of 1 - p_t")
    alpha: float | None = Real(None, above=0, below=1, optional=True, unit="weight of every class but class 0")
    ignore_index: int | None = Int(None, optional=True, unit="the target that does not count")

    def __call__(self, predictions: Tensor, targets: Tensor) -> tuple[Tensor, Tensor | float]:
        logits = predictions if predictions.ndim == 2 else predictions.flatten(0, -2)
        if logits.dtype in (torch.bfloat16, torch.float16):
            logits = logits.float()
        wanted = targets.flatten()
        ignored = NOTHING if self.ignore_index is None else self.ignore_index
        surprise = F.cross_entropy(logits, wanted, ignore_index=ignored, reduction="none")  # -log p_t; 0 where ignored
        # The floor keeps the derivative of x**gamma finite at x = 0 for gamma < 1; there the surprise is 0 as well.
        doubt = (-torch.expm1(-surprise)).clamp(min=torch.finfo(surprise.dtype).tiny)
        losses = doubt**self.gamma * surprise
        if self.alpha is not None:
            losses = losses * torch.where(wanted == 0, 1 - self.alpha, self.alpha)
        if self.ignore_index is None:
            return losses.mean(), float(wanted.numel())
        counted = (wanted != self.ignore_index).sum()
        return losses.sum() / counted.clamp(min=1), counted


SPEC = Spec(
    build=Focal,
    accepts=("image", "tokens", "nodes"),
    state="none",
    cost="O(predictions)",
    cite="""@inproceedings{lin2017focal,
  title = {Focal Loss for Dense Object Detection},
  author = {Lin, Tsung-Yi and Goyal, Priya and Girshick, Ross and He, Kaiming and Doll{\\'a}r, Piotr},
  booktitle = {IEEE International Conference on Computer Vision (ICCV)},
  pages = {2980--2988},
  year = {2017}
}""",
)
