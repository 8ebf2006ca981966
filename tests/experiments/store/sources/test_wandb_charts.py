"""A chart's CSV export, as wandb's page writes it."""

from __future__ import annotations

import pytest

from algos.finding import InputError
from experiments.store.sources.foreign import Foreign
from experiments.store.sources.wandb_charts import WandbChartReader

CHART = """"Step","a seed 1 - val/acc","a seed 1 - val/acc__MIN","a seed 1 - val/acc__MAX","甲 - b - val/acc"
"10","0.5","0.4","0.6",""
"20","0.75","0.7","0.8","0.25"
"30","NaN","0.7","0.8","0.5"
"""


def source(tmp_path, text: str) -> Foreign:
    path = tmp_path / "wandb_export.csv"
    path.write_text(text)
    return Foreign(WandbChartReader(path), "paper")


def test_each_column_is_a_runs_metric(tmp_path):
    found = source(tmp_path, CHART)
    assert [(r.file.name, r.labels.arm, r.status) for r in found.runs()] == [
        ("a seed 1", "a", "completed"),
        ("甲 - b", "own", "completed"),
    ]
    series = found.series([record.run_id for record in found.runs()])
    assert [(s.run_id, s.metric, s.updates, s.values) for s in series] == [
        ("a seed 1", "val/acc", (10, 20), (0.5, 0.75)),
        ("甲 - b", "val/acc", (20, 30), (0.25, 0.5)),
    ]
    assert found.runs()[0].nonfinite == ("val/acc",)
    assert any("does not say how runs ended" in note for note in found.notes)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [('"0.75"', '"x"', "line 3: a seed 1 - val/acc is 'x'"), ('"20"', '"2.5"', "line 3: Step is '2.5'")],
)
def test_a_broken_cell_is_named_by_its_line(tmp_path, old, new, said):
    with pytest.raises(InputError, match=said):
        source(tmp_path, CHART.replace(old, new)).runs()


def test_another_table_is_sent_where_it_can_be_read(tmp_path):
    with pytest.raises(InputError, match="trainlab import csv"):
        source(tmp_path, "run,step,loss\na,1,2\n").runs()


@pytest.mark.parametrize(("axis", "unit"), [("Step", ""), ("epoch", "epochs"), ("trainer/global_step", "updates")])
def test_the_axis_says_what_the_steps_are(tmp_path, axis, unit):
    records = source(tmp_path, CHART.replace('"Step"', f'"{axis}"')).runs()
    assert {record.file.facts.get("source", {}).get("steps", "") for record in records} == {unit}
