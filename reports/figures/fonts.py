"""Fonts: which of those a style asks for are installed, what stands in for the rest, and which glyphs they have.

Only fonts with TrueType outlines are embedded (CFF ones are no Type 42): a style takes the first such family of its
list, and matplotlib brings one for each list. For other scripts a font of any kind is added where one is installed;
text that needs it is drawn as outlines."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: The last of each comes with matplotlib.
SANS = ("Helvetica", "Arial", "Liberation Sans", "Nimbus Sans", "TeX Gyre Heros", "FreeSans", "DejaVu Sans")
SERIF = ("Times New Roman", "Times", "Liberation Serif", "Nimbus Roman", "TeX Gyre Termes", "FreeSerif", "STIXGeneral")
DEJAVU = ("DejaVu Sans",)
#: For names that the others cannot draw, where they are installed.
_OTHERS = (
    "Noto Sans CJK SC",
    "Noto Sans SC",
    "Source Han Sans SC",
    "WenQuanYi Micro Hei",
    "Microsoft YaHei",
    "PingFang SC",
)
#: How the files of those are called, to find them where matplotlib's list of fonts is older than they are.
_FILES = ("notosanscjk-regular", "notosanssc-regular", "sourcehansanssc-regular", "wqy-microhei", "msyh", "pingfang")


@functools.cache
def families(wanted: tuple[str, ...] = DEJAVU) -> tuple[str, ...]:
    """What to draw with, the first that has a glyph: the first of `wanted` that is installed and can be embedded,
    DejaVu for signs it lacks, then a font for Chinese."""
    known = _installed()
    first = next((name for name in wanted if name in known and not _is_cff(name)), "DejaVu Sans")
    other = next((name for name in _OTHERS if name in known), None)
    return tuple(dict.fromkeys(name for name in (first, "DejaVu Sans", other) if name))


def substituted(wanted: tuple[str, ...]) -> str:
    """One sentence where the font that a style asks for first is not the one taken; "" else."""
    first = families(wanted)[0]
    if first == wanted[0]:
        return ""
    return f"{wanted[0]} is not installed as a TrueType font; drawn with {first}, the closest there is"


@functools.cache
def glyphs(wanted: tuple[str, ...] = DEJAVU) -> frozenset[int]:
    """Every code point that can be drawn."""
    return frozenset().union(*(_charmap(family) for family in families(wanted)))


def outline(figure: Figure, wanted: tuple[str, ...]) -> None:
    """Have texts that need a font which cannot be embedded drawn as outlines, in every format."""
    from matplotlib import patheffects
    from matplotlib.text import Text

    plain = frozenset().union(*(_charmap(family) for family in families(wanted) if not _is_cff(family)))
    for text in figure.findobj(Text):
        if any(ord(char) not in plain for char in text.get_text() if not char.isspace()):  # type: ignore[attr-defined]
            text.set_path_effects([patheffects.Normal()])


@functools.cache
def _installed() -> frozenset[str]:
    from matplotlib import font_manager

    manager = font_manager.fontManager
    known = {entry.name for entry in manager.ttflist}
    if not known & set(_OTHERS):
        found = (path for path in font_manager.findSystemFonts() if Path(path).stem.lower().startswith(_FILES))
        for path in sorted(found)[:1]:
            manager.addfont(path)
    return frozenset(entry.name for entry in manager.ttflist)


def _path(family: str) -> Any:
    from matplotlib import font_manager

    return font_manager.findfont(font_manager.FontProperties(family=[family]), fallback_to_default=True)


@functools.cache
def _charmap(family: str) -> frozenset[int]:
    from matplotlib import font_manager

    return frozenset(font_manager.get_font(_path(family)).get_charmap())


@functools.cache
def _is_cff(family: str) -> bool:
    """Whether a family's outlines are PostScript's: its file, or a collection's first, starts with OTTO."""
    with open(_path(family), "rb") as file:
        head = file.read(16)
        if head[:4] == b"ttcf":
            file.seek(int.from_bytes(head[12:16], "big"))
            head = file.read(4)
    return head[:4] == b"OTTO"


def height_cm(text: str, size: float, wanted: Sequence[str]) -> float:
    """How high the ink of `text` is in centimetres, set at `size` points."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextPath

    path = TextPath((0, 0), text, size=size, prop=FontProperties(family=list(families(tuple(wanted)))))
    return float(path.get_extents().height) / 72 * 2.54
