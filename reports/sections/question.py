"""The question: what was asked, of which arms and tasks, and by which protocol."""

from __future__ import annotations

from typing import Any

from experiments.store.queries import flatten
from experiments.store.schema import RunRecord
from reports.arms import configs, differing, is_recorded, searched, unevenly_tuned
from reports.clocks import text, unequal
from reports.document import Block, Column, Heading, Paragraph, Part, Parts, Table, Term
from reports.judged import maker, module, recorded
from reports.sections import numbers
from reports.table import Cell, StudyTable
from reports.tuning import by_validation

#: Kinds of entries, as a reader wants them ordered.
_KINDS = ("optimizer", "wrappers", "schedule", "loss", "model", "data", "precision", "compression")
#: What stands in a config for a part that a user's module brings along.
_OWN, _OWN_WORDS = "own", "the module's own"
#: More columns than this are joined into one.
_COLUMNS = 6


def question(study: StudyTable, asked: str) -> list[Block]:
    blocks: list[Block] = [Heading(level=2, text="Question", anchor="question")]
    blocks.append(Paragraph(parts=(asked,) if asked else _implied(study), role="lead"))
    blocks.append(Paragraph(parts=_protocol(study)))
    blocks += [_tasks(study), _arms(study)]
    return blocks


def _implied(study: StudyTable) -> Parts:
    tasks = numbers.joined([(task.name,) for task in study.tasks.values()])
    if len(study.arms) == 1:
        return ("How well does ", Term(term=study.arms[0]), " do on ", *tasks, "?")
    at = "" if unequal(study.cells.values()) else " at one budget"
    return ("Which of ", *numbers.names(study.arms), " is best on ", *tasks, f"{at}?")


def _protocol(study: StudyTable) -> Parts:
    """What was done, from the runs themselves."""
    finals = [r for cell in study.cells.values() for r in cell.finals]
    tunes = [r for cell in study.cells.values() for r in cell.tunes]
    sampler = " or ".join(dict.fromkeys(s for cell in study.cells.values() if (s := cell.told.get("sampler"))))
    parts: list[Part] = []
    if tunes:
        without = [cell for cell in study.cells.values() if not cell.tunes]
        parts += [
            _tuned(study, without),
            numbers.count(tunes, "tuning runs"),
            " tuning runs in all",
        ]
        parts.append(f", drawn by the {sampler} sampler. " if sampler else ". ")
    elif any(map(recorded, finals)):
        parts.append("No tuning is recorded; how the settings were found is not known. ")
    else:
        parts.append("Nothing was tuned. ")
    if finals:
        seeds = sorted({r.labels.seed for r in finals})
        parts += [
            "What is reported comes from ",
            numbers.count(finals, "final runs"),
            f" final runs on {_seeds(seeds)}",
        ]
        parts.append(
            ", which tuning did not use. " if tunes and not {r.labels.seed for r in tunes} & set(seeds) else ". "
        )
    return (*parts, *_recorded([r for r in finals if recorded(r)], len(finals)))


def _recorded(theirs: list[RunRecord], of: int) -> Parts:
    """What is said of runs that other code than our runner executed. of: how many final runs there are."""
    if not theirs:
        return ()
    makers = numbers.joined([(words,) for words in dict.fromkeys(map(maker, theirs))])
    said = "; their budgets, seeds and settings are as stated there."
    how = "imported" if all("source" in r.file.facts for r in theirs) else "recorded"
    if len(theirs) == of:
        return (f"All were {how} from ", *makers, said)
    return (numbers.count(theirs, "recorded final runs"), f" of them {how} from ", *makers, said)


def _tuned(study: StudyTable, without: list[Cell]) -> str:
    """Who was tuned; without: who was not."""
    by = " by validation" if by_validation(study.cells.values()) else ""
    unknown = "" if by else " (by which split is not recorded)"
    if not without and len(study.cells) == len(study.arms) * len(study.tasks):
        return f"Each arm was tuned on each task{by}{unknown}: "
    if not without:
        return f"Each arm was tuned{by} on each task that it ran{unknown}: "
    several = len(study.tasks) > 1
    told = ", ".join(f"{cell.arm} on {cell.task.name}" if several else cell.arm for cell in without)
    return f"Arms were tuned{by}, but for {told}{unknown}: "


def _seeds(seeds: list[int]) -> str:
    if len(seeds) > 2 and seeds[-1] - seeds[0] + 1 == len(seeds):
        return f"seeds {seeds[0]} to {seeds[-1]}"
    return f"{'seed' if len(seeds) == 1 else 'seeds'} {', '.join(map(str, seeds))}"


def _tasks(study: StudyTable) -> Table:
    """What each task is, as its runs say."""
    rows: list[tuple[Parts, ...]] = []
    splits = list(dict.fromkeys(split for task in study.tasks.values() for split in task.sizes))
    united = any(task.unit for task in study.tasks.values())
    for task in study.tasks.values():
        budgets = {text(r) for cell in study.of(task.name) for r in cell.finals or cell.tunes}
        sizes = [(f"{task.sizes[split]:,}" if split in task.sizes else "-",) for split in splits]
        unit: list[Parts] = [(task.unit or "-",)] if united else []
        rows.append(((Term(term=task.name),), (task.title,), (" or ".join(sorted(budgets)),), *sizes, *unit))
    return Table(
        caption=("The tasks.",) if len(rows) > 1 else ("The task.",),
        columns=(
            Column(head="Task"),
            Column(head="What it is"),
            Column(head="Budget of a run"),
            *(Column(head=split.capitalize(), number=True) for split in splits),
            *([Column(head="Unit")] if united else []),
        ),
        rows=tuple(rows),
    )


def _arms(study: StudyTable) -> Table:
    """In what the arms differ, key by key, a column for each kind of thing. What all of them tuned has its own table;
    what only some tuned stands here too: the value where it was fixed, and where it was tuned, that it was."""
    keys = _differing(study)
    if not keys and any("optimizer.name" in configs(cell) for cell in study.cells.values()):
        keys = ["optimizer.name"]
    kinds = list(dict.fromkeys(key.split(".")[0] for key in keys))
    kinds.sort(key=lambda kind: _KINDS.index(kind) if kind in _KINDS else len(_KINDS))
    makers = _makers(study)
    heads, groups = _columns(kinds)
    rows: tuple[tuple[Parts, ...], ...] = tuple(
        (
            (Term(term=arm),),
            *([(makers[arm],)] if makers else []),
            *((_made(study, arm, [k for k in keys if k.split(".")[0] in group]),) for group in groups),
        )
        for arm in study.arms
    )
    shared = "; ".join(f"{kind} {name}" for kind, name in _shared(study, kinds).items())
    return Table(
        caption=("The arms: what differs between them.",) if len(study.arms) > 1 else ("The arm.",),
        columns=(Column(head="Arm"), *([Column(head="Runs from")] if makers else []), *(Column(head=h) for h in heads)),
        rows=rows,
        notes=((f"The same in all: {shared}.",),) if shared else (),
    )


def _columns(kinds: list[str]) -> tuple[list[str], list[list[str]]]:
    """Heads, and the kinds that stand under each. Words of users' own configs are shown as they are."""
    heads = [kind.replace("_", " ").capitalize() if kind in (*_KINDS, "batch_size") else kind for kind in kinds]
    if len(kinds) <= _COLUMNS:
        return heads, [[kind] for kind in kinds]
    return [*heads[: _COLUMNS - 1], "Other settings"], [[k] for k in kinds[: _COLUMNS - 1]] + [kinds[_COLUMNS - 1 :]]


def _makers(study: StudyTable) -> dict[str, str]:
    """Arm -> who executed its runs; {} where that was our runner everywhere."""
    if not any(map(recorded, study.runs)):
        return {}
    return {
        arm: " and ".join(dict.fromkeys(maker(r) or "trainlab's runner" for r in study.runs if r.labels.arm == arm))
        for arm in study.arms
    }


def _differing(study: StudyTable) -> list[str]:
    """Keys in which arms differ on some task, or that only some of them tuned; names before what belongs to them."""
    cells = [study.of(task) for task in study.tasks]
    found = dict.fromkeys(key for of in cells for key in (*differing(of), *unevenly_tuned(of)))
    return sorted(found, key=lambda key: (not key.endswith(".name"), key))


def _made(study: StudyTable, arm: str, keys: list[str]) -> str:
    """What an arm has at some keys, over all tasks: "sgd, momentum 0.9"."""
    told: dict[str, list[str]] = {}
    several = len({key.split(".")[0] for key in keys}) > 1
    mine = [cell for cell in study.cells.values() if cell.arm == arm]
    for cell in mine:
        config = configs(cell)
        places = searched(cell)
        said = [
            _said(key, "tuned" if key in places else config[key], several)
            for key in keys
            if key in places
            or (config.get(key) not in (None, {}, []) and not any(key.startswith(f"{place}.") for place in places))
        ]
        chosen = {key.split(".")[0] for key in keys} & set(places)
        said += [f"{kind} tuned" if several else "tuned" for kind in sorted(chosen) if kind not in keys]
        told.setdefault(", ".join(said), []).append(cell.task.name)
    if len(told) > 1:  # an arm that is not the same on every task says where it is what
        return "; ".join(f"{' and '.join(tasks)}: {text or 'none'}" for text, tasks in told.items())
    return next(iter(told), "") or ("not stated" if any(map(is_recorded, mine)) else "none")


def _said(key: str, value: Any, whole: bool) -> str:
    """whole: the key is told too, since no column has it for its head."""
    last = key.split(".")[-1]
    shown = ", ".join(map(_digits, value)) if isinstance(value, (list, tuple)) else _digits(value)
    if last == "name" and shown == _OWN:
        shown = _OWN_WORDS
    if whole:
        return f"{key.removesuffix('.name')} {shown}"
    if value == "tuned":
        return f"{last.replace('_', ' ')} tuned"
    return shown if last == "name" or "." not in key else f"{last.replace('_', ' ')} {shown}"


def _digits(value: Any) -> str:
    """A setting as text, numbers to four significant digits."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _shared(study: StudyTable, differ: list[str]) -> dict[str, str]:
    """Kind -> name of what all runs of all arms have in common on every task. What tuning chose among is not that."""
    known = [flatten(record.config) for record in study.runs]
    chosen = {place for cell in study.cells.values() for place in searched(cell)}
    names = {
        kind: {repr(c.get(f"{kind}.name", c.get(kind))) for c in known}
        for kind in _KINDS
        if kind not in differ and not {kind, f"{kind}.name"} & chosen
    }
    found = {kind: known[0].get(f"{kind}.name", known[0].get(kind)) for kind, told in names.items() if len(told) == 1}
    own = any(module(record) for record in study.runs)
    return {
        kind: _OWN_WORDS if own and name == _OWN else str(name)
        for kind, name in found.items()
        if name not in (None, "", {}, [])
    }
