"""The honest clock, on a time that the test moves."""

import pytest

from experiments import clock as module
from experiments.clock import Clock


class Time:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now

    def fail(self, after):
        self.now += after
        raise KeyError


@pytest.fixture
def time(monkeypatch):
    time = Time()
    monkeypatch.setattr(module.time, "perf_counter", time)
    return time


def test_training_is_what_remains(time):
    clock = Clock("cpu")
    time.now += 50  # before it runs
    with clock.running():
        time.now += 1
        with clock.phase("evaluate"):
            time.now += 2
        time.now += 4
        with clock.phase("checkpoint"):
            time.now += 8
        time.now += 16
        assert clock.seconds("train") == 21
    time.now += 50
    assert clock.state_dict() == {"train": 21, "evaluate": 2, "log": 0, "checkpoint": 8, "compile": 0}


def test_nested_phases_count_once(time):
    clock = Clock("cpu")
    with clock.running(), clock.phase("evaluate"):
        time.now += 1
        with clock.phase("log"):
            time.now += 2
        time.now += 4
    assert clock.state_dict() == {"train": 0, "evaluate": 5, "log": 2, "checkpoint": 0, "compile": 0}


def test_a_phase_counts_also_where_the_clock_does_not_run(time):
    clock = Clock("cpu")
    with clock.phase("compile"):
        time.now += 3
    assert clock.seconds("compile") == 3
    assert clock.seconds("train") == 0


def test_an_error_closes_its_phase(time):
    clock = Clock("cpu")
    with clock.running():
        with pytest.raises(KeyError), clock.phase("evaluate"):
            time.fail(after=1)
        time.now += 2
    assert (clock.seconds("evaluate"), clock.seconds("train")) == (1, 2)


def test_a_resumed_clock_goes_on(time):
    first = Clock("cpu")
    with first.running():
        time.now += 5
        with first.phase("checkpoint"):
            time.now += 1
            state = first.state_dict()
    time.now += 1000
    second = Clock("cpu")
    second.load_state_dict(state)
    assert (second.seconds("train"), second.seconds("checkpoint")) == (5, 1)
    with second.running():
        time.now += 2
    assert second.seconds("train") == 7


def test_state_loaded_while_it_runs_replaces_what_ran(time):
    clock = Clock("cpu")
    with clock.running():
        time.now += 30
        clock.load_state_dict({"train": 5, "evaluate": 0, "log": 0, "checkpoint": 1, "compile": 0})
        time.now += 2
    assert clock.seconds("train") == 7


def test_it_waits_for_the_device_at_boundaries_and_only_there(time, monkeypatch):
    """Queued work takes 10 s of the device: it is training, though evaluation waits for it."""
    waits = []

    def synchronise(device):
        waits.append(device)
        time.now += queued.pop() if queued else 0

    monkeypatch.setattr(module, "synchronise", synchronise)
    queued: list[float] = []
    clock = Clock("cuda:0")
    with clock.running():
        queued.append(10)
        clock.seconds("train")
        with clock.phase("evaluate"):
            time.now += 1
    assert (clock.seconds("train"), clock.seconds("evaluate")) == (10, 1)
    assert waits == ["cuda:0"] * 4


def test_on_the_cpu_it_never_waits(time, monkeypatch):
    monkeypatch.setattr(module, "synchronise", lambda device: pytest.fail("waited"))
    with Clock("cpu").running():
        pass
