"""Running: overrides become configs, configs become runs, one after another, in one session with the store."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from algos.finding import InputError
from experiments.config import RunConfig, canonical, resolve
from experiments.layers import ENTRIES, LISTS
from experiments.modules import reference
from experiments.overrides import Overrides, parse
from experiments.progress import Listener, silent
from experiments.scalars import print_value
from trainlab.attending import note, outstanding
from trainlab.differences import differences

if TYPE_CHECKING:
    from experiments.stopping import Stop
    from experiments.store.home import Home
    from experiments.store.mirrored import Left
    from experiments.store.schema import RunRecord
    from experiments.study import StudyConfig
    from experiments.training import Finished


def resolved(overrides: Overrides) -> list[RunConfig]:
    """The config of each run that the overrides ask for; InputError for the first that is wrong."""
    return [resolve(layer) for layer in overrides.expand()]


def asked(arguments: Sequence[str], file: str = "") -> list[RunConfig]:
    """What `trainlab run` was asked for: overrides, or a file of whole configs ("-" is stdin)."""
    if not file:
        return resolved(parse(arguments))
    if arguments:
        raise InputError("overrides and --config together", "give one of them", rule="two-sources")
    path = Path("/dev/stdin" if file == "-" else file)
    try:
        data = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise InputError(
            f"cannot be read as JSON ({error})", "give what --dry-run --json prints", source=file
        ) from None
    found = data if isinstance(data, list) else [data]
    if not all(isinstance(each, dict) for each in found):
        raise InputError("is not a list of configs", "give what --dry-run --json prints", source=file)
    return [resolve({key: value for key, value in each.items() if key != "digest"}) for each in found]


def spelled(config: RunConfig) -> list[str]:
    """The whole config as arguments of `trainlab run`, which give the same config again.

    >>> " ".join(spelled(resolve({"task": "digits", "seed": 3})))
    'task=digits model=mlp ... seed=3 ...'
    """
    return [line for key, value in config.to_json().items() if key != "schema" for line in _spelled(key, value)]


def _spelled(key: str, value: Any) -> list[str]:
    if key in LISTS:
        names = "+".join(entry["name"] for entry in value) or "none"
        return [f"{key}={names}", *(line for entry in value for line in _hyper(f"{key}.{entry['name']}", entry))]
    if key in ENTRIES:
        return [f"{key}={print_value(value['name'])}", *_hyper(key, value)]
    if isinstance(value, dict):
        return [f"{key}.{name}={print_value(inner)}" for name, inner in value.items()]
    return [] if value == "" else [f"{key}={print_value(value)}"]


def _hyper(place: str, entry: dict[str, Any]) -> list[str]:
    return [f"{place}.{name}={print_value(value)}" for name, value in entry.items() if name != "name"]


def execute(
    configs: Sequence[RunConfig], *, home: Home, listener: Listener = silent, stop: Stop | None = None
) -> list[Finished]:
    """Run each config; fewer come back where a stop was asked for. What can be refused is, before the first runs."""
    from experiments.stopping import Stop
    from experiments.training import train

    stop = stop or Stop()
    ready(configs)
    refuse(configs)
    finished: list[Finished] = []
    with recorded(home, stop):
        for config, differs in zip(configs, differences(configs)):
            if stop.requested:
                break
            finished.append(_accepted(train(config, home=home, listener=listener, stop=stop, differs=differs)))
    return finished


def _accepted(finished: Finished) -> Finished:
    """What only shows while a user's module trains (a metric that never appears) is wrong input all the same."""
    if isinstance(finished.error, InputError):
        raise finished.error
    return finished


def ready(configs: Sequence[RunConfig]) -> None:
    """InputError where a device is not there, or a task's data, or a file of the user's says something else by now than
    what this process has imported of it."""
    from experiments import devices
    from experiments.training import load_data

    for device in dict.fromkeys(config.device for config in configs):
        devices.resolve(device)
    for task in dict.fromkeys(config.task for config in configs if not config.of_module):
        load_data(task, os.environ.get("TRAINLAB_DATA"))
    for text in dict.fromkeys(
        text for config in configs if config.of_module for text in reference.within(config.to_json())
    ):
        for file in reference.changed(text):
            cure = "start Python (or the notebook's kernel) afresh, so that what runs is what the file says"
            raise InputError(f"{file} has changed since this process imported it", cure, rule="file-changed")


def refuse_study(study: StudyConfig) -> None:
    """`refuse` for every arm of a study and every option that it tries, said where the study has it."""
    from experiments import study_checks

    for task, arm in ((task, arm) for task in study.tasks for arm in study.arms):
        try:
            refuse(_tried(study, task, arm))
        except InputError as error:
            place = study_checks.origin(study, task, arm, error.finding.place)
            traced = place.partition(".")[0] in ("arms", "tasks", "config", "tune")
            theirs = study.run_config(task, arm, study.seeds[0]).of_module
            raise error.at(place=place if traced or theirs else f"arms.{arm}") from None


def refuse_warm_start(study: StudyConfig, home: Home) -> None:
    """InputError where the study begins with trials of another one that is not there or cannot warm it. One that has
    runs has begun, and goes on without asking."""
    if study.tune is None or not study.tune.warm_start:
        return
    from experiments.tuning.warm_start import usable

    records = home.records()
    if any(record.labels.study == study.name and not record.file.facts.get("recorded") for record in records):
        return
    for task, arm in ((task, arm) for task in study.tasks for arm in study.arms if study.space(task, arm)):
        usable(records, study, task, arm)


def _tried(study: StudyConfig, task: str, arm: str) -> list[RunConfig]:
    """An arm's config as it stands, and with each option of its own in the place of it. Numbers change no fit."""
    seed = study.seeds[0]
    return [study.run_config(task, arm, seed, chosen) for chosen in study.space(task, arm).choices()]


def refuse(configs: Sequence[RunConfig]) -> None:
    """InputError where what one of the configs names does not go together, before anything of them runs.

    Each that differs in more than its seed is built once, without a step. Data are read where they are on this
    machine; where they are not, a note says what was not checked.
    """
    refuse_arms(configs)
    catalogued = [config for config in configs if not config.of_module]
    if not catalogued:
        return
    from experiments.training import check

    there = {task: _at_hand(task) for task in dict.fromkeys(config.task for config in catalogued)}
    for config in {_apart_from_seed(config): config for config in catalogued if there[config.task]}.values():
        check(config)


def _at_hand(task: str) -> bool:
    from experiments.data.fetch import from_disk
    from experiments.training import load_data

    try:
        with from_disk():
            load_data(task, os.environ.get("TRAINLAB_DATA"))
    except InputError as error:
        if error.finding.rule != "missing-data":
            raise
        note(
            f"note: the data of {task} are not on this machine, so whether its settings go together is not checked yet"
        )
        return False
    return True


def _apart_from_seed(config: RunConfig) -> str:
    return canonical({key: value for key, value in config.to_json().items() if key != "seed"})


def refuse_arms(configs: Sequence[RunConfig]) -> None:
    """InputError where a user's module cannot take what an arm changes, which shows only on the module itself: a loss
    it does not hold, an optimizer where it optimizes by itself.

    It costs one construction of the module (on the CPU, no data) for each distinct arm that changes something; an arm
    that keeps everything of the module's own costs nothing. What their constructor raises is left for the run to say.
    """
    if not (changing := {_arm(config): config for config in configs if config.of_module and _changes(config)}):
        return
    from experiments import checkpoint
    from experiments.modules import arms, settings

    with checkpoint.preserved_random():
        for config in changing.values():
            try:
                arms.equip(settings.module(config), config, lambda: 0.0)
            except InputError:
                raise
            except Exception:  # theirs, with its traceback in the run
                continue


def _changes(config: RunConfig) -> bool:
    own = all(entry.name == "own" for entry in (config.optimizer, config.schedule, config.loss, config.precision))
    return not own or bool(config.wrappers or config.compression)


def _arm(config: RunConfig) -> str:
    """What the module and its arm are made of, as text."""
    apart = ("seed", "data", "budget", "metric", "mode", "target", "worst", "evaluate_every", "device", "init")
    return canonical({key: value for key, value in config.to_json().items() if key not in apart})


@contextmanager
def recorded(home: Home, stop: Stop | None = None, wait_s: float | None = None) -> Iterator[None]:
    """A session with the store; says at its end what MLflow has not got. Who asked to stop is not kept waiting.

    wait_s: how long MLflow is waited for at the end; None: as a session does.
    """
    from experiments.session import WAIT_S, session

    patience = _Patience(stop)
    try:
        with session(home, on_wait=patience.over, wait_s=WAIT_S if wait_s is None else wait_s) as opened:
            yield
            patience.begin()
    except BaseException:
        patience.tell_left()
        raise
    if opened.left:
        note(f"{opened.left}; sent meanwhile, or by the next command")


class _Patience:
    """The wait for MLflow: says that it is waited for, at first and then every ten seconds, and ends it soon after a
    stop was asked for, or at once where that comes while it waits."""

    _AFTER_STOP_S = 5.0

    def __init__(self, stop: Stop | None) -> None:
        self._stop = stop
        self._signals = 0
        self._since: float | None = None
        self._next = 0.0
        self._left: Left | None = None
        self._over = ""

    def begin(self) -> None:
        """The runs are over, and only MLflow is outstanding."""
        self._since = time.monotonic()
        if self._stop is not None:
            self._signals = self._stop.signals
            self._over = f"the runs have stopped ({self._stop.reason}); " if self._stop.requested else ""
            outstanding(self._stop)

    def over(self, left: Left) -> bool:
        now, self._left = time.monotonic(), left
        if self._since is None:
            self.begin()
        if now >= self._next:
            self._next = now + 10
            note(f"{self._over}waiting for MLflow: {left}")
            self._over = ""
        if self._stop is None or not self._stop.requested or self._stop.planned:
            return False
        return self._stop.signals > self._signals or now - (self._since or now) > self._AFTER_STOP_S

    def tell_left(self) -> None:
        """Where the wait was cut short."""
        if self._left:
            note(f"{self._left}; sent meanwhile, or by the next command")


def resumable(home: Home, name: str) -> RunRecord:
    """The run that a name means, if it can be resumed by itself; else InputError says what to do."""
    from experiments.store import queries
    from experiments.store.schema import RESUMABLE
    from experiments.store.sources.home import HomeSource

    record = queries.find(HomeSource(home), name)
    if record.status not in RESUMABLE:
        cure = "only interrupted and lost runs can be resumed" if record.status != "running" else "it is still running"
        raise InputError(f"run {record.run_id} is {record.status}", cure, rule="not-resumable")
    if record.file.facts.get("recorded"):
        said = f"run {record.run_id} was recorded from a loop that is not trainlab's"
        raise InputError(said, "run that code again; it records a new run", rule="not-resumable")
    if record.labels.study:
        said = f"run {record.run_id} belongs to the study '{record.labels.study}'"
        raise InputError(said, "sweep the study again, which resumes all of it", rule="not-resumable")
    return record


def go_on(record: RunRecord, *, home: Home, listener: Listener = silent, stop: Stop | None = None) -> Finished:
    """Resume a run that was interrupted or lost."""
    from experiments.training import resume

    try:
        ready([RunConfig.from_json(record.config)])
    except InputError as error:
        if error.finding.rule != "by-value":
            raise
        cure = f'make the same Task in a script or notebook, and then call tl.resume("{record.run_id}") there'
        raise InputError(error.finding.said, cure, rule="by-value", place=error.finding.place) from None
    tell_changes([record])
    with recorded(home, stop):
        return _accepted(resume(home.folder(record.run_id), listener=listener, stop=stop))


def tell_changes(records: Sequence[RunRecord]) -> None:
    """Says where a user's files are no longer what the runs were made with."""
    from experiments.store import module_files

    for path in dict.fromkeys(found.path for found in module_files.changed(records)):
        note(f"note: {path} has changed since the first of these runs; the record says which version made which")


def exit_code(records: Sequence[RunRecord], stop: Stop, complete: bool | None = None) -> int:
    """0 all well or stopped as planned, 1 a run failed, 130 interrupted. complete: whether nothing was left to do,
    where that is known better than by the stop."""
    statuses = {record.status for record in records}
    if complete is None:
        complete = not stop.requested and not statuses & {"interrupted", "lost"}
    if not complete and not stop.planned:
        return 130
    return 1 if statuses & {"crashed", "diverged"} else 0
