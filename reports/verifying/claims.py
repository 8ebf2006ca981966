"""Claims: sentences of a paper or README, each bound to the number of a study that it tells.

    study: muon-vs-adamw                  # of all claims below that name none
    claims:
      - says: Muon reaches the target in 0.62x [0.55, 0.70] of AdamW's updates
        number: time_ratio                # a statistic, with task, arm, than, clock
        task: fashion_mnist
        arm: muon
        than: adamw
        clock: updates
      - says: AdamW's mean test accuracy is 0.9742
        number: results/digits/adamw/Test accuracy/student.mean_interval(metric=test/accuracy)   # or a report's key
      - says: Muon is better than AdamW on digits
        holds: better                     # a verdict: better, worse or not shown
        task: digits
        arm: muon
        than: adamw
      - says: Muon wins more often than not
        number: probability_better
        at_least: 0.5                     # or at_most, above, below: a bound, where the sentence has no number
        ...

The sentence's numbers must be what is computed, at the precision at which they are written (see `sentence`). Where it
has several, `written: 0.62` says which one is meant. A p-value is checked beside the others, as the report corrects
it."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from algos.finding import InputError, unknown
from reports.verifying.sentence import Said, said

HOLDS = ("better", "worse", "not shown")
BOUNDS = ("at_least", "at_most", "above", "below")
_OF_THE_FILE = ("study", "metric", "mode", "claims")
#: Which show what follows them in another order.
_TURNING = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
_TEXTS = ("says", "study", "number", "task", "arm", "than", "written")
#: Longer sentences are none.
_LONGEST = 2000


@dataclass(frozen=True)
class Claim:
    """A sentence and what it stands on. index: its place in the file, from 0. metric, mode: by what recorded runs are
    judged that do not say it themselves."""

    index: int
    says: str
    study: str
    number: str = ""
    holds: str = ""
    task: str = ""
    arm: str = ""
    than: str = ""
    clock: str = ""
    written: str = ""
    metric: str = ""
    mode: str = ""
    at_least: float | None = None
    at_most: float | None = None
    above: float | None = None
    below: float | None = None

    @property
    def place(self) -> str:
        return f"claims.{self.index}"

    @property
    def bounds(self) -> dict[str, float]:
        """The bounds that it states."""
        return {name: bound for name in BOUNDS if (bound := getattr(self, name)) is not None}

    @property
    def said(self) -> Said:
        """What the sentence says of its number."""
        return said(self.says, self.written)


def read(data: Mapping[str, Any]) -> list[Claim]:
    """The claims of a file, from what its YAML says. InputError, with its place, for what is none."""
    for key in data:
        if key not in _OF_THE_FILE:
            raise unknown("key", key, _OF_THE_FILE, place=key)
    told = data.get("claims")
    if not isinstance(told, list) or not told:
        raise InputError("the file holds no claims", "give a list under `claims:`, of `- says: ...`", place="claims")
    shared = {key: _text(data[key], key) for key in _OF_THE_FILE[:-1] if key in data}
    return [_claim(index, entry, shared) for index, entry in enumerate(told)]


def _claim(index: int, entry: Any, shared: Mapping[str, str]) -> Claim:
    place = f"claims.{index}"
    if not isinstance(entry, Mapping):
        raise InputError(f"'{entry}' is no claim", "give `says:` and what it stands on", place=place)
    known = [each.name for each in fields(Claim) if each.name != "index"]
    values: dict[str, Any] = dict(shared)
    for key, value in entry.items():
        if key not in known:
            raise unknown("key", key, known, place=f"{place}.{key}")
        values[key] = _bound(value, f"{place}.{key}") if key in BOUNDS else _text(value, f"{place}.{key}")
    for key, what in (("says", "the sentence"), ("study", "whose runs it rests on")):
        if not values.get(key):
            raise InputError(f"the claim has no `{key}:`", f"add it, {what}", rule="incomplete", place=place)
    return _checked(Claim(index, **values))


def _checked(claim: Claim) -> Claim:
    if bool(claim.number) == bool(claim.holds):
        cure = "give `number:` (a statistic, or a key that `trainlab verify REPORT.json --numbers` lists), or `holds:`"
        both = "both `number:` and `holds:`" if claim.number else "neither `number:` nor `holds:`"
        raise InputError(f"the claim has {both}", cure, rule="incomplete", place=claim.place)
    if claim.holds:
        if claim.holds not in HOLDS:
            raise unknown("verdict", claim.holds, HOLDS, place=f"{claim.place}.holds")
        for key in ("arm", "than"):
            if not getattr(claim, key):
                raise InputError(f"the verdict needs `{key}:`", "name both arms", rule="incomplete", place=claim.place)
        if claim.bounds:
            cure = "make it a claim of its own, with `number: difference`"
            raise InputError("a verdict has no bounds", cure, rule="needless", place=claim.place)
    _check_words(claim)
    _check_numbers(claim)
    return claim


def _check_words(claim: Claim) -> None:
    """InputError for what is no sentence, or would not be read as it is written."""
    if len(claim.says) > _LONGEST:
        said = f"the sentence has {len(claim.says):,} characters"
        raise InputError(said, f"give one of {_LONGEST:,} at most", rule="no-sentence", place=f"{claim.place}.says")
    for key in _TEXTS:
        if hidden := [each for each in getattr(claim, key) if not visible(each)]:
            said = f"there is a character that nobody sees (U+{ord(hidden[0]):04X})"
            raise InputError(said, "take it out", rule="hidden-character", place=f"{claim.place}.{key}")


def _check_numbers(claim: Claim) -> None:
    """InputError where the sentence has several numbers that could be meant, or none that could be wrong, unless it is
    a verdict; and where a number is not what the sentence says."""
    found = claim.said
    if found.unclear:
        cure = "write the number out, or give the claim another sentence"
        raise InputError(found.unclear, cure, rule="unclear", place=f"{claim.place}.says")
    if claim.written and found.value is None and (found.p is None or found.p.text != claim.written):
        cure = f"it has {', '.join(each.text for each in found.others) or 'no numbers'}"
        raise InputError(
            f"the sentence has no number '{claim.written}'", cure, rule="no-number", place=f"{claim.place}.written"
        )
    if len(found.others) > 1:
        cure = f"say which is meant: `written: {found.others[0].text}`"
        all_of_them = ", ".join(each.text for each in found.others)
        raise InputError(
            f"the sentence has several numbers ({all_of_them})", cure, rule="several-numbers", place=claim.place
        )
    if claim.holds or claim.bounds or found.value is not None or found.p is not None:
        return
    cure = "write it in digits, or give a bound: at_least, at_most, above, below"
    raise InputError("the sentence has no number", cure, rule="no-number", place=claim.place)


def visible(character: str) -> bool:
    """Whether a character is seen where it stands: no control character but white space, none that turns the direction
    of reading, and no half of one."""
    kind = unicodedata.category(character)
    return character in "\t\n" or not (kind in ("Cc", "Cs") or (kind == "Cf" and character in _TURNING))


def _text(value: Any, place: str) -> str:
    if isinstance(value, (Mapping, list)) or value is None or isinstance(value, bool):
        raise InputError(f"{value} is no text", "quote it", place=place)
    return str(value)


def _bound(value: Any, place: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) < float("inf"):
        raise InputError(f"'{value}' is no number", "give e.g. 0.5", place=place)
    return float(value)
