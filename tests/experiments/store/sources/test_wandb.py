"""Offline runs that wandb itself wrote, read without it running: every value, whole blocks, files that break off."""

from __future__ import annotations

import math
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from algos.finding import InputError
from experiments.store.copying import copy
from experiments.store.sources.foreign import Foreign
from experiments.store.sources.wandb import WandbReader

pytest.importorskip("wandb")

SCRIPT = """
import wandb
config = {"lr": 0.125, "seed": 3, "opt": {"name": "adamw"}}
run = wandb.init(project="proj 实验", name="名字 <b>", group="g", config=config)
for i in range(1, 4001):
    run.log({"train/loss": 1 / i, "val": {"acc": i / 4000}, "text": "x"}, step=10 * i)
run.log({"train/loss": float("nan")}, step=50000)
run.log({"train/loss": float("-inf")}, step=50001)
run.summary["best"] = 0.875
run.finish()
run = wandb.init(project="proj 实验", name="died", config={"seed": 4})
run.log({"train/loss": 1.0})
run.finish(exit_code=1)
"""


@pytest.fixture(scope="session")
def offline(tmp_path_factory) -> Path:
    """The folder wandb/ of two offline runs, made once."""
    folder = tmp_path_factory.mktemp("offline")
    environment = {
        "WANDB_MODE": "offline", "WANDB_SILENT": "true", "WANDB_DIR": str(folder), "HOME": str(folder),
        "PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "1",
    }  # fmt: skip
    done = subprocess.run([sys.executable, "-c", SCRIPT], env=environment, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"wandb writes no offline run here ({done.stderr.strip().splitlines()[-1:]})")
    return folder / "wandb"


@pytest.fixture
def file(offline, tmp_path) -> Path:
    """A copy of the long run's file."""
    longest = max(offline.rglob("*.wandb"), key=lambda path: path.stat().st_size)
    return Path(shutil.copy(longest, tmp_path / "run-abc.wandb"))


def points(found: Foreign, run: str, metric: str) -> list[tuple[int, float]]:
    [series] = found.series([run], [metric])
    return list(zip(series.updates, series.values))


def test_a_run_has_its_values_settings_names_and_ending(offline):
    found = Foreign(WandbReader(offline), "paper")
    whole, died = found.runs()
    assert (whole.file.name, whole.labels.task, whole.labels.seed) == (
        "名字 <b>",
        "proj 实验",
        3,
    )
    assert whole.config == {"lr": 0.125, "seed": 3, "opt": {"name": "adamw"}}
    assert (whole.status, whole.final) == ("completed", {"best": 0.875})
    assert points(found, whole.run_id, "train/loss") == [(10 * i, 1 / i) for i in range(1, 4001)]
    assert points(found, whole.run_id, "val/acc") == [(10 * i, i / 4000) for i in range(1, 4001)]
    assert whole.nonfinite == ("train/loss",)
    assert [str(s.values) for s in found.nonfinite([whole.run_id])] == ["(nan, -inf)"]
    assert whole.started is not None
    assert whole.started <= found.series([whole.run_id])[0].at[0] <= (whole.ended or 0)
    assert (died.status, died.reason) == ("crashed", "its exit code was 1")


def test_the_file_is_longer_than_a_block(file):
    assert file.stat().st_size > 3 * 32768  # or the test above would not show that blocks are read


def test_a_file_that_breaks_off_gives_what_is_whole_and_says_so(file):
    data, told = file.read_bytes(), []
    for end in (len(data) // 2, len(data) // 2 + 1, 2 * 32768 + 3):
        file.write_bytes(data[:end])
        found = Foreign(WandbReader(file), "paper")
        [record] = found.runs()
        read = points(found, record.run_id, "train/loss")
        assert read == [(10 * i, 1 / i) for i in range(1, len(read) + 1)]
        assert 100 < len(read) < 4000
        assert (record.status, record.reason) == ("lost", "its file has no end: it was still running, or was killed")
        told.append(any("broken after" in note for note in found.notes))
    assert told[0] or told[1], "a record may end at one of two neighbouring bytes, not at both"
    assert told[2], "a block begins with a head of seven bytes"


def test_a_damaged_byte_ends_a_file_there(file):
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 0xFF
    file.write_bytes(data)
    found = Foreign(WandbReader(file), "paper")
    read = points(found, found.runs()[0].run_id, "train/loss")
    assert read == [(10 * i, 1 / i) for i in range(1, len(read) + 1)]
    assert any("a checksum is wrong" in note for note in found.notes)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty"),
        (b"something else altogether", "no file of wandb's"),
        (b":W&B\xe1\xbe\x07", "another version"),
    ],
)
def test_what_is_no_run_of_wandb_is_said_so(tmp_path, home, content, said):
    path = tmp_path / "run-x.wandb"
    path.write_bytes(content)
    reader = WandbReader(path)
    with pytest.raises(InputError):
        copy(found := Foreign(reader, "paper"), home, study="paper")
    try:
        told = " ".join(found.notes)
        found.runs()
    except InputError as error:
        told = str(error)
    assert said in told
    assert not home.path.exists()


def test_a_folder_without_runs_and_a_file_that_is_gone_are_said_so(tmp_path):
    with pytest.raises(InputError, match=r"no file in .* is called \*\.wandb"):
        Foreign(WandbReader(tmp_path)).runs()
    with pytest.raises(InputError, match="is not there"):
        Foreign(WandbReader(tmp_path / "gone.wandb")).runs()


def test_a_value_that_is_no_number_is_no_metric(offline):
    found = Foreign(WandbReader(offline), "paper")
    names = {series.metric for series in found.series([found.runs()[0].run_id])}
    assert names == {"train/loss", "val/acc"}
    assert all(math.isfinite(v) for s in found.series([found.runs()[0].run_id]) for v in s.values)


def test_a_record_whose_words_are_damaged_ends_a_file_there(file):
    import struct
    import zlib

    data = bytearray(file.read_bytes())
    at = data.index(b'"adamw"')  # a config's JSON
    data[at] = ord("?")
    start = 7
    while start + 7 + struct.unpack_from("<H", data, start + 4)[0] <= at:  # the record that it is in
        start += 7 + struct.unpack_from("<H", data, start + 4)[0]
    _, length, kind = struct.unpack_from("<IHB", data, start)
    body = bytes(data[start + 7 : start + 7 + length])
    struct.pack_into("<I", data, start, zlib.crc32(body, zlib.crc32(bytes([kind]))) & 0xFFFFFFFF)
    file.write_bytes(data)
    found = Foreign(WandbReader(file), "paper")
    found.runs()
    assert any("broken" in note or "left out" in note for note in found.notes)
