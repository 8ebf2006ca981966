"""Drawing: a figure before it is files. PDF, SVG, PNG, PGF, and the CSV of what it shows; same input, same bytes."""

from __future__ import annotations

import csv
import io
import re
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from algos.finding import InputError, unknown
from reports.figures.journals import Look
from reports.figures.style import style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Value = str | float | int | None
FORMATS = ("pdf", "svg", "png", "pgf")


@dataclass(frozen=True)
class Drawing:
    """draw: fills a matplotlib Figure of `size` (width, height in inches) whose layout is constrained. header, rows:
    its data. alt: what a reader who cannot see it must know. provenance: of which runs it was made. Both are stored in
    its files. look: the style it is drawn in."""

    name: str
    size: tuple[float, float]
    draw: Callable[[Figure], None]
    header: tuple[str, ...]
    rows: tuple[tuple[Value, ...], ...]
    alt: str = ""
    provenance: str = ""
    look: str | Mapping[str, Any] | Look = "trainlab"

    def figure(self) -> Figure:
        """It, laid out at exactly its size; to be saved inside the same style."""
        from matplotlib.figure import Figure

        figure = Figure(figsize=self.size, dpi=72, layout="constrained")
        self.draw(figure)
        return figure

    def files(self, formats: Sequence[str] = ("pdf", "svg")) -> dict[str, bytes]:
        """File name -> content, in these formats and as CSV. The figure is laid out once, for all formats. InputError
        for a format that there is not, or that lacks its program."""
        formats = check_formats(formats) if formats else ()
        with style(self.look, width=self.size[0], height=self.size[1]):
            found = saved(self.figure(), formats, title=self.name, alt=self.alt, provenance=self.provenance)
        files = {f"{self.name}.{kind}": content for kind, content in found.items()}
        return {**files, f"{self.name}.csv": table(self.header, self.rows).encode()}


def check_formats(formats: Sequence[str]) -> list[str]:
    """The formats of these names, each once. InputError for one that there is not, and for none."""
    found = list(dict.fromkeys(word.strip().lower() for word in formats if word.strip()))
    if not found:
        raise InputError("no format is given", f"give one or more of {', '.join(FORMATS)}", place="format")
    for kind in found:
        if kind not in FORMATS:
            raise unknown("format", kind, FORMATS, place="format")
    return found


def saved(
    figure: Figure, formats: Sequence[str], *, title: str = "", alt: str = "", provenance: str = ""
) -> dict[str, bytes]:
    """Format -> content of a figure, at exactly its size. Call it inside the style that it was drawn in."""
    from reports.figures.fonts import outline
    from reports.figures.monochrome import monochrome
    from reports.figures.pgf import pgf
    from reports.figures.style import current

    look = current()
    _lay_out(figure)
    engine = figure.get_layout_engine()
    figure.set_layout_engine("none")
    if not look.ink:
        monochrome(figure)
    outline(figure, look.fonts)
    title, alt, provenance = map(_printable, (title, alt, provenance))
    found: dict[str, bytes] = {}
    for kind in dict.fromkeys(sorted(formats, key=FORMATS.index)):  # pgf last: it changes what it draws
        if kind == "pgf":
            found[kind] = pgf(figure, "\n".join(filter(None, (title, alt, provenance))))
        else:
            found[kind] = _saved(figure, kind, title, alt, provenance, look)
    figure.set_layout_engine(engine or "none")
    return found


#: Figures that were laid out, with their size and how many axes they had: a second layout would start from the first,
#: and come out a little otherwise.
_LAID_OUT: weakref.WeakKeyDictionary[Figure, tuple[float, float, int]] = weakref.WeakKeyDictionary()


def _lay_out(figure: Figure) -> None:
    """Once, unless it has changed since; again where the axes, as wide as they are then, have other ticks, of which one
    reaches beyond the page."""
    from reports.figures.ticks import settle

    width, height = figure.get_size_inches()
    now = (float(width), float(height), len(figure.axes))
    if _LAID_OUT.get(figure) != now:
        figure.draw_without_rendering()
        if beyond(figure) > 0.005 and figure.get_layout_engine() is not None:
            for axis in figure.axes:
                settle(axis)
            figure.draw_without_rendering()
        _LAID_OUT[figure] = now


def beyond(figure: Figure) -> float:
    """By how many inches what is drawn reaches beyond the page, where it does so most; negative where it does not."""
    box, (width, height) = figure.get_tightbbox(), figure.get_size_inches()
    return float(max(-box.x0, -box.y0, box.x1 - width, box.y1 - height))


def _saved(figure: Figure, kind: str, title: str, alt: str, provenance: str, look: Look) -> bytes:
    maker = provenance.partition(";")[0] or "trainlab"
    metadata: dict[str, str | None]
    if kind == "pdf":
        metadata = {"CreationDate": None, "Title": title, "Subject": alt, "Keywords": provenance, "Creator": maker}
    elif kind == "svg":
        metadata = {"Date": None, "Title": title, "Description": alt, "Identifier": provenance, "Creator": maker}
    else:
        metadata = {"Software": maker, "Title": title, "Description": alt, "Source": provenance}
    across = figure.get_size_inches()[0]
    dpi = (round(across * look.dpi) + 1e-6) / across if kind == "png" else 72
    buffer = io.BytesIO()
    told = {key: value for key, value in metadata.items() if value != ""}
    figure.savefig(buffer, format=kind, metadata=told, dpi=dpi, bbox_inches=None)
    return _bilevel(buffer) if kind == "png" and not look.ink else buffer.getvalue()


def _bilevel(png: io.BytesIO) -> bytes:
    """The same image in black and white alone: edges that were smoothed become the nearer of the two."""
    from PIL import Image
    from PIL.PngImagePlugin import PngInfo

    with Image.open(png) as image:
        told, dpi = PngInfo(), image.info["dpi"]
        for key, value in image.info.items():
            if isinstance(value, str):
                told.add_text(str(key), value)
        out = io.BytesIO()
        image.convert("L").point(lambda level: 255 if level >= 128 else 0, mode="1").save(
            out, "PNG", pnginfo=told, dpi=dpi
        )
    return out.getvalue()


def _printable(text: str) -> str:
    """What may stand in metadata: one line, no control characters."""
    return "".join(char if char.isprintable() else "▯" for char in " ".join(text.split()))


def table(header: Sequence[str], rows: Sequence[Sequence[Value]]) -> str:
    """CSV with a header, numbers in full."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return buffer.getvalue()


def inline(svg: bytes, prefix: str) -> str:
    """The <svg> element alone, to stand in a page: ids made its own by `prefix`, since every figure uses the same ones,
    and the size left to the page.

    >>> inline(b'<svg width="9pt" height="9pt" viewBox="0 0 9 9"><g id="a"/><use xlink:href="#a"/></svg>', "f1")
    '<svg viewBox="0 0 9 9"><g id="f1-a"/><use xlink:href="#f1-a"/></svg>'
    """
    text = svg.decode()
    text = text[text.index("<svg") :].strip()
    text = re.sub(r"<metadata>.*?</metadata>\s*", "", text, flags=re.DOTALL)
    text = re.sub(r"<title>.*?</title>\s*", "", text, flags=re.DOTALL)
    text = re.sub(r'\bid="([^"]+)"', rf'id="{prefix}-\1"', text)
    text = re.sub(r'href="#([^"]+)"', rf'href="#{prefix}-\1"', text)
    text = re.sub(r"url\(#([^)]+)\)", rf"url(#{prefix}-\1)", text)
    opening = text[: text.index(">")]
    return re.sub(r' (width|height)="[^"]*"', "", opening) + text[len(opening) :]
