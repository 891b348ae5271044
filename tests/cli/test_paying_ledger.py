"""Commands on accounts that need approval: a request is filed with its dry run, and no table is opened before."""

import json

import pytest

from rangebound.cli.app import run
from rangebound.ledger.book import Ledger
from rangebound.ledger.chain import EntryKind

PLAN = """
[source]
path = "visits.csv"
[budget]
epsilon = 0.5
account = "people"
ledger = "l.ledger"
[[query]]
name = "visits"
kind = "count"
"""
SELECT = "SELECT COUNT(*) AS visits FROM visits"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "visits.csv").write_text("wait,who\n1,a\n50.5,b\n3,c\n")
    (tmp_path / "plan.toml").write_text(PLAN)
    with Ledger.create(tmp_path / "l.ledger") as ledger:
        ledger.open_account("people", epsilon=1, approval=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def sealed_source(monkeypatch):
    """A source that must not be opened: whoever tries fails the test."""

    def opened(*_: object, **__: object) -> None:
        raise AssertionError("the source was opened")

    monkeypatch.setattr("rangebound.release.engine.open_engine.opened", opened)
    return monkeypatch


def command(capsys, *arguments):
    code = run([str(each) for each in arguments])
    return code, *capsys.readouterr()


def kinds(name="l.ledger"):
    with Ledger.open(name) as ledger:
        return [each.kind for each in ledger.history()][2:]


RELEASE = ["release", "plan.toml", "--request", "r1"]
SQL = ["sql", SELECT, "--plan", "plan.toml", "--request", "r1"]


@pytest.mark.parametrize("line", [RELEASE, SQL])
def test_a_request_is_filed_with_its_dry_run_and_nothing_is_opened(line, folder, sealed_source, capsys):
    code, out, err = command(capsys, *line)
    assert code == 3
    assert err.startswith("waiting: request='r1': account 'people' needs approval, and nothing was read or spent; ")
    assert err.count("\n") == 1
    assert "Spends epsilon 0.5 in all, from account 'people'." in out
    assert kinds() == [EntryKind.REQUEST]
    assert command(capsys, *line)[0] == 3  # asked again
    assert kinds() == [EntryKind.REQUEST]
    with Ledger.open("l.ledger") as ledger:
        filed = json.loads(ledger.dry_run("r1"))
    assert {"plan", "explained", "privacy", "queries", "warnings"} == set(filed)
    assert 'kind = "count"' in filed["plan"]


def test_control_the_source_is_opened_without_approval_elsewhere(folder, sealed_source, capsys):
    with Ledger.open("l.ledger") as ledger:
        ledger.open_account("free", epsilon=1)
    (folder / "plan.toml").write_text(PLAN.replace('"people"', '"free"'))
    for line in (RELEASE, SQL):
        code, _, err = command(capsys, *line)
        assert code == 2
        assert "AssertionError" in err


@pytest.mark.parametrize("line", [RELEASE, SQL])
def test_the_same_command_publishes_once_it_is_approved(line, folder, capsys):
    assert command(capsys, *line)[0] == 3
    code, out, _ = command(capsys, "ledger", "approve", "l.ledger", "r1", "--who", "berta", "--note", "fine")
    assert code == 0
    assert "approved" in out
    code, out, _ = command(capsys, *line, "-o", "t.json", "--certificate", "c.json")
    assert code == 0
    assert "spent epsilon 0.5" in out
    assert kinds() == [EntryKind.REQUEST, EntryKind.APPROVE, EntryKind.SPEND, EntryKind.PUBLISH]
    assert command(capsys, "verify", "c.json", "t.json", "--ledger", "l.ledger")[0] == 0
    code, out, _ = command(capsys, *line)
    assert code == 0
    assert "was published before" in out


@pytest.mark.parametrize("line", [RELEASE, SQL])
def test_a_plan_that_was_changed_after_approval_is_refused(line, folder, sealed_source, capsys):
    command(capsys, *line)
    command(capsys, "ledger", "approve", "l.ledger", "r1", "--who", "berta")
    (folder / "plan.toml").write_text(PLAN.replace("0.5", "0.75"))
    code, _, err = command(capsys, *line)
    assert code == 2
    assert "was used before for another account, cost or `what`" in err
    assert kinds() == [EntryKind.REQUEST, EntryKind.APPROVE]


def test_a_rejected_request_is_an_error_with_its_reason(folder, sealed_source, capsys):
    command(capsys, *RELEASE)
    code, out, _ = command(
        capsys, "ledger", "reject", "l.ledger", "r1", "--who", "berta", "--note", "too fine", "--json"
    )
    assert code == 0
    assert json.loads(out)[0]["status"] == "rejected"
    code, _, err = command(capsys, *RELEASE)
    assert code == 2
    assert "was rejected by 'berta' (too fine)" in err


def test_who_asks_does_not_approve_on_the_command_line(folder, sealed_source, capsys):
    command(capsys, *RELEASE)
    code, _, err = command(capsys, "ledger", "approve", "l.ledger", "r1")
    assert code == 2
    assert "must not approve; ask another person" in err
    assert kinds() == [EntryKind.REQUEST]


@pytest.mark.parametrize("line", [RELEASE, SQL])
def test_a_dry_run_opens_the_table_of_such_an_account_only_after_approval(line, folder, sealed_source, capsys):
    code, out, _ = command(capsys, *line, "--dry-run", "--json")
    assert code == 0
    assert json.loads(out)["approval"] == "needed"
    assert kinds() == []
    command(capsys, *line)
    command(capsys, "ledger", "approve", "l.ledger", "r1", "--who", "berta")
    assert command(capsys, *line, "--dry-run")[0] == 2  # control: now it would be opened
    sealed_source.undo()
    sealed_source.chdir(folder)
    code, out, _ = command(capsys, *line, "--dry-run", "--json")
    assert code == 0
    assert "approval" not in json.loads(out)


def test_a_dry_run_needs_no_ledger_and_no_key(folder, capsys):
    (folder / "l.ledger.key").unlink()
    assert command(capsys, *RELEASE, "--dry-run")[0] == 0
    (folder / "l.ledger").unlink()
    assert command(capsys, *RELEASE, "--dry-run")[0] == 0


def test_as_json_the_request_says_that_it_waits(folder, sealed_source, capsys):
    code, out, _ = command(capsys, *RELEASE, "--json")
    data = json.loads(out)
    assert code == 3
    assert (data["status"], data["request"], data["account"]) == ("waiting", "r1", "people")


def test_a_plan_that_cannot_be_released_is_not_filed(folder, sealed_source, capsys):
    (folder / "plan.toml").write_text(PLAN.replace("0.5", "1.5"))
    code, _, err = command(capsys, *RELEASE)
    assert code == 2
    assert "exceeds what account 'people' has left" in err
    (folder / "plan.toml").write_text(PLAN.replace('"people"', '"nobody"'))
    assert command(capsys, *RELEASE)[0] == 2
    assert kinds() == []


def test_requests_are_listed_and_shown(folder, sealed_source, capsys):
    command(capsys, *RELEASE)
    code, out, _ = command(capsys, "ledger", "requests", "l.ledger")
    assert code == 0
    assert out.splitlines()[1].split()[:3] == ["r1", "people", "epsilon"]
    code, out, _ = command(capsys, "ledger", "requests", "l.ledger", "--request", "r1")
    assert "Protects every single row" in out
    data = json.loads(command(capsys, "ledger", "requests", "l.ledger", "--request", "r1", "--json")[1])
    assert data["dry_run"]["queries"][0]["query"] == "visits"
    command(capsys, "ledger", "approve", "l.ledger", "r1", "--who", "berta")
    assert "r1" not in command(capsys, "ledger", "requests", "l.ledger")[1]
    assert "approved" in command(capsys, "ledger", "requests", "l.ledger", "--all")[1]
    for wrong in (["--request", "r2"], ["--account", "nobody"]):
        assert command(capsys, "ledger", "requests", "l.ledger", *wrong)[0] == 2


def test_a_dry_run_of_other_programs_is_shown_as_it_is(folder, capsys):
    with Ledger.open("l.ledger") as ledger:
        ledger.open_account("others", epsilon=1, approval=True)
        for name, data in (("text", b"ten steps\x1b[31m"), ("list", b"[1, 2]"), ("noise", b"\xff")):
            cost = ledger.account("others").total
            ledger.file_request(account="others", request=name, cost=cost, dry_run=data)
    out = command(capsys, "ledger", "requests", "l.ledger", "--request", "text")[1]
    assert "ten steps\\x1b[31m" in out
    assert command(capsys, "ledger", "requests", "l.ledger", "--request", "list", "--json")[0] == 0
    assert command(capsys, "ledger", "requests", "l.ledger", "--request", "list")[0] == 0
    assert command(capsys, "ledger", "requests", "l.ledger", "--request", "noise")[0] == 0
    code, _, err = command(capsys, "ledger", "requests", "l.ledger", "--request", "text", "--account", "people")
    assert code == 2
    assert "is of another account" in err


def test_an_account_is_opened_with_approval_and_shows_it(folder, capsys):
    line = ["ledger", "open", "l.ledger", "board", "--epsilon", "1", "--approval"]
    code, out, _ = command(capsys, *line, "anyone")
    assert code == 0
    assert "board needs approval by anyone" in out
    assert "people needs approval by another person" in command(capsys, "ledger", "show", "l.ledger")[1]
    assert command(capsys, *line, "boss")[2].startswith("error: approval='boss': must be")


PROMISE = "all releases charged in one quarter together are (1, 0)-private. Over k quarters they are k times that"


@pytest.fixture
def quarterly(folder):
    with Ledger.open("l.ledger") as ledger:
        ledger.open_account("board", epsilon=1, period="quarter")
    (folder / "plan.toml").write_text(PLAN.replace('"people"', '"board"'))
    return folder


@pytest.mark.parametrize(
    "line",
    [
        [*RELEASE, "--dry-run"],
        [*RELEASE, "--dry-run", "--json"],
        [*SQL, "--dry-run"],
        ["plan", "explain", "plan.toml"],
        ["ledger", "show", "l.ledger"],
        ["ledger", "show", "l.ledger", "--json"],
        RELEASE,
        [*RELEASE, "--json"],
        SQL,
    ],
)
def test_every_command_states_the_weaker_promise_of_periods(line, quarterly, capsys):
    code, out, _ = command(capsys, *line)
    assert code == 0
    assert PROMISE in out
    (quarterly / "plan.toml").write_text(PLAN.replace('"people"', '"once"'))
    with Ledger.create("once.ledger") as ledger:  # control
        ledger.open_account("once", epsilon=1)
    once = ["--ledger", "once.ledger"] if line[0] in ("release", "sql") else []
    code, out, _ = command(capsys, *[each.replace("l.ledger", "once.ledger") for each in line], *once)
    assert code == 0
    assert "times that" not in out


def test_what_is_left_names_the_period_and_verify_repeats_the_promise(quarterly, capsys):
    code, out, _ = command(capsys, *RELEASE, "-o", "t.json", "--certificate", "c.json")
    assert code == 0
    assert "account 'board' has epsilon 0.5 left in 20" in out
    code, out, _ = command(capsys, "verify", "c.json", "t.json", "--ledger", "l.ledger")
    assert code == 0
    assert PROMISE in out
    assert PROMISE in json.loads(command(capsys, "verify", "c.json", "t.json", "--json")[1])["promise"]
    out = command(capsys, "ledger", "show", "l.ledger", "--account", "board")[1]
    assert "epsilon 1, delta 0 each quarter" in out
    assert "Spent in 1 quarter so far; what is left is of 20" in out
    line = ["release", "plan.toml", "--request"]
    assert command(capsys, *line, "r2")[0] == 0
    code, _, err = command(capsys, *line, "r3")
    assert code == 2
    assert "; nothing was spent; the next quarter begins on 20" in err


def test_an_account_is_opened_for_each_period(folder, capsys):
    line = ["ledger", "open", "l.ledger", "yearly", "--epsilon", "1", "--period"]
    assert "for each year (UTC)" in command(capsys, *line, "year")[1]
    assert command(capsys, *line, "week")[2].startswith("error: period='week': must be")
