"""Quiet: Lightning without its greetings, and without hints about what is on purpose here."""

from __future__ import annotations

import logging
import warnings


class quiet:
    """Lightning's greetings and hints are about its own loop and loader, which are not in use here."""

    def __enter__(self) -> None:
        self._loggers = [logging.getLogger(name) for name in ("lightning.pytorch", "lightning.fabric")]
        self._levels = [logger.level for logger in self._loggers]
        for logger in self._loggers:
            logger.setLevel(logging.WARNING)
        self._filters = warnings.catch_warnings()
        self._filters.__enter__()
        warnings.filterwarnings("ignore", message=".*treespec, LeafSpec.*")
        warnings.filterwarnings("ignore", message=".*does not have many workers.*")
        warnings.filterwarnings("ignore", message=".*is smaller than the logging interval.*")
        warnings.filterwarnings("ignore", message=".*your dataloader is not resumable.*")  # it is replayed
        warnings.filterwarnings("ignore", message=".*configure_optimizers.*returned `None`.*")
        warnings.filterwarnings("ignore", message=".*GPU available but not used.*")
        warnings.filterwarnings("ignore", message=".*`srun` command is available.*")  # on a login node

    def __exit__(self, *error: object) -> None:
        self._filters.__exit__(None, None, None)
        for logger, level in zip(self._loggers, self._levels, strict=True):
            logger.setLevel(level)
