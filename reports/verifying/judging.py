"""Judging: claims against a store. Every number is computed again, whether or not its runs are what they were; the pins
of the last time say what it was, and which runs have changed since."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from algos.finding import InputError, closest
from experiments.store.pins import Pin, Pins
from experiments.store.sources import Source
from reports.document import Document, RunPrint
from reports.judged import Stated
from reports.quantity import Quantity, p_value, plain
from reports.table import StudyTable, read
from reports.verifying.answering import AWAY
from reports.verifying.claims import Claim
from reports.verifying.numbers import STATISTICS, Found, Named, number, ruling
from reports.verifying.places import numbers
from reports.verifying.prints import Difference, difference, run_print, without_series
from reports.verifying.report import again
from reports.verifying.sentence import Written

_TESTS: Mapping[str, tuple[str, Callable[[float, float], bool]]] = {
    "at_least": ("at least", lambda value, bound: value >= bound),
    "at_most": ("at most", lambda value, bound: value <= bound),
    "above": ("above", lambda value, bound: value > bound),
    "below": ("below", lambda value, bound: value < bound),
}


@dataclass(frozen=True)
class Judged:
    """A claim and what the store says of it. number: what it is about, in words; old: what that was when the claim was
    last found to hold, "" where it never was; new: what it is now; why: where it does not hold, in what; runs: which of
    its runs were deleted, added or edited since."""

    claim: Claim
    number: str
    old: str
    new: str
    why: str = ""
    runs: Difference = field(default_factory=Difference)
    pin: Pin | None = None

    @property
    def holds(self) -> bool:
        return not self.why


@dataclass(frozen=True)
class Judgement:
    """Of all claims of a file. pins: what it is to pin from now on. names: run -> what people call it. unbound:
    sentence -> the numbers that it writes and that none of its claims is about."""

    claims: tuple[Judged, ...]
    pins: Pins
    names: Mapping[str, str]
    unbound: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def holds(self) -> bool:
        return all(each.holds for each in self.claims)


class _Study:
    """A study's table, and its report's numbers where a claim asks for them."""

    def __init__(self, source: Source, name: str, stated: Stated):
        self.table: StudyTable = read(source, name, stated)
        self._document: Document | None = None

    @property
    def document(self) -> Document:
        self._document = self._document or again(self.table)
        return self._document

    @property
    def finals(self) -> list[str]:
        """Its final runs that are compared, of all tasks and arms."""
        return [run for cell in self.table.cells.values() for run in cell.outcomes().run_ids]

    def prints(self) -> dict[str, RunPrint]:
        return {r.run_id: run_print(r, self.table.curves.get(r.run_id)) for r in self.table.runs}


def judge(claims: Sequence[Claim], source: Source, before: Pins, at: int) -> Judgement:
    """What the store says of the claims. before: what the file pinned the last time; a claim that does not hold keeps
    the pins that it had. InputError, with its place, for a name that there is not."""
    studies: dict[tuple[str, str, str], _Study] = {}
    found: list[Judged] = []
    for claim in claims:
        key = (claim.study, claim.metric, claim.mode)
        try:
            if key not in studies:
                studies[key] = _Study(source, claim.study, Stated(claim.metric, claim.mode))
            found.append(_judged(claim, studies[key], before))
        except InputError as error:
            if gone := _unmade(claim, error, before, source):
                found.append(gone)
            else:
                if error.finding.rule in (AWAY, "broken-run"):
                    raise
                place = f"{claim.place}.{error.finding.place}" if error.finding.place else f"{claim.place}.study"
                raise error.at(place=place) from None
    prints = {run: told for study in studies.values() for run, told in study.prints().items()}
    names = {record.run_id: record.file.name for study in studies.values() for record in study.table.runs}
    return Judgement(tuple(found), _pins(found, before, prints, at), names, unbound(claims))


def unbound(claims: Iterable[Claim]) -> dict[str, tuple[str, ...]]:
    """Sentence -> the numbers that it writes and that none of its claims is about, so that nobody checks them."""
    left: dict[str, tuple[str, ...]] = {}
    for claim in claims:
        told = claim.said.left
        before = left.get(claim.says, told)
        left[claim.says] = tuple(each for each in before if each in told)
    return {says: told for says, told in left.items() if told}


def _judged(claim: Claim, study: _Study, before: Pins) -> Judged:
    was = _pinned(claim, before)
    if claim.holds:
        word, about, one = _ruled(claim, study.table)
        why = "" if word == claim.holds or (claim.holds == "not shown" and word not in _RULED) else f"it is {word}"
        why = why or _unlike(claim, one)
        new = f"{word}, by {one.quantity.text}" if one.quantity.value is not None else word
    else:
        about, one = _number(claim, study, was)
        why, new = _unlike(claim, one), one.quantity.text
    runs = dict.fromkeys([*one.quantity.runs, *(one.family if claim.said.p is not None else ())])
    pin = Pin(claim.says, claim.study, about, new, tuple(runs))
    return Judged(claim, about, was.text if was else "", new, why, _since(was, pin, before, study), pin)


_RULED = ("better", "worse", "depends on the clock")


def _ruled(claim: Claim, table: StudyTable) -> tuple[str, str, Found]:
    word, one = ruling(table, claim.task, claim.arm, claim.than, claim.clock)
    return word, _verdict_on(claim), one


def _verdict_on(claim: Claim) -> str:
    return f"verdict on {claim.arm} against {claim.than}" + (f" on {claim.task}" if claim.task else "")


def _number(claim: Claim, study: _Study, was: Pin | None) -> tuple[str, Found]:
    if claim.number in STATISTICS:
        named = Named(claim.number, claim.task, claim.arm, claim.than, claim.clock)
        found = number(study.table, named)
        return f"{named}, {found.at}" if found.at else str(named), found
    known = numbers(study.document)
    if claim.number in known:
        if needless := next((key for key in ("task", "arm", "than", "clock") if getattr(claim, key)), ""):
            said = f"a number of the report is named by its key alone, and not by `{needless}:`"
            raise InputError(said, f"leave `{needless}:` out", rule="needless", place=needless)
        quantity = known[claim.number].quantity
        if quantity.unit == "p":  # corrected for what else was tested: it rests on more than the two that it is about
            runs = dict.fromkeys([*quantity.runs, *study.finals])
            quantity = quantity.model_copy(update={"runs": tuple(runs)})
        return claim.number, Found(quantity, len(known[claim.number].quantity.runs))
    if was is not None and was.number == claim.number:  # it was there when the claim was last verified
        gone = Quantity(value=None, statistic=claim.number, absent="no longer a number of the report", runs=was.runs)
        return claim.number, Found(gone, 0)
    guess = closest(claim.number, STATISTICS) or _alike(claim.number, known)
    cure = f"did you mean '{guess}'?" if guess else f"statistics are {', '.join(STATISTICS)}"
    raise InputError(
        f"study '{claim.study}' has no number '{claim.number}'", cure, rule="unknown-number", place="number"
    )


def _alike(given: str, known: Iterable[str]) -> str | None:
    """The key that was most likely meant: of those that begin alike, else of all."""
    import difflib

    return next(iter(difflib.get_close_matches(given, list(known), n=1, cutoff=0.6)), None)


def _unlike(claim: Claim, one: Found) -> str:
    """In what the sentence is not what was computed; "" where it is."""
    quantity, told = one.quantity, claim.said
    if quantity.value is None and (told.value is not None or not claim.holds):
        return f"it has no value now: {quantity.absent}"
    unit = 0.01 if quantity.unit == "%" else 1.0
    value, low, high = (None if each is None else each * unit for each in (quantity.value, quantity.low, quantity.high))
    wrong = [f"it is not {text} {plain(bound)}" for text, bound in _missed(claim, value)]
    half = None if value is None or low is None or high is None else max(high - value, value - low)
    for written, true in ((told.value, value), (told.low, low), (told.high, high), (told.half, half)):
        if written is not None and not written.says(true, low, high):
            coarse = true is not None and not written.sign and written.coarse(true, low, high)
            more = ", and there is no interval" if true is None else ", which is too coarse to say it" if coarse else ""
            wrong.append(f"{written.text} is written{more}")
    wrong += _other_p(told.p, value if quantity.unit == "p" else one.p)
    if told.n is not None and told.n != one.n:
        wrong.append(f"n = {told.n} is written, and it is {one.n}")
    level = quantity.arguments.get("confidence")
    level = level if isinstance(level, (int, float)) and quantity.low is not None else None
    if told.confidence is not None and (level is None or abs(told.confidence - level) > 1e-9):
        true_level = "it has no interval" if level is None else f"its interval is of {100 * level:g} %"
        wrong.append(f"{100 * told.confidence:g} % is written, and {true_level}")
    return "; ".join(wrong)


def _other_p(written: Written | None, true: float | None) -> list[str]:
    """In what a written p-value is not the one of the test."""
    if written is None or written.says(true):
        return []
    found = "and there is no test" if true is None else f"and the test's is {p_value(true)}"
    return [f"p {written.sign or '='} {written.text} is written, {found}"]


def _missed(claim: Claim, value: float | None) -> Iterable[tuple[str, float]]:
    for name, bound in claim.bounds.items():
        words, test = _TESTS[name]
        if value is None or not test(value, bound):
            yield words, bound


# What was, and what is to be kept


def _pinned(claim: Claim, before: Pins) -> Pin | None:
    """The claim as it was last found to hold: the one of its sentence and study, else none."""
    return next((pin for pin in before.claims if (pin.says, pin.study) == (claim.says, claim.study)), None)


def _since(was: Pin | None, now: Pin, before: Pins, study: _Study) -> Difference:
    """What happened to the claim's runs since it last held."""
    if was is None:
        return Difference()
    old = [RunPrint(run_id=run, **before.prints[run]) for run in was.runs if run in before.prints]
    prints = study.prints()
    wanted = dict.fromkeys([*was.runs, *now.runs])
    return difference(old, [prints[run] for run in wanted if run in prints])


def _unmade(claim: Claim, error: InputError, before: Pins, source: Source) -> Judged | None:
    """A claim that held once and whose number cannot be made any more, because its runs are gone, edited or broken;
    None where a name in it is rather misspelt."""
    was = _pinned(claim, before)
    if was is None or error.finding.rule in (AWAY, "broken-run"):
        return None
    old = [RunPrint(run_id=run, **before.prints[run]) for run in was.runs if run in before.prints]
    runs = without_series(old, (record for record in source.runs() if record.run_id in set(was.runs)))
    of_a_name = error.finding.rule.startswith(("unknown-", "incomplete", "needless"))
    if of_a_name and not runs.deleted and not _as_before(claim, was):
        return None
    return Judged(claim, was.number, was.text, "", str(error), runs, was)


def _as_before(claim: Claim, was: Pin) -> bool:
    """Whether the claim names what it named when it held, so that nothing in it is misspelt."""
    if claim.holds:
        about = _verdict_on(claim)
    elif claim.number in STATISTICS:
        about = str(Named(claim.number, claim.task, claim.arm, claim.than, claim.clock))
    else:
        about = claim.number
    return was.number == about or was.number.startswith(f"{about}, ")


def _pins(found: Sequence[Judged], before: Pins, prints: Mapping[str, RunPrint], at: int) -> Pins:
    """Claims that hold pin what they rest on now; others what they rested on when they held."""
    kept, told = [], {}
    for each in found:
        pin = each.pin if each.holds else _pinned(each.claim, before)
        if pin is None:
            continue
        kept.append(pin)
        for run in pin.runs:
            if each.holds and run in prints:
                told[run] = prints[run].model_dump(exclude={"run_id"})
            elif run in before.prints:
                told.setdefault(run, dict(before.prints[run]))
    return Pins(before.path, tuple(kept), told, at)
