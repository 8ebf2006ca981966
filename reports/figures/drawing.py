"""Drawing: a figure before it is files. PDF, SVG, and the CSV of what it shows; same input, same bytes."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from reports.figures.style import style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Value = str | float | int | None


@dataclass(frozen=True)
class Drawing:
    """draw: fills a matplotlib Figure of `size` (width, height in inches) whose layout is constrained. header, rows:
    its data."""

    name: str
    size: tuple[float, float]
    draw: Callable[[Figure], None]
    header: tuple[str, ...]
    rows: tuple[tuple[Value, ...], ...]

    def files(self) -> dict[str, bytes]:
        """File name -> content. The figure is laid out once, for both formats."""
        from matplotlib.figure import Figure

        with style():
            figure = Figure(figsize=self.size, dpi=72, layout="constrained")
            self.draw(figure)
            figure.draw_without_rendering()
            figure.set_layout_engine("none")
            pdf, svg = _saved(figure, "pdf", {"CreationDate": None}), _saved(figure, "svg", {"Date": None})
        return {
            f"{self.name}.pdf": pdf,
            f"{self.name}.svg": svg,
            f"{self.name}.csv": table(self.header, self.rows).encode(),
        }


def _saved(figure: Figure, kind: str, metadata: dict[str, None]) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format=kind, metadata=metadata)
    return buffer.getvalue()


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
    text = re.sub(r'\bid="([^"]+)"', rf'id="{prefix}-\1"', text)
    text = re.sub(r'href="#([^"]+)"', rf'href="#{prefix}-\1"', text)
    text = re.sub(r"url\(#([^)]+)\)", rf"url(#{prefix}-\1)", text)
    opening = text[: text.index(">")]
    return re.sub(r' (width|height)="[^"]*"', "", opening) + text[len(opening) :]
