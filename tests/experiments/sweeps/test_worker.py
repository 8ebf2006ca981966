"""A sweep: every run once, the same again after any death, refused where it would not be the same study."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from algos.finding import InputError
from experiments.progress import RunEnded, RunProgress, RunStarted
from experiments.stopping import Stop
from experiments.store.gathered import Gathered
from experiments.store.home import Home
from experiments.store.schema import FINISHED, Labels, RunRecord
from experiments.study import StudyConfig
from experiments.sweeps.definition import stored_study
from experiments.sweeps.journal import cut_half_line, open_journal
from experiments.sweeps.queue import study_name
from experiments.sweeps.sweep import sweep

STUDY: dict[str, Any] = {
    "name": "small",
    "tasks": ["digits"],
    "config": {"model": {"name": "mlp", "width": 16}, "batch_size": 250, "evaluate_every": 5, "device": "cpu"},
    "budget": {"updates": 10},
    "arms": ["adamw", "lion"],
    "tune": {"trials": 3, "sampler": "random", "space": ["optimizer.lr"]},
    "seeds": 2,
}


def study(**changes: Any) -> StudyConfig:
    return StudyConfig.of({**STUDY, **changes})


def outcome(records: list[RunRecord]) -> dict[str, Any]:
    return {r.labels.trial: (r.status, r.config["optimizer"], dict(r.final)) for r in records}


def trials(home: Path) -> dict[str, list[tuple[int, str]]]:
    import optuna

    storage = open_journal(home)
    return {
        name: [
            (trial.number, trial.state.name)
            for trial in optuna.load_study(study_name=name, storage=storage).get_trials(deepcopy=False)
        ]
        for name in optuna.get_all_study_names(storage)
    }


def test_a_sweep_follows_the_protocol(tmp_path: Path) -> None:
    result = sweep(study(), home=Home(tmp_path))
    assert result.complete
    assert [r.status for r in result.records] == ["completed"] * 10
    tuned = {
        arm: [r for r in result.records if (r.labels.arm, r.labels.phase) == (arm, "tune")] for arm in STUDY["arms"]
    }
    finals = {arm: [r for r in result.records if (r.labels.arm, r.labels.phase) == (arm, "final")] for arm in tuned}
    for arm, runs in tuned.items():
        assert len(runs) == 3
        best = max(runs, key=lambda r: r.final["objective"])
        assert [r.labels.seed for r in finals[arm]] == [1, 2]
        assert all(r.config["optimizer"] == best.config["optimizer"] for r in finals[arm])
        assert not {r.labels.seed for r in runs} & {1, 2}, "tuning has seeds of its own"
    assert {r.config["budget"]["updates"] for r in result.records} == {10}
    states = trials(tmp_path)
    assert states == {
        **{f"small/digits/{arm}": [(n, "COMPLETE") for n in range(3)] for arm in tuned},
        **{f"small/digits/{arm}/final": [(n, "COMPLETE") for n in range(2)] for arm in tuned},
    }


def test_called_again_it_does_nothing_and_another_home_gives_the_same(tmp_path: Path) -> None:
    first = sweep(study(), home=Home(tmp_path / "a"))
    ended: list[Any] = []
    again = sweep(
        study(), home=Home(tmp_path / "a"), listener=lambda e: ended.append(e) if isinstance(e, RunEnded) else None
    )
    assert ended == []
    assert outcome(again.records) == outcome(first.records)
    other = sweep(study(), home=Home(tmp_path / "b"))
    assert outcome(other.records) == outcome(first.records)


def test_a_stopped_sweep_goes_on_under_the_same_runs(tmp_path: Path) -> None:
    undisturbed = sweep(study(), home=Home(tmp_path / "a"))
    home, stop = Home(tmp_path / "b"), Stop()
    seen: list[Any] = []

    def listen(event: Any) -> None:
        seen.append(event)
        if isinstance(event, RunProgress) and event.update == 5 and sum(isinstance(e, RunStarted) for e in seen) > 3:
            stop.request("enough")  # in the middle of a run

    stopped = sweep(study(), home=home, listener=listen, stop=stop)
    assert not stopped.complete
    assert {r.status for r in stopped.records if r.status not in FINISHED} == {"interrupted"}
    assert "RUNNING" not in {state for states in trials(home.path).values() for _, state in states}
    before = {r.labels.trial: r.run_id for r in stopped.records}
    done = sweep(study(), home=home)
    assert done.complete
    assert before.items() <= {r.labels.trial: r.run_id for r in done.records}.items()
    assert outcome(done.records) == outcome(undisturbed.records)


def sweep_in_a_process(home: Home, *, events: int, delay_s: float) -> subprocess.CompletedProcess[str]:
    """A sweep that is killed (-9) so long after so many events, wherever it then is."""
    program = (
        "import itertools, json, os, signal, sys, threading, time\n"
        "from experiments.store.home import Home\n"
        "from experiments.study import StudyConfig\n"
        "from experiments.sweeps.sweep import sweep\n"
        "study, home, events, delay_s = sys.argv[1:]\n"
        "seen = itertools.count(1)\n"
        "def die(): time.sleep(float(delay_s)); os.kill(os.getpid(), signal.SIGKILL)\n"
        "def listen(event):\n"
        "    if next(seen) == int(events): threading.Thread(target=die).start()\n"
        "sweep(StudyConfig.of(json.loads(study)), home=Home(home), listener=listen)\n"
    )
    arguments = [json.dumps(STUDY), str(home.path), str(events), str(delay_s)]
    return subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_killed_at_random_and_called_again_nothing_is_lost_or_repeated(tmp_path: Path) -> None:
    """kill -9 at ten moments of a sweep; then its numbers are an undisturbed sweep's."""
    undisturbed = sweep(study(), home=Home(tmp_path / "a"))
    home = Home(tmp_path / "b")
    for attempt in range(10):
        # It kills itself a moment after its third to sixth event: whoever read of them would be too late.
        worker = sweep_in_a_process(home, events=3 + attempt % 4, delay_s=0.003 * (attempt % 5))
        assert worker.returncode == -signal.SIGKILL, worker.stderr
    assert sweep(study(), home=home).complete
    records = Gathered(home, "small").records()
    assert outcome(records) == outcome(undisturbed.records)
    assert len(records) == len({r.labels.trial for r in records}) == 10
    assert max(r.attempts for r in records) > 1
    assert {state for states in trials(home.path).values() for _, state in states} == {"COMPLETE"}
    for one in undisturbed.records:
        (two,) = (r for r in records if r.labels.trial == one.labels.trial)
        series = [
            {
                line.metric: (line.updates, line.values)
                for line in Home(h).series([r.run_id])
                if line.metric[:5] != "time/"
            }
            for h, r in ((tmp_path / "a", one), (home.path, two))
        ]
        assert series[0] == series[1]


def test_two_sweeps_of_one_study_at_once_are_refused(tmp_path: Path) -> None:
    errors: list[str] = []

    def listen(event: Any) -> None:
        if not errors:
            with pytest.raises(InputError, match=f"is being run by pid {os.getpid()}") as caught:
                sweep(study(), home=Home(tmp_path))
            errors.append(str(caught.value))

    sweep(study(tune=None, seeds=1), home=Home(tmp_path), listener=listen)
    assert errors


def test_a_changed_study_under_an_old_name_is_refused_with_what_changed(tmp_path: Path) -> None:
    sweep(study(tune=None, seeds=1), home=Home(tmp_path))
    with pytest.raises(InputError, match=r"seeds: \[1\] -> \[1, 2\].*--amend"):
        sweep(study(tune=None, seeds=2), home=Home(tmp_path))
    kept = stored_study(Home(tmp_path), "small")
    assert kept is not None
    assert kept.seeds == (1,)


def test_a_sampler_that_asks_is_told_every_objective(tmp_path: Path) -> None:
    result = sweep(study(tune={"trials": 3, "sampler": "tpe", "space": ["optimizer.lr"]}), home=Home(tmp_path))
    assert result.complete
    rates = [r.config["optimizer"]["lr"] for r in result.records if r.labels.phase == "tune"]
    assert len(set(rates)) > 1
    import optuna

    told = optuna.load_study(study_name="small/digits/adamw", storage=open_journal(tmp_path))
    for record in result.records:
        if record.labels.phase == "tune" and record.labels.arm == "adamw":
            trial = told.trials[record.labels.number]
            assert trial.value == record.final["objective"]
            assert trial.params["optimizer.lr"] == record.config["optimizer"]["lr"]
            assert trial.user_attrs["run_id"] == record.run_id
    assert told.user_attrs["tuning"]["sampler"]["name"] == "tpe"


def test_a_diverged_trial_is_worth_the_worst_and_does_not_win(tmp_path: Path) -> None:
    arms = {"sgd": {"optimizer": "sgd", "optimizer.lr": "1e-2:1e14:log"}}
    result = sweep(study(arms=arms, tune={"trials": 6, "sampler": "grid"}), home=Home(tmp_path))
    tuned = [r for r in result.records if r.labels.phase == "tune"]
    assert {r.status for r in tuned} == {"completed", "diverged"}
    assert all(r.status == "completed" for r in result.records if r.labels.phase == "final")
    import optuna

    told = optuna.load_study(study_name="small/digits/sgd", storage=open_journal(tmp_path))
    for record in tuned:
        if record.status == "diverged":
            assert told.trials[record.labels.number].value == record.task["worst"]


def test_half_a_line_at_the_journal_s_end_is_cut_before_anything_is_appended(tmp_path: Path) -> None:
    sweep(study(tune=None, seeds=1), home=Home(tmp_path))
    journal = tmp_path / "optuna.journal"
    whole = journal.read_bytes()
    journal.write_bytes(whole + b'{"op_code": 4, "worker_id": "x", "tri')
    result = sweep(study(name="other", tune=None, seeds=1), home=Home(tmp_path))
    assert result.complete
    assert journal.read_bytes().startswith(whole)
    assert not cut_half_line(journal)
    for line in journal.read_text().splitlines():
        json.loads(line)


def test_trials_are_named_by_study_task_and_arm() -> None:
    assert study_name(Labels("digits", "s", "a", "tune")) == "s/digits/a"
    assert study_name(Labels("digits", "s", "a", "final")) == "s/digits/a/final"


def test_a_study_that_never_ran_may_be_changed(tmp_path: Path) -> None:
    stop = Stop()
    stop.request()
    assert sweep(study(tune=None, seeds=1), home=Home(tmp_path), stop=stop).records == []
    assert sweep(study(tune=None, seeds=2), home=Home(tmp_path)).complete


def test_a_study_does_not_count_what_another_loop_recorded_under_its_name(tmp_path: Path) -> None:
    from experiments.recorder import opened

    home, made = Home(tmp_path), study(tune=None, seeds=1)
    for arm in made.arms:
        opened(study=made.name, task="digits", arm=arm, home=home, metric="val/accuracy", mode="max").begin().end(
            "completed"
        )
    result = sweep(made, home=home)
    assert result.complete
    assert len(result.records) == len(made.arms)
    assert len(home.records()) == 2 * len(made.arms)
