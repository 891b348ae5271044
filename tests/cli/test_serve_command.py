"""`rangebound serve`: tokens from making to revoking, and a demo that runs as it says."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("starlette")
pytest.importorskip("httpx")
pytest.importorskip("uvicorn")

from rangebound.ledger.book import Ledger
from rangebound.web.client import Client
from tests.cli.visits import DOCS, blocks, complaints, typed
from tests.web.service.running import PATIENCE

SETTINGS = """folder = "work"
ledger = "people.ledger"
[sources.visits]
path = "visits.csv"
unit = "person"
[accounts.people]
sources = ["visits"]
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "server.toml").write_text(SETTINGS)
    Ledger.create("people.ledger").close()
    return tmp_path


def test_a_token_is_printed_once_listed_by_a_name_and_revoked(folder, done):
    own = ["--config", "server.toml"]
    made = done("serve", "token", *own, "--account", "people", "--who", "anna", "--days", "90").strip()
    assert re.fullmatch(r"rb_[\w-]{43}", made)
    out = done("serve", "tokens", *own, "--json")
    assert made not in out
    (listed,) = json.loads(out)["tokens"]
    facts = {"who": "anna", "role": "analyst", "accounts": ["people"], "revoked": False}
    assert {name: listed[name] for name in facts} == facts
    assert "revoked" in done("serve", "revoke", *own, listed["token"])
    assert "revoked" in done("serve", "tokens", *own)
    for path in folder.rglob("*"):
        assert not path.is_file() or made.encode() not in path.read_bytes()


WRONG = {
    "serve": "config: missing",
    "serve --demo --config server.toml": "config: missing",
    "serve token --config server.toml --account staff --who anna": "'staff'",
    "serve token --config server.toml --account people --who anna --role king": "analyst or approver",
    "serve token --config server.toml --account people --who anna --days 0": "days",
    "serve revoke --config server.toml nobody": "no such token",
    "serve --config no.toml": "cannot be read",
    "serve --config server.toml": "is not in this ledger",
}


@pytest.mark.parametrize(("line", "words"), WRONG.items(), ids=WRONG)
def test_a_mistake_is_one_line(folder, refused, line, words):
    assert words in refused(*line.split())


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="ends it by a signal")
def test_the_demo_runs_as_it_says_and_leaves_nothing_behind(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-m", "rangebound", "serve", "--demo", "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path), "OMP_NUM_THREADS": "1"},
    )
    try:
        said = ""
        while "approve(" not in said:
            line = process.stdout.readline()
            assert line, process.stderr.read()
            said += line
        url, token, account = re.search(r'client = Client\("(.+?)", "(.+?)", account="(.+?)"\)', said).groups()
        plan = Path(re.search(r'client\.release\("(.+?)"\)', said)[1])
        client = Client(url, token, account=account, timeout=PATIENCE)
        assert {each["account"] for each in client.accounts()} == {"clinics", "reviewed"}
        assert client.dry_run(plan)["cost"] == "epsilon 4"
    finally:
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=PATIENCE)
    assert (process.returncode, complaints(errors)) in ((0, []), (130, ["error: interrupted"]))
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_the_page_runs_as_printed(tmp_path, monkeypatch, capsys):
    page = (DOCS / "ledger.md").read_text(encoding="utf-8").partition("## Serve analysts")[2]
    (_, settings), (_, plan) = blocks(page, "toml")
    ((_, lines),) = blocks(page, "sh")
    ((_, code),) = blocks(page, "py")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "server.toml").write_text(settings.replace("8800", "0").replace("delay = 60", "delay = 0.2"))
    (tmp_path / "plan.toml").write_text(plan)
    (tmp_path / "visits.csv").write_text("person_id,clinic\n1,north\n2,south\n")
    (tmp_path / "regions.csv").write_text("clinic,region\nnorth,coast\n")
    *before, last = lines.splitlines()
    assert typed(before) == [0] * 3
    token = re.search(r"rb_\S+", capsys.readouterr().out)[0]
    process = subprocess.Popen(
        [sys.executable, "-m", *last.split()],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    try:
        url = process.stdout.readline().split()[-1]
        names = {"token": token}
        exec(code.replace("http://127.0.0.1:8800", url), names)
        assert [row["clinic"] for row in names["table"].rows()] == ["north", "south"]
    finally:
        process.terminate()
        process.communicate(timeout=PATIENCE)
