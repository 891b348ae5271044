"""The client: no package but httpx, and a token that goes nowhere else."""

import socket
import subprocess
import sys
import threading

import pytest

from rangebound.values.serial import csv_text
from rangebound.web.client import Client, PublishedTable, ServerRefusal

HEAVY = "{'numpy', 'scipy', 'pydantic', 'duckdb', 'starlette', 'uvicorn', 'sqlite3', 'typer', 'cryptography'}"


def test_it_needs_nothing_of_the_server():
    code = f"import sys; from rangebound.web.client import Client; print({HEAVY} & set(sys.modules))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == "set()\n"


def test_a_redirect_is_not_followed():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

        def answer():
            with listener.accept()[0] as connection:
                connection.recv(65536)
                connection.sendall(b"HTTP/1.1 302 Found\r\nLocation: http://localhost:%d/stolen\r\n\r\n" % port)

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(ServerRefusal, match="302"):
            Client(f"http://127.0.0.1:{port}", "rb_secret").accounts()
        thread.join()
        listener.settimeout(0.2)
        with pytest.raises(TimeoutError):  # nobody has asked again
            listener.accept()


def test_a_server_that_is_not_there_is_named_and_the_token_is_not():
    with pytest.raises(ServerRefusal, match="cannot be reached") as caught:
        Client("http://127.0.0.1:1", "rb_secret").accounts()
    assert "rb_secret" not in str(caught.value)
    with pytest.raises(ServerRefusal, match="https://"):
        Client("file:///etc/passwd", "rb_secret")


def test_refusals_have_the_words_of_the_server(server, tmp_path):
    client = Client(server.url, server.token(accounts=("people", "staff")))
    with pytest.raises(ServerRefusal, match="account: missing"):
        client.sources()
    with pytest.raises(ServerRefusal, match="budget"):
        server.client().dry_run({"query": []}, source="visits")
    (tmp_path / "plan.toml").write_text("budget = {epsilon = 'much'}")
    for given in (tmp_path / "plan.toml", str(tmp_path / "plan.toml")):
        with pytest.raises(ServerRefusal, match="epsilon") as caught:
            server.client().dry_run(given, source="visits")
        assert caught.value.status == 422


def test_rows_have_the_keys_of_the_data_and_nothing_where_a_cell_is_empty():
    keys = ["=1", "'=1", "a\r=1", "", None, "-5", "x"]
    text = csv_text([["=g", "value"], *([key, 1.0] for key in keys)])
    found = PublishedTable(id="a", table=b"", csv=text, certificate="", report="")
    assert found.rows() == [{"=g": key, "value": "1.0"} for key in keys]
