"""Stack: the parts of several runs as one set of parts, and back.

Every member keeps what a lone run has: model, algorithm, source, clock. A stack is made from them where they stand at
one update, trains in their place, and `settle` puts a member's numbers back into its own parts: what writes a
checkpoint or finishes a run then finds a lone run's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from algos import catalogue
from algos.gradient_descent import GradientDescent
from algos.per_tensor import PerTensorOptimizer
from algos.spec import hyperparameters
from experiments.config import RunConfig
from experiments.loop import Parts
from experiments.populations.evaluation import PopulationEvaluator
from experiments.populations.model import StackedModel
from experiments.populations.oracle import PopulationOracle
from experiments.populations.sources import together
from experiments.populations.state import algorithm_of_all, algorithm_of_member, rates_of_member
from experiments.task import TaskData

#: The fewest members that are trained together: sizes from here on agree bit for bit.
SMALLEST = 2


class Stack:
    """parts: of runs that stand at one update and differ in seeds and in real hyperparameters of the optimizer. Of a
    single run, a copy that is thrown away keeps it company."""

    def __init__(self, parts: Sequence[Parts], data: TaskData):
        self.parts = list(parts) * SMALLEST if len(parts) < SMALLEST else list(parts)
        first = self.parts[0]
        config = first.config
        self.model = StackedModel([each.oracle.model for each in self.parts])
        precision, loss = built("precision", config.precision), built("losses", config.loss)
        self.oracle = PopulationOracle(self.model, loss, precision, first.device)
        self.oracle.gradients, self.oracle.updates = first.oracle.gradients, first.oracle.updates
        self.algorithm = self._algorithm(config)
        self.source = together([each.source for each in self.parts])
        assert config.batch_size is not None
        self.evaluator = PopulationEvaluator(
            first.task, data, self.oracle, first.device, config.batch_size, [each.config.seed for each in self.parts]
        )
        if first.oracle.updates:
            states = [each.algorithm.state_dict() for each in self.parts]
            self.algorithm.load_state_dict(algorithm_of_all(self.optimizer, states))
        self.model.module.train()
        self._packed: tuple[int, dict[str, Any]] | None = None  # all members' state, and after how many updates

    @property
    def optimizer(self) -> PerTensorOptimizer:
        assert isinstance(self.algorithm.optimizer, PerTensorOptimizer)
        return self.algorithm.optimizer

    def settle(self, index: int) -> None:
        """Put a member's numbers into its own parts."""
        own = self.parts[index]
        own.oracle.model.load_state_dict(self.model.weights(index))
        own.oracle.gradients, own.oracle.updates = self.oracle.gradients, self.oracle.updates
        if self._packed is None or self._packed[0] != self.oracle.updates:
            self._packed = (self.oracle.updates, self.algorithm.state_dict())
        own.algorithm.load_state_dict(algorithm_of_member(self.optimizer, self._packed[1], index))
        self.source.settle(index)

    def settle_rates(self, index: int) -> None:
        """Put a member's learning rates into its own optimizer."""
        groups = self.parts[index].algorithm.optimizer.param_groups  # type: ignore[attr-defined]
        for group, rate in zip(groups, rates_of_member(self.optimizer, index), strict=True):
            group["lr"] = rate

    def _algorithm(self, config: RunConfig) -> GradientDescent:
        module = self.model.module
        components = [built(kind, entry) for kind, entry in component_entries(config)]
        for component in components:
            component.prepare(module)
        optimizer = catalogue.load("optimizers", config.optimizer.name).build(
            self.parts[0].oracle.model, population=self.model.size, weights=dict(module.named_parameters()),
            form="stacked", **self._hyper(),
        )  # fmt: skip
        return GradientDescent(optimizer, components, built("schedules", config.schedule))

    def _hyper(self) -> dict[str, Any]:
        """The optimizer's hyperparameters: real ones one value a member."""
        each = [part.config.optimizer.hyper for part in self.parts]
        declared = hyperparameters(type(self.parts[0].algorithm.optimizer))  # type: ignore[attr-defined]
        found: dict[str, Any] = {}
        for name, value in each[0].items():
            by_member = declared[name].kind in ("real", "pair") and value is not None
            found[name] = tuple(_plain(own[name]) for own in each) if by_member else value
        return found


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, (list, tuple)) else value


def built(kind: str, entry: Any) -> Any:
    """An entry of the catalogue that takes hyperparameters only."""
    return catalogue.load(kind, entry.name).build(**entry.hyper)


def component_entries(config: RunConfig) -> list[tuple[str, Any]]:
    """(kind, entry) of a run's components, innermost first."""
    return [("compression", entry) for entry in config.compression] + [("wrappers", entry) for entry in config.wrappers]
