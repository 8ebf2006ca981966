"""PGF: a figure as LaTeX draws it, in the paper's own font. Names stay names: signs that TeX would read are escaped.

Text of ASCII letters is left to TeX; what a TeX font may lack is drawn as outlines. XeLaTeX measures the text."""

from __future__ import annotations

import io
import shutil
from typing import TYPE_CHECKING

from algos.finding import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TEX = "xelatex"
_ESCAPES = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "`": r"\textasciigrave{}",
    "'": r"\textquotesingle{}",
    "-": "{-}",
    "\N{MINUS SIGN}": r"\ensuremath{-}",
    "≥": r"\ensuremath{\geq}",
    "≤": r"\ensuremath{\leq}",
    "×": r"\ensuremath{\times}",
    "±": r"\ensuremath{\pm}",
    "…": r"\ldots{}",
    "–": "{--}",
    "\N{NO-BREAK SPACE}": "~",
}
_TEXT = frozenset(map(chr, range(32, 127))) | set(_ESCAPES)


def escaped(text: str) -> str:
    r"""Text that TeX prints as it is.

    >>> escaped(r"\input{a_b} 50%")
    '\\textbackslash{}input\\{a\\_b\\} 50\\%'
    """
    return "".join(_ESCAPES.get(char, char) for char in text)


def pgf(figure: Figure, said: str) -> bytes:
    """The pgfpicture of a figure that is laid out already, to be \\input where the pgf package is loaded. said: a
    comment at its head. InputError where XeLaTeX is not installed."""
    if shutil.which(TEX) is None:
        raise InputError(
            f"format pgf needs {TEX}, which is not on the path",
            "install TeX Live's XeLaTeX (Debian: apt install texlive-xetex), or ask for pdf",
            rule="no-xelatex",
            place="format",
        )
    import matplotlib
    from matplotlib import patheffects
    from matplotlib.backends.backend_mixed import MixedModeRenderer
    from matplotlib.backends.backend_pgf import RendererPgf
    from matplotlib.text import Text

    class Escaping(RendererPgf):
        """Draws and measures text as it is."""

        def draw_text(self, gc, x, y, s, prop, angle, ismath=False, mtext=None):  # type: ignore[no-untyped-def]
            super().draw_text(gc, x, y, escaped(s), prop, angle, False, mtext)

        def get_text_width_height_descent(self, s, prop, ismath):  # type: ignore[no-untyped-def]
            return super().get_text_width_height_descent(escaped(s), prop, False)

    for text in figure.findobj(Text):
        if not set(text.get_text()) <= _TEXT:  # type: ignore[attr-defined]
            text.set_path_effects([patheffects.Normal()])
    out = io.StringIO()
    width, height = figure.get_size_inches()
    out.write("".join(f"% {line}\n" for line in ("Made by trainlab", *said.splitlines())))
    out.write("% Needs: \\usepackage{pgf}\n")
    out.write("\\begingroup%\n\\makeatletter%\n\\begin{pgfpicture}%\n")
    out.write(f"\\pgfpathrectangle{{\\pgfpointorigin}}{{\\pgfqpoint{{{width:f}in}}{{{height:f}in}}}}%\n")
    out.write("\\pgfusepath{use as bounding box, clip}%\n")
    with matplotlib.rc_context({"pgf.texsystem": TEX, "pgf.rcfonts": False, "pgf.preamble": ""}):
        figure.draw(MixedModeRenderer(figure, width, height, figure.dpi, Escaping(figure, out)))  # type: ignore[arg-type]
    out.write("\\end{pgfpicture}%\n\\makeatother%\n\\endgroup%\n")
    return out.getvalue().encode()
