"""Finding: the one shape of every complaint, and the error a user's input raises.

Torch-free, imports nothing of ours; every package may import it. A Finding says what is wrong, where, and how to mend
it. Lints, threats to validity, the doctor and input errors all speak it, so that they print and serialise alike.
"""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Literal

Level = Literal["note", "caution", "error"]


@dataclass(frozen=True)
class Finding:
    """One complaint.

    rule: a stable kebab-case name ("unknown-key"). source: the file, command or study it is about. place: where in it
    ("line 3, column 5", "optimizer.lr"). said: what was given or seen. cure: what to do. level: how bad it is.
    """

    rule: str
    said: str
    cure: str = ""
    source: str = ""
    place: str = ""
    level: Level = "error"

    def __str__(self) -> str:
        where = ": ".join(part for part in (self.source, self.place) if part)
        text = f"{where}: {self.said}" if where else self.said
        return f"{text}; {self.cure}" if self.cure else text

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


class InputError(ValueError):
    """What the user gave cannot be used. The command line prints it as one line and exits with 2.

    >>> print(InputError("seed='x' is not a whole number", "give e.g. seed=1", place="seed"))
    seed: seed='x' is not a whole number; give e.g. seed=1
    """

    def __init__(self, said: str, cure: str = "", *, rule: str = "bad-input", source: str = "", place: str = ""):
        self.finding = Finding(rule=rule, said=said, cure=cure, source=source, place=place)
        super().__init__(str(self.finding))

    def at(self, source: str = "", place: str = "") -> InputError:
        """The same error, told where it happened (a file's line and column, say)."""
        known = self.finding
        return type(self)(
            known.said, known.cure, rule=known.rule, source=source or known.source, place=place or known.place
        )


def closest(given: str, valid: Iterable[str]) -> str | None:
    """The valid name that `given` most likely misspells, or None."""
    options = {option.lower(): option for option in valid}
    meant = given.lower().replace("-", "_")
    matches = difflib.get_close_matches(meant, options, n=5, cutoff=0.6)

    def likeness(option: str) -> tuple[float, int]:
        """Among those as much alike, people get the beginning right."""
        begins = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(meant, option)))
        return difflib.SequenceMatcher(None, option, meant).ratio(), begins

    return options[max(matches, key=likeness)] if matches else None


def unknown(what: str, given: str, valid: Iterable[str], *, source: str = "", place: str = "") -> InputError:
    """An InputError for a name that does not exist: with "did you mean", and the valid names.

    >>> print(unknown("optimizer", "moun", ["adamw", "muon"]))
    unknown optimizer 'moun'; did you mean 'muon'? (valid: adamw, muon)
    """
    names = sorted(valid)
    guess = closest(given, names)
    listing = f"valid: {', '.join(names) if names else 'none'}"
    cure = f"did you mean '{guess}'? ({listing})" if guess else listing
    return InputError(
        f"unknown {what} '{given}'", cure, rule=f"unknown-{what.replace(' ', '-')}", source=source, place=place
    )
