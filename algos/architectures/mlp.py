"""Multilayer perceptron: the smallest network, and the baseline that ignores structure.

Source: Rumelhart, Hinton & Williams 1986; the initialisation of He et al. 2015, equation 10. Deviations: none.

    h_0 = flatten(x)                                  (B, F)
    h_l = act(norm(W_l h_(l-1) + b_l)),  l = 1..depth (B, width)
    out = W h_depth + b                               (B, outputs)

W_l ~ N(0, 2/fan_in), W ~ N(0, 1/fan_in), biases 0. Of a graph it sees the nodes' features and not the edges.
"""

from __future__ import annotations

import math
from typing import Any

from torch import Tensor, nn

from algos import fitting
from algos.contracts import Signature
from algos.spec import Choice, Declared, Int, Spec

ACTIVATIONS = {"relu": nn.ReLU, "gelu": nn.GELU, "tanh": nn.Tanh}


class MLP(nn.Module, Declared):
    """Fully connected layers on flattened inputs: (B, C, H, W) or (N, F) -> (B or N, outputs).

    >>> from torch import zeros
    >>> MLP(Signature("image", (1, 8, 8), 10), width=16)(zeros(3, 1, 8, 8)).shape
    torch.Size([3, 10])
    """

    width: int = Int(128, low=1, search="32:512:int", unit="features")
    depth: int = Int(2, low=0, search="1:4:int", unit="hidden layers")
    activation: str = Choice("relu", options=("relu", "gelu", "tanh"))
    norm: str = Choice("none", options=("none", "layer"))

    def __init__(self, signature: Signature, **hyper: Any):
        nn.Module.__init__(self)
        Declared.__init__(self, **hyper)
        fitting.check("mlp", signature.kind)
        features = math.prod(signature.inputs)
        layers: list[nn.Module] = []
        for _ in range(self.depth):
            layers.append(_linear(features, self.width, gain=math.sqrt(2)))
            if self.norm == "layer":
                layers.append(nn.LayerNorm(self.width))
            layers.append(ACTIVATIONS[self.activation]())
            features = self.width
        self.layers = nn.Sequential(*layers)
        self.head = _linear(features, signature.outputs, gain=1.0)

    def forward(self, x: Tensor, edge_index: Tensor | None = None) -> Tensor:
        predictions: Tensor = self.head(self.layers(x.flatten(1)))
        return predictions


def _linear(fan_in: int, fan_out: int, gain: float) -> nn.Linear:
    layer = nn.Linear(fan_in, fan_out)
    nn.init.normal_(layer.weight, std=gain / math.sqrt(fan_in))
    nn.init.zeros_(layer.bias)
    return layer


SPEC = Spec(
    build=MLP,
    accepts=("image", "nodes"),
    cost="2 F width + 2 (depth - 1) width^2 FLOPs an example, forward",
    cite="""@article{rumelhart1986learning,
  title={Learning representations by back-propagating errors},
  author={Rumelhart, David E. and Hinton, Geoffrey E. and Williams, Ronald J.},
  journal={Nature}, volume={323}, pages={533--536}, year={1986}, doi={10.1038/323533a0}
}
@inproceedings{he2015delving,
  title={Delving Deep into Rectifiers: Surpassing Human-Level Performance on {ImageNet} Classification},
  author={He, Kaiming and Zhang, Xiangyu and Ren, Shaoqing and Sun, Jian},
  booktitle={IEEE International Conference on Computer Vision}, pages={1026--1034}, year={2015}
}""",
)
