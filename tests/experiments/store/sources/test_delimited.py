"""CSV files: what is in which column, what each cell says, and which line is broken."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from algos.finding import InputError
from experiments.store.sources.delimited import Columns, CsvReader, milliseconds, plain
from experiments.store.sources.foreign import Foreign
from experiments.store.sources.labelling import Labelling
from experiments.store.sources.statuses import Meanings

LONG = """run,method,seed,step,metric,value
a1,adam w,1,100,val/acc,0.5
a1,adam w,1,200,val/acc,0.75
a1,adam w,1,100,train/loss,2.0
m1,甲 <b>,2,100,val/acc,0.25
"""
WIDE = """optimizer;seed;step;val/acc;train/loss;note
sgd;1;10;0.5;2;x
sgd;1;20;0.625;;y
adam;1;10;0.25;3;
"""


@pytest.fixture
def source(tmp_path):
    """Makes the Source of a CSV file with some text."""

    def make(text: str | bytes, columns: Columns | None = None, labelling: Labelling | None = None, **more) -> Foreign:
        path = tmp_path / "results.csv"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        named = [label for label in (labelling.task, labelling.arm, labelling.seed) if label] if labelling else []
        return Foreign(CsvReader(path, columns, named, **more), "paper", labelling)

    return make


def values(source: Foreign, run: str, metric: str) -> list[tuple[int, float]]:
    [series] = source.series([run], [metric])
    return list(zip(series.updates, series.values))


def test_a_long_table_has_a_value_a_row(source):
    found = source(LONG)
    assert [(r.run_id, r.labels.arm, r.labels.seed, r.labels.study) for r in found.runs()] == [
        ("a1", "adam w", 1, "paper"),
        ("m1", "甲 <b>", 2, "paper"),
    ]
    assert values(found, "a1", "val/acc") == [(100, 0.5), (200, 0.75)]
    assert values(found, "a1", "train/loss") == [(100, 2.0)]
    assert found.runs()[0].last == {"val/acc": 0.75, "train/loss": 2.0}
    assert found.notes == ["arm is read from 'method' (--arm names another)"]


def test_a_wide_table_has_a_column_a_metric_and_empty_cells_are_not_measured(source):
    found = source(WIDE)
    sgd, adam = found.runs()
    assert (sgd.labels.arm, adam.labels.arm) == ("sgd", "adam")
    assert values(found, sgd.run_id, "val/acc") == [(10, 0.5), (20, 0.625)]
    assert values(found, sgd.run_id, "train/loss") == [(10, 2.0)]
    assert found.series([adam.run_id], ["note"]) == []


def test_columns_are_named_where_their_names_say_nothing(source):
    text = "wer,welle,rate,was,wieviel\nx,5,0.1,val/acc,0.5\ny,5,0.2,val/acc,0.75\n"
    columns = Columns(run="wer", step="welle", metric="was", value="wieviel", config=("rate",))
    found = source(text, columns, Labelling(arm="rate"))
    assert [(r.run_id, r.labels.arm, r.config) for r in found.runs()] == [
        ("x", "0.1", {"rate": 0.1}),
        ("y", "0.2", {"rate": 0.2}),
    ]
    assert values(found, "y", "val/acc") == [(5, 0.75)]


def test_settings_are_plain_values_and_numbers_only_where_named(source):
    text = "run,step,lr,nesterov,model,val/acc\na,1,1e-3,true,vit,0.5\n"
    assert source(text, Columns(config=("lr",))).runs()[0].config == {"lr": 0.001, "nesterov": True, "model": "vit"}
    assert "lr" in source(text).runs()[0].last  # a number that nobody named is a metric


def test_without_steps_a_value_is_what_the_run_came_to(source):
    found = source("method,seed,test/acc\na,1,0.5\na,2,0.75\nb,1,0.25\n")
    assert [(r.labels.arm, r.labels.seed, r.final) for r in found.runs()] == [
        ("a", 1, {"test/acc": 0.5}),
        ("a", 2, {"test/acc": 0.75}),
        ("b", 1, {"test/acc": 0.25}),
    ]
    assert any("no column of steps" in note for note in found.notes)
    assert all(record.started is None for record in found.runs())


def test_values_that_are_no_finite_numbers_are_told_and_are_no_points(source):
    found = source("run,step,loss\na,1,0.5\na,2,nan\na,3,-inf\n")
    [record] = found.runs()
    assert values(found, "a", "loss") == [(1, 0.5)]
    assert record.nonfinite == ("loss",)
    assert "loss" not in record.last  # 0.5 is not its last value
    [bad] = found.nonfinite(["a"])
    assert (bad.updates, str(bad.values)) == ((2, 3), "(nan, -inf)")


def test_times_are_kept_and_a_value_given_twice_is_its_last(source):
    text = "run,step,timestamp,loss\na,1,1700000000,0.5\na,2,1700000001.5,0.25\na,2,1700000002,0.125\n"
    found = source(text)
    [series] = found.series(["a"])
    assert series.at == (1_700_000_000_000, 1_700_000_002_000)
    assert series.values == (0.5, 0.125)
    assert (found.runs()[0].started, found.runs()[0].ended) == (1_700_000_000_000, 1_700_000_002_000)
    assert any("given twice" in note for note in found.notes)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("a1,adam,1,300,val/acc,0.5x", "line 6: val/acc is '0.5x', not a number"),
        ("a1,adam,1,300,val/acc,", "line 6: val/acc is '', not a number"),
        ("a1,adam,1,1.5,val/acc,0.5", "line 6: step is '1.5', not a whole number"),
        ("a1,adam,1,-1,val/acc,0.5", "line 6: step is '-1', not a whole number"),
        (",adam,1,300,val/acc,0.5", "line 6: 'run' is empty"),
        ("a1,adam,1,300,,0.5", "line 6: 'metric' is empty"),
        ("a1,adam w,9,300,val/acc,0.5", "line 6: one run has two values of seed ('1', '9')"),
        ("a1,adam w,1,300,val/acc", "line 6: 5 cells, but the header has 6"),
    ],
)
def test_a_broken_cell_is_named_by_its_line(source, row, said):
    with pytest.raises(InputError) as refused:
        source(LONG + row + "\n").runs()
    assert said in str(refused.value)
    assert "results.csv" in str(refused.value)


def test_of_many_broken_cells_five_are_named_and_the_others_counted(source):
    rows = "".join(f"a1,adam w,1,{step},val/acc,bad\n" for step in range(300, 312))
    with pytest.raises(InputError, match=r"line 6: .*line 10: .*and 7 more"):
        source(LONG + rows).runs()


def test_statuses_are_words_that_are_known_or_explained(source):
    text = "run,step,status,loss\na,1,FINISHED,1\nb,1,failed,1\nc,1,running,1\nd,1,pruned,1\n"
    found = {r.run_id: (r.status, r.reason) for r in source(text).runs()}
    assert found == {
        "a": ("completed", "its source says FINISHED"),
        "b": ("crashed", "its source says failed"),
        "c": ("lost", "it was running when it was imported"),
        "d": ("pruned", ""),
    }
    oom = text.replace("failed", "OOM")
    with pytest.raises(InputError, match=r"line 3: status 'OOM' is not known.*--status-word OOM=STATUS"):
        source(oom).runs()
    explained = source(oom, meanings=Meanings.of_options(["OOM=crashed"])).runs()[1]
    assert (explained.status, explained.reason) == ("crashed", "its source says OOM")


@pytest.mark.parametrize("wrong", ["OOM", "OOM=dead", "=crashed", "OOM=running"])
def test_an_explanation_that_is_none_is_refused(wrong):
    with pytest.raises(InputError):
        Meanings.of_options([wrong])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"", "empty"),
        (b"\n\n", "empty"),
        (b"run,step,loss\n", "no rows"),
        (b"\xff\xfe\x00r\x00u", "not a CSV file in UTF-8"),
        (b"PAR1\0\0\0", "no CSV file"),
        (b"just one column\n1\n", "one column only"),
        (b"run,step,step,loss\na,1,1,1\n", "two columns are called 'step'"),
        (b"run,step,word\na,1,x\n", "no column of results.csv holds a metric"),
    ],
)
def test_what_is_no_table_is_said_so(source, text, said):
    with pytest.raises(InputError, match=said):
        source(text).runs()


def test_a_column_that_is_not_there_is_refused_with_what_was_meant(source):
    with pytest.raises(InputError, match="did you mean 'step'"):
        source(LONG, Columns(step="setp")).runs()
    with pytest.raises(InputError, match="did you mean 'method'"):
        source(LONG, labelling=Labelling(arm="metod")).runs()


def test_a_file_that_is_gone_is_said_so(tmp_path):
    with pytest.raises(InputError, match="cannot be read"):
        Foreign(CsvReader(tmp_path / "gone.csv")).runs()


def test_the_query_language_selects(source):
    found = source(LONG)
    assert [r.run_id for r in found.runs("seed=2")] == ["m1"]
    assert [r.run_id for r in found.runs("val/acc>0.6")] == ["a1"]
    with pytest.raises(InputError, match="no run has a field"):
        found.runs("val/accuracy>1")


def test_an_epoch_that_stands_for_a_step_is_told(source):
    found = source("run,epoch,loss\na,1,2.0\n")
    found.runs()
    assert any("a step is an epoch" in note for note in found.notes)


@given(st.floats())
def test_a_number_survives_being_written(number):
    assert plain(repr(number)) == (number if number - number == 0 else repr(number))


@given(st.datetimes())
def test_a_date_without_a_zone_is_utc(at):
    from datetime import UTC

    assert milliseconds(at.isoformat()) == round(at.replace(tzinfo=UTC).timestamp() * 1000)
