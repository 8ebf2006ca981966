"""Samplers and pruners by name: Optuna's own, their arguments checked before anything runs. Torch-free.

`tpe`, `TPESampler` and `{name: tpe, n_startup_trials: 5}` are one sampler. random, qmc and grid are drawn here (see
`tuning`), so that any number of workers runs the same set. The others are made anew for each trial, from (seed of the
sweep, name of the Optuna study, number): one seed reproduces a sweep, also one that was killed. `told` has every
argument, given or not, with Optuna's version, so that a change of its defaults shows.
"""

from __future__ import annotations

import importlib.util
import inspect
import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from algos.finding import InputError, unknown
from experiments.config import Entry, plain
from experiments.tuning.drawing import DRAWN
from experiments.tuning.ranges import Options
from experiments.tuning.spaces import Space

if TYPE_CHECKING:
    import optuna

    from experiments.tuning.tune import Tune

SAMPLERS = {
    "random": "RandomSampler",
    "qmc": "QMCSampler",
    "grid": "GridSampler",
    "tpe": "TPESampler",
    "gp": "GPSampler",
    "cmaes": "CmaEsSampler",
    "nsga2": "NSGAIISampler",
    "nsga3": "NSGAIIISampler",
    "bruteforce": "BruteForceSampler",
}
PRUNERS = {
    "none": "NopPruner",
    "median": "MedianPruner",
    "percentile": "PercentilePruner",
    "successive_halving": "SuccessiveHalvingPruner",
    "hyperband": "HyperbandPruner",
    "threshold": "ThresholdPruner",
    "patient": "PatientPruner",
    "wilcoxon": "WilcoxonPruner",
}
_CROSSOVERS = {
    "uniform": "UniformCrossover",
    "blxalpha": "BLXAlphaCrossover",
    "spx": "SPXCrossover",
    "sbx": "SBXCrossover",
    "vsbx": "VSBXCrossover",
    "undx": "UNDXCrossover",
}
#: Kind of thing -> (module of Optuna, short names).
_KINDS = {
    "sampler": ("optuna.samplers", SAMPLERS),
    "pruner": ("optuna.pruners", PRUNERS),
    "crossover": ("optuna.samplers.nsgaii", _CROSSOVERS),
}
#: What stands in an annotation of Optuna's -> the kind it takes, by name.
_INNER = {"BaseSampler": "sampler", "BasePruner": "pruner", "BaseCrossover": "crossover"}
_SIMPLE = {"int": "a whole number", "float": "a number", "bool": "true or false", "str": "text", "None": "none"}
#: Without a model of them, Optuna draws these at random, and says so each time; here it is said once (`limits`).
_SILENT = "warn_independent_sampling"
#: cmaes begins with the best tenth of another study's trials.
WARMING = 10
#: Their generations are made of trials that they drew themselves.
LEARN_NOTHING = (*DRAWN, "nsga2", "nsga3")


def short(kind: str, name: str, place: str = "") -> str:
    """The short name of a sampler, pruner or crossover, given that or its class's name.

    >>> short("sampler", "TPESampler"), short("pruner", "median")
    ('tpe', 'median')
    """
    names = _KINDS[kind][1]
    by_class = {each: alias for alias, each in names.items()}
    if name in names or name in by_class:
        return by_class.get(name, name)
    raise unknown(kind, name, names, place=place)


def checked(kind: str, entry: Entry, place: str = "") -> Entry:
    """The entry under its short name; InputError for a name or an argument that Optuna does not have, or a value that
    it does not take."""
    name = short(kind, entry.name, place)
    if kind == "sampler" and name in DRAWN:
        if entry.hyper:
            said = f"{name} is drawn here, without arguments, and has no {next(iter(entry.hyper))}"
            raise InputError(said, f"give sampler: {name}", place=f"{place}.{next(iter(entry.hyper))}")
        return Entry(name=name)
    if name == "none":
        if entry.hyper:
            raise InputError("no pruner has no arguments", "leave them out", place=place)
        return Entry(name=name)
    if name == "cmaes" and importlib.util.find_spec("cmaes") is None:
        raise InputError("the sampler cmaes needs the package cmaes", "pip install cmaes", place=place)
    for argument, value in entry.hyper.items():
        _check_argument(kind, name, argument, value, f"{place}.{argument}")
    missing = [word for word, default in _defaults(kind, name).items() if default is inspect.Parameter.empty]
    for word in missing:
        if word not in entry.hyper:
            raise InputError(f"{name} needs {word}", f"give {{name: {name}, {word}: ...}}", place=place)
    if name != "gp":  # its making imports torch, and takes whatever its signature takes
        _made(kind, Entry(name=name, hyper=entry.hyper), place, {})
    return Entry(name=name, hyper=entry.hyper)


def sampler(tune: Tune, seed: int, warm: Sequence[optuna.trial.FrozenTrial] = ()) -> optuna.samplers.BaseSampler:
    """Optuna's sampler for one trial. warm: trials of another study, for cmaes, which learns from no others' trials in
    its own history."""
    extra: dict[str, Any] = {"seed": seed}
    if tune.sampler.name == "cmaes" and warm:
        extra["source_trials"] = _of_numbers(warm)
    made: optuna.samplers.BaseSampler = _made("sampler", _asked(tune.sampler), "tune.sampler", extra)
    return made


def _of_numbers(trials: Sequence[optuna.trial.FrozenTrial]) -> list[optuna.trial.FrozenTrial]:
    """The trials with nothing but numbers, which is what cmaes has a model of."""
    import optuna

    options = optuna.distributions.CategoricalDistribution
    return [
        optuna.trial.create_trial(
            values=trial.values,
            params={name: trial.params[name] for name in names},
            distributions={name: trial.distributions[name] for name in names},
        )
        for trial in trials
        for names in [[name for name, kind in trial.distributions.items() if not isinstance(kind, options)]]
    ]


def pruner(tune: Tune) -> optuna.pruners.BasePruner | None:
    """Optuna's pruner; None where nothing is pruned."""
    if tune.pruner.name == "none":
        return None
    made: optuna.pruners.BasePruner = _made("pruner", tune.pruner, "tune.pruner", {})
    return made


def told(tune: Tune) -> dict[str, Any]:
    """How an arm is tuned, as plain JSON: sampler and pruner with all their arguments, given or not. Optuna's version
    where one of them is Optuna's."""
    asked = tune.sampler.name not in DRAWN
    full: dict[str, Any] = {
        "sampler": _full("sampler", _asked(tune.sampler)) if asked else {"name": tune.sampler.name},
        "pruner": {"name": "none"} if tune.pruner.name == "none" else _full("pruner", tune.pruner),
        "seed": tune.seed,
    }
    if asked or tune.pruner.name != "none":
        import optuna

        full["optuna"] = optuna.__version__
    return full


def facts(tune: Tune, space: Space) -> dict[str, Any]:
    """What a run's record keeps of how it was tuned: `told`, and what a reader should know of it."""
    kept = told(tune)
    if tune.objectives:
        kept["objectives"] = plain(tune.objectives)
    if tune.warm_start:
        kept["warm_start"] = tune.warm_start
    if notes := [*limits(tune, space), *pruning(tune)]:
        kept["notes"] = notes
    return kept


def pruning(tune: Tune) -> list[str]:
    """What to say of a study that prunes."""
    if tune.pruner.name == "none":
        return []
    return [
        f"the pruner {tune.pruner.name} ends tuning runs early: their budgets are unequal, and which setting leads can "
        "change while rates decay"
    ]


def name(tune: Tune) -> str:
    """The short name of the sampler."""
    return tune.sampler.name


def limits(tune: Tune, space: Space) -> list[str]:
    """What a sampler cannot do in a space, and does instead, as Optuna has it: draws at random."""
    options = [axis.place for axis in space.axes if isinstance(axis.dimension, Options)]
    conditional = list(dict.fromkeys(axis.place for axis in space.axes if axis.given))
    name, said = tune.sampler.name, []
    if name == "cmaes" and options:
        said.append(f"{name} has no model of options: {', '.join(options)} is drawn at random")
    if name in ("gp", "cmaes") and conditional:
        said.append(f"{name} has no model of conditions: {', '.join(conditional)} is drawn at random")
    return said


def check_space(tune: Tune, space: Space, place: str) -> None:
    """InputError where a sampler can do nothing with a space."""
    name = tune.sampler.name
    ranges = [axis for axis in space.axes if not isinstance(axis.dimension, Options)]
    if name == "bruteforce":
        for axis in ranges:
            if not axis.dimension.whole:  # type: ignore[union-attr]
                said = f"bruteforce tries every value, and {axis.place} is a range of numbers, {axis.dimension}"
                raise InputError(said, "give options or whole numbers (:int), or another sampler", place=place)
    if name == "cmaes" and tune.warm_start and any(axis.given for axis in ranges):
        said = "cmaes can be warmed only where every range is always searched"
        raise InputError(said, "leave warm_start out, or give another sampler, e.g. tpe", place="tune.warm_start")
    if name == "cmaes" and space and not any(axis.given is None for axis in ranges):
        said = "cmaes needs a range that is always searched, and there is none"
        raise InputError(said, "give one, or another sampler, e.g. tpe", place=place)


def _asked(entry: Entry) -> Entry:
    """A sampler with what we change of its defaults: it does not warn of what `limits` says."""
    silent = _defaults("sampler", entry.name).get(_SILENT) is True
    return Entry(name=entry.name, hyper={**({_SILENT: False} if silent else {}), **entry.hyper})


def _class(kind: str, name: str) -> type[Any]:
    module, names = _KINDS[kind]
    found: type[Any] = getattr(importlib.import_module(module), names[name])
    return found


def _parameters(kind: str, name: str) -> Mapping[str, inspect.Parameter]:
    made = _class(kind, name)
    if "__init__" not in vars(made):
        return {}
    return {word: each for word, each in inspect.signature(made.__init__).parameters.items() if word != "self"}


def _defaults(kind: str, name: str) -> dict[str, Any]:
    return {word: each.default for word, each in _parameters(kind, name).items() if word != "seed"}


def _check_argument(kind: str, name: str, argument: str, value: Any, place: str) -> None:
    parameters = _parameters(kind, name)
    if argument == "seed":
        raise InputError("a sampler has no seed of its own", "give tune.seed", place=place)
    if argument not in parameters:
        raise unknown(f"argument of {name}", argument, [word for word in parameters if word != "seed"], place=place)
    stated = parameters[argument].annotation
    takes = [part.strip().strip("'\"") for part in getattr(stated, "__name__", str(stated)).split("|")]
    inner = next((_INNER[part.rpartition(".")[2]] for part in takes if part.rpartition(".")[2] in _INNER), None)
    if inner is not None and isinstance(value, (str, Mapping)):
        checked(inner, Entry.model_validate(value), place)
        return
    if any(_is(part, value) for part in takes):
        return
    words = [_SIMPLE[part] for part in takes if part in _SIMPLE]
    words += [f"the name of a {inner}"] if inner else []
    if words in ([], ["none"]):
        raise InputError(f"{argument} of {name} takes what no file can hold", "leave it out", place=place)
    raise InputError(f"{value!r} is not valid", f"give {' or '.join(words)}", rule="bad-value", place=place)


def _is(annotation: str, value: Any) -> bool:
    if annotation.startswith("dict["):
        return isinstance(value, Mapping)
    if isinstance(value, bool):
        return annotation == "bool"
    if isinstance(value, float) and not math.isfinite(value):
        return False
    kinds: dict[str, tuple[type, ...]] = {"int": (int,), "float": (int, float), "str": (str,), "None": (type(None),)}
    return isinstance(value, kinds.get(annotation, ()))


def _made(kind: str, entry: Entry, place: str, extra: Mapping[str, Any]) -> Any:
    """The object; what Optuna says of its arguments as an InputError."""
    import optuna

    given = dict(_arguments(kind, entry, place, extra.get("seed")))
    made = _class(kind, entry.name)
    if entry.name == "bruteforce":  # it would stop a loop of Optuna's own; how many trials there are is the queue's
        made = type(made.__name__, (made,), {"after_trial": lambda self, *told: None})
    if "seed" in extra and "seed" not in _parameters(kind, entry.name):
        extra = {word: value for word, value in extra.items() if word != "seed"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        warnings.simplefilter("ignore", FutureWarning)  # an argument that Optuna means to drop is in the record
        try:
            return made(**given, **extra)
        except (ValueError, TypeError) as error:
            said = f"Optuna refuses {entry.name}: {' '.join(str(error).split())}"
            raise InputError(said, "mend its arguments", place=place) from None


def _arguments(kind: str, entry: Entry, place: str, seed: int | None) -> Iterable[tuple[str, Any]]:
    parameters = _parameters(kind, entry.name)
    for word, value in entry.hyper.items():
        inner = next((of for base, of in _INNER.items() if base in str(parameters[word].annotation)), None)
        if inner is not None and value is not None:
            nested = Entry.model_validate(value)
            nested = Entry(name=short(inner, nested.name, place), hyper=nested.hyper)
            yield word, _made(inner, nested, f"{place}.{word}", {"seed": seed} if inner == "sampler" else {})
        else:
            yield word, dict(value) if isinstance(value, Mapping) else value


def _full(kind: str, entry: Entry) -> dict[str, Any]:
    """Every argument, given or not, as plain JSON."""
    parameters = _parameters(kind, entry.name)
    full: dict[str, Any] = {}
    for word, default in _defaults(kind, entry.name).items():
        value = entry.hyper.get(word, default)
        inner = next((of for base, of in _INNER.items() if base in str(parameters[word].annotation)), None)
        if inner is not None and value is not None:
            nested = Entry.model_validate(value)
            full[word] = _full(inner, Entry(name=short(inner, nested.name), hyper=nested.hyper))
        else:
            full[word] = plain(value)
    return {"name": entry.name, **full}
