"""Curvature for optimizers that need it: the Hessian's diagonal, estimated by one product with random signs.

Source: Hutchinson's estimator as Bekas et al. 2007 use it for diagonals: E[z*(Hz)] = diag(H) for independent signs z.

Training loops give it: `GradientDescent` asks the oracle for the product. In a plain torch loop it is enough that the
gradients have a graph (`loss.backward(create_graph=True)`).

Torch's fused attention has no second derivative: `twice_differentiable` has attention computed by its plain kernel.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from algos.finding import InputError

#: Of torch's message where a fused attention kernel is differentiated twice.
_FUSED = re.compile(r"scaled_dot_product_\w+ is not implemented")


@contextmanager
def twice_differentiable(owner: str = "") -> Iterator[None]:
    """Around forward pass and derivatives: `scaled_dot_product_attention` is computed by its plain kernel, which has
    second derivatives. Raises InputError where the model chooses a fused one itself. owner: for messages."""
    with sdpa_kernel(SDPBackend.MATH), _told(owner):
        yield


@contextmanager
def _told(owner: str) -> Iterator[None]:
    """torch's error for a second derivative of fused attention, as an InputError that names the cure."""
    try:
        yield
    except RuntimeError as error:
        if not _FUSED.search(str(error)):
            raise
        raise InputError(
            "the curvature is a second derivative, and torch's fused attention has none",
            "put `with sdpa_kernel(SDPBackend.MATH):` (of torch.nn.attention) around the forward pass",
            rule="no-second-derivative",
            place=owner,
        ) from error


def signs(like: Tensor) -> Tensor:
    """Independent +1 and -1, of a tensor's shape, dtype and device, from torch's own generator."""
    return torch.randint(0, 2, like.shape, device=like.device).to(like.dtype).mul_(2).sub_(1)


def diagonal(params: Sequence[Tensor], owner: str) -> dict[Tensor, Tensor]:
    """The estimate for each parameter that has a gradient, from gradients with a graph, which is freed: the gradients
    are detached. Raises InputError where no gradient has one, or the model's attention has no second derivative.
    owner: the optimizer's name."""
    having = [param for param in params if param.grad is not None]
    grads = [param.grad for param in having if param.grad is not None]
    if not any(grad.requires_grad for grad in grads):
        raise InputError(
            "the curvature is needed at this step, and the gradients have no graph to take it from",
            "call loss.backward(create_graph=True), or optimizer.observe_curvature(...) before step(); in a Lightning "
            "Trainer add tl.callback()",
            rule="no-curvature",
            place=owner,
        )
    probes = [signs(grad) for grad in grads]
    with torch.enable_grad(), _told(owner):
        linked = [(grad, probe) for grad, probe in zip(grads, probes, strict=True) if grad.requires_grad]
        products = torch.autograd.grad(
            [grad for grad, _ in linked], having, [probe for _, probe in linked], allow_unused=True,
            materialize_grads=True,
        )  # fmt: skip
    for param in having:
        assert param.grad is not None
        param.grad = param.grad.detach()
    return {param: probe * product for param, probe, product in zip(having, probes, products, strict=True)}
