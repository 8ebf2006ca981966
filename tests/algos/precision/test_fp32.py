"""fp32 changes nothing."""

import torch

from algos.precision.fp32 import Fp32


def test_products_keep_the_weights_type():
    for dtype in (torch.float32, torch.float64):
        with Fp32().autocast("cpu"):
            assert (torch.ones(2, 2, dtype=dtype) @ torch.ones(2, 2, dtype=dtype)).dtype == dtype
