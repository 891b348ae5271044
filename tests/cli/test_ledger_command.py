"""`rangebound ledger` from the outside: what it prints, and what it refuses."""

import csv
import io
import json
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from rangebound.cli.app import run
from rangebound.ledger.book import Ledger
from rangebound.ledger.key import VARIABLE
from rangebound.ledger.rule import Cost, GaussianCost, GaussianFilter
from tests.ledger.postgres import fresh_address
from tests.thinning import crossed

TENTH = Cost(epsilon=0.1)


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A ledger with an account and a release whose words try to be clever."""
    monkeypatch.delenv(VARIABLE, raising=False)
    path = tmp_path / "a.ledger"
    with Ledger.create(path) as ledger:
        ledger.open_account("people", epsilon=1, delta="1e-6", who="anna")
        note = '=1+1, "quoted"\nnext [red]line[/red] \x1b[2J :smile:'
        ledger.release(account="people", request="t1", cost=TENTH, compute=lambda _: b"x", what="[b]table", note=note)
    return path


def command(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = run(["ledger", *map(str, arguments)])
    out, err = capsys.readouterr()
    return code, out, err


def test_open_makes_the_ledger_and_then_adds_accounts(tmp_path, capsys, monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    path = tmp_path / "new.ledger"
    code, out, _ = command(capsys, "open", path, "people", "--epsilon", "1", "--delta", "1e-6", "--note", "x")
    assert code == 0
    assert "epsilon 1, delta 0.000001" in out
    code, out, _ = command(capsys, "open", path, "model", "--epsilon", 2, "--delta", "1e-6", "--order", 16, "--json")
    assert code == 0
    assert json.loads(out)["accounts"][0]["total"] == {"order": "16", "divergence": "1.328343732089"}
    with Ledger.open(path) as ledger:
        assert [each.name for each in ledger.accounts()] == ["people", "model"]
        assert ledger.history()[1].note == "x"


GAUSSIAN = ("--epsilon", "1", "--delta", "1e-6", "--rule", "gaussian")


def test_a_gaussian_account_is_opened_and_shown_in_words(path, capsys):
    code, out, _ = command(capsys, "open", path, "tables", *GAUSSIAN)
    assert code == 0
    assert "gaussian, spare 0.25" in out
    words = (
        "one more release of up to mu 0.233459, that is epsilon 1 at delta 0.00000075, or a pure one of up to epsilon "
        "0.186388, and delta 0.00000025 for releases that have one"
    )
    assert f"tables has left: {words}\nhead " in out
    with Ledger.open(path) as ledger:
        ledger.reserve(account="tables", request="g", cost=GaussianCost(mu=0.1, delta="1e-9"))
        ledger.open_account("whole", epsilon=1, delta="1e-6", rule=GaussianFilter(spare=0))
    found = json.loads(command(capsys, "show", path, "--json", "--account", "tables")[1])["accounts"][0]
    assert found["total"] == {"mu": "0.233459072876", "mu_squared": "0.054503138708", "delta": "0.00000025"}
    assert found["spent"] == {"mu": "0.1", "mu_squared": "0.01", "delta": "0.000000001"}
    assert found["remaining"]["mu_squared"] == "0.044503138708"
    assert found["left"].startswith("one more release of up to mu 0.210957, that is epsilon 0.8")
    out = command(capsys, "show", path)[1]
    assert "whole has left: one more release of up to mu 0.236704, that is epsilon 1 at delta 0.000001" in out
    assert "people has left" not in out
    assert "mu 0.1 (mu^2 0.01), delta 0.000000001" in command(capsys, "history", path)[1]


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        ([], {"rule": "sum"}),
        (["--rule", "sum"], {"rule": "sum"}),
        (["--rule", "gaussian", "--spare", "0.5"], {"rule": "gaussian", "spare": "0.5"}),
        (["--rule", "renyi", "--order", "16"], {"rule": "renyi", "order": "16"}),
        (["--order", "16"], {"rule": "renyi", "order": "16"}),
    ],
)
def test_the_rule_is_the_one_that_was_asked_for(path, capsys, options, rule):
    call = ("open", path, "new", "--epsilon", "1", "--delta", "1e-6", "--json", *options)
    found = json.loads(command(capsys, *call)[1])["accounts"][0]
    assert {name: found[name] for name in rule} == rule


def test_show_tells_what_is_left_exactly(path, capsys):
    code, out, err = command(capsys, "show", path)
    assert (code, err) == (0, "")
    assert "epsilon 0.9, delta 0.000001" in out
    data = json.loads(command(capsys, "show", path, "--json")[1])
    assert data["accounts"][0]["remaining"] == {"epsilon": "0.9", "delta": "0.000001"}
    with Ledger.open(path) as ledger:
        assert data["head"] == ledger.head
    assert json.loads(command(capsys, "show", path, "--json", "--account", "people")[1]) == data


def test_history_shows_words_as_they_are_and_harmless(path, capsys):
    code, out, _ = command(capsys, "history", path)
    assert code == 0
    assert "[red]line[/red]" in out
    assert ":smile:" in out
    assert "\\x1b[2J" in out
    assert "\x1b" not in out
    entries = json.loads(command(capsys, "history", path, "--json")[1])
    assert [entry["kind"] for entry in entries] == ["ledger", "account", "spend", "publish"]
    assert entries[2]["cost"] == {"epsilon": "0.1", "delta": "0"}
    assert "\x1b" in entries[2]["note"]
    assert json.loads(command(capsys, "history", path, "--json", "--last", 1)[1]) == entries[-1:]
    assert json.loads(command(capsys, "history", path, "--json", "--account", "people")[1]) == entries[1:]


def test_verify_says_ok_or_all_that_is_wrong(path, capsys):
    code, out, _ = command(capsys, "verify", path)
    assert code == 0
    assert out.startswith("ok: 4 entries")
    report = json.loads(command(capsys, "verify", path, "--json")[1])
    assert report["ok"] is True
    assert command(capsys, "verify", path, "--head", report["head"])[0] == 0
    connection = sqlite3.connect(path)
    connection.execute("UPDATE entries SET first = 1 WHERE seq > 1")
    connection.commit()
    connection.close()
    code, out, err = command(capsys, "verify", path, "--json")
    assert code == 2
    assert json.loads(out)["ok"] is False
    assert len(json.loads(out)["findings"]) == 3
    assert err.startswith("error: entry 2: is not as it was written")
    assert err.count("\n") == 1
    assert command(capsys, "show", path)[0] == 2


def test_verify_finds_a_rollback_by_the_head(path, capsys):
    old = path.read_bytes()
    with Ledger.open(path) as ledger:
        ledger.reserve(account="people", request="t2", cost=TENTH)
        head = ledger.head
    path.write_bytes(old)
    for more in ([], ["--head", head]):
        code, out, err = command(capsys, "verify", path, *more)
        assert (code, out) == (2, "")
        assert "rolled back" in err
    path.with_name(path.name + ".head").unlink()
    assert len(json.loads(command(capsys, "verify", path, "--head", head, "--json")[1])["findings"]) == 2


def test_adopt_makes_a_missing_head_for_who_knows_one(path, capsys):
    known = json.loads(command(capsys, "show", path, "--json")[1])["head"]
    path.with_name(path.name + ".head").unlink()
    code, _, err = command(capsys, "show", path)
    assert code == 2
    assert "rangebound ledger adopt" in err
    code, _, err = command(capsys, "adopt", path)
    assert code == 2
    assert f"ends at {known}" in err
    assert command(capsys, "adopt", path, "--head", known[:-2] + "00")[0] == 2
    code, out, _ = command(capsys, "adopt", path, "--head", known)
    assert code == 0
    assert known in out
    assert command(capsys, "verify", path)[0] == 0


def test_export_is_csv_or_json(path, tmp_path, capsys):
    rows = list(csv.DictReader(io.StringIO(command(capsys, "export", path)[1])))
    assert [row["kind"] for row in rows] == ["ledger", "account", "spend", "publish"]
    assert (rows[2]["epsilon"], rows[2]["delta"], rows[2]["order"]) == ("0.1", "0", "")
    assert rows[2]["note"].startswith("'=1+1")  # a spreadsheet must not run it
    data = json.loads(command(capsys, "export", path, "--json")[1])
    assert data["entries"][2]["note"].startswith("=1+1")
    assert data["accounts"][0]["spent"] == {"epsilon": "0.1", "delta": "0"}
    target = tmp_path / "out.csv"
    assert command(capsys, "export", path, "--output", target)[0] == 0
    assert list(csv.DictReader(io.StringIO(target.read_text(), newline=""))) == rows
    before = path.read_bytes()
    code, _, err = command(capsys, "export", path, "--output", path)
    assert code == 2
    assert "exists already" in err
    assert path.read_bytes() == before


@crossed(
    {
        "as_json": [False, True],
        "arguments": [
            [],
            ["nothing"],
            ["show"],
            ["show", "/nowhere/x.ledger"],
            ["show", "PATH", "--account", "nobody"],
            ["show", "PATH", "--what"],
            ["show", "PATH", "--key", "/nowhere/key"],
            ["history", "PATH", "--last", "0"],
            ["history", "PATH", "--last", "many"],
            ["verify", "PATH", "--head", "x"],
            ["open", "PATH", "people", "--epsilon", "1"],
            ["open", "PATH", "new"],
            ["open", "PATH", "new", "--epsilon", "nan"],
            ["open", "PATH", "new", "--epsilon", "1", "--order", "2", "--delta", "1e-6"],
            ["open", "PATH", "new\nline", "--epsilon", "1"],
            ["open", "PATH", "new", "--epsilon", "1", "--rule", "odometer"],
            ["open", "PATH", "new", "--epsilon", "1", "--rule", "gaussian"],
            ["open", "PATH", "new", "--epsilon", "1", "--delta", "1e-6", "--rule", "gaussian", "--spare", "1"],
            ["open", "PATH", "new", "--epsilon", "1", "--delta", "1e-6", "--rule", "gaussian", "--order", "16"],
            ["open", "PATH", "new", "--epsilon", "1", "--delta", "1e-6", "--rule", "renyi"],
            ["open", "PATH", "new", "--epsilon", "1", "--delta", "1e-6", "--order", "16", "--spare", "0.5"],
            ["open", "PATH", "new", "--epsilon", "1", "--delta", "1e-6", "--rule", "sum", "--spare", "0.5"],
            ["open", "/nowhere/x.ledger", "new", "--epsilon", "1"],
            ["export", "PATH", "-o", "/nowhere/x.csv"],
        ],
    }
)
def test_an_error_is_one_line_and_exit_code_two(path, capsys, arguments, as_json):
    before = path.read_bytes()
    given = [str(path) if each == "PATH" else each for each in arguments]
    code, out, err = command(capsys, *given, *(["--json"] if as_json and given else []))
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert path.read_bytes() == before


def test_a_reader_that_leaves_early_gets_no_complaint(path):
    call = f"{sys.executable} -c 'from rangebound.cli.app import main; main()' ledger history --json {path} | head -c 1"
    result = subprocess.run(["bash", "-c", f"set -o pipefail; {call}"], capture_output=True, text=True, check=False)
    assert (result.stdout, result.stderr) == ("[", "")
    assert result.returncode in (0, 1)  # it depends on who was faster


@pytest.fixture
def address(postgres, tmp_path, monkeypatch):
    """A place for a ledger in a database, and folders of a user who has seen none."""
    monkeypatch.delenv(VARIABLE, raising=False)
    for name in ("XDG_DATA_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    return fresh_address(postgres)


def test_every_command_takes_an_address(address, capsys, tmp_path):
    for account in ("people", "others"):
        assert command(capsys, "open", address, account, "--epsilon", "1")[0] == 0
    with Ledger.open(address) as ledger:
        ledger.release(account="people", request="t1", cost=TENTH, compute=lambda _: b"x")
        head = ledger.head
    assert "0.9" in command(capsys, "show", address)[1]
    assert "t1" in command(capsys, "history", address)[1]
    assert command(capsys, "verify", address, "--head", head)[0] == 0
    assert command(capsys, "export", address, "--output", tmp_path / "history.csv")[0] == 0
    assert "exists already" in command(capsys, "adopt", address, "--head", head)[2]
    key = next((tmp_path / "XDG_DATA_HOME" / "rangebound").glob("*.key"))
    code, _, err = command(capsys, "export", address, "--output", key)
    assert code == 2
    assert "exists" in err or "overwritten" in err


def test_a_password_in_an_address_is_refused_and_not_shown(capsys):
    code, out, err = command(capsys, "show", "postgresql://ann:secret@db.example/office")
    assert code == 2
    assert "must hold no password" in err
    assert "secret" not in out + err


def test_a_plan_is_charged_to_the_ledger_that_its_address_names(address, capsys, tmp_path):
    (tmp_path / "t.csv").write_text("age\n1\n2\n")
    plan = (
        '[source]\npath = "t.csv"\n[budget]\nepsilon = 1\naccount = "people"\nledger = "{}"\n'
        '[[query]]\nname = "n"\nkind = "count"\n'
    )
    (tmp_path / "plan.toml").write_text(plan.format(address))
    assert command(capsys, "open", address, "people", "--epsilon", "3")[0] == 0
    assert run(["release", str(tmp_path / "plan.toml"), "--request", "1"]) == 0
    assert run(["release", str(tmp_path / "plan.toml"), "--request", "2", "--ledger", address]) == 0
    capsys.readouterr()
    assert json.loads(command(capsys, "show", address, "--json")[1])["accounts"][0]["spends"] == 2
    (tmp_path / "plan.toml").write_text(plan.format("postgresql://ann:secret@host/db"))
    assert run(["release", str(tmp_path / "plan.toml"), "--request", "3"]) == 2
    out, err = capsys.readouterr()
    assert "must hold no password" in err
    assert "secret" not in out + err


@pytest.mark.parametrize("form", [[], ["--lines"]])
def test_an_export_is_verified_with_the_key_alone(form, path, tmp_path, capsys):
    target = tmp_path / "history"
    assert command(capsys, "export", path, "--output", target, *form)[0] == 0
    key = f"{path}.key"
    code, out, _ = command(capsys, "verify", "--export", target, "--key", key)
    assert code == 0
    assert out.startswith("ok: ")
    assert "people" in out
    head = out.splitlines()[-1].removeprefix("head ")
    code, out, _ = command(capsys, "verify", "--export", target, "--key", key, "--head", head, "--json")
    assert code == 0
    assert json.loads(out)["ok"] is True
    assert json.loads(out)["accounts"][0]["account"] == "people"
    target.write_text(target.read_text().replace("people", "peoples", 1))
    code, out, err = command(capsys, "verify", "--export", target, "--key", key, "--json")
    assert code == 2
    assert json.loads(out)["ok"] is False
    assert err.count("\n") == 1


def test_one_thing_is_verified_and_exported_in_one_form(path, capsys):
    assert command(capsys, "verify")[2].startswith("error: ledger: must be named")
    assert command(capsys, "verify", path, "--export", path)[0] == 2
    assert command(capsys, "export", path, "--lines", "--json")[0] == 2
