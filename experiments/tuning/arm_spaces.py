"""Arm spaces: what an arm's layer searches, and under which conditions. Torch-free.

    arms:
      a:
        optimizer: [adamw, {name: muon, lr: 0.02}]        options of a whole entry
        wrappers: [[sam], [cautious, sam], none]          options of a list of entries: lists in a list
        batch_size: 32,64                                 options of a value
        optimizer.lr: 1e-4:1e-1:log                       a range
        when:
          optimizer=muon: {optimizer.momentum: 0.8:0.99}  searched only where the condition holds

Options stand in no config; a run has one of them, laid under what the arm fixes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from algos.finding import InputError, unknown
from experiments.config import RunConfig
from experiments.layers import ENTRIES, LISTS, Layer, leaves, searched, tidy, without_ranges
from experiments.scalars import parse_value, split_values
from experiments.tuning.drawing import axis_of, declared_search
from experiments.tuning.ranges import Dimension, Options, Range, label
from experiments.tuning.spaces import Axis, Given, Space, check_once, in_order

if TYPE_CHECKING:
    from experiments.study import StudyConfig

WHEN = "when"


@dataclass(frozen=True)
class Said:
    """What an arm's layer says, apart. fixed: tidy, with the ranges of single settings still in it. options: of whole
    entries, by place. when: condition as text -> what is searched where it holds."""

    fixed: Layer
    options: Mapping[str, Options]
    when: Mapping[str, Any]

    @property
    def searched(self) -> dict[str, Dimension]:
        """What is searched everywhere."""
        return {**self.options, **searched(self.fixed)}


def apart(layer: Mapping[str, Any], place: str = "") -> Said:
    """A layer taken apart.

    >>> apart({"optimizer": ["adamw", "muon"], "log_every": 2})
    Said(fixed={'log_every': 2}, options={'optimizer': Options(values=('adamw', 'muon'))}, when={})
    """
    options = {key: found for key, value in layer.items() if (found := _options(key, value)) is not None}
    when = layer.get(WHEN) or {}
    if not isinstance(when, Mapping) or not all(isinstance(each, Mapping) for each in when.values()):
        cure = "give e.g. {optimizer=muon: {optimizer.momentum: 0.8:0.99}}"
        raise InputError("'when' holds no conditions with ranges", cure, place=f"{place}.{WHEN}".strip("."))
    rest = {key: value for key, value in layer.items() if key not in options and key != WHEN}
    return Said(tidy(rest, place), options, when)


def layers_of(said: Said, params: Mapping[str, Any]) -> list[Layer]:
    """The layers of a run of the arm: the options chosen (the first of each where none is), what is fixed over them,
    what is tuned over all."""
    chosen = {place: params.get(place, found.values[0]) for place, found in said.options.items()}
    chosen |= {place: value for place, value in params.items() if place in ENTRIES}
    entries = {place: value for place, value in chosen.items() if place not in LISTS}
    rest = {place: value for place, value in params.items() if place not in chosen}
    return [tidy(chosen), without_ranges(said.fixed), tidy(entries), tidy(rest)]


def space(study: StudyConfig, task: str, arm: str) -> Space:
    """What an arm is tuned over on a task: its own ranges, else the study's, else what its optimizer declares."""
    said = apart(study.arms[arm], f"arms.{arm}")
    own = said.searched
    if study.tune is None:
        place = next(iter([*own, *(f"{WHEN}.{condition}" for condition in said.when)]), None)
        if place:
            raise InputError(
                f"{place} has a range, and the study tunes nothing", "add e.g. tune: {trials: 20}",
                place=f"arms.{arm}.{place}",
            )  # fmt: skip
        return Space()
    if not own and not said.when:
        own = _shared(study, task, arm, said)
    axes = [_everywhere(study, task, arm, place, dimension, said) for place, dimension in own.items()]
    if said.when:
        axes += _conditional(study, task, arm, said, axes)
        check_once(axes, f"arms.{arm}")
    try:
        return Space(in_order(axes))
    except InputError as error:
        raise error.at(place=f"arms.{arm}.{WHEN}") from None


def _options(key: str, value: Any) -> Options | None:
    """The options of a whole entry, or of a list of entries, as they may be written."""
    if key not in ENTRIES:
        return None
    values = value.values if isinstance(value, Options) else value
    if not isinstance(value, Options):
        if not isinstance(value, (list, tuple)):
            return None
        if key in LISTS and not any(part is None or isinstance(part, (list, tuple)) for part in value):
            return None  # the list itself
    return Options(tuple(_listed(part) if key in LISTS else part for part in values))


def _listed(value: Any) -> Any:
    """A list of entries by its shortest name: cautious+sam."""
    if isinstance(value, (list, tuple)) and all(isinstance(part, str) for part in value):
        return "+".join(value) or None
    return None if value == "none" else value


def _shared(study: StudyConfig, task: str, arm: str, said: Said) -> dict[str, Dimension]:
    assert study.tune is not None
    config = study.run_config(task, arm, seed=study.seeds[0])
    layers = (tidy(study.config), tidy(study.tasks[task]), said.fixed)
    fixed = {place for layer in layers for place, _ in leaves(layer)}
    wanted = study.tune.space
    asked = dict(wanted) if wanted is not None else {f"optimizer.{word}": "" for word in config.optimizer.hyper}
    found = {
        place: _dimension(config, place, asked[place], f"tune.space.{place}") for place in asked if place not in fixed
    }
    return {place: dimension for place, dimension in found.items() if dimension is not None}


def _dimension(config: RunConfig, place: str, said: Any, origin: str) -> Dimension | None:
    if isinstance(said, (Range, Options)):
        return said
    if isinstance(said, (list, tuple)):
        return Options(tuple(said))
    if said == "" or said is None:
        return declared_search(config, place)
    raise InputError(f"{said!r} is not a range", "give LOW:HIGH, LOW:HIGH:log or LOW:HIGH:int", place=origin)


def _everywhere(study: StudyConfig, task: str, arm: str, place: str, dimension: Dimension, said: Said) -> Axis:
    """An axis without a condition: its bounds are those that all entries allow that it may meet."""
    owner = said.options.get(place.partition(".")[0]) if place not in said.options else None
    choices = [{place.partition(".")[0]: value} for value in owner.values] if owner else [{}]
    axes = [axis_of(study.run_config(task, arm, study.seeds[0], chosen), place, dimension) for chosen in choices]
    narrowest = axes[0]
    for axis in axes[1:]:
        narrowest = Axis(
            place,
            narrowest.dimension if axis.dimension == dimension else axis.dimension,
            max(narrowest.lowest, axis.lowest),
            min(narrowest.highest, axis.highest),
        )
    return narrowest


def _conditional(study: StudyConfig, task: str, arm: str, said: Said, everywhere: list[Axis]) -> list[Axis]:
    """The axes under conditions. A condition may be on an option that has one itself."""
    origin = f"arms.{arm}.{WHEN}"
    asked = {text: _settings(layer, f"{origin}.{text}") for text, layer in said.when.items()}
    options = {axis.place: axis.dimension for axis in everywhere if isinstance(axis.dimension, Options)}
    for settings in asked.values():
        options |= {place: value for place, value in settings.items() if isinstance(value, Options)}
    drafts = []
    for text, settings in asked.items():
        given = condition(text, options, f"{origin}.{text}")
        for place, value in settings.items():
            dimension = value if isinstance(value, (Range, Options)) else Range(0, 1)  # declared, seen below
            drafts.append((Axis(place, dimension, given=given), value))
    try:
        outline = Space(in_order([*everywhere, *(axis for axis, _ in drafts)]))
    except InputError as error:
        raise error.at(place=origin) from None
    axes = []
    for axis, value in drafts:
        config = study.run_config(task, arm, study.seeds[0], outline.choice(axis))
        where = f"{origin}.{axis.given}.{axis.place}"
        found = _dimension(config, axis.place, value, where)
        if found is None:
            raise InputError("no entry here declares what to search it in", "give a range", place=where)
        axes.append(axis_of(config, axis.place, found, axis.given))
    return axes


def _settings(layer: Mapping[str, Any], origin: str) -> dict[str, Any]:
    """Place -> what is searched, of what stands under a condition."""
    said = apart(layer, origin)
    if said.when:
        cure = "name the other condition beside it: a condition may be on an option that has one"
        raise InputError("a condition stands in another", cure, place=origin)
    found: dict[str, Any] = dict(said.options)
    for place, value in leaves(said.fixed):
        if isinstance(value, (list, tuple)) and value:
            value = Options(tuple(value))
        if not isinstance(value, (Range, Options)) and value not in ("", None):
            cure = "give a range or options, or put a fixed value into the option, e.g. {name: muon, momentum: 0.95}"
            raise InputError(f"{value!r} is not a range", cure, place=f"{origin}.{place}")
        found[place] = value
    if not found:
        raise InputError("nothing is searched where it holds", "give a range, or leave it out", place=origin)
    return found


def condition(text: str, options: Mapping[str, Options], place: str = "") -> Given:
    """The condition that a text spells: `optimizer=muon`, `batch_size=32,64`. An option is meant by its label, or by
    the name of its entry.

    >>> condition("optimizer=muon", {"optimizer": Options(("adamw", {"name": "muon", "lr": 0.02}))}).labels
    ('{"name": "muon", "lr": 0.02}',)
    """
    where, equals, values = text.partition("=")
    if not equals:
        raise InputError(f"'{text}' is no condition", "give PLACE=VALUE, e.g. optimizer=muon", place=place)
    if where not in options:
        raise unknown("setting with options", where, options, place=place)
    found: list[str] = []
    for piece in split_values(values, place):
        meant = [of for of, value in zip(options[where].labels, options[where].values) if _is_meant(piece, of, value)]
        if not meant:
            raise unknown(f"option of {where}", piece, options[where].labels, place=place)
        found += [of for of in meant if of not in found]
    if set(found) == set(options[where].labels):
        raise InputError(f"'{text}' always holds", "search it without a condition", place=place)
    return Given(where, tuple(found))


def _is_meant(piece: str, of: str, value: Any) -> bool:
    name = value.get("name") if isinstance(value, Mapping) else None
    return piece in (of, name) or label(parse_value(piece)) == of
