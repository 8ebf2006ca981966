"""Evaluation of a population: every member on the same batches, in one pass where that fits into memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise

import torch
from torch import Tensor

from experiments.data.batch import Batch
from experiments.evaluation import RECALIBRATION_BATCHES, Evaluator
from experiments.populations.oracle import PopulationOracle
from experiments.populations.sources import together
from experiments.task import BatchSource, Split, TaskData, TaskSpec
from experiments.tasks.metrics import evaluate_batch

#: Numbers that members may have in one pass, about: of more members, some at a time, never one alone.
NUMBERS = 1 << 24
#: How many numbers a model makes of one of its input, about.
WIDTH = 16


class PopulationEvaluator(Evaluator):
    """Evaluates the members of a population, each as a lone run is. seeds: the members'."""

    def __init__(
        self, task: TaskSpec, data: TaskData, oracle: PopulationOracle, device: torch.device, batch_size: int,
        seeds: Sequence[int],
    ):  # fmt: skip
        super().__init__(task, data, oracle, device, batch_size, seeds[0])
        self._stack, self._seeds = oracle.stack, seeds

    def measured(self, split: Split) -> list[dict[str, float]]:
        """metric -> value over the whole split, member by member."""
        sums: dict[str, Tensor] = {}
        counts: dict[str, int] = {}
        with torch.no_grad():
            for batch in self._data.evaluation(split, self._device):
                for name, total in self.totals(batch).items():
                    sums[name] = sums[name] + total if name in sums else total
                    counts[name] = counts.get(name, 0) + batch.targets.numel()
        values = {name: (total / counts[name]).tolist() for name, total in sums.items()}
        return [{name: each[index] for name, each in values.items()} for index in range(self._stack.size)]

    def totals(self, batch: Batch) -> dict[str, Tensor]:
        """metric -> (members,) sums over the batch's targets."""

        def tell(predictions: Tensor, targets: Tensor) -> dict[str, Tensor]:
            found = evaluate_batch(self._task.metrics, predictions, targets)
            return {name: total for name, (total, _) in found.items()}

        numbers = max(batch.inputs[0].numel() * WIDTH, batch.targets.numel() * self._data.signature.outputs)
        parts = [self._stack.told_of(batch, tell, members) for members in passes(self._stack.size, NUMBERS // numbers)]
        return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}

    @contextmanager
    def _recalibrated(self) -> Iterator[None]:
        module = self._oracle.model
        before = [{name: buffer.clone() for name, buffer in norm.named_buffers()} for norm in self._norms]
        momenta = [norm.momentum for norm in self._norms]
        module.eval()
        for norm in self._norms:
            norm.reset_running_stats()
            norm.train()
        source = together([self._training(seed) for seed in self._seeds])
        try:
            for number in range(min(len(self._training(self._seed)), RECALIBRATION_BATCHES)):
                for norm in self._norms:
                    norm.momentum = 1.0 / (number + 1)  # the plain average, as momentum None has it
                self._stack.told(source.next(), lambda predictions, targets: predictions.detach().sum())
            module.eval()
            yield
        finally:
            for norm, buffers, momentum in zip(self._norms, before, momenta, strict=True):
                norm.momentum = momentum
                for name, buffer in norm.named_buffers():
                    buffer.copy_(buffers[name])
            module.train()

    def _training(self, seed: int) -> BatchSource:
        return self._data.training(self._batch_size, seed, self._device)


def passes(members: int, most: int) -> list[slice]:
    """Members in passes of at most `most`, or of two or three where that is less: one alone would round otherwise.

    >>> [(each.start, each.stop) for each in passes(7, 3)], [(each.start, each.stop) for each in passes(5, 1)]
    ([(0, 3), (3, 5), (5, 7)], [(0, 3), (3, 5)])
    """
    count = max(1, min(-(-members // max(2, most)), members // 2))
    size, more = divmod(members, count)
    starts = [index * size + min(index, more) for index in range(count + 1)]
    return [slice(start, stop) for start, stop in pairwise(starts)]
