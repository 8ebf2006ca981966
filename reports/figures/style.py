"""How figures look: palette, dashes, markers, fonts; the same whatever the user's matplotlibrc says. No pyplot."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import matplotlib

#: Okabe & Ito 2008, without yellow (too pale for lines on white): told apart with the common colour blindnesses.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES: tuple[Any, ...] = ("solid", (0, (5, 2)), (0, (1, 1.2)), (0, (6, 2, 1, 2)), (0, (3, 1, 1, 1, 1, 1)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
GREY = "#6b7280"
#: One column of a two-column paper, in inches.
COLUMN = 3.5
LONGEST = 28

_OURS: dict[str, Any] = {
    "font.family": ["sans-serif"],
    "font.size": 8.0,
    "axes.titlesize": 8.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelsize": 8.0,
    "axes.linewidth": 0.6,
    "axes.edgecolor": GREY,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.formatter.useoffset": False,
    "grid.color": "#e5e7eb",
    "grid.linewidth": 0.6,
    "xtick.labelsize": 7.5,
    "ytick.labelsize": 7.5,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "xtick.labelcolor": "#111827",
    "ytick.labelcolor": "#111827",
    "lines.linewidth": 1.6,
    "legend.fontsize": 7.5,
    "legend.frameon": False,
    "legend.handlelength": 2.2,
    "text.parse_math": False,
    "pdf.fonttype": 42,
    "svg.fonttype": "path",
    "svg.hashsalt": "trainlab",
    "path.simplify": False,
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
#: Fonts to fall back on for names that DejaVu cannot draw, where they are installed.
_FALLBACKS = (
    "Noto Sans CJK SC",
    "Noto Sans SC",
    "Source Han Sans SC",
    "WenQuanYi Micro Hei",
    "Microsoft YaHei",
    "PingFang SC",
)


@dataclass(frozen=True)
class Mark:
    """How one series looks, wherever it appears."""

    color: str
    dash: Any
    marker: str


def mark(index: int, count: int) -> Mark:
    """The look of series `index` of `count`. Past four series dash and marker differ too; beyond the palette so does
    their mix."""
    plain = count <= 4
    turn = index + index // len(PALETTE)
    return Mark(
        PALETTE[index % len(PALETTE)],
        "solid" if plain else DASHES[turn % len(DASHES)],
        MARKERS[index % len(MARKERS) if plain else turn % len(MARKERS)],
    )


def marks(names: Sequence[str]) -> dict[str, Mark]:
    """A look for each name, in order."""
    return {name: mark(index, len(names)) for index, name in enumerate(names)}


@contextmanager
def style() -> Iterator[None]:
    """Our looks inside, the user's own after."""
    looks: Any = {k: v for k, v in matplotlib.rcParamsDefault.items() if not k.startswith(_KEPT)}
    with matplotlib.rc_context():
        matplotlib.rcParams.update(looks | _OURS | {"font.sans-serif": list(_families())})
        yield


def label(name: str) -> str:
    """A user's name as a figure can show it: at most 28 characters, and no glyph that the fonts lack.

    >>> label("adamw"), len(label("x" * 300))
    ('adamw', 28)
    """
    shown = "".join(char if ord(char) in _glyphs() else "▯" for char in " ".join(name.split()))
    return shown if len(shown) <= LONGEST else shown[: LONGEST - 1] + "…"


@functools.cache
def _families() -> tuple[str, ...]:
    from matplotlib import font_manager

    known = {entry.name for entry in font_manager.fontManager.ttflist}
    return ("DejaVu Sans", *(family for family in _FALLBACKS if family in known))


@functools.cache
def _glyphs() -> frozenset[int]:
    from matplotlib import font_manager

    found: set[int] = set()
    for family in _families():
        path = font_manager.findfont(family, fallback_to_default=True)
        found |= set(font_manager.get_font(path).get_charmap())
    return frozenset(found)
