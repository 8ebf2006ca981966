"""How figures look: palette, dashes, markers, fonts; the same whatever the user's matplotlibrc says. No pyplot."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any

import matplotlib

from reports.figures.fonts import families, glyphs
from reports.figures.journals import STYLES, Look, named

#: Okabe & Ito 2008, without yellow (too pale for lines on white): told apart with the common colour blindnesses; the
#: first four, which share a dash, also in grey.
PALETTE = ("#0072B2", "#E69F00", "#000000", "#009E73", "#D55E00", "#56B4E9", "#CC79A7")
DASHES: tuple[Any, ...] = ("solid", (0, (5, 2)), (0, (1, 1.2)), (0, (6, 2, 1, 2)), (0, (3, 1, 1, 1, 1, 1)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
GREY = "#6b7280"
BLACK = "#000000"
#: One column of a two-column paper, in inches.
COLUMN = 3.5
LONGEST = 28

_OURS: Any = {
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.edgecolor": GREY,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.formatter.useoffset": False,
    "axes.formatter.use_mathtext": False,
    "grid.color": "#e5e7eb",
    "xtick.color": GREY,
    "ytick.color": GREY,
    "xtick.labelcolor": "#111827",
    "ytick.labelcolor": "#111827",
    "legend.frameon": False,
    "legend.handlelength": 2.2,
    "text.parse_math": False,
    "pdf.fonttype": 42,
    "ps.fonttype": 42,
    "svg.fonttype": "path",
    "svg.hashsalt": "trainlab",
    "path.simplify": False,
    "figure.constrained_layout.use": True,
    "savefig.bbox": None,
}
#: Black lines on white.
_LINES: Any = {
    "axes.grid": False,
    "axes.edgecolor": BLACK,
    "xtick.color": BLACK,
    "ytick.color": BLACK,
    "xtick.labelcolor": BLACK,
    "ytick.labelcolor": BLACK,
}
_KEPT = (
    "backend",
    "interactive",
    "toolbar",
    "webagg",
    "timezone",
    "date.",
    "figure.max_open",
    "savefig.directory",
    "keymap",
)
_TURN, _PATIENCE_S = threading.RLock(), 120.0
_CURRENT: ContextVar[Look] = ContextVar("look", default=STYLES["trainlab"])


@dataclass(frozen=True)
class Mark:
    """How one series looks, wherever it appears."""

    color: str
    dash: Any
    marker: str


def mark(index: int, count: int) -> Mark:
    """The look of series `index` of `count`. Past four series dash and marker differ too; beyond the palette so does
    their mix. Where all is black they differ from the second series on."""
    plain = count <= 4 and current().ink
    turn = index + index // len(PALETTE)
    return Mark(
        PALETTE[index % len(PALETTE)] if current().ink else BLACK,
        "solid" if plain else DASHES[turn % len(DASHES)],
        MARKERS[index % len(MARKERS) if plain else turn % len(MARKERS)],
    )


def marks(names: Sequence[str], dashed: bool = False) -> dict[str, Mark]:
    """A look for each name, in order. dashed: with a dash of its own even where they are few, for lines that lie on
    each other."""
    looks = {name: mark(index, len(names)) for index, name in enumerate(names)}
    return {
        name: replace(look, dash=DASHES[index % len(DASHES)]) if dashed and len(names) <= 4 else look
        for index, (name, look) in enumerate(looks.items())
    }


def current() -> Look:
    """The style that figures are being drawn in."""
    return _CURRENT.get()


@contextmanager
def style(
    look: str | Mapping[str, Any] | Look = "trainlab", width: str | float = "column", height: float | None = None
) -> Iterator[Look]:
    """A publication's looks inside, the user's own after. width: of figures made inside, by name or in inches; height:
    theirs, else as the style has it by the width. Matplotlib's settings are one for all threads: they take turns, and
    RuntimeError tells one that waits for a turn that does not come."""
    found = named(look)
    across = found.width(width)
    looks: Any = {k: v for k, v in matplotlib.rcParamsDefault.items() if not k.startswith(_KEPT)}
    if not _TURN.acquire(timeout=_PATIENCE_S):
        raise RuntimeError(f"another thread has drawn in a style for {_PATIENCE_S:.0f} s; draw in one thread")
    token = _CURRENT.set(found)
    try:
        with matplotlib.rc_context():
            matplotlib.rcParams.update({**looks, **_OURS, **_sized(found, across, height or across * found.ratio)})
            if not found.ink:
                matplotlib.rcParams.update(_LINES)
            yield found
    finally:
        _CURRENT.reset(token)
        _TURN.release()


def _sized(look: Look, width: float, height: float) -> Any:
    return {
        "figure.figsize": (width, height),
        "savefig.dpi": look.dpi,
        "font.family": list(families(look.fonts)),
        "font.size": look.size,
        "axes.titlesize": look.title or look.size,
        "axes.labelsize": look.size,
        "axes.linewidth": look.thin,
        "grid.linewidth": look.thin,
        "xtick.labelsize": look.small,
        "ytick.labelsize": look.small,
        "xtick.major.width": look.thin,
        "ytick.major.width": look.thin,
        "lines.linewidth": look.line,
        "lines.markersize": look.marker,
        "legend.fontsize": look.small,
    }


def label(name: str, longest: int = LONGEST) -> str:
    """A user's name as a figure can show it: at most 28 characters, and no glyph that the fonts lack.

    >>> label("adamw"), len(label("x" * 300))
    ('adamw', 28)
    """
    shown = _drawable(name)
    return shown if len(shown) <= longest else shown[: longest - 1] + "…"


def labels(names: Sequence[str], longest: int = LONGEST) -> dict[str, str]:
    """Names as a figure can show them, each different from the rest: long ones that begin alike show how they end, or
    else are numbered.

    >>> labels(["a" * 40 + "1", "a" * 40 + "2"])["a" * 40 + "2"]
    'aaaaaaaaaaaaaaaaaa…aaaaaaaa2'
    """
    shown = {name: label(name, longest) for name in names}
    end = longest // 3
    for name, twice in _alike(shown).items():
        whole = _drawable(name)
        shown[name] = f"{whole[: longest - 1 - end]}…{whole[-end:]}" if len(whole) > longest else twice
    for place, name in enumerate(_alike(shown), start=1):
        shown[name] = f"{shown[name][: longest - 5]} #{place}"
    # matplotlib leaves out of a legend what starts with an underscore
    return {name: f" {text}" if text.startswith("_") else text for name, text in shown.items()}


def _alike(shown: Mapping[str, str]) -> dict[str, str]:
    counted = Counter(shown.values())
    return {name: text for name, text in shown.items() if counted[text] > 1}


def _drawable(name: str) -> str:
    known = glyphs(current().fonts)
    return "".join(char if ord(char) in known else "▯" for char in " ".join(name.split()))
