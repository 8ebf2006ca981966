"""Monochrome: a drawn figure as black lines on white, as patent offices take it. Nothing grey, nothing seen through."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from matplotlib.artist import Artist

_INK, _PAPER = "#000000", "#ffffff"
_HATCHES = ("////", "\\\\\\\\", "....", "xxxx", "----", "||||", "++++", "oooo")


def monochrome(drawn: Artist) -> None:
    """Make every line and text inside black and opaque. Areas become white with a dotted edge; bars keep apart by
    hatching; text on an image stands on white."""
    from matplotlib.collections import Collection, LineCollection
    from matplotlib.colors import to_rgba
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch, Rectangle
    from matplotlib.text import Text

    bars: dict[str, str] = {}
    for artist in drawn.findobj():
        if isinstance(artist, Line2D):
            hollow = str(artist.get_markerfacecolor()) in ("none", _PAPER, "white")
            artist.set(color=_INK, alpha=None, markeredgecolor=_INK, markerfacecolor=_PAPER if hollow else _INK)
        elif isinstance(artist, LineCollection):
            artist.set(color=_INK, alpha=None)
        elif isinstance(artist, Collection) and not np.size(artist.get_facecolor()):
            artist.set(edgecolor=_INK, alpha=None)
        elif isinstance(artist, Collection):
            artist.set(facecolor="none", edgecolor=_INK, alpha=None, linestyle=":", linewidth=0.8)
        elif isinstance(artist, Rectangle) and artist.get_gid() == "bar":
            color = str(artist.get_facecolor())
            artist.set(alpha=None, hatch=bars.setdefault(color, _HATCHES[len(bars) % len(_HATCHES)]))
            artist.set(facecolor=_PAPER, edgecolor=_INK)
        elif isinstance(artist, Patch):
            unseen, edge = (to_rgba(color)[3] == 0 for color in (artist.get_facecolor(), artist.get_edgecolor()))
            artist.set(alpha=None, facecolor="none" if unseen else _PAPER)
            if not edge:
                artist.set(edgecolor=_INK)
        elif isinstance(artist, Text):
            artist.set(color=_INK, alpha=None)
