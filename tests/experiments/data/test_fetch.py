"""Published files: where they are looked for, downloads, and what is refused."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from algos.finding import InputError
from experiments.data.fetch import Published, Remote, cache, download

CONTENT = {"a.txt": b"first file", "b.txt": b"the second"}


def published(base: str, **more: object) -> Published:
    files = tuple(
        Remote(name, f"{base}/{name}", hashlib.sha256(data).hexdigest(), len(data)) for name, data in CONTENT.items()
    )
    return Published("letters", "text/letters", files, **more)  # type: ignore[arg-type]


def fill(folder: Path, **changed: bytes) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in {**CONTENT, **{f"{key}.txt": value for key, value in changed.items()}}.items():
        (folder / name).write_bytes(data)
    return folder


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def remote(tmp_path: Path) -> Path:
    """A folder to download from, by file://."""
    return fill(tmp_path / "remote")


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server(remote: Path) -> Iterator[str]:
    """The address of a loopback server over the same folder."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(remote))) as http:
        thread = threading.Thread(target=http.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{http.server_port}"
        http.shutdown()
        thread.join()


def test_the_users_folder_comes_first_and_nothing_is_downloaded(tmp_path: Path) -> None:
    folder = fill(tmp_path / "data" / "text" / "letters")
    assert published("file:///nowhere").fetch(tmp_path / "data") == folder
    assert not cache().exists()


def test_then_a_packages_folder(tmp_path: Path) -> None:
    packaged = fill(tmp_path / "share")
    found = published("file:///nowhere", elsewhere=(str(packaged),))
    assert found.fetch(tmp_path / "data") == packaged
    assert found.fetch(None) == packaged


def test_then_a_download_that_is_kept(server: str, remote: Path) -> None:
    folder = published(server).fetch(None)
    assert folder == cache() / "text" / "letters"
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == CONTENT
    (remote / "a.txt").unlink()
    assert published(server).fetch(None) == folder


def test_a_damaged_download_is_replaced(remote: Path) -> None:
    folder = fill(cache() / "text" / "letters", a=b"half")
    assert published(remote.as_uri()).fetch(None) == folder
    assert (folder / "a.txt").read_bytes() == CONTENT["a.txt"]


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (b"first", "truncated: 5 bytes of 10"),
        (b"first file and more", "too long"),
        (b"First file", "not the published file"),
    ],
)
def test_a_damaged_file_of_the_users_is_refused_with_its_cure(tmp_path: Path, damage: bytes, said: str) -> None:
    folder = fill(tmp_path / "text" / "letters", a=damage)
    with pytest.raises(InputError) as refused:
        published("https://example.org").fetch(tmp_path)
    assert str(refused.value).startswith(f"{folder / 'a.txt'}: {said}")
    assert "get it again from https://example.org/a.txt" in str(refused.value)


def test_a_folder_that_lacks_one_of_the_files_is_refused(tmp_path: Path) -> None:
    folder = fill(tmp_path / "text" / "letters")
    (folder / "b.txt").unlink()
    with pytest.raises(InputError, match=r"b.txt: missing; get it again from"):
        published("https://example.org").fetch(tmp_path)


@pytest.mark.parametrize("given", [True, False])
def test_data_that_are_nowhere_name_the_file_and_every_way_to_get_it(tmp_path: Path, given: bool) -> None:
    wanted = published((tmp_path / "gone").as_uri(), package="on Debian `apt install letters`")
    with pytest.raises(InputError) as refused:
        wanted.fetch(tmp_path if given else None)
    text = str(refused.value)
    assert text.count("\n") == 0
    assert text.startswith("letters: a.txt is not ")
    assert (str(tmp_path / "text" / "letters") if given else "TRAINLAB_DATA is not set") in text
    for part in ("$TRAINLAB_DATA/text/letters", f"downloaded from {wanted.files[0].url}", "apt install letters"):
        assert part in text


def test_a_server_that_is_not_there_is_no_traceback() -> None:
    with pytest.raises(InputError, match="download failed"):
        published("http://127.0.0.1:9").fetch(None)


@pytest.mark.parametrize("sent", [b"first", b"First file"])
def test_what_comes_wrong_is_not_kept(remote: Path, tmp_path: Path, sent: bytes) -> None:
    (remote / "a.txt").write_bytes(sent)
    with pytest.raises(OSError, match="what came is"):
        download(published(remote.as_uri()).files[0], tmp_path / "kept" / "a.txt")
    assert list((tmp_path / "kept").iterdir()) == []
