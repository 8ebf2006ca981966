"""The journal stays whole: half a line is cut before the next is added, whoever left it, however many write."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from optuna.study import StudyDirection

from experiments.sweeps.journal import JOURNAL, KernelLock, mended, open_journal
from experiments.sweeps.storage import open_storage

#: A writer: adds trials to the study, and says each that was taken down; a full disk makes it try again.
WRITER = """
import sys, time
from pathlib import Path
import optuna
from experiments.sweeps.journal import open_journal
optuna.logging.set_verbosity(optuna.logging.ERROR)
home, count = Path(sys.argv[1]), int(sys.argv[2])
storage = open_journal(home)
study = storage.get_study_id_from_name("s")
done = 0
print("ready", flush=True)
while done < count:
    try:
        number = storage.create_new_trial(study)
        storage.set_trial_user_attr(number, "text", "x" * 300)
    except OSError:
        print("full", flush=True)
        time.sleep(0.05)
        continue
    done += 1
    print(number, flush=True)
"""


def writer(home: Path, count: int) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", WRITER, str(home), str(count)], stdout=subprocess.PIPE, text=True)


def lines(home: Path) -> list[dict[str, object]]:
    data = (home / JOURNAL).read_bytes()
    assert data.endswith(b"\n")
    return [json.loads(line) for line in data.splitlines()]


def test_four_writers_on_a_disk_that_fills_up_lose_nothing_that_was_taken_down(small_disk) -> None:
    disk = small_disk("1m")
    storage = open_journal(disk)
    study = storage.create_new_study([StudyDirection.MINIMIZE], "s")
    (disk / "filler").write_bytes(bytes(shutil.disk_usage(disk).free - 8 * 4096))
    writers = [writer(disk, 200) for _ in range(4)]  # more than there is room for: each meets the full disk
    said: list[list[str]] = [[] for _ in writers]
    for process, words in zip(writers, said):
        assert process.stdout is not None
        while "full" not in words:
            said_next = process.stdout.readline()
            assert said_next, "a writer died"
            words.append(said_next.strip())
    (disk / "filler").unlink()
    for process, words in zip(writers, said):
        words += process.communicate(timeout=100)[0].split()
    taken = [int(word) for words in said for word in words if word.isdigit()]
    assert len(taken) == len(set(taken)) == 800
    known = {trial._trial_id: trial for trial in open_journal(disk).get_all_trials(study)}
    assert all(known[number].user_attrs["text"] == "x" * 300 for number in taken)
    assert lines(disk)


def test_a_line_cut_by_a_kill_is_gone_before_the_next_one_is_added(tmp_path) -> None:
    storage = open_journal(tmp_path)
    study = storage.create_new_study([StudyDirection.MINIMIZE], "s")
    writers = [writer(tmp_path, 100_000) for _ in range(4)]
    for process in writers:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in writers[:3]:
        time.sleep(0.2)
        process.send_signal(signal.SIGKILL)
        lock = KernelLock(tmp_path / JOURNAL)
        lock.acquire()  # whoever writes holds it
        with (tmp_path / JOURNAL).open("ab") as file:  # what one that dies in its write leaves
            file.write(b'{"op_code":8,"worker_id":"x","trial_')
        lock.release()
    assert writers[3].stdout is not None
    before = os.path.getsize(tmp_path / JOURNAL)
    while os.path.getsize(tmp_path / JOURNAL) < before + 5000:
        time.sleep(0.01)
    writers[3].kill()
    for process in writers:
        process.communicate()
    mended(tmp_path)
    assert lines(tmp_path)
    assert len(open_storage("", tmp_path).get_all_trials(study)) > 4
