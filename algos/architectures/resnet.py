"""ResNet: blocks that learn what to add to their input, for small images.

Source: He et al. 2016, section 4.2 (the CIFAR form); Goyal et al. 2017, section 5.1 (a block's last scale starts at 0).

    x_0 = relu(bn(conv3x3(image, stride)))                                (B, width, H/stride, W/stride)
    F(x) = bn(conv3x3(relu(bn(conv3x3(x)))))
    x_(l+1) = relu(shortcut(x_l) + F(x_l))
    out = W mean_over_pixels(x_L) + b                                     (B, outputs)

`stages` stages of `blocks` blocks; each stage after the first halves height and width and doubles the channels.
Deviations: the shortcut into a new stage is a 1x1 convolution with stride (the paper's option B), and the first
convolution may stride, so that 28x28 images train in minutes on a CPU. Convolutions ~ N(0, 2/fan_out), without biases.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from torch.nn import functional as F

from algos import fitting
from algos.contracts import Signature
from algos.finding import InputError
from algos.spec import Declared, Int, Spec


class Block(nn.Module):
    """relu(shortcut(x) + F(x)): (B, fan_in, H, W) -> (B, fan_out, H/stride, W/stride)."""

    def __init__(self, fan_in: int, fan_out: int, stride: int):
        super().__init__()
        self.conv1 = _conv(fan_in, fan_out, 3, stride)
        self.norm1 = nn.BatchNorm2d(fan_out)
        self.conv2 = _conv(fan_out, fan_out, 3, 1)
        self.norm2 = nn.BatchNorm2d(fan_out)
        nn.init.zeros_(self.norm2.weight)
        same = fan_in == fan_out and stride == 1
        self.shortcut = (
            nn.Identity() if same else nn.Sequential(_conv(fan_in, fan_out, 1, stride), nn.BatchNorm2d(fan_out))
        )

    def forward(self, x: Tensor) -> Tensor:
        change = self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x)))))
        return F.relu(self.shortcut(x) + change)


class ResNet(nn.Module, Declared):
    """A residual network: (B, C, H, W) -> (B, outputs).

    >>> from torch import zeros
    >>> ResNet(Signature("image", (1, 8, 8), 10), width=8)(zeros(3, 1, 8, 8)).shape
    torch.Size([3, 10])
    """

    width: int = Int(16, low=1, search="8:64:int", unit="channels of the first stage")
    blocks: int = Int(1, low=1, search="1:3:int", unit="blocks a stage")
    stages: int = Int(3, low=1, unit="stages")
    stride: int = Int(1, low=1, unit="pixels the first convolution moves")

    def __init__(self, signature: Signature, **hyper: Any):
        nn.Module.__init__(self)
        Declared.__init__(self, **hyper)
        fitting.check("resnet", signature.kind)
        channels, *sides = signature.inputs
        reduction = self.stride * 2 ** (self.stages - 1)
        if min(sides) < reduction:
            raise InputError(
                f"stride={self.stride} and stages={self.stages} reduce images {reduction} times, more than their "
                f"{min(sides)} pixels", "give fewer stages or a smaller stride", place="resnet.stages",
            )  # fmt: skip
        self.stem = nn.Sequential(_conv(channels, self.width, 3, self.stride), nn.BatchNorm2d(self.width), nn.ReLU())
        fan_in, layers = self.width, []
        for stage in range(self.stages):
            for block in range(self.blocks):
                fan_out = self.width * 2**stage
                layers.append(Block(fan_in, fan_out, stride=2 if stage > 0 and block == 0 else 1))
                fan_in = fan_out
        self.layers = nn.Sequential(*layers)
        self.head = nn.Linear(fan_in, signature.outputs)
        nn.init.zeros_(self.head.bias)

    def forward(self, x: Tensor) -> Tensor:
        predictions: Tensor = self.head(self.layers(self.stem(x)).mean(dim=(2, 3)))
        return predictions


def _conv(fan_in: int, fan_out: int, size: int, stride: int) -> nn.Conv2d:
    conv = nn.Conv2d(fan_in, fan_out, size, stride, padding=size // 2, bias=False)
    nn.init.kaiming_normal_(conv.weight, mode="fan_out", nonlinearity="relu")
    return conv


SPEC = Spec(
    build=ResNet,
    accepts=("image",),
    cost="about 36 H W width^2 / stride^2 FLOPs a block and image, forward, in every stage",
    cite="""@inproceedings{he2016deep,
  title={Deep Residual Learning for Image Recognition},
  author={He, Kaiming and Zhang, Xiangyu and Ren, Shaoqing and Sun, Jian},
  booktitle={IEEE Conference on Computer Vision and Pattern Recognition}, pages={770--778}, year={2016}
}
@article{goyal2017accurate,
  title={Accurate, Large Minibatch {SGD}: Training {ImageNet} in 1 Hour},
  author={Goyal, Priya and Doll{\\'a}r, Piotr and Girshick, Ross and Noordhuis, Pieter and Wesolowski, Lukasz and
    Kyrola, Aapo and Tulloch, Andrew and Jia, Yangqing and He, Kaiming},
  journal={arXiv preprint arXiv:1706.02677}, year={2017}
}""",
)
