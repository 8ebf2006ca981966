"""A tracking store that is not there is named before anything runs."""

from __future__ import annotations

import http.server
import os
import threading
import time

import pytest

from algos.finding import InputError
from experiments.store.tracking import absolute, check_tracking, tracking_uri


@pytest.fixture
def server():
    """Answers /health as told."""

    class Handler(http.server.BaseHTTPRequestHandler):
        code = 200

        def do_GET(self):
            self.send_response(self.code if self.path == "/health" else 404)
            self.end_headers()

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as serving:
        thread = threading.Thread(target=serving.serve_forever)
        thread.start()
        yield Handler, f"http://127.0.0.1:{serving.server_port}"
        serving.shutdown()
        thread.join()


def test_the_uri_is_read_when_asked_and_means_one_place(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    assert tracking_uri() == f"sqlite:///{tmp_path}/mlflow.db"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "sqlite:///sub/x.db?timeout=60")
    assert tracking_uri() == f"sqlite:///{tmp_path}/sub/x.db?timeout=60"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://host:5000/")
    assert tracking_uri() == "http://host:5000"
    assert absolute("databricks://profile") == "databricks://profile"


def test_a_healthy_server_passes_and_costs_no_time(server):
    _, uri = server
    check_tracking(uri)
    begun = time.process_time()
    check_tracking(uri + "/")
    assert time.process_time() - begun < 0.05


@pytest.mark.parametrize(("code", "fine"), [(401, True), (404, False), (503, False)])
def test_who_asks_for_a_password_is_there_and_who_is_ill_is_not(server, code, fine):
    handler, uri = server
    handler.code = code
    if fine:
        check_tracking(uri)
    else:
        with pytest.raises(InputError, match=f"not as a healthy MLflow server \\({code}\\)"):
            check_tracking(uri)


@pytest.mark.parametrize(
    ("uri", "said"),
    [
        ("http://127.0.0.1:1", r"http://127.0.0.1:1 does not answer .*nothing was run"),
        ("http://me:secret@127.0.0.1:1", r"http://me:\*\*\*@127.0.0.1:1 does not answer"),
        ("./mlruns", "MLflow 3.13 and later refuse file stores .*nothing was run.*sqlite:///mlflow.db"),
        ("file:///somewhere/mlruns", "refuse file stores"),
        ("sqlite:////nowhere/at/all/mlflow.db", "the folder of .* does not exist"),
        ("sqlite:///:memory:", "in memory"),
        ("ftp://host/x", "not a place MLflow knows"),
    ],
)
def test_a_store_that_cannot_be_used_is_named_in_one_line(uri, said):
    with pytest.raises(InputError, match=said) as error:
        check_tracking(uri)
    assert "\n" not in str(error.value)
    assert "secret" not in str(error.value)


def test_an_sqlite_file_must_be_one_and_be_writable(tmp_path):
    path = tmp_path / "mlflow.db"
    check_tracking(f"sqlite:///{path}")
    path.write_bytes(b"")
    check_tracking(f"sqlite:///{path}")
    path.write_bytes(b"hello, I am a text file")
    with pytest.raises(InputError, match="not an SQLite database"):
        check_tracking(f"sqlite:///{path}")
    with pytest.raises(InputError, match="is a folder"):
        check_tracking(f"sqlite:///{tmp_path}")
    if os.geteuid() != 0:  # root may write anywhere
        tmp_path.chmod(0o500)
        with pytest.raises(InputError, match="cannot be written"):
            check_tracking(f"sqlite:///{tmp_path}/new.db")
        tmp_path.chmod(0o700)
