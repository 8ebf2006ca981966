"""The page in a real browser: it shows, asks the network nothing, has no errors, can be used by all, and prints."""

from __future__ import annotations

import html
import http.server
import json
import re
import shutil
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reports.document import Document
from reports.render.html import render
from reports.writing import write

pytestmark = pytest.mark.slow
DARK = "--blink-settings=preferredColorScheme=0"
_POLICY = re.compile(r'<meta http-equiv="Content-Security-Policy"[^>]*>')
#: Runs axe on the page with everything opened, and leaves what it found in the page.
_RUN = """
document.querySelectorAll('details').forEach(one => { one.open = true; });
axe.run(document, {resultTypes: ['violations']}).then(found => {
  const told = document.createElement('pre');
  told.id = 'axe';
  told.textContent = JSON.stringify({
    dark: matchMedia('(prefers-color-scheme: dark)').matches,
    passed: found.passes.length,
    faults: found.violations.map(v => [v.impact, v.id, v.nodes.map(n => n.html.slice(0, 100)).slice(0, 3)]),
  });
  document.body.appendChild(told);
});
"""
Browse = Callable[..., "subprocess.CompletedProcess[str]"]


def test_the_page_shows_in_a_browser_and_asks_for_nothing_else(clean: Any, tmp_path: Path, browse: Browse) -> None:
    page = write(clean, "sgd-or-adam", tmp_path / "report")
    asked: list[str] = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *arguments: Any):
            super().__init__(*arguments, directory=str(page.parent))

        def log_message(self, form: str, *arguments: Any) -> None:
            asked.append(self.path)

    picture = tmp_path / "page.png"
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/{page.name}"
        ran = browse(address, f"--screenshot={picture}", "--window-size=1280,3000", "--enable-logging=stderr", "--v=0")
        server.shutdown()
    assert set(asked) - {"/favicon.ico"} == {f"/{page.name}"}
    assert "CONSOLE" not in ran.stderr, ran.stderr[-2000:]
    matplotlib_image = pytest.importorskip("matplotlib.image")
    pixels = matplotlib_image.imread(picture)
    assert pixels.shape[:2] == (3000, 1280)
    assert len({tuple(colour) for colour in pixels[::20, ::20, :3].reshape(-1, 3).tolist()}) > 5, "an empty page"


def axe(page: str, browse: Browse, folder: Path, *flags: str) -> dict[str, Any]:
    """What axe-core finds in a page, a copy of which lets it in."""
    package = pytest.importorskip("axe_core_python")
    script = (Path(package.__file__).parent / "axe.min.js").read_text("utf-8")
    copy = folder / "axe.html"
    copy.write_text(
        _POLICY.sub("", page).replace("</body>", f"<script>{script}</script><script>{_RUN}</script></body>")
    )
    dom = browse(copy.as_uri(), "--virtual-time-budget=20000", *flags, "--dump-dom").stdout
    told = re.search(r'<pre id="axe">(.*?)</pre>', dom, re.DOTALL)
    assert told, "axe did not come to its end"
    found = json.loads(html.unescape(told[1]))
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("flags", [(), (DARK,)], ids=["light", "dark"])
def test_axe_finds_no_fault(
    clean: Any, hostile: Document, pictures: dict[str, bytes], tmp_path: Path, browse: Browse, flags: tuple[str, ...]
) -> None:
    real = write(clean, "sgd-or-adam", tmp_path / "report").read_text("utf-8")
    for page in (render(hostile, pictures), real):
        found = axe(page, browse, tmp_path, *flags)
        assert found["dark"] == bool(flags)
        assert found["passed"] > 20
        assert found["faults"] == []


def test_axe_would_find_a_fault(hostile: Document, pictures: dict[str, bytes], tmp_path: Path, browse: Browse) -> None:
    page = (
        render(hostile, pictures).replace("--ink: #16181d", "--ink: #eeeeee").replace('role="img" aria-label', "data-x")
    )
    assert {"color-contrast"} <= {fault[1] for fault in axe(page, browse, tmp_path)["faults"]}


def test_a_browser_shows_names_as_they_are_and_runs_none(
    hostile: Document, pictures: dict[str, bytes], names: tuple[str, ...], tmp_path: Path, browse: Browse
) -> None:
    """Also without the policy that would forbid a script to run."""
    page = tmp_path / "page.html"
    page.write_text(_POLICY.sub("", render(hostile, pictures)))
    ran = browse(page.as_uri(), "--dump-dom", "--enable-logging=stderr", "--v=0")
    assert "<script" not in ran.stdout
    text = html.unescape(re.sub(r"<[^>]*>", "", ran.stdout))
    assert all(text.count(name) > 8 for name in names)
    assert "CONSOLE" not in ran.stderr


def test_at_400_pixels_only_tables_are_wider_than_the_screen(
    hostile: Document, pictures: dict[str, bytes], tmp_path: Path, browse: Browse
) -> None:
    """Measured in a frame, since a window cannot be that narrow."""
    (tmp_path / "page.html").write_text(render(hostile, pictures))
    measure = "document.title = JSON.stringify([f.contentDocument.documentElement.scrollWidth, f.clientWidth])"
    frame = tmp_path / "frame.html"
    frame.write_text(f'<iframe src="page.html" id="f" style="width:400px;border:0" onload="{measure}"></iframe>')
    dom = browse(frame.as_uri(), "--allow-file-access-from-files", "--virtual-time-budget=5000", "--dump-dom").stdout
    told = re.search(r"<title>\[(\d+),(\d+)\]</title>", dom)
    assert told, dom[:300]
    assert int(told[1]) <= int(told[2]) == 400


@pytest.mark.skipif(shutil.which("pdftotext") is None, reason="no poppler-utils; .ci/run installs it")
@pytest.mark.parametrize("runs", [3, 400])
def test_a_printed_page_cuts_nothing_and_leaves_out_only_long_lists(
    document_of: Callable[..., Document],
    names: tuple[str, ...],
    pictures: dict[str, bytes],
    tmp_path: Path,
    browse: Browse,
    runs: int,
) -> None:
    page, printed = tmp_path / "page.html", tmp_path / "page.pdf"
    page.write_text(render(document_of(runs=runs), pictures))
    browse(page.as_uri(), "--no-pdf-header-footer", f"--print-to-pdf={printed}")
    boxes = subprocess.run(["pdftotext", "-bbox", printed, "-"], capture_output=True, text=True, check=True).stdout
    width = float(re.findall(r'<page width="([\d.]+)"', boxes)[0])
    assert max(map(float, re.findall(r'xMax="([\d.]+)"', boxes))) < width - 30, "beyond the margin"
    text = subprocess.run(["pdftotext", "-raw", printed, "-"], capture_output=True, text=True, check=True).stdout
    bare = re.sub(r"\s", "", text)
    assert all(re.sub(r"\s", "", name) in bare for name in names)
    assert text.count("0.971 [0.960, 0.980]") > 20
    listed = "20260101-000002-abc" in text
    assert listed == (runs == 3)
    assert ("400 runs, in report.json" in text) == (runs == 400)
