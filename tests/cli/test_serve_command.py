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
pytest.importorskip("uvicorn")

from rangebound.cli.app import run
from rangebound.ledger.book import Ledger
from rangebound.serve.client import Client
from tests.serve.running import PATIENCE

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


def make(capsys, *more):
    assert run(["serve", "token", "--config", "server.toml", "--account", "people", "--who", "anna", *more]) == 0
    return capsys.readouterr().out.strip()


def test_a_token_is_printed_once_listed_by_a_name_and_revoked(folder, capsys):
    made = make(capsys, "--days", "90")
    assert re.fullmatch(r"rb_[\w-]{43}", made)
    assert run(["serve", "tokens", "--config", "server.toml", "--json"]) == 0
    out = capsys.readouterr().out
    assert made not in out
    (listed,) = json.loads(out)["tokens"]
    assert (listed["who"], listed["role"], listed["accounts"], listed["revoked"]) == (
        "anna",
        "analyst",
        ["people"],
        False,
    )
    assert run(["serve", "revoke", "--config", "server.toml", listed["token"]]) == 0
    assert "revoked" in capsys.readouterr().out
    assert run(["serve", "tokens", "--config", "server.toml"]) == 0
    assert "revoked" in capsys.readouterr().out
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
def test_a_mistake_is_one_line(folder, capsys, line, words):
    assert run(line.split()) == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1


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
    assert (process.returncode, errors.strip()) in ((0, ""), (130, "error: interrupted"))
    assert not list(tmp_path.iterdir())


def test_the_page_runs_as_printed(tmp_path, monkeypatch, capsys):
    page = (Path(__file__).parents[2] / "docs" / "server.md").read_text(encoding="utf-8")
    settings, plan = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    (lines,) = re.findall(r"```sh\n(.*?)```", page, re.DOTALL)
    (code,) = re.findall(r"```py\n(.*?)```", page, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "server.toml").write_text(settings.replace("8800", "0").replace("delay = 60", "delay = 0.2"))
    (tmp_path / "plan.toml").write_text(plan)
    (tmp_path / "visits.csv").write_text("person_id,clinic\n1,north\n2,south\n")
    (tmp_path / "regions.csv").write_text("clinic,region\nnorth,coast\n")
    commands = [line.split() for line in lines.splitlines()]
    assert len(commands) == 4
    for program, *arguments in commands[:3]:
        assert (program, run(arguments)) == ("rangebound", 0)
    token = re.search(r"rb_\S+", capsys.readouterr().out)[0]
    process = subprocess.Popen(
        [sys.executable, "-m", *commands[3]],
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
