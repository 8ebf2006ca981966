"""GPT: a decoder-only transformer that predicts the next token.

Source: Radford et al. 2019, section 2.3: norms before each part, a last norm, residual projections scaled by 1/sqrt(2
depth).

    x_0 = E[tokens] + P[0..T-1]                                            (B, T, width)
    x   = x + W_o attention(qkv(norm(x)))                                  causal, heads of width/heads
    x   = x + W_2 gelu(W_1 norm(x))                                        hidden size 4 width
    out = E norm(x_depth)                                                  (B, T, outputs)

    attention(q, k, v) = softmax(q k' / sqrt(width/heads) + mask) v        mask: -inf above the diagonal

Learned positions P. The output layer is the token embedding E itself (tied: one parameter, `tokens.weight`). Query, key
and value are one linear layer, `qkv`, in this order along its output. Biases start at 0, a norm at the identity.
Deviation: weights ~ N(0, 1/fan_in), the embeddings N(0, 1/width), in place of N(0, 0.02^2), which suits widths near
2500 and makes the small ones used here start slowly.
"""

from __future__ import annotations

import math
from typing import Any

from torch import Tensor, nn
from torch.nn import functional as F

from algos import fitting
from algos.contracts import Signature
from algos.finding import InputError
from algos.spec import Declared, Int, Real, Spec


class Attention(nn.Module):
    """Causal self-attention with several heads: (B, T, D) -> (B, T, D)."""

    def __init__(self, width: int, heads: int, dropout: float):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        heads = self.qkv(x).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = heads.permute(2, 0, 3, 1, 4).unbind(0)  # each (B, heads, T, D/heads)
        dropout = self.dropout if self.training else 0.0
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=dropout)
        projected: Tensor = self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return F.dropout(projected, self.dropout, self.training)


class Block(nn.Module):
    """Attention, then a two-layer perceptron, each added to its input: (B, T, D) -> (B, T, D)."""

    def __init__(self, width: int, heads: int, dropout: float):
        super().__init__()
        self.dropout = dropout
        self.norm1 = nn.LayerNorm(width)
        self.attention = Attention(width, heads, dropout)
        self.norm2 = nn.LayerNorm(width)
        self.expand = nn.Linear(width, 4 * width)
        self.contract = nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        change = self.contract(F.gelu(self.expand(self.norm2(x)), approximate="tanh"))
        return x + F.dropout(change, self.dropout, self.training)


class GPT(nn.Module, Declared):
    """A causal language model: token ids (B, T) -> logits (B, T, outputs), T at most the task's context length.

    >>> from torch import long, zeros
    >>> GPT(Signature("tokens", (16,), 65), width=32, heads=2)(zeros(3, 16, dtype=long)).shape
    torch.Size([3, 16, 65])
    """

    width: int = Int(128, low=1, search="32:256:int", unit="features")
    depth: int = Int(4, low=1, search="1:6:int", unit="blocks")
    heads: int = Int(4, low=1, unit="heads; they divide the width")
    dropout: float = Real(0.0, low=0, below=1, search="0:0.3", unit="probability")

    def __init__(self, signature: Signature, **hyper: Any):
        nn.Module.__init__(self)
        Declared.__init__(self, **hyper)
        fitting.check("gpt", signature.kind)
        if self.width % self.heads:
            raise InputError(
                f"heads={self.heads} does not divide width={self.width}", "give a width that is a multiple of heads",
                place="gpt.heads",
            )  # fmt: skip
        (self.context,) = signature.inputs
        self.positions = nn.Embedding(self.context, self.width)
        self.blocks = nn.ModuleList(Block(self.width, self.heads, self.dropout) for _ in range(self.depth))
        self.norm = nn.LayerNorm(self.width)
        self.tokens = nn.Embedding(signature.outputs, self.width)
        self.output = nn.Linear(self.width, signature.outputs, bias=False)
        self.output.weight = self.tokens.weight
        self._initialise()

    def forward(self, tokens: Tensor) -> Tensor:
        length = tokens.shape[1]
        assert length <= self.context, f"{length} tokens given, the context length is {self.context}"
        x = self.tokens(tokens) + self.positions.weight[:length]
        x = F.dropout(x, self.dropout, self.training)
        for block in self.blocks:
            x = block(x)
        logits: Tensor = self.output(self.norm(x))
        return logits

    def _initialise(self) -> None:
        for name, weight in self.named_parameters():
            if weight.ndim == 2:
                residual = name.endswith(("out.weight", "contract.weight"))
                fan_in = weight.shape[1] * (2 * self.depth if residual else 1)
                nn.init.normal_(weight, std=1 / math.sqrt(fan_in))
            elif name.endswith("bias"):
                nn.init.zeros_(weight)


SPEC = Spec(
    build=GPT,
    accepts=("tokens",),
    cost="24 depth width^2 + 4 depth T width + 2 width outputs FLOPs a token, forward",
    cite="""@techreport{radford2019language,
  title={Language Models are Unsupervised Multitask Learners},
  author={Radford, Alec and Wu, Jeffrey and Child, Rewon and Luan, David and Amodei, Dario and Sutskever, Ilya},
  institution={OpenAI}, year={2019}
}
@inproceedings{vaswani2017attention,
  title={Attention is All You Need},
  author={Vaswani, Ashish and Shazeer, Noam and Parmar, Niki and Uszkoreit, Jakob and Jones, Llion and Gomez, Aidan N.
    and Kaiser, {\\L}ukasz and Polosukhin, Illia},
  booktitle={Advances in Neural Information Processing Systems}, year={2017}
}""",
)
