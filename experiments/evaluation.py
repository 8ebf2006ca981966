"""Evaluation: a split's metrics at the weights the algorithm evaluates at, leaving no trace on training."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from algos.contracts import TrainingAlgorithm
from experiments.checkpoint import preserved_random
from experiments.oracle import TaskOracle
from experiments.task import Split, TaskData, TaskSpec
from experiments.tasks.metrics import evaluate_batch

#: Training batches that re-estimate BatchNorm statistics at evaluation weights.
RECALIBRATION_BATCHES = 16


class Evaluator:
    """Evaluates one model on one task. batch_size and seed: of the training batches that re-estimate BatchNorm
    statistics."""

    def __init__(
        self, task: TaskSpec, data: TaskData, oracle: TaskOracle, device: torch.device, batch_size: int, seed: int
    ):
        self._task, self._data, self._oracle, self._device = task, data, oracle, device
        self._batch_size, self._seed = batch_size, seed
        self._norms = [m for m in oracle.model.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]

    @contextmanager
    def at_evaluation_weights(self, algorithm: TrainingAlgorithm) -> Iterator[nn.Module]:
        """The model in evaluation mode, at the weights to evaluate; training mode, weights and randomness come back
        after."""
        model = self._oracle.model
        with preserved_random(), algorithm.evaluating(self._oracle), torch.no_grad():
            if self._norms and getattr(algorithm, "recollects", False):
                with self._recalibrated():
                    yield model
            else:
                model.eval()
                try:
                    yield model
                finally:
                    model.train()

    def measure(self, split: Split) -> dict[str, float]:
        """metric -> value over the whole split, exact whatever the batches; the model is used as it is."""
        sums: dict[str, Tensor] = {}
        counts: dict[str, float] = {}
        with torch.no_grad():
            for batch in self._data.evaluation(split, self._device):
                found = evaluate_batch(self._task.metrics, self._oracle.predict(batch), batch.targets)
                for name, (total, count) in found.items():
                    sums[name] = sums[name] + total if name in sums else total
                    counts[name] = counts.get(name, 0) + count
        return {name: float(total) / counts[name] for name, total in sums.items()}

    @contextmanager
    def _recalibrated(self) -> Iterator[None]:
        """BatchNorm's running statistics belong to the weights they were collected at: collect them again for these, as
        the plain average over training batches (Defazio et al. 2024, section on BatchNorm), and put the old ones back
        after."""
        model = self._oracle.model
        before = [{name: buffer.clone() for name, buffer in norm.named_buffers()} for norm in self._norms]
        momenta = [norm.momentum for norm in self._norms]
        model.eval()
        for norm in self._norms:
            norm.reset_running_stats()
            norm.momentum = None
            norm.train()
        source = self._data.training(self._batch_size, self._seed, self._device)
        try:
            for _ in range(min(len(source), RECALIBRATION_BATCHES)):
                model(*source.next().inputs)
            model.eval()
            yield
        finally:
            for norm, buffers, momentum in zip(self._norms, before, momenta, strict=True):
                norm.momentum = momentum
                for name, buffer in norm.named_buffers():
                    buffer.copy_(buffers[name])
            model.train()
