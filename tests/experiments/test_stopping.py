"""Real signals to a real run: the first one stops it after its update, the second at once; both resume bit for bit."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from experiments.config import resolve
from experiments.stopping import stopping
from experiments.store.home import Home
from experiments.training import resume, train

CONFIG = {
    "task": "digits",
    "model": {"name": "mlp", "width": 16},
    "batch_size": 50,
    "budget": {"updates": 3000},
    "evaluate_every": 1500,
    "checkpoint_every": 100,
    "device": "cpu",
}
PROGRAM = """
import json, sys
from experiments.config import resolve
from experiments.progress import RunProgress
from experiments.stopping import stopping
from experiments.store.home import Home
from experiments.training import train

def tell(event):
    print(type(event).__name__, getattr(event, "update", ""), getattr(event, "status", ""), flush=True)

with stopping() as stop:
    finished = train(resolve(json.loads(sys.argv[1])), home=Home(sys.argv[2]), listener=tell, stop=stop)
print(finished.record.status, finished.record.reason, flush=True)
"""


def interrupted(home: Path, *signals: signal.Signals) -> list[str]:
    """Start a run, send the signals once it trains, and return what it printed."""
    command = [sys.executable, "-c", PROGRAM, json.dumps(CONFIG), str(home)]
    printed = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdout
        for line in worker.stdout:
            printed.append(line.strip())
            if line.startswith("RunProgress 0"):
                for number in signals:
                    os.kill(worker.pid, number)
    assert worker.returncode == 0
    return printed


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_the_run_resumable_and_it_goes_on_exactly(tmp_path: Path, number: signal.Signals) -> None:
    printed = interrupted(tmp_path / "a", number)
    assert printed[-1] == f"interrupted {'Ctrl-C' if number == signal.SIGINT else number.name}"
    home = Home(tmp_path / "a")
    (record,) = home.records()
    assert record.status == "interrupted"
    folder = home.folder(record.run_id)
    stopped_at = torch.load(folder.checkpoints / "last.pt", weights_only=True)["update"]
    assert 0 <= stopped_at < 1500, "it stopped after its update, not at the next evaluation"
    done = resume(folder)
    assert done.record.status == "completed"
    straight = train(resolve(CONFIG), home=Home(tmp_path / "b"))
    assert done.record.final == straight.record.final
    one = load_file(home.folder(record.run_id).path / "model.safetensors")
    two = load_file(Home(tmp_path / "b").folder(straight.record.run_id).path / "model.safetensors")
    assert all(torch.equal(one[name], two[name]) for name in two)


@pytest.mark.slow
def test_a_second_signal_stops_at_once_and_the_run_is_resumable(tmp_path: Path) -> None:
    printed = interrupted(tmp_path, signal.SIGINT, signal.SIGINT)
    assert printed[-1].startswith("interrupted")
    (record,) = Home(tmp_path).records()
    assert resume(Home(tmp_path).folder(record.run_id)).record.status == "completed"


def test_handlers_are_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    before = signal.getsignal(signal.SIGINT)
    with stopping() as stop:
        os.kill(os.getpid(), signal.SIGINT)
        assert stop.requested
        assert stop.reason == "Ctrl-C"
    assert signal.getsignal(signal.SIGINT) is before


def test_lightning_s_own_word_for_sigterm_interrupts_wherever_it_comes(tmp_path: Path) -> None:
    """It raises between two stretches as well, where the loop has not seen the request yet."""
    from lightning.pytorch.utilities.exceptions import SIGTERMException

    from experiments import trainer

    class Raises(trainer.Stretches):
        def validation_step(self, token: int) -> None:
            raise SIGTERMException

    config = resolve({**CONFIG, "budget": {"updates": 20}, "evaluate_every": 10, "checkpoint_every": None})
    straight = train(config, home=Home(tmp_path / "a"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trainer, "Stretches", Raises)
        finished = train(config, home=Home(tmp_path / "b"))
    assert finished.record.status == "interrupted"
    done = resume(Home(tmp_path / "b").folder(finished.record.run_id))
    assert done.record.status == "completed"
    assert done.record.final == straight.record.final
