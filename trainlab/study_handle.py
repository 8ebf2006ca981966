"""Study: one study of the store in your hands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from algos.finding import unknown
from experiments.store.home import Home
from trainlab import owners, standing, studies
from trainlab.background import of_study
from trainlab.run_handle import Run

if TYPE_CHECKING:
    import optuna
    import pandas

    from trainlab.background import Background


class Study:
    """A study: its runs, how it stands, its answer. background: the process that runs it, if one does."""

    def __init__(self, name: str, home: Home, *, background: Background | None = None):
        background = background or of_study(home, name)
        known = [*studies.names(home), *standing.begun(home)]
        if name not in known and not (background and background.running):
            if background is None:
                raise unknown("study", name, dict.fromkeys(known))
            background.wait()  # says what was refused
        self.name = name
        self._home = home
        self._background = background

    @property
    def runs(self) -> list[Run]:
        """Every run of it, oldest first, those that failed too."""
        return [Run(record.run_id, self._home) for record in studies.of_study(self._home, self.name)]

    def table(self) -> pandas.DataFrame:
        """One row a task and arm, the best first: test metric with its t interval, n, time to target, failures."""
        import pandas

        from experiments.store.sources.home import HomeSource
        from reports.summary import summarise

        return pandas.DataFrame(summarise(HomeSource(self._home), self.name))

    @property
    def optuna(self) -> Mapping[str, optuna.Study]:
        """Optuna's own studies, by "task/arm" and "task/arm/final"."""
        from trainlab.native import optuna_studies

        return optuna_studies(self._home, self.name)

    def status(self) -> pandas.DataFrame:
        """One row a task, arm and phase; one column a status."""
        import pandas

        return pandas.DataFrame(studies.status(self._home, self.name).data)

    def report(
        self,
        out: str | Path | None = None,
        *,
        metric: str = "",
        mode: str = "",
        formats: str | Sequence[str] = "html",
    ) -> Path:
        """Writes the report into a folder, by default ./STUDY-report; the path of the first of its formats.

        metric, mode: by what its runs are judged ("val/acc", "max"), where recorded runs do not say it themselves.
        formats: of "html", "pdf", "latex", "markdown", "docx" and "notebook", one or more; "latex" also writes
        tables/*.tex, each for an article of your own.
        """
        from experiments.store.sources.home import HomeSource
        from reports.judged import Stated
        from reports.writing import write

        folder = Path(out or f"{self.name}-report")
        wanted = formats.split(",") if isinstance(formats, str) else formats
        return write(HomeSource(self._home), self.name, folder, stated=Stated(metric, mode), formats=wanted)

    def export(self, path: str | Path, form: str = "", force: bool = False) -> list[Path]:
        """Writes its tables, csv, parquet or json by the file's name: points, and runs beside them; the files."""
        from trainlab.importing import export

        return export(self.name, path, form, force, self._home)

    def notes(self) -> list[str]:
        """What to know of its runs: which were recorded from other loops, whose files have changed since."""
        return studies.notes(studies.of_study(self._home, self.name))

    def stop(self) -> None:
        """Ask it to stop after the updates it is in, whichever process of this machine runs it; sweep it again to go
        on. Asked twice, it stops now. InputError where it runs on another machine; nothing where nobody runs it."""
        if self._background and self._background.running:
            self._background.stop()
        else:
            owners.ask_to_stop(f"study {self.name}", owners.of_study(self._home, self.name))

    @property
    def pid(self) -> int | None:
        """The process that runs it, of this machine or another; None where nobody does."""
        if self._background and self._background.running:
            return self._background.pid
        found = owners.of_study(self._home, self.name)
        return int(found[0]["pid"]) if found else None

    def wait(self) -> Study:
        """Until it is over. Raises InputError where it was refused."""
        if self._background:
            self._background.wait()
        return self

    def __repr__(self) -> str:
        known = self.name in [*studies.names(self._home), *standing.begun(self._home)]
        who = f", run by process {self.pid}" if self.pid else ""
        return f"study {self.name}{who}\n{studies.status(self._home, self.name).text if known else 'no runs yet'}"

    def _repr_html_(self) -> Any:
        import html

        return f"<pre>{html.escape(repr(self))}</pre>"
