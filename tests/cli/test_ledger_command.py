"""`rangebound ledger` from the outside: what it prints, and what it refuses."""

import csv
import io
import json
import sqlite3
import subprocess
import sys
from functools import partial

import pytest

from rangebound.cli import ledger_command
from rangebound.errors import LedgerUnavailable
from rangebound.ledger.book import Ledger
from rangebound.ledger.head import KEY_VARIABLE
from rangebound.ledger.rule import Cost, GaussianCost, GaussianFilter
from tests.cli.visits import PLAN, complaints
from tests.ledger.postgres import fresh_address
from tests.release.output.test_undercharged import paid_before, plan_of

TENTH = Cost(epsilon=0.1)


@pytest.fixture
def path(tmp_path, monkeypatch):
    """A ledger with an account and a release whose words try to be clever."""
    monkeypatch.delenv(KEY_VARIABLE, raising=False)
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "a.ledger"
    with Ledger.create(path) as book:
        book.open_account("people", epsilon=1, delta="1e-6", who="anna")
        note = '=1+1, "quoted"\nnext [red]line[/red] \x1b[2J :smile:'
        book.release(account="people", request="t1", cost=TENTH, compute=lambda _: b"x", what="[b]table", note=note)
    return path


@pytest.fixture
def ledger(done):
    return partial(done, "ledger")


def test_open_makes_the_ledger_and_then_adds_accounts(tmp_path, ledger, monkeypatch):
    monkeypatch.delenv(KEY_VARIABLE, raising=False)
    path = tmp_path / "new.ledger"
    out = ledger("open", path, "people", "--epsilon", "1", "--delta", "1e-6", "--note", "x")
    assert "epsilon 1, delta 0.000001" in out
    out = ledger("open", path, "model", "--epsilon", 2, "--delta", "1e-6", "--order", 16, "--json")
    assert json.loads(out)["accounts"][0]["total"] == {"order": "16", "divergence": "1.328343732089"}
    with Ledger.open(path) as book:
        assert [each.name for each in book.accounts()] == ["people", "model"]
        assert book.history()[1].note == "x"


def test_a_gaussian_account_is_opened_and_shown_in_words(path, ledger):
    out = ledger("open", path, "tables", "--epsilon", "1", "--delta", "1e-6", "--rule", "gaussian")
    assert "gaussian, spare 0.25" in out
    words = (
        "one more release of up to mu 0.233459, that is epsilon 1 at delta 0.00000075, or a pure one of up to epsilon "
        "0.186388, and delta 0.00000025 for releases that have one"
    )
    assert f"tables has left: {words}\nhead " in out
    with Ledger.open(path) as book:
        book.reserve(account="tables", request="g", cost=GaussianCost(mu=0.1, delta="1e-9"))
        book.open_account("whole", epsilon=1, delta="1e-6", rule=GaussianFilter(spare=0))
    found = json.loads(ledger("show", path, "--json", "--account", "tables"))["accounts"][0]
    assert found["total"] == {"mu": "0.233459072876", "mu_squared": "0.054503138708", "delta": "0.00000025"}
    assert found["spent"] == {"mu": "0.1", "mu_squared": "0.01", "delta": "0.000000001"}
    assert found["remaining"]["mu_squared"] == "0.044503138708"
    assert found["left"].startswith("one more release of up to mu 0.210957, that is epsilon 0.8")
    out = ledger("show", path)
    assert "whole has left: one more release of up to mu 0.236704, that is epsilon 1 at delta 0.000001" in out
    assert "people has left" not in out
    assert "mu 0.1 (mu^2 0.01), delta 0.000000001" in ledger("history", path)


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        (["--rule", "sum"], {"rule": "sum"}),
        (["--rule", "gaussian", "--spare", "0.5"], {"rule": "gaussian", "spare": "0.5"}),
        (["--rule", "renyi", "--order", "16"], {"rule": "renyi", "order": "16"}),
    ],
)
def test_the_rule_is_the_one_that_was_asked_for(path, ledger, options, rule):
    call = ("open", path, "new", "--epsilon", "1", "--delta", "1e-6", "--json", *options)
    found = json.loads(ledger(*call))["accounts"][0]
    assert {name: found[name] for name in rule} == rule


def test_show_tells_what_is_left_exactly(path, ledger):
    assert "epsilon 0.9, delta 0.000001" in ledger("show", path)
    data = json.loads(ledger("show", path, "--json"))
    assert data["accounts"][0]["remaining"] == {"epsilon": "0.9", "delta": "0.000001"}
    with Ledger.open(path) as book:
        assert data["head"] == book.head
    assert json.loads(ledger("show", path, "--json", "--account", "people")) == data


def test_history_shows_words_as_they_are_and_harmless(path, ledger):
    out = ledger("history", path)
    assert "[red]line[/red]" in out
    assert ":smile:" in out
    assert "\\x1b[2J" in out
    assert "\x1b" not in out
    entries = json.loads(ledger("history", path, "--json"))
    assert [entry["kind"] for entry in entries] == ["ledger", "account", "spend", "publish"]
    assert entries[2]["cost"] == {"epsilon": "0.1", "delta": "0"}
    assert "\x1b" in entries[2]["note"]
    assert json.loads(ledger("history", path, "--json", "--last", 1)) == entries[-1:]
    assert json.loads(ledger("history", path, "--json", "--account", "people")) == entries[1:]


def test_verify_says_ok_or_all_that_is_wrong(path, ledger, command, refused):
    assert ledger("verify", path).startswith("ok: 4 entries")
    report = json.loads(ledger("verify", path, "--json"))
    assert report["ok"] is True
    ledger("verify", path, "--head", report["head"])
    connection = sqlite3.connect(path)
    connection.execute("UPDATE entries SET first = 1 WHERE seq > 1")
    connection.commit()
    connection.close()
    code, out, _ = command("ledger", "verify", path, "--json")
    assert (code, json.loads(out)["ok"], len(json.loads(out)["findings"])) == (2, False, 3)
    assert refused("ledger", "verify", path).startswith("error: entry 2: is not as it was written")
    assert refused("ledger", "show", path)


def test_verify_names_spends_of_another_name_as_a_note(path, ledger):
    with Ledger.open(path) as book:
        book.open_account("guarded", epsilon=1, approval=True)
        for name in ("one", "two"):
            asked = {"account": "guarded", "request": name, "cost": TENTH}
            book.file_request(dry_run=b"{}", who="anna", **asked)
            book.approve(name, who="paul")
            book.release(compute=lambda _: b"x", who="Anna" if name == "one" else "bert", **asked)
        spent = book.history()[-2]
    assert (spent.who, json.loads(ledger("verify", path, "--json"))["not_told"]) == ("bert", [spent.seq])
    said = f"spent or completed under another name, and no login tells by whom: entry {spent.seq}\n"
    assert said in ledger("verify", path)


def test_verify_finds_a_rollback_by_the_head(path, command, refused):
    old = path.read_bytes()
    with Ledger.open(path) as book:
        book.reserve(account="people", request="t2", cost=TENTH)
        head = book.head
    path.write_bytes(old)
    for more in ([], ["--head", head]):
        assert "rolled back" in refused("ledger", "verify", path, *more)
    path.with_name(path.name + ".head").unlink()
    assert len(json.loads(command("ledger", "verify", path, "--head", head, "--json")[1])["findings"]) == 2


def test_adopt_makes_a_missing_head_for_who_knows_one(path, ledger, refused):
    known = json.loads(ledger("show", path, "--json"))["head"]
    path.with_name(path.name + ".head").unlink()
    assert "rangebound ledger adopt" in refused("ledger", "show", path)
    assert f"ends at {known}" in refused("ledger", "adopt", path)
    assert refused("ledger", "adopt", path, "--head", known[:-2] + "00")
    assert known in ledger("adopt", path, "--head", known)
    ledger("verify", path)


def test_export_is_csv_or_json(path, tmp_path, ledger):
    rows = list(csv.DictReader(io.StringIO(ledger("export", path))))
    assert [row["kind"] for row in rows] == ["ledger", "account", "spend", "publish"]
    assert (rows[2]["epsilon"], rows[2]["delta"], rows[2]["order"]) == ("0.1", "0", "")
    assert rows[2]["note"].startswith("'\\=1+1")  # a spreadsheet must not run it, and its line does not end
    data = json.loads(ledger("export", path, "--json"))
    assert data["entries"][2]["note"].startswith("=1+1")
    assert data["accounts"][0]["spent"] == {"epsilon": "0.1", "delta": "0"}
    target = tmp_path / "out.csv"
    ledger("export", path, "--output", target)
    assert list(csv.DictReader(io.StringIO(target.read_text(), newline=""))) == rows


WRONG = [
    ["show", "PATH", "--key", "/nowhere/key"],
    ["history", "PATH", "--last", "0"],
    ["verify"],
    ["verify", "PATH", "--head", "x"],
    ["verify", "PATH", "--export", "PATH"],
    ["open", "PATH", "new"],
    ["open", "PATH", "new\nline", "--epsilon", "1"],
    ["open", "PATH", "new", "--epsilon", "1", "--rule", "odometer"],
    ["open", "PATH", "new", "--epsilon", "1", "--rule", "gaussian"],
    ["open", "PATH", "new", "--epsilon", "1", "--delta", "1e-6", "--order", "2"],
    ["open", "PATH", "new", "--epsilon", "1", "--delta", "1e-6", "--rule", "gaussian", "--spare", "1"],
    ["open", "PATH", "new", "--epsilon", "1", "--delta", "1e-6", "--rule", "gaussian", "--order", "16"],
    ["open", "PATH", "new", "--epsilon", "1", "--delta", "1e-6", "--rule", "renyi"],
    ["open", "PATH", "new", "--epsilon", "1", "--delta", "1e-6", "--order", "16", "--spare", "0.5"],
    ["open", "PATH", "new", "--epsilon", "1", "--delta", "1e-6", "--rule", "sum", "--spare", "0.5"],
    ["open", "/nowhere/x.ledger", "new", "--epsilon", "1"],
    ["export", "PATH", "--lines", "--json"],
    ["export", "PATH", "-o", "/nowhere/x.csv"],
    ["export", "PATH", "-o", "PATH"],
]


@pytest.mark.parametrize("arguments", WRONG)
def test_an_error_is_one_line_and_exit_code_two(path, refused, arguments):
    given = [path if each == "PATH" else each for each in arguments]
    for more in ([], ["--json"]):
        assert refused("ledger", *given, *more)


@pytest.mark.slow
def test_a_reader_that_leaves_early_gets_no_complaint(path):
    call = f"{sys.executable} -c 'from rangebound.cli.app import main; main()' ledger history --json {path} | head -c 1"
    result = subprocess.run(["bash", "-c", f"set -o pipefail; {call}"], capture_output=True, text=True, check=False)
    assert (result.stdout, complaints(result.stderr)) == ("[", [])
    assert result.returncode in (0, 1)  # it depends on who was faster


@pytest.fixture
def address(postgres, tmp_path, monkeypatch):
    """A place for a ledger in a database, and folders of a user who has seen none."""
    monkeypatch.delenv(KEY_VARIABLE, raising=False)
    for name in ("XDG_DATA_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    return fresh_address(postgres)


def test_a_plan_is_charged_to_the_ledger_that_its_address_names(address, folder, done, refused):
    (folder / "plan.toml").write_text(PLAN.replace("people.ledger", address))
    done("ledger", "open", address, "people", "--epsilon", "3")
    done("release", "plan.toml", "--request", "1")
    done("release", "plan.toml", "--request", "2", "--ledger", address)
    assert json.loads(done("ledger", "show", address, "--json"))["accounts"][0]["spends"] == 2
    (folder / "plan.toml").write_text(PLAN.replace("people.ledger", "postgresql://ann:secret@host/db"))
    said = refused("release", "plan.toml", "--request", "3")
    assert "must hold no password" in said
    assert "secret" not in said


@pytest.mark.parametrize("form", [[], ["--lines"]])
def test_an_export_is_verified_with_the_key_alone(form, path, tmp_path, ledger, command):
    target = tmp_path / "history"
    ledger("export", path, "--output", target, *form)
    key = f"{path}.key"
    out = ledger("verify", "--export", target, "--key", key)
    assert out.startswith("ok: ")
    assert "people" in out
    head = out.splitlines()[-1].removeprefix("head ")
    found = json.loads(ledger("verify", "--export", target, "--key", key, "--head", head, "--json"))
    assert (found["ok"], found["accounts"][0]["account"]) == (True, "people")
    target.write_text(target.read_text().replace("people", "peoples", 1))
    code, out, err = command("ledger", "verify", "--export", target, "--key", key, "--json")
    assert (code, json.loads(out)["ok"], err.count("\n")) == (2, False, 1)


def test_verify_names_tables_that_were_charged_too_little(path, tmp_path, ledger):
    assert json.loads(ledger("verify", path, "--json"))["charges"] == []
    with Ledger.open(path) as book:
        book.open_account("gaussian", epsilon=20, delta="1e-4", rule=GaussianFilter())
        paid_before(book, plan_of("gaussian"), "june")
    out = ledger("verify", path)
    assert "ok: 7 entries" in out
    assert "warning: entry 6 (account 'gaussian', request 'june'): was charged mu " in out
    assert "version 0.2 charged crosstabs, hierarchies and series too little" in out
    (found,) = json.loads(ledger("verify", path, "--json"))["charges"]
    assert float(found["paid"]["mu_squared"]) < 0.6 * float(found["due"]["mu_squared"])
    ledger("export", path, "--output", tmp_path / "history")
    assert "charges were not compared" in ledger("verify", "--export", tmp_path / "history", "--key", f"{path}.key")


def test_a_place_that_the_ledger_has_left_is_verified_and_one_that_is_away_is_not(
    address, path, ledger, command, refused, monkeypatch
):
    ledger("move", path, address)
    code, out, said = command("ledger", "verify", path)
    assert (code, out.startswith("ok: ")) == (0, True)
    assert "were not compared with published tables: ledger: has moved to" in said

    def away(*_):
        raise LedgerUnavailable("ledger: cannot be reached")

    monkeypatch.setattr(ledger_command.Place, "opened", away)  # the control: an error that says something else
    assert "cannot be reached" in refused("ledger", "verify", path)
