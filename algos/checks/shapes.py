"""Shapes: every rank, empty tensors, and memory in any order."""

from __future__ import annotations

import torch
from torch import nn

from algos.checks.subject import NotApplicable, Refused, Subject
from algos.noisy_quadratic import difference, take_step, weights

#: What a clear refusal begins with.
CLEAR = ("ValueError", "InputError", "RuntimeError", "NotImplementedError", "TypeError")
RANKS = ((), (1,), (7,), (0,), (0, 4), (3, 0, 2), (1, 1), (6, 4), (2, 3, 4), (5, 3, 2, 2), (2, 1, 3, 2, 2))


def every_rank_is_trained(subject: Subject) -> None:
    """Empty, 0-d to 5-d tensors: all move, stay finite, and take the steps they take alone."""
    complaints = {shape: said for shape in RANKS if (said := subject.complaint(shape))}
    for shape, said in complaints.items():
        assert said.startswith(CLEAR), f"shape {shape} fails obscurely: {said}"
    shapes = [shape for shape in RANKS if shape not in complaints]
    for form in subject.forms:
        params, alone, start = (weights(shapes=shapes) for _ in range(3))
        optimizer = subject.build(params, form)
        for step in range(5):
            take_step(optimizer, list(enumerate(params)), step)
        for index, param in enumerate(params):
            assert torch.isfinite(param).all(), f"{form or 'it'} leaves shape {shapes[index]} with what is not finite"
            moved = param.numel() == 0 or not torch.equal(param, start[index])
            assert moved, f"{form or 'it'} does not move shape {shapes[index]}"
            if not subject.across:
                subject.alone(alone[index], index, range(5))
                found = difference([param, torch.ones(1)], [alone[index], torch.ones(1)])
                assert found < 1e-12, f"{subject.label(form)}shape {shapes[index]} differs from alone by {found:.1e}"
    if complaints:
        shape, said = next(iter(complaints.items()))
        others = ", ".join(map(str, list(complaints)[1:]))
        raise Refused(f"shape {shape}: {said}" + (f" (so are {others})" if others else ""))


def memory_may_be_in_any_order(subject: Subject) -> None:
    """Transposed and channels-last weights take the steps of contiguous ones."""
    if subject.complaint((5, 3, 2, 2)):
        raise NotApplicable("it does not take tensors of rank 4")
    for form in subject.forms:
        plain = weights(shapes=[(6, 4), (5, 3, 2, 2)])
        other = [
            nn.Parameter(plain[0].detach().clone().T.contiguous().T),
            nn.Parameter(plain[1].detach().clone().to(memory_format=torch.channels_last)),
        ]
        for params in (plain, other):
            optimizer = subject.build(params, form)
            for step in range(2 if subject.closure else 5):
                take_step(optimizer, list(enumerate(params)), step)
        found = difference(other, plain)
        assert found < subject.rounding, f"{form or 'it'} differs by {found:.1e}"
