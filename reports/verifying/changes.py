"""Changes: what differs between a document as it was written and the same document made again from the store.

Numbers are compared by their keys, all of each: value, interval, unit, numeric arguments. Equal means to nine digits,
which is more than any number shows, and less than what another machine's arithmetic may change."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from reports.document import Document, RunList, RunRow, Verdict
from reports.quantity import Quantity
from reports.verifying.frame import mislaid, reframed, unfounded
from reports.verifying.places import Number, Place, computed, numbers, sentences, text
from reports.verifying.prints import Difference, difference

_RELATIVE, _ABSOLUTE = 1e-9, 1e-15
#: What stands around numbers in a table's cell.
_MARKS = " ()-,"


@dataclass(frozen=True)
class Change:
    """A number that is not what it was. old, new: None where it was not there. because: of the runs that changed, those
    it rests on."""

    key: str
    place: str
    old: Quantity | None
    new: Quantity | None
    because: tuple[str, ...] = ()


@dataclass(frozen=True)
class Reworded:
    """A verdict, or other text around the numbers, that is not what it was; "" where there was or is none."""

    place: str
    old: str
    new: str


@dataclass(frozen=True)
class Changes:
    """equal: how many numbers were computed again and are what they were; moved: those of them that rest on other runs
    now. misplaced: those that never rested on the runs that they name, as nothing has happened to any run. names: run
    -> what people call it. broken: why the document cannot be made again; "" where it can. made_by: which trainlab made
    it again."""

    equal: int
    moved: tuple[str, ...] = ()
    misplaced: tuple[str, ...] = ()
    numbers: tuple[Change, ...] = ()
    verdicts: tuple[Reworded, ...] = ()
    statements: tuple[Reworded, ...] = ()
    runs: Difference = field(default_factory=Difference)
    names: Mapping[str, str] = field(default_factory=dict)
    broken: str = ""
    made_by: str = ""

    @property
    def none(self) -> bool:
        return not (self.numbers or self.misplaced or self.verdicts or self.statements or self.broken)


def changes(old: Document, new: Document) -> Changes:
    """What is not in `new` as it is in `old`. Both say on what they rest, or what their lists of runs say is taken."""
    runs = _of_runs(old, new)
    before, after = numbers(old), numbers(new)
    both = [key for key in before if key in after]
    same = [key for key in both if equal(before[key].quantity, after[key].quantity)]
    known = set(same)
    keys = [key for key in dict.fromkeys([*before, *after]) if key not in known]
    moved = tuple(key for key in same if before[key].quantity.runs != after[key].quantity.runs)
    verdicts = tuple(_verdicts(old, new))
    return Changes(
        equal=len(same),
        moved=moved if runs.runs else (),
        misplaced=() if runs.runs else moved,
        numbers=tuple(_change(before.get(key), after.get(key), runs.runs) for key in keys),
        verdicts=verdicts,
        statements=(*_statements(old, new), *_rows(old, new), *_frame(old, new, bool(verdicts), bool(runs.runs))),
        runs=runs,
        names={**names(old), **names(new)},
        made_by=new.made_by,
    )


def equal(a: Quantity, b: Quantity) -> bool:
    """Whether two numbers of one key are the same, whatever runs they rest on."""
    words = (a.unit, a.absent, a.arguments.keys()) == (b.unit, b.absent, b.arguments.keys())
    return (
        words
        and all(_near(x, y) for x, y in ((a.value, b.value), (a.low, b.low), (a.high, b.high)))
        and all(_near(value, b.arguments[name]) for name, value in a.arguments.items())
    )


def names(document: Document) -> dict[str, str]:
    """Run -> what people call it, of every run that a document lists."""
    return {row.run_id: row.name for row in _listed(document)}


def _near(a: Any, b: Any) -> bool:
    if isinstance(a, (int, float)) and isinstance(b, (int, float)) and not isinstance(a, bool):
        return math.isclose(a, b, rel_tol=_RELATIVE, abs_tol=_ABSOLUTE)
    return bool(a == b)


def _of_runs(old: Document, new: Document) -> Difference:
    if old.basis is not None and new.basis is not None:
        return difference(old.basis.runs, new.basis.runs)
    before = {row.run_id: row for row in _listed(old)}
    after = {row.run_id: row for row in _listed(new)}
    edited = {
        run_id: changed
        for run_id, row in before.items()
        if run_id in after and (changed := _fields(row, after[run_id]))
    }
    return Difference(tuple(i for i in before if i not in after), tuple(i for i in after if i not in before), edited)


def _change(old: Number | None, new: Number | None, changed: set[str]) -> Change:
    told = [each for each in (old, new) if each is not None]
    runs = dict.fromkeys(run for each in told for run in each.quantity.runs if run in changed)
    return Change(
        told[0].key,
        told[0].place,
        None if old is None else old.quantity,
        None if new is None else new.quantity,
        tuple(runs),
    )


def _verdicts(old: Document, new: Document) -> Iterable[Reworded]:
    before, after = _ruled(old), _ruled(new)
    for key in dict.fromkeys([*before, *after]):
        if before.get(key, "") != after.get(key, ""):
            yield Reworded(key[0], before.get(key, ""), after.get(key, ""))


def _ruled(document: Document) -> dict[tuple[str, int], str]:
    """The verdicts by their subject; of one subject, in the order of reading."""
    found: dict[tuple[str, int], str] = {}
    for block in document.blocks:
        if isinstance(block, Verdict):
            found[block.subject, sum(subject == block.subject for subject, _ in found)] = block.verdict
    return found


@dataclass(frozen=True)
class _Worded:
    """A sentence without what its numbers come to. words: its text alone; form: with its numbers' statistics where they
    stand; numbers: those, in any order; shown: as people read it."""

    words: str
    form: str
    numbers: tuple[str, ...] = field(compare=False)
    shown: str = field(compare=False)


def _statements(old: Document, new: Document) -> Iterable[Reworded]:
    """Text that changed, place by place; in a place, what is the same in both is left out. So is what stands around a
    number that came or went, which is told as a number."""
    before, after = _worded(old), _worded(new)
    for place in dict.fromkeys([*before, *after]):
        was, now = Counter(before.get(place, ())), Counter(after.get(place, ()))
        gone, come = list((was - now).elements()), list((now - was).elements())
        for a, b in itertools.zip_longest(gone, come):
            words = [each.words.strip(_MARKS) if each else "" for each in (a, b)]
            if words[0] != words[1]:
                yield Reworded(", ".join(place), a.words if a else "", b.words if b else "")
            elif a and b and a.numbers == b.numbers:  # a sign before a number, numbers that changed places
                yield Reworded(", ".join(place), a.shown, b.shown)


def _worded(document: Document) -> dict[Place, list[_Worded]]:
    """Text without its numbers, by where it stands, in words."""
    found: dict[Place, list[_Worded]] = {}
    for sentence in sentences(document):
        told = [part for part in sentence.parts if isinstance(part, Quantity)]
        form = "".join(
            f"\0{computed(part)}\0" if isinstance(part, Quantity) else text((part,)) for part in sentence.parts
        )
        shown = "".join(part.text if isinstance(part, Quantity) else text((part,)) for part in sentence.parts)
        worded = _Worded(text(sentence.parts), form, tuple(sorted(map(computed, told))), shown)
        found.setdefault(sentence.words, []).append(worded)
    return found


def _frame(old: Document, new: Document, ruled: bool, happened: bool) -> Iterable[Reworded]:
    """What else is read. ruled: a verdict changed, which the summary in one line repeats. happened: to a run, which may
    be why others are shown."""
    for each in (*unfounded(old), *reframed(old, new), *(() if happened else mislaid(old, new))):
        if not (ruled and each.place.startswith("the summary")):
            yield Reworded(each.place, each.old, each.new)


def _rows(old: Document, new: Document) -> Iterable[Reworded]:
    """What the lists of all runs say of runs that both have."""
    after = {row.run_id: row for row in _listed(new)}
    for row in _listed(old):
        if row.run_id in after:
            for name in _fields(row, after[row.run_id]):
                was, now = getattr(row, name), getattr(after[row.run_id], name)
                yield Reworded(f"All runs, {row.name}, {name}", str(was), str(now))


def _fields(old: RunRow, new: RunRow) -> tuple[str, ...]:
    """What two rows of one run differ in."""
    return tuple(name for name in RunRow.model_fields if not _near(getattr(old, name), getattr(new, name)))


def _listed(document: Document) -> Sequence[RunRow]:
    return [row for block in document.blocks if isinstance(block, RunList) for row in block.runs]
