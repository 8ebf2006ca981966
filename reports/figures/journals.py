"""Journals: what each asks of a figure, as a few lines of data. Widths in inches, sizes in points.

Sources: the style files of NeurIPS (text 5.5 in), ICML (columns 3.25 in, text 6.75 in) and IEEEtran (3.5 in, 7.16 in);
Nature's guide to final artwork (89 and 183 mm; text 5 to 7 pt, Helvetica or Arial); PCT rule 11 and 37 CFR 1.84 (black
lines, margins on A4 and letter, letters at least 0.32 cm high)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from algos.finding import InputError, unknown
from reports.figures.fonts import DEJAVU, SANS, SERIF

_CM = 1 / 2.54
#: Inches of each unit; a point is TeX's, as \the\columnwidth prints it.
_UNITS = {"mm": 1 / 25.4, "cm": _CM, "in": 1.0, "pt": 1 / 72.27}


@dataclass(frozen=True)
class Look:
    """How a publication's figures look. widths: by name. fonts: families, the best first. size: of labels; small: of
    tick labels and legends. line: width of curves; thin: of axes and single seeds. marker: their size. dpi: of PNGs.
    ratio: height by width, where nobody says. ink: False for black lines on white and nothing else."""

    name: str
    widths: Mapping[str, float]
    fonts: tuple[str, ...] = SANS
    size: float = 8.0
    small: float = 7.0
    line: float = 1.2
    thin: float = 0.6
    marker: float = 4.0
    dpi: int = 300
    ratio: float = 0.66
    ink: bool = True
    title: float = 0.0

    def width(self, asked: str | float) -> float:
        """Inches, of a named width, a number of inches, or "120mm", "8.5cm", "4in", "246pt". InputError for text that
        has no unit: it may have been meant in any."""
        if isinstance(asked, str) and asked in self.widths:
            return self.widths[asked]
        has = ", ".join(f"{name} ({inches:.4g} in)" for name, inches in self.widths.items())
        return length(asked, "width", 0.5, f"{self.name} has {has}")


def length(asked: str | float, what: str, least: float, names: str = "") -> float:
    """Inches, `least` to 60 of them, of a number of inches, or of text with a unit. what: the option. names: which
    it may have instead. InputError for anything else."""
    inches = _inches(asked)
    if inches is not None:
        if not least <= inches <= 60:
            raise InputError(f"a {what} of {inches:g} in", f"give {least:g} to 60 in", rule=f"bad-{what}", place=what)
        return inches
    cure = f"{names}; or say 84mm, 3.3in, 246pt" if names else "say 60mm, 2.4in, 173pt"
    if _inches(f"{asked}in") is not None:
        raise InputError(f"a {what} of {asked} has no unit", cure, rule=f"bad-{what}", place=what)
    raise InputError(f"unknown {what} '{asked}'", cure, rule=f"unknown-{what}", place=what)


STYLES: dict[str, Look] = {
    look.name: look
    for look in (
        Look("trainlab", {"column": 3.5, "text": 7.16}, DEJAVU, 8.0, 7.5, line=1.6, title=8.5),
        Look("neurips", {"column": 5.5, "text": 5.5, "half": 2.7}, SERIF, 9.0, 8.0, ratio=0.55),
        Look("icml", {"column": 3.25, "text": 6.75}, SERIF, 9.0, 8.0),
        Look("ieee", {"column": 3.5, "text": 7.16}, SERIF, 8.0, 7.5, line=1.0, thin=0.5, dpi=600),
        Look("nature", {"column": 89 / 25.4, "text": 183 / 25.4}, SANS, 7.0, 6.0, 1.0, 0.5, marker=3.0, dpi=450),
        Look("slide", {"column": 6.0, "text": 12.0}, SANS, 18.0, 16.0, line=3.0, thin=1.2, marker=9.0, dpi=160),
        Look(
            "patent",
            {"column": 17 * _CM, "text": 17 * _CM, "a4": 17 * _CM, "letter": 17.6 * _CM},
            DEJAVU,
            17.0,
            17.0,
            line=1.6,
            thin=0.8,
            marker=8.0,
            dpi=400,
            ratio=0.75,
            ink=False,
        ),
    )
}


def named(style: str | Mapping[str, Any] | Look) -> Look:
    """A style by name, or one's own: what it changes of another (`like`, else trainlab's). Widths are numbers of inches
    or "89mm". InputError for a name, a key or a value that cannot be."""
    if isinstance(style, Look):
        return style
    if isinstance(style, str):
        if style not in STYLES:
            raise unknown("style", style, STYLES, place="style")
        return STYLES[style]
    given = dict(style)
    like = named(str(given.pop("like", "trainlab")))
    known = {field.name: field for field in fields(Look)}
    for key in given:
        if key not in known:
            raise unknown("key", str(key), ["like", *known], place=f"style.{key}")
    told: dict[str, Any] = {item: getattr(like, item) for item in known} | {"name": "your style"}
    for key, value in given.items():
        told[key] = _checked(key, value, told[key])
    return Look(**told)


def _checked(key: str, value: Any, like: Any) -> Any:
    if key == "widths":
        widths = {str(name): _inches(width) for name, width in value.items()} if isinstance(value, Mapping) else {}
        if not widths or any(width is None or not 0.5 <= width <= 60 for width in widths.values()):
            raise InputError(f"widths: {value!r}", "give e.g. {column: 3.25, text: 171mm}", place="style.widths")
        return widths
    if key == "fonts":
        names = [value] if isinstance(value, str) else value
        if not isinstance(names, (list, tuple)) or not names or not all(isinstance(n, str) for n in names):
            raise InputError(
                f"fonts: {value!r}", "give families, the best first: [Arial, DejaVu Sans]", place="style.fonts"
            )
        return tuple(names)
    if key == "name":
        return str(value)
    if isinstance(like, bool):
        if not isinstance(value, bool):
            raise InputError(f"{key}: {value!r}", "give true or false", place=f"style.{key}")
        return value
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= 1200:
        raise InputError(f"{key}: {value!r}", f"give a positive number, e.g. {like or 8:g}", place=f"style.{key}")
    return int(value) if key == "dpi" else float(value)


def _inches(asked: Any) -> float | None:
    if isinstance(asked, bool):
        return None
    if isinstance(asked, (int, float)):
        return float(asked)
    match = re.fullmatch(r"(-?[0-9]*\.?[0-9]+)\s*(mm|cm|in|pt)", str(asked).strip())
    return float(match[1]) * _UNITS[match[2]] if match else None
