"""TensorBoard's own files, written by torch: every scalar is there, a broken file gives what is whole before it."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from algos.finding import InputError
from experiments.store.copying import Judging, copy
from experiments.store.sources.foreign import Foreign
from experiments.store.sources.tensorboard import TensorboardReader, expression

pytest.importorskip("tensorboard")


def write(folder: Path, scalars: dict[str, list[tuple[int, float]]], **hparams) -> Path:
    """An event file, as torch writes it."""
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(str(folder)) as writer:
        for tag, points in scalars.items():
            for step, value in points:
                writer.add_scalar(tag, value, step, walltime=1_700_000_000 + step)
        if hparams:
            writer.add_hparams(hparams, {"hparam/done": 1.0}, run_name=".")
    return next(folder.glob("*tfevents*"))


def source(folder: Path, pattern: str = "") -> Foreign:
    return Foreign(TensorboardReader(folder, pattern), "paper")


def points(found: Foreign, run: str, metric: str) -> list[tuple[int, float]]:
    [series] = found.series([run], [metric])
    return list(zip(series.updates, series.values))


@pytest.fixture
def logs(tmp_path) -> Path:
    for arm in ("adamw", "甲 <b>"):
        for seed in (1, 2):
            write(tmp_path / "logs" / arm / f"seed{seed}", {"val/acc": [(10, 0.25), (20, 0.5 + seed / 8)]})
    return tmp_path / "logs"


def test_each_folder_with_events_is_a_run_labelled_by_its_name(logs):
    found = source(logs)
    assert [(r.labels.arm, r.labels.seed) for r in found.runs()] == [
        ("adamw", 1),
        ("adamw", 2),
        ("甲 <b>", 1),
        ("甲 <b>", 2),
    ]
    assert points(found, "adamw/seed2", "val/acc") == [(10, 0.25), (20, 0.75)]
    [series] = found.series(["adamw/seed1"])
    assert series.at == (1_700_000_010_000, 1_700_000_020_000)
    assert "TensorBoard does not say how runs ended: they are taken as completed" in found.notes


def test_a_pattern_says_what_folders_are_called_and_leaves_out_others(logs):
    write(logs / "old", {"val/acc": [(1, 0.5)]})
    found = source(logs, "{task}/seed{seed}")
    assert [(r.labels.task, r.labels.arm, r.labels.seed) for r in found.runs("seed=1")] == [
        ("adamw", "own", 1),
        ("甲 <b>", "own", 1),
    ]
    assert any("1 folders are not called like" in note for note in found.notes)
    with pytest.raises(InputError, match=r"no folder is called like"):
        source(logs, "{arm}/run{seed}").runs()


def test_what_a_writer_that_starts_again_says_is_void_is_dropped(tmp_path):
    write(tmp_path / "r", {"loss": [(step, float(step)) for step in range(1, 21)]})
    first = next((tmp_path / "r").iterdir())
    first.rename(first.with_name("events.out.tfevents.1000000000.host"))
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(str(tmp_path / "r"), purge_step=11) as writer:
        writer.add_scalar("loss", 0.5, 11, walltime=1_700_001_000)
    found = source(tmp_path)
    [record] = found.runs()
    assert points(found, record.run_id, "loss") == [*((step, float(step)) for step in range(1, 11)), (11, 0.5)]
    assert record.last == {"loss": 0.5}
    assert "r: it was started again, and 10 values from that step on are void" in found.notes


@pytest.mark.parametrize("pattern", ["", "{arm}/seed{seed}"])
def test_folders_that_the_writer_makes_below_a_run_are_parts_of_it(tmp_path, pattern):
    from torch.utils.tensorboard import SummaryWriter

    for seed in (1, 2):
        with SummaryWriter(str(tmp_path / "adamw" / f"seed{seed}")) as writer:
            for step in (1, 2):
                writer.add_scalar("val/acc", step / 4, step)
                writer.add_scalars("a/loss", {"train": 0.5 / step, "val": 1.0 / step}, step)
            writer.add_hparams({"lr": 0.125 * seed}, {"hparam/acc": 0.5})
    found = source(tmp_path, pattern)
    records = found.runs()
    assert [(r.labels.arm, r.labels.seed, r.config) for r in records] == [
        ("adamw", 1, {"lr": 0.125}),
        ("adamw", 2, {"lr": 0.25}),
    ]
    assert records[0].last == {"val/acc": 0.5, "a/loss/train": 0.25, "a/loss/val": 0.5, "hparam/acc": 0.5}
    assert "4 folders of add_scalars are metrics of the runs that they lie in" in found.notes
    assert not any("not called like" in note for note in found.notes)


@pytest.mark.parametrize("pattern", ["{what}/x", "{arm}/{arm}", "{}"])
def test_a_pattern_of_other_words_is_refused(pattern):
    with pytest.raises(InputError, match="in the pattern"):
        expression(pattern)


def test_hyperparameters_are_settings(tmp_path):
    write(tmp_path / "r", {"loss": [(1, 2.0)]}, lr=0.125, width=64, nesterov=True, optimizer="sgd")
    [record] = source(tmp_path).runs()
    assert record.config == {"lr": 0.125, "width": 64, "nesterov": True, "optimizer": "sgd"}
    assert record.labels.arm == "sgd"


def test_what_is_no_finite_number_is_told_and_is_no_point(tmp_path):
    write(tmp_path / "r", {"loss": [(1, 2.0), (2, math.inf), (3, math.nan)]})
    found = source(tmp_path)
    [record] = found.runs()
    assert points(found, record.run_id, "loss") == [(1, 2.0)]
    assert record.nonfinite == ("loss",)


def test_values_of_tensorflow_are_tensors_and_read_alike(tmp_path):
    import numpy as np
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.plugins.scalar.metadata import create_summary_metadata
    from tensorboard.summary.writer.event_file_writer import EventFileWriter
    from tensorboard.util.tensor_util import make_tensor_proto

    writer = EventFileWriter(str(tmp_path / "r"))
    value = Summary.Value(
        tag="loss", tensor=make_tensor_proto(np.float32(0.5)), metadata=create_summary_metadata("", "")
    )
    text = Summary.Value(tag="note", tensor=make_tensor_proto("hello"))
    writer.add_event(Event(step=3, wall_time=1_700_000_000.0, summary=Summary(value=[value, text])))
    writer.close()
    found = source(tmp_path)
    [record] = found.runs()
    assert (points(found, record.run_id, "loss"), set(record.last)) == ([(3, 0.5)], {"loss"})


@pytest.mark.parametrize("cut", [1, 5, 13])
def test_a_file_cut_in_the_middle_gives_what_is_whole_and_says_so(tmp_path, cut):
    file = write(tmp_path / "r", {"loss": [(step, float(step)) for step in range(1, 101)]})
    file.write_bytes(file.read_bytes()[:-cut])
    found = source(tmp_path)
    [record] = found.runs()
    assert points(found, record.run_id, "loss") == [(step, float(step)) for step in range(1, 100)]
    assert any("broken after 100 events" in note for note in found.notes)  # the version's is one


def test_a_damaged_byte_ends_a_file_there(tmp_path):
    file = write(tmp_path / "r", {"loss": [(step, float(step)) for step in range(1, 101)]})
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 0xFF
    file.write_bytes(data)
    found = source(tmp_path)
    [record] = found.runs()
    read = points(found, record.run_id, "loss")
    assert 40 < len(read) < 60
    assert read == [(step, float(step)) for step in range(1, len(read) + 1)]
    assert any("broken" in note for note in found.notes)


def test_a_run_that_was_started_again_is_one_and_its_later_values_stand(tmp_path):
    write(tmp_path / "r", {"loss": [(1, 1.0), (2, 2.0), (3, 3.0)]})
    first = next((tmp_path / "r").iterdir())
    first.rename(first.with_name("events.out.tfevents.1000000000.host"))
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(str(tmp_path / "r")) as writer:
        for step in (3, 4):
            writer.add_scalar("loss", 10.0 * step, step, walltime=1_700_001_000 + step)
    found = source(tmp_path)
    assert points(found, found.runs()[0].run_id, "loss") == [(1, 1.0), (2, 2.0), (3, 30.0), (4, 40.0)]


def test_runs_that_stop_earlier_than_others_are_told(logs):
    write(logs / "adamw" / "seed3", {"val/acc": [(10, 0.25)]})
    found = source(logs)
    found.runs()
    assert any("stop at different steps (4 at 20, 1 at 10)" in note for note in found.notes)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "is not there"),
        ("", r"no file in .* is TensorBoard's"),
        ("text, no events", "no scalars can be read .*broken after 0 events"),
    ],
)
def test_what_is_no_log_is_said_so(tmp_path, content, said, home):
    folder = tmp_path / "logs"
    if content is not None:
        folder.mkdir()
    if content:
        (folder / "events.out.tfevents.1.x").write_text(content)
    with pytest.raises(InputError, match=said):
        copy(source(folder), home, study="paper")
    assert not home.path.exists()


def test_tags_longer_than_mlflow_allows_are_kept_whole(tmp_path, home):
    tag = "实验/" + "x" * 400
    write(tmp_path / "r", {tag: [(1, 0.5)], "val/acc": [(1, 0.5)]})
    copy(source(tmp_path), home, study="paper", judging=Judging("val/acc"))
    assert tag in home.records()[0].last


@pytest.mark.slow
def test_a_hundred_thousand_points_are_read_in_seconds(tmp_path):
    import time

    write(tmp_path / "r", {"loss": [(step, 0.5) for step in range(100_000)]})
    started = time.perf_counter()
    found = source(tmp_path)
    [series] = found.series([found.runs()[0].run_id])
    assert len(series.values) == 100_000
    assert time.perf_counter() - started < 30
