"""The page in a real browser: it shows, asks the network nothing, and has no errors."""

from __future__ import annotations

import http.server
import shutil
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from reports.writing import write

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--hide-scrollbars", "--window-size=1280,3000",
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no chromium; .ci/run installs it")
def test_the_page_shows_in_a_browser_and_asks_for_nothing_else(clean: Any, tmp_path: Path) -> None:
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
        ran = subprocess.run(
            [str(CHROMIUM), *FLAGS, f"--user-data-dir={tmp_path / 'profile'}", f"--screenshot={picture}",
             "--enable-logging=stderr", "--v=0", address],
            capture_output=True, text=True, timeout=120, check=True,
        )  # fmt: skip
        server.shutdown()
    assert set(asked) - {"/favicon.ico"} == {f"/{page.name}"}
    assert "CONSOLE" not in ran.stderr, ran.stderr[-2000:]
    matplotlib_image = pytest.importorskip("matplotlib.image")
    pixels = matplotlib_image.imread(picture)
    assert pixels.shape[:2] == (3000, 1280)
    assert len({tuple(colour) for colour in pixels[::20, ::20, :3].reshape(-1, 3).tolist()}) > 5, "an empty page"
