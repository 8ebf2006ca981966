from __future__ import annotations

from pathlib import Path

from experiments.store.home import Home, new_run_id
from experiments.store.schema import Labels, RunFile
from trainlab.run_handle import Run


def test_of_two_values_at_one_update_the_history_has_the_last(tmp_path: Path) -> None:
    home = Home(tmp_path)
    folder = home.create(RunFile(new_run_id(), "x", Labels("own"), {}, ""))
    attempt = folder.begin()
    for update, values in ((1, {"a": 1.0}), (1, {"a": 2.0, "b": 3.0}), (2, {"a": 4.0})):
        attempt.points(update, values)
    attempt.end("completed")
    history = Run(folder.run_id, home).history
    assert history["a"].to_dict() == {1: 2.0, 2: 4.0}
    assert history["b"].dropna().to_dict() == {1: 3.0}
    assert history.index.name == "update"
