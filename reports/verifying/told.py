"""Told: what a verification found, as lines for people and as plain data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from reports.quantity import Quantity
from reports.verifying.changes import Change, Changes, Reworded
from reports.verifying.claims import visible as seen
from reports.verifying.judging import Judged, Judgement
from reports.verifying.prints import Difference

#: So many runs, statements and parts of a run are told one by one; JSON has them all.
_MOST = 12
#: So many numbers of a section, and places where words changed, are told one by one.
_FEW = 3


def visible(line: str) -> str:
    """A line of whatever a file's author wrote: white space is single spaces, and what is not seen or would write over
    other lines is spelt out.

    >>> visible("one\\n two \\x1b[2J")
    'one two \\\\x1b[2J'
    """
    indent = line[: len(line) - len(line.lstrip(" "))]
    spaced = " ".join(line.split())
    return indent + "".join(
        each if seen(each) else each.encode("unicode_escape", "surrogatepass").decode() for each in spaced
    )


def of_report(found: Changes, title: str, note: str = "") -> Iterator[str]:
    """Lines on a report: what came out, then runs, verdicts, and of each section how many numbers changed, with a few.
    title: what it is. note: what else to know of it."""
    return map(visible, _of_report(found, title, note))


def _of_report(found: Changes, title: str, note: str) -> Iterator[str]:
    yield title
    if not found.broken:
        yield outcome(found)
    if note:
        yield f"note: {note}"
    yield from of_runs(found.runs, found.names)
    if found.broken:
        yield f"the report cannot be made again: {found.broken}"
        return
    for verdict in found.verdicts:
        yield f"verdict, {verdict.place}: {verdict.old or '(none)'} -> {verdict.new or '(none)'}"
    yield from _numbers(found.numbers)
    yield from (f"rests on other runs than it says: {key}" for key in found.misplaced[:_FEW])
    yield from _statements(found.statements)


def outcome(found: Changes) -> str:
    """What came out, in one line."""
    if found.broken:
        return visible(f"the report cannot be made again: {found.broken}")
    words = len({each.place for each in found.statements})
    return _sum(found) + (f"; words changed in {words} place{'s' * (words > 1)}" if words else "")


def _sum(found: Changes) -> str:
    verdicts = f"; {len(found.verdicts)} verdict{'s' * (len(found.verdicts) > 1)} changed" if found.verdicts else ""
    if found.misplaced:
        one = len(found.misplaced) == 1
        verdicts += f"; {len(found.misplaced)} rest{'s' * one} on other runs than {'it says' if one else 'they say'}"
    if not found.numbers:
        elsewhere = f", {len(found.moved)} of them from other runs than before" if found.moved else ""
        return f"all {found.equal} numbers recomputed and equal{elsewhere}{verdicts}"
    total = found.equal + len(found.numbers)
    return f"{len(found.numbers)} of {total} numbers changed; {found.equal} recomputed and equal{verdicts}"


def _numbers(changes: tuple[Change, ...]) -> Iterator[str]:
    """Section by section, measures before counts; where many changed and all are counts of runs, how many."""
    sections: dict[str, list[Change]] = {}
    for change in changes:
        sections.setdefault(_section(change.place), []).append(change)
    for name, those in sections.items():
        if len(those) == 1:
            yield f"number, {those[0].place}: {moved(those[0])}{_because(those[0].because)}"
            continue
        counts = [each for each in those if _counts(each)]
        if len(counts) == len(those) > _FEW:
            like = next((each for each in those if each.old and each.new), those[0])
            yield f"numbers, {name}: {len(those)} counts of runs changed, as {moved(like)}"
            continue
        yield f"numbers, {name}: {len(those)} changed"
        for change in sorted(those, key=_counts)[:_FEW]:
            place = change.place.removeprefix(name).removeprefix(", ").strip()
            yield f"  {place}: {moved(change)}{_because(change.because)}"
        if len(those) > _FEW:
            yield f"  and {len(those) - _FEW} more (--json has all)"


def _section(place: str) -> str:
    """The heading that a place begins with."""
    return place.split(", ")[0].split(" (")[0]


def _counts(change: Change) -> bool:
    quantity = change.new or change.old
    return quantity is not None and quantity.statistic == "count"


def moved(change: Change) -> str:
    """How a number changed: to more digits where those that are shown are the same.

    >>> a, b = Quantity(value=1e-5, unit="p", statistic="t"), Quantity(value=2e-5, unit="p", statistic="t")
    >>> moved(Change("key", "place", a, b))
    'p < 0.001 -> p < 0.001 (1e-05 -> 2e-05)'
    """
    old, new = (_shown(each) for each in (change.old, change.new))
    exact = ""
    if old == new and change.old is not None and change.new is not None:
        pairs = [
            (a, b) for a, b in zip(_exact(change.old), _exact(change.new)) if a != b and a is not None and b is not None
        ]
        exact = f" ({', '.join(f'{_digits(a, b)} -> {_digits(b, a)}' for a, b in pairs)})" if pairs else ""
        with_what = [
            f"{name} {was} -> {change.new.arguments.get(name)}"
            for name, was in change.old.arguments.items()
            if was != change.new.arguments.get(name)
        ]
        exact = exact or f" (computed with {', '.join(with_what)})"
    return f"{old} -> {new}{exact}"


def _shown(quantity: Quantity | None) -> str:
    return "(not there)" if quantity is None else quantity.text


def _exact(quantity: Quantity) -> list[float | None]:
    return [quantity.value, quantity.low, quantity.high]


def _digits(number: float, beside: float) -> str:
    """As many digits as tell it from the other."""
    return next((f"{number:.{n}g}" for n in range(4, 17) if f"{number:.{n}g}" != f"{beside:.{n}g}"), repr(number))


def of_runs(runs: Difference, names: Mapping[str, str]) -> Iterator[str]:
    """Lines on runs that were deleted, added, edited."""
    yield from _each("deleted", runs.deleted, names)
    yield from _each("added", runs.added, names)
    edited = runs.edited or {}
    for run in list(edited)[:_MOST]:
        yield f"edited run {_named(run, names)}: {_listed(edited[run])}"
    if len(edited) > _MOST:
        yield f"edited: {len(edited) - _MOST} more runs"


def _each(word: str, runs: tuple[str, ...], names: Mapping[str, str]) -> Iterator[str]:
    for run in runs[:_MOST]:
        yield f"{word} run {_named(run, names)}"
    if len(runs) > _MOST:
        yield f"{word}: {len(runs) - _MOST} more runs"


def _named(run: str, names: Mapping[str, str]) -> str:
    name = names.get(run, "")
    return f"{run} ({name})" if name and name != run else run


def _listed(words: Iterable[str]) -> str:
    told = list(words)
    return ", ".join(told[:_MOST]) + (f" and {len(told) - _MOST} more" if len(told) > _MOST else "")


def _because(runs: tuple[str, ...]) -> str:
    return f" (rests on {_listed(runs)})" if runs else ""


def _statements(statements: tuple[Reworded, ...]) -> Iterator[str]:
    """Where words changed; the places of one table's row are told together."""
    places = list(dict.fromkeys(each.place for each in statements))
    for place in places[:_FEW]:
        told = [each for each in statements if each.place == place]
        short = len(told) == 1 and 0 < max(len(told[0].old), len(told[0].new)) <= 60
        how = f": {told[0].old or '(none)'} -> {told[0].new or '(none)'}" if short else ""
        yield f"words, {place}{how}"
    if len(places) > _FEW:
        yield f"words: in {len(places) - _FEW} more places (--json has all)"


def of_claims(found: Judgement, title: str, note: str = "") -> Iterator[str]:
    """Lines on a file of claims: of each, whether it holds and what it was held against; what nobody checked; and how
    many hold."""
    return map(visible, _of_claims(found, title, note))


def _of_claims(found: Judgement, title: str, note: str) -> Iterator[str]:
    yield title
    if note:
        yield f"note: {note}"
    for each in found.claims:
        if each.holds:
            yield f"holds: “{each.claim.says}”"
            yield f"  {each.number}: {each.new}{_bounded(each)}"
            if each.runs.runs:
                yield f"  of other evidence than before ({_listed(sorted(each.runs.runs))})"
    for each in found.claims:
        if not each.holds:
            yield f"does not hold: “{each.claim.says}”"
            yield f"  {each.number}: {_was(each)}{each.why}"
            yield from (f"  {line}" for line in of_runs(each.runs, found.names))
            if each.old and each.new and not each.runs.runs:
                yield "  none of its runs has changed since it last held: the sentence or what it is bound to has"
    for says, left in found.unbound.items():
        yield f"not checked: {_listed(left)} in “{says}”: no claim is about {'it' if len(left) == 1 else 'them'}"
    yield counted(found)


def counted(found: Judgement) -> str:
    """How many claims hold, in one line."""
    total, failed = len(found.claims), sum(not each.holds for each in found.claims)
    if failed:
        return "the claim does not hold" if total == 1 else f"{failed} of {total} claims do not hold"
    left = sum(map(len, found.unbound.values()))
    also = f"; {left} other number{'s' * (left > 1)} of their sentences not checked" if left else ""
    if total == 1:
        return f"the claim holds: its number was recomputed, and is as it is written{also.replace('their', 'its')}"
    return f"all {total} claims hold: every number recomputed, and as it is written{also}"


def _bounded(each: Judged) -> str:
    """The bounds that the claim states beside its sentence."""
    told = [f"{name.replace('_', ' ')} {bound:g}" for name, bound in each.claim.bounds.items()]
    return f" ({', '.join(told)})" if told else ""


def _was(each: Judged) -> str:
    if each.old and each.new:
        return f"{each.old} -> {each.new}; "
    return f"{each.new}; " if each.new else f"it was {each.old}; " if each.old else ""


# As data


def changes_json(found: Changes) -> dict[str, Any]:
    """Everything that a verification of a report found."""
    return {
        "equal": found.equal,
        "numbers": [
            {"key": c.key, "place": c.place, "old": _number(c.old), "new": _number(c.new), "because": list(c.because)}
            for c in found.numbers
        ],
        "from_other_runs": list(found.moved),
        "misplaced": list(found.misplaced),
        "verdicts": [_reworded(each) for each in found.verdicts],
        "statements": [_reworded(each) for each in found.statements],
        "runs": _runs(found.runs),
        "broken": found.broken,
        "holds": found.none,
    }


def judgement_json(found: Judgement) -> dict[str, Any]:
    """Everything that a verification of claims found."""
    return {
        "holds": found.holds,
        "claims": [
            {
                "says": each.claim.says,
                "study": each.claim.study,
                "number": each.number,
                "holds": each.holds,
                "old": each.old,
                "new": each.new,
                "why": each.why,
                "runs": _runs(each.runs),
            }
            for each in found.claims
        ],
        "not_checked": {says: list(left) for says, left in found.unbound.items()},
    }


def _runs(runs: Difference) -> dict[str, Any]:
    edited = {run: list(parts) for run, parts in (runs.edited or {}).items()}
    return {"deleted": list(runs.deleted), "added": list(runs.added), "edited": edited}


def _number(quantity: Quantity | None) -> dict[str, Any] | None:
    if quantity is None:
        return None
    return {"value": quantity.value, "low": quantity.low, "high": quantity.high, "text": quantity.text}


def _reworded(each: Reworded) -> dict[str, str]:
    return {"place": each.place, "old": each.old, "new": each.new}
