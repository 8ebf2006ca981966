"""Cross-entropy: the mean surprise of the right class, in nats.

Source: Szegedy et al. 2016, section 7 (label smoothing). Deviations: none.

    p(k)  = softmax(z)(k)
    q'(k) = (1 - eps)*[k = y] + eps/K          eps is `label_smoothing`, K the number of classes
    H     = -sum_k q'(k) log p(k)              mean over the targets counted

z predictions (..., K), y targets (...). Half-precision predictions are raised to float32 first, so the sum over classes
and the mean are taken in float32; float64 stays. Every target counts, and one that is no class is torch's error; with
`ignore_index` (padding, say; -100 by custom) targets equal to it do not count, and the mean over none is 0.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from algos.spec import Declared, Int, Real, Spec

#: A number that is no target, so that nothing is ignored where nothing was asked to be.
NOTHING = -(2**31)


class CrossEntropy(Declared):
    """predictions (..., classes) logits, targets (...) class numbers -> (mean loss in nats, targets counted).

    >>> mean, weight = CrossEntropy()(torch.tensor([[0.0, 0.0], [0.0, 0.0]]), torch.tensor([0, 1]))
    >>> round(mean.item(), 4), int(weight)
    (0.6931, 2)
    """

    label_smoothing: float = Real(0.0, low=0, below=1, unit="probability spread over all classes")
    ignore_index: int | None = Int(None, optional=True, unit="the target that does not count")

    def __call__(self, predictions: Tensor, targets: Tensor) -> tuple[Tensor, Tensor | float]:
        logits = predictions if predictions.ndim == 2 else predictions.flatten(0, -2)
        if logits.dtype in (torch.bfloat16, torch.float16):
            logits = logits.float()
        wanted = targets.flatten()
        if self.ignore_index is None:
            mean = F.cross_entropy(logits, wanted, ignore_index=NOTHING, label_smoothing=self.label_smoothing)
            return mean, float(wanted.numel())
        total = F.cross_entropy(
            logits, wanted, ignore_index=self.ignore_index, reduction="sum", label_smoothing=self.label_smoothing
        )
        counted = (wanted != self.ignore_index).sum()
        return total / counted.clamp(min=1), counted


SPEC = Spec(
    build=CrossEntropy,
    accepts=("image", "tokens", "nodes"),
    state="none",
    cost="O(predictions)",
    cite="""@inproceedings{szegedy2016rethinking,
  title = {Rethinking the {Inception} Architecture for Computer Vision},
  author = {Szegedy, Christian and Vanhoucke, Vincent and Ioffe, Sergey and Shlens, Jon and Wojna, Zbigniew},
  booktitle = {IEEE Conference on Computer Vision and Pattern Recognition (CVPR)},
  pages = {2818--2826},
  year = {2016}
}""",
)
