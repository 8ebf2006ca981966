"""Run: one run of the store in your hands. What it says is read anew each time, so a run under way can be watched."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from algos.finding import InputError
from experiments.store.home import Home, RunFolder
from experiments.store.schema import RunRecord
from trainlab.plain import columns, text

if TYPE_CHECKING:
    import mlflow.entities
    import pandas
    from torch import nn

    from experiments.config import RunConfig
    from experiments.frozen import Frozen
    from trainlab.background import Background


class Run:
    """A run: what it was asked, how it went, what it left behind.

    background, index: the process that runs it, and which of its runs this is; None for a run that is over.
    """

    def __init__(self, run_id: str | None, home: Home, *, background: Background | None = None, index: int = 0):
        self._run_id = run_id
        self._home = home
        self._background = background
        self._index = index
        self._model: nn.Module | None = None

    @classmethod
    def find(cls, name: str, home: Home) -> Run:
        """The one run that `name` means: its id, the start of it, or its name."""
        from experiments.store import queries
        from experiments.store.sources.home import HomeSource

        return cls(queries.find(HomeSource(home), name).run_id, home)

    @property
    def run_id(self) -> str:
        """Its id; of a run that has not started yet, when it starts."""
        if self._run_id is None:
            assert self._background
            self._run_id = self._background.started(self._index)
        return self._run_id

    @property
    def _folder(self) -> RunFolder:
        return self._home.folder(self.run_id)

    @property
    def record(self) -> RunRecord:
        """Everything the store says of it, now."""
        return self._folder.record()

    @property
    def name(self) -> str:
        return self.record.file.name

    @property
    def status(self) -> str:
        """waiting, running, completed, diverged, pruned, crashed, interrupted or lost."""
        if self._run_id is None and self._background and self._background.run_id(self._index) is None:
            return "waiting" if self._background.running else "not started"
        return self.record.status

    @cached_property
    def config(self) -> RunConfig | Frozen:
        """Its config, resolved; of a recorded run, the settings that its maker gave."""
        from experiments.config import RunConfig
        from experiments.frozen import Frozen

        file = self._folder.file
        return Frozen(file.config) if file.facts.get("recorded") else RunConfig.from_json(file.config)

    @property
    def metrics(self) -> Mapping[str, float]:
        """The final value of every metric: train/loss, val/..., test/..., objective, time/..., count/..."""
        return dict(self.record.last)

    @property
    def history(self) -> pandas.DataFrame:
        """One row an update at which something was measured, one column a metric. Of two values the last counts."""
        import pandas

        found = {each.metric: pandas.Series(dict(zip(each.updates, each.values))) for each in self._folder.series()}
        return pandas.DataFrame(found).rename_axis("update").sort_index()

    @property
    def model(self) -> nn.Module:
        """Its model at the evaluation weights that were tested, on the CPU, ready to predict."""
        if self._model is None:
            if self._folder.file.facts.get("recorded"):
                raise InputError(
                    f"run {self.run_id} was recorded: its model is not stored", "keep it where you train it"
                )
            from experiments.training import load_model

            self._model = load_model(self._folder)
        return self._model

    @property
    def path(self) -> Path:
        """Its folder: run.json, spools, checkpoints, model.safetensors."""
        return self._folder.path

    @property
    def mlflow(self) -> mlflow.entities.Run:
        """The run as MLflow has it."""
        from trainlab.native import mlflow_run

        return mlflow_run(self.run_id)

    def stop(self) -> None:
        """Ask it to stop after the update it is in, whichever process of this machine runs it; `tl.resume` goes on with
        it. InputError where that is not ours to ask; nothing where nobody runs it."""
        from trainlab import owners

        if self._background and self._background.running:
            self._background.stop()
            return
        found = owners.of_run(self._folder) if self.run_id else []
        if not found:
            return
        record = self.record
        if record.labels.study and not record.file.facts.get("recorded"):
            said = f"run {self.run_id} is one of the study '{record.labels.study}', which would take it up again"
            raise InputError(said, f'tl.study("{record.labels.study}").stop() stops the study', rule="of-a-study")
        if record.file.facts.get("recorded"):
            said = f"run {self.run_id} is recorded from a loop that is not trainlab's"
            raise InputError(said, f"stop its process: kill {found[0]['pid']}", rule="recorded")
        owners.ask_to_stop(f"run {self.run_id}", found)

    def wait(self) -> Run:
        """Until it is over. Raises InputError where it was refused."""
        if self._background:
            self._background.wait()
        return self

    def bibtex(self) -> str:
        """Whom to cite for everything it used: the task's data and every entry."""
        facts = self._folder.file.facts
        sources = [facts.get("task", {}), *facts.get("entries", {}).values()]
        return "\n\n".join(dict.fromkeys(each["cite"].strip() for each in sources if each.get("cite", "").strip()))

    def _rows(self) -> list[tuple[str, str]]:
        record = self.record
        reason = f" ({record.reason})" if record.reason else ""
        head = [("run", record.run_id), ("name", record.file.name), ("status", f"{record.status}{reason}")]
        return head + [(name, text(value)) for name, value in (record.final or record.last).items()]

    def __repr__(self) -> str:
        if self.status in ("waiting", "not started"):
            return f"Run ({self.status})"
        return columns(self._rows())

    def _repr_html_(self) -> str:
        import html

        if self.status in ("waiting", "not started"):
            return f"<p>{html.escape(repr(self))}</p>"
        cells = (f"<tr><th>{html.escape(name)}</th><td>{html.escape(value)}</td></tr>" for name, value in self._rows())
        return f"<table>{''.join(cells)}</table>"
