"""What is spooled stays, once, whatever happens to the process and its disk."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from algos.finding import InputError
from experiments.store import spool
from experiments.store.locks import is_held

#: A worker with a forked child, as a data loader has. It says it began, then waits to be killed.
WORKER = """
import os, sys, time
from experiments.store.home import Home
attempt = Home(sys.argv[1]).folder(sys.argv[2]).begin()
attempt.points(7, {"train/loss": 0.5})
attempt.flush()
child = os.fork()
if child:
    print(child, flush=True)
time.sleep(600)
"""


@contextmanager
def worker(folder) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", WORKER, str(folder.path.parent.parent), folder.run_id]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        try:
            yield process
        finally:
            process.kill()
            os.kill(child, signal.SIGKILL)


def soon(holds: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 90
    while not holds() and time.monotonic() < deadline:
        time.sleep(0.02)
    return holds()


def test_points_come_back_bit_for_bit(create):
    folder = create()
    attempt = folder.begin()
    values = {"train/loss": 0.1 + 0.2, "val/accuracy": 1 / 3, "mean@1": 5e-324}
    attempt.points(3, values)
    attempt.end("completed")
    assert {series.metric: series.values[0] for series in folder.series()} == values
    assert {series.updates for series in folder.series()} == {(3,)}


def test_a_value_that_is_not_finite_is_told_and_is_no_point(create):
    folder = create()
    attempt = folder.begin()
    attempt.points(1, {"train/loss": float("nan"), "val/loss": float("-inf"), "val/accuracy": 0.5})
    attempt.end("diverged", reason="train/loss is nan at update 1")
    record = folder.record()
    assert record.last == {"val/accuracy": 0.5}
    assert set(record.nonfinite) == {"train/loss", "val/loss"}
    assert (record.status, record.reason) == ("diverged", "train/loss is nan at update 1")


def test_the_last_value_of_a_metric_is_not_one_from_before_it_was_not_finite(create):
    folder = create()
    attempt = folder.begin()
    attempt.points(1, {"val/loss": 0.5, "val/accuracy": 0.5})
    attempt.points(2, {"val/loss": float("nan"), "val/accuracy": 0.6})
    attempt.end("interrupted")
    assert folder.record().last == {"val/accuracy": 0.6}
    attempt = folder.begin(resumed_from=2)
    attempt.points(3, {"val/loss": 0.4})
    attempt.end("completed")
    assert folder.record().last == {"val/accuracy": 0.6, "val/loss": 0.4}
    assert folder.record().nonfinite == ("val/loss",)


def test_a_resumed_attempt_writes_nothing_twice(create):
    folder = create()
    first = folder.begin()
    for update in range(1, 6):
        first.points(update, {"train/loss": float(update)})
    first.points(5, {"val/accuracy": 0.5})
    first.event("reached_target", update=5)
    first.end("interrupted", reason="SIGTERM")

    second = folder.begin(resumed_from=3)
    for update in range(4, 9):  # updates 4 and 5 are computed again
        second.points(update, {"train/loss": float(update)})
    second.event("reached_target", update=5)
    second.points(5, {"val/accuracy": 0.5, "val/loss": 1.0})  # val/loss is new
    second.end("completed")

    lines = [line for _, path in spool.spools(folder.path) for line in spool.read(path)]
    points = [(metric, line["update"]) for line in lines if line["kind"] == "points" for metric in line["values"]]
    assert len(points) == len(set(points)) == 8 + 1 + 1
    assert [line["name"] for line in lines if line["kind"] == "event"] == ["reached_target"]
    assert (folder.record().attempts, folder.record().status) == (2, "completed")


def test_two_owners_are_refused_and_told_who_has_it(create):
    folder = create()
    attempt = folder.begin()
    with pytest.raises(InputError, match=rf"run {folder.run_id} is already running \(pid {os.getpid()} on host"):
        folder.begin()
    attempt.end("interrupted")
    folder.begin().end("completed")


def test_a_run_that_is_over_is_not_run_again(create):
    folder = create()
    folder.begin().end("completed")
    with pytest.raises(InputError, match="is completed: it is over"):
        folder.begin()
    assert not is_held(folder.path / "owner.lock")


def test_what_is_measured_after_the_end_is_added_and_the_run_stays_over(create):
    folder = create()
    attempt = folder.begin()
    attempt.points(10, {"val/acc": 0.5})
    attempt.final({"objective": 0.5})
    attempt.end("completed")
    before = folder.record()
    attempt.amend(10, {"test_acc": 0.4, "bad": float("nan")}, {"objective": 0.5, "test/acc": 0.4})
    after = folder.record()
    assert (after.status, after.ended, after.attempts) == ("completed", before.ended, 1)
    assert dict(after.final) == {"objective": 0.5, "test/acc": 0.4}
    assert after.last["test_acc"] == 0.4
    assert after.nonfinite == ("bad",)
    assert {line.metric: line.updates for line in folder.series()}["test_acc"] == (10,)
    assert not is_held(folder.path / "owner.lock")
    with pytest.raises(InputError, match="it is over"):
        folder.begin()


def test_a_run_that_another_attempt_took_up_is_not_added_to(create):
    folder = create()
    first = folder.begin()
    first.end("interrupted")
    second = folder.begin()
    second.end("completed")
    with pytest.raises(InputError, match="has gone on elsewhere"):
        first.amend(1, {"test_acc": 0.4}, {})
    assert "test_acc" not in folder.record().last
    second.amend(1, {"test_acc": 0.4}, {})
    assert (folder.record().status, folder.record().last["test_acc"]) == ("completed", 0.4)


def test_on_a_full_disk_nothing_is_added_and_the_run_stays_over(create, monkeypatch):
    folder = create()
    attempt = folder.begin()
    attempt.end("completed")
    size = spool.spools(folder.path)[0][1].stat().st_size
    write = os.write

    def half(file: int, data: bytes) -> int:
        if len(data) < 60:
            raise OSError(errno.ENOSPC, "full")
        return write(file, data[: len(data) // 2])

    monkeypatch.setattr(spool.os, "write", half)
    with pytest.raises(spool.StoreFull):
        attempt.amend(1, {"test_acc": 0.4}, {})
    monkeypatch.undo()
    assert spool.spools(folder.path)[0][1].stat().st_size == size
    assert folder.record().status == "completed"
    attempt.amend(1, {"test_acc": 0.4}, {})
    assert folder.record().last["test_acc"] == 0.4


def test_a_killed_worker_lets_go_and_its_run_reads_as_lost(create):
    folder = create()
    with worker(folder) as process:
        assert folder.record().status == "running"
        process.kill()  # its child lives on
        assert soon(lambda: folder.record().status == "lost")
        assert folder.record().last == {"train/loss": 0.5}
        folder.begin(resumed_from=7).end("completed")
        assert folder.record().status == "completed"


def test_half_a_line_is_skipped_and_nothing_is_glued_to_it(create):
    folder = create()
    with worker(folder):
        pass
    path = folder.path / "spool.1.jsonl"
    with path.open("ab") as file:
        file.write(b'{"kind":"points","at":1,"upda')
    assert folder.record().last == {"train/loss": 0.5}
    folder.begin().end("interrupted")
    lines = path.read_bytes().split(b"\n")
    assert json.loads(lines[-2])["status"] == "lost"  # on a line of its own
    assert folder.record().last == {"train/loss": 0.5}


def test_a_forked_child_writes_nothing_of_its_parents(create):
    folder = create()
    attempt = folder.begin()
    attempt.points(1, {"train/loss": 1.0})  # still in the buffer
    child = os.fork()
    if child == 0:
        os._exit(attempt._file is not None or len(attempt._buffer))
    assert os.waitpid(child, 0)[1] == 0
    attempt.end("completed")
    assert [series.values for series in folder.series()] == [(1.0,)]


def test_a_full_disk_is_said_clearly_and_the_lines_that_follow_are_whole(create, monkeypatch):
    folder = create()
    attempt = folder.begin()
    real, room = os.write, [20]

    def write(file: int, data: bytes) -> int:
        if room[0] == 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        written = real(file, bytes(data[: room[0]]))
        room[0] -= written
        return written

    monkeypatch.setattr(os, "write", write)
    attempt.points(1, {"train/loss": 1.0})
    with pytest.raises(spool.StoreFull, match="free some"):
        attempt.flush()
    room[0] = 10**9  # what was kept aside is freed
    attempt.end("interrupted", reason="the disk is full")
    assert not (folder.path / "ballast").exists()
    record = folder.record()
    assert (record.status, record.reason, record.last) == ("interrupted", "the disk is full", {"train/loss": 1.0})


def test_a_metric_costs_the_training_thread_at_most_20_microseconds(create):
    attempt = create().begin()
    values = {"train/loss": 0.123456789, "val/accuracy": 0.9, "time/train_s": 1.5, "count/examples": 1e5}

    def cost() -> float:
        begun = time.thread_time()
        for update in range(1000):
            attempt.points(update, values)
        return (time.thread_time() - begun) / 4000

    assert min(cost() for _ in range(3)) < 20e-6
    attempt.end("completed")


#: Fills the disk with points, then says how the attempt ended.
FILLER = """
import sys
from experiments.store.home import Home, new_run_id
from experiments.store.schema import Labels, RunFile
from experiments.store.spool import StoreFull
folder = Home(sys.argv[1]).create(RunFile(new_run_id(), "n", Labels("digits"), {}, ""))
attempt = folder.begin()
update = 0
try:
    while True:
        update += 1
        attempt.points(update, {"train/loss": float(update)})
except StoreFull as full:
    attempt.end("interrupted", reason=full.strerror)
record, (series,) = folder.record(), folder.series()
print(record.status, record.reason.partition(" ")[0], series.updates == tuple(range(1, update + 1)))
"""


def test_a_disk_that_really_is_full_loses_no_point_and_leaves_room_for_the_last_word(tmp_path):
    mount = f"mount -t tmpfs -o size=700k tmpfs {tmp_path}"
    command = ["unshare", "-Urm", "sh", "-c", f'{mount} || exit 77; exec "$0" "$@"']
    try:
        done = subprocess.run(
            [*command, sys.executable, "-c", FILLER, str(tmp_path / "home")], capture_output=True, text=True
        )
    except FileNotFoundError:
        pytest.skip("needs unshare, to make a small disk")
    if "unshare" in done.stderr or done.returncode == 77:
        pytest.skip("this machine lets nobody make a small disk")
    assert done.stdout == "interrupted no True\n", done.stderr
