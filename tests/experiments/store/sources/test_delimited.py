"""CSV files: what is in which column, what each cell says, and which line is broken."""

from __future__ import annotations

import pytest

from algos.finding import InputError
from experiments.store.sources.delimited import Columns, CsvReader
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
    assert found.notes == [
        "arm is read from 'method' (--arm names another)",
        "nothing says the task, so it is called 'own' (--task-name gives it a name, --task names a column)",
    ]


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
    assert source(text).runs()[0].config["lr"] == 0.001  # called like a hyperparameter, and the same all through
    assert "rank" in source(text.replace("lr", "rank")).runs()[0].last  # a number that nobody named is a metric


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


def test_a_column_that_is_filled_late_is_a_metric_too(source):
    rows = "".join(f"a,{step},0.5,{'' if step < 1500 else 0.75}\n" for step in range(2000))
    found = source("run,step,loss,test/acc\n" + rows)
    assert found.runs()[0].last == {"loss": 0.5, "test/acc": 0.75}


def test_what_was_taken_as_a_metric_and_what_was_left_out_is_told(source):
    found = source("run,step,loss,lr,note\na,1,0.5,0.1,x\na,2,0.4,0.1,y\na,3,0.3,0.1,y\n")
    assert "note" not in found.runs()[0].config  # its last value twice makes it no setting
    assert "metrics: 'loss' (--config names columns that are settings)" in found.notes
    assert "settings: 'lr' (the same all through each run; --metrics names metrics)" in found.notes
    assert "left out: 'note' (no metric, and several values in one run)" in found.notes


def test_runs_that_only_their_settings_tell_apart_are_not_made_one(source):
    text = "method,seed,step,lr,loss\na,1,10,0.1,0.5\na,1,10,0.2,0.75\n"
    with pytest.raises(InputError, match=r"lr at 10 has two values \(0\.1, 0\.2\).*--run, or with --config"):
        source(text).runs()
    found = source(text, Columns(config=("lr",)))
    assert [(r.config["lr"], r.last["loss"]) for r in found.runs()] == [(0.1, 0.5), (0.2, 0.75)]


def test_labels_that_read_alike_when_joined_are_two_runs(source):
    found = source("arm,task,step,loss\na b,c,1,0.5\na,b c,1,0.25\n")
    assert [(r.labels.arm, r.labels.task, r.last["loss"]) for r in found.runs()] == [
        ("a b", "c", 0.5),
        ("a", "b c", 0.25),
    ]


def test_seeds_and_steps_keep_every_digit(source):
    seed, step = 2**64 - 1, 2**53 + 1
    [record] = source(f"run,arm,seed,step,loss\na,x,{seed},{step},0.5\n").runs()
    assert (record.labels.seed, record.config["seed"]) == (seed, seed)
    found = source(f"run,arm,seed,step,loss\na,x,{seed},{step},0.5\n")
    assert values(found, found.runs()[0].run_id, "loss") == [(step, 0.5)]
    with pytest.raises(InputError, match="not a whole number"):
        source("run,step,loss\na,1e30,0.5\n").runs()


@pytest.mark.parametrize("word", ["nan", "inf", "-inf"])
def test_without_steps_a_value_that_is_no_number_is_told(source, word):
    found = source(f"method,seed,test/acc\na,1,{word}\na,2,0.5\n")
    first = found.runs()[0]
    assert (first.final, first.nonfinite) == ({}, ("test/acc",))
    assert [(s.metric, s.updates, str(s.values[0])) for s in found.nonfinite([first.run_id])] == [
        ("test/acc", (0,), word)
    ]


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


@pytest.mark.parametrize("name", ["lr", "learning_rate", "Learning Rate", "optimizer.weight_decay", "batch_size", "wd"])
def test_a_hyperparameter_is_a_setting_where_it_is_the_same_all_through_each_run(source, name):
    rows = [(run, step, rate) for run, rate in (("a", "0.1"), ("b", "0.2")) for step in (1, 2)]
    text = f"run,step,{name},loss\n" + "".join(f"{run},{step},{rate},0.5\n" for run, step, rate in rows)
    found = source(text)
    assert [(r.config[name], set(r.last)) for r in found.runs()] == [(0.1, {"loss"}), (0.2, {"loss"})]
    assert f"settings: '{name}' (the same all through each run; --metrics names metrics)" in found.notes
    scheduled = source(text.replace("b,2,0.2", "b,2,0.05"))
    assert [r.last for r in scheduled.runs()] == [{name: 0.1, "loss": 0.5}, {name: 0.05, "loss": 0.5}]
    assert source(text, Columns(metrics=("loss", name))).runs()[0].last == {name: 0.1, "loss": 0.5}
    assert source(text, judged=name).runs()[0].last == {name: 0.1, "loss": 0.5}
    assert [r.labels.arm for r in source(text, labelling=Labelling(arm=name)).runs()] == ["0.1", "0.2"]


@pytest.mark.parametrize("name", ["wall", "wall_time", "time", "Seconds", "elapsed", "timestamp"])
def test_times_that_passed_are_neither_metrics_nor_settings_nor_dates(source, name):
    text = f"run,step,{name},loss\na,1,3.5,0.5\na,2,9.5,0.25\nb,1,3.5,0.5\n"
    found = source(text)
    assert [(set(r.last), r.config, r.started) for r in found.runs()] == [({"loss"}, {}, None)] * 2
    [note] = [note for note in found.notes if note.startswith("left out")]
    assert note.startswith(f"left out: '{name}' (time that passed")
    assert source(text.replace(name, "time/train_s")).runs()[0].last == {"loss": 0.25, "time/train_s": 9.5}
    assert source(text, judged=name).runs()[0].last == {"loss": 0.25, name: 9.5}
    with pytest.raises(InputError, match=rf"line 2: {name} is '3\.5', not a time"):
        source(text, Columns(at=name)).runs()


@pytest.mark.parametrize(
    ("column", "unit"),
    [("epoch", "epochs"), ("Epochs", "epochs"), ("global_step", "updates"), ("update", "updates"), ("step", "")],
)
def test_what_steps_are_is_known_by_the_name_of_their_column(source, column, unit):
    [record] = source(f"run,{column},loss\na,1,2.0\na,2,1.0\n", Columns(step=column)).runs()
    assert record.file.facts.get("source", {}).get("steps", "") == unit
