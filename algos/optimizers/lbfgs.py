"""L-BFGS: quasi-Newton steps from the last gradients' differences, several of them on each batch.

Source: Nocedal & Wright 2006, algorithms 7.4 and 7.5 (line search: 3.5 and 3.6); this is torch.optim.LBFGS itself, with
its names and, but for one, its defaults: torch searches no line unless it is asked, and then moves by lr whatever
becomes of the loss. Deviations are torch's: the very first step tried is min(1, 1/||g||_1) * lr; a pair with
y's <= 1e-10 is left out.

    d <- -H g                                 H from the last `history_size` pairs (s, y), two loops
    w <- w + t*d                              t by a line search from lr for the strong Wolfe conditions; or t = lr
    s <- t*d,  y <- g' - g                    g' the gradient of the same batch at the new w

all weights together as one vector. One update is one call of `step`: up to `max_iter` of these iterations and about
`max_eval` gradients of one batch (all of it, where it is accumulated); each gradient is counted, so budgets in
gradients stay fair. It is meant for whole or large batches: pairs are kept from one batch to the next, and the noise
between batches is then part of y. Where the model draws (dropout), each gradient draws anew.

One group, no weight decay, no populations and no forms; not for losses that are scaled (fp16). Each iteration reads the
loss and several products back from the device, as torch's does.

State: of all weights together `history_size` pairs and three vectors more, kept by torch under the first parameter.
Cost: 1 to max_eval gradients an update, and 4*history_size passes over the weights an iteration.
Memory: 202 numbers of state and 31 of work per weight.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from algos.finding import InputError
from algos.spec import Choice, Int, Real, Spec, hyperparameters, resolve


class LBFGS(torch.optim.LBFGS):
    """torch's L-BFGS with declared hyperparameters.

    params: a model, or parameters, or (name, parameter) pairs, or one group. form: only "auto" and "torch" are there.

    >>> w = torch.nn.Parameter(torch.tensor([3.0, -1.0])); scales = torch.tensor([1.0, 50.0])
    >>> optimizer = LBFGS([w])
    >>> def closure():
    ...     optimizer.zero_grad(); loss = (scales * w.square()).sum(); loss.backward(); return loss
    >>> _ = optimizer.step(closure); w.abs().max().item() < 1e-3
    True
    """

    lr: float = Real(1.0, above=0, search="1e-3:1:log", unit="quasi-Newton steps per iteration")
    max_iter: int = Int(20, low=1, unit="iterations per update")
    max_eval: int | None = Int(None, low=1, optional=True, unit="gradients per update; none: 1.25 * max_iter")
    tolerance_grad: float = Real(1e-7, low=0, unit="largest entry of the gradient")
    tolerance_change: float = Real(1e-9, low=0, unit="change of loss or largest weight")
    history_size: int = Int(100, low=1, unit="pairs")
    line_search_fn: str = Choice("strong_wolfe", ("strong_wolfe", "none"))

    needs: ClassVar[tuple[str, ...]] = ("closure",)

    def __init__(
        self, params: nn.Module | Iterable[Any], *, form: str = "auto", population: int | None = None, **hyper: Any
    ):
        if form not in ("auto", "torch"):
            raise InputError(
                f"form {form!r} is not there for L-BFGS, which is torch's", "give form=auto",
                rule="unfit-form", place="LBFGS.form",
            )  # fmt: skip
        if population is not None:
            raise InputError(
                "L-BFGS looks at all weights together, and would mix the members of a population",
                "train the members one by one", rule="no-population", place="LBFGS.population",
            )  # fmt: skip
        items, own = _one_group(params)
        given = resolve(hyperparameters(LBFGS), {**hyper, **own}, "LBFGS")
        line_search = None if given["line_search_fn"] == "none" else given["line_search_fn"]
        super().__init__(items, **{**given, "line_search_fn": line_search})

    def step(self, closure: Callable[[], Any]) -> Any:  # type: ignore[override]
        """One update; returns the loss where it began. At a rate of 0 (a schedule's begin or end) that loss alone."""
        if self.param_groups[0]["lr"] == 0:
            with torch.enable_grad():
                return closure()
        theirs: Any = torch.optim.LBFGS.step
        if getattr(theirs, "hooked", False):  # torch has made one of its own, whose step runs the hooks that ours runs
            theirs = theirs.__wrapped__
        return theirs(self, closure)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Only the constructor's own group. Raises InputError for another."""
        if self.param_groups:
            raise _several(2)
        super().add_param_group(param_group)

    def _gather_flat_grad(self) -> Tensor:
        """As torch's, also for gradients that are not contiguous (channels last)."""
        params = self.param_groups[0]["params"]
        grads = (torch.zeros_like(param) if param.grad is None else param.grad for param in params)
        return torch.cat([(grad.to_dense() if grad.is_sparse else grad).reshape(-1) for grad in grads])

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._params, self._numel_cache = self.param_groups[0]["params"], None  # torch's pickle loses them

    def state_dict(self) -> dict[str, Any]:
        """As torch's, with copies: later steps change its lists and tensors in place."""
        return copy.deepcopy(super().state_dict())


def _one_group(params: nn.Module | Iterable[Any]) -> tuple[list[Any], dict[str, Any]]:
    """(what torch takes, hyperparameters that a group brings). Raises InputError for several groups, and for what
    cannot be trained."""
    items = list(params.parameters()) if isinstance(params, nn.Module) else list(params)
    own: dict[str, Any] = {}
    if items and isinstance(items[0], dict):
        if len(items) > 1:
            raise _several(len(items))
        own = {name: value for name, value in items[0].items() if name not in ("params", "label", "initial_lr")}
        items = list(items[0]["params"])
    for param in (item[1] if isinstance(item, tuple) else item for item in items):
        if isinstance(param, Tensor) and not param.is_floating_point():
            raise InputError(
                f"a parameter of dtype {param.dtype} cannot be trained", "give real floating-point parameters"
            )
    return items, own


def _several(groups: int) -> InputError:
    return InputError(
        f"L-BFGS looks at all weights together, and has no use for {groups} groups", "give it the model",
        rule="one-group", place="LBFGS",
    )  # fmt: skip


SPEC = Spec(
    build=LBFGS,
    needs=("closure",),
    state="2 * history_size + 3 buffers per weight",
    cost="1 to max_eval gradients an update",
    cite="""@book{nocedal2006numerical,
  title = {Numerical Optimization},
  author = {Nocedal, Jorge and Wright, Stephen J.},
  edition = {2},
  publisher = {Springer},
  year = {2006}
}""",
)
