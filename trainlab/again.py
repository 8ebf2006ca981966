"""Again: runs from runs. A fork goes on from what another run was; a replay does it all once more."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from algos.finding import InputError
from experiments.layers import leaves
from experiments.overrides import Overrides
from experiments.progress import Event, Listener, RunNotice, silent
from experiments.scalars import print_value

if TYPE_CHECKING:
    from experiments.config import RunConfig
    from experiments.fork import Point
    from experiments.replay import Replayed
    from experiments.stopping import Stop
    from experiments.store.home import Home
    from experiments.training import Finished


def fork(
    text: str, overrides: Overrides, *, home: Home, listener: Listener = silent, stop: Stop | None = None
) -> list[Finished]:
    """The forks of RUN@UPDATE that overrides ask for, one for each combination of values. What can be refused is,
    before the first runs; fewer come back where a stop was asked for."""
    from experiments import fork as forks
    from experiments.stopping import Stop
    from trainlab.running import ready, recorded, refuse

    point, stop, listener = _found(text, home), stop or Stop(), _once(listener)
    layers = overrides.expand()
    configs = [point.changed(layer) for layer in layers]
    ready(configs)
    refuse(configs)
    differs = [_said(layer) for layer in layers]
    finished: list[Finished] = []
    with recorded(home, stop):
        prepared = forks.prepare(point, list(zip(configs, differs, strict=True)), listener=listener, stop=stop)
        for each in prepared:
            if stop.requested:
                break
            finished.append(forks.begin(each, home, listener=listener, stop=stop))
    return finished


def fork_configs(text: str, overrides: Overrides, home: Home) -> list[RunConfig]:
    """What the forks would be, where that can be."""
    from trainlab.running import refuse

    point = _found(text, home)
    configs = [point.changed(layer) for layer in overrides.expand()]
    refuse(configs)
    return configs


def _found(text: str, home: Home) -> Point:
    from experiments import fork as forks

    name, _, place = text.rpartition("@")
    if name and (place == "0" or re.fullmatch(r"-\d+", place)):
        said = f"'{text}' is before the first update"
        raise InputError(said, "give an update from 1; from the start, a new run", rule="fork-point", place=f"@{place}")
    return forks.find(home, text)


def _once(listener: Listener) -> Listener:
    """Tells what is worth knowing of forks once, whichever run it is told of again."""
    told: set[str] = set()

    def heard(event: Event) -> None:
        if isinstance(event, RunNotice):
            if event.text in told:
                return
            told.add(event.text)
        listener(event)

    return heard


def _said(layer: Mapping[str, Any]) -> str:
    """What a fork changes, in a few words for its name."""
    return " ".join(f"{place.removesuffix('.name')}={print_value(value)}" for place, value in leaves(layer))


def replay(
    name: str, tolerance: float | None, *, home: Home, listener: Listener = silent, stop: Stop | None = None
) -> Replayed:
    """A run once more, and what came of it beside what had."""
    from experiments import replay as replays
    from experiments.config import RunConfig
    from experiments.store import queries
    from experiments.store.sources.home import HomeSource
    from trainlab.running import recorded

    if tolerance is not None and not tolerance >= 0:
        raise InputError(f"a tolerance of {tolerance:g}", "give a number from 0 up, e.g. 1e-6", place="--tolerance")
    record = queries.find(HomeSource(home), name)
    replays.check(record)
    _ready(RunConfig.from_json(record.config), record.run_id)
    with recorded(home, stop):
        folder = home.folder(record.run_id)
        return replays.replay(folder, home, tolerance=tolerance, listener=listener, stop=stop)


def _ready(config: RunConfig, run_id: str) -> None:
    from trainlab.running import ready

    try:
        ready([config])
    except InputError as error:
        if error.finding.rule != "by-value":
            raise
        cure = f'make the same Task in a script or notebook, and then call tl.replay("{run_id}") there'
        raise InputError(error.finding.said, cure, rule="by-value", place=error.finding.place) from None
