"""Commands on accounts that need approval: a request is filed with its dry run, and no table is opened before."""

import json

import pytest

from rangebound.ledger.book import Ledger
from rangebound.ledger.chain import EntryKind
from tests.cli.visits import PLAN

PLAN = PLAN.replace("people.ledger", "l.ledger")
RELEASE = ["release", "plan.toml", "--request", "r1"]
SQL = ["sql", "SELECT COUNT(*) AS visits FROM visits", "--plan", "plan.toml", "--request", "r1"]
BOTH = pytest.mark.parametrize("line", [RELEASE, SQL], ids=["release", "sql"])


@pytest.fixture(autouse=True)
def account(folder):
    """An account that needs approval, which the plan names."""
    (folder / "plan.toml").write_text(PLAN)
    with Ledger.create("l.ledger") as ledger:
        ledger.open_account("people", epsilon=1, approval=True)


@pytest.fixture
def sealed_source(monkeypatch):
    """A source that must not be opened: whoever tries fails the test."""

    def opened(*_: object, **__: object) -> None:
        raise AssertionError("the source was opened")

    monkeypatch.setattr("rangebound.release.engine.opened", opened)
    return monkeypatch


def kinds():
    with Ledger.open("l.ledger") as ledger:
        return [each.kind for each in ledger.history()][2:]


@BOTH
def test_a_request_is_filed_with_its_dry_run_and_nothing_is_opened(line, folder, sealed_source, command):
    code, out, err = command(*line)
    assert code == 3
    assert err.startswith("waiting: request='r1': account 'people' needs approval, and nothing was read or spent; ")
    assert err.count("\n") == 1
    assert "Spends epsilon 0.5 in all, from account 'people'." in out
    assert kinds() == [EntryKind.REQUEST]
    code, out, _ = command(*line, "--json")  # asked again
    data = json.loads(out)
    assert (code, data["status"], data["request"], data["account"]) == (3, "waiting", "r1", "people")
    assert kinds() == [EntryKind.REQUEST]
    with Ledger.open("l.ledger") as ledger:
        filed = json.loads(ledger.dry_run("r1"))
    assert {"plan", "explained", "privacy", "queries", "warnings"} == set(filed)
    assert 'kind = "count"' in filed["plan"]


def test_control_the_source_is_opened_without_approval_elsewhere(folder, sealed_source, command):
    with Ledger.open("l.ledger") as ledger:
        ledger.open_account("free", epsilon=1)
    (folder / "plan.toml").write_text(PLAN.replace('"people"', '"free"'))
    for line in (RELEASE, SQL):
        code, _, err = command(*line)
        assert code == 2
        assert "AssertionError" in err


@BOTH
def test_the_same_command_publishes_once_it_is_approved(line, folder, done, command):
    assert command(*line)[0] == 3
    assert "approved" in done("ledger", "approve", "l.ledger", "r1", "--who", "berta", "--note", "fine")
    assert "spent epsilon 0.5" in done(*line, "-o", "t.json", "--certificate", "c.json")
    assert kinds() == [EntryKind.REQUEST, EntryKind.APPROVE, EntryKind.SPEND, EntryKind.PUBLISH]
    done("verify", "c.json", "t.json", "--ledger", "l.ledger")
    assert "was published before" in done(*line)


def test_a_rejected_request_is_an_error_with_its_reason(sealed_source, done, refused, command):
    command(*RELEASE)
    out = done("ledger", "reject", "l.ledger", "r1", "--who", "berta", "--note", "too fine", "--json")
    assert json.loads(out)[0]["status"] == "rejected"
    assert "was rejected by 'berta' (too fine)" in refused(*RELEASE)


@BOTH
def test_a_dry_run_opens_the_table_of_such_an_account_only_after_approval(line, folder, sealed_source, done, command):
    assert json.loads(done(*line, "--dry-run", "--json"))["approval"] == "needed"
    assert kinds() == []
    command(*line)
    command("ledger", "approve", "l.ledger", "r1", "--who", "berta")
    assert command(*line, "--dry-run")[0] == 2  # control: now it would be opened
    sealed_source.undo()
    sealed_source.chdir(folder)
    assert "approval" not in json.loads(done(*line, "--dry-run", "--json"))


def test_a_dry_run_needs_no_ledger_and_no_key(folder, done):
    (folder / "l.ledger.key").unlink()
    done(*RELEASE, "--dry-run")
    (folder / "l.ledger").unlink()
    done(*RELEASE, "--dry-run")


def test_a_plan_that_cannot_be_released_is_not_filed(folder, sealed_source, refused, command):
    (folder / "plan.toml").write_text(PLAN.replace("0.5", "1.5"))
    assert "exceeds what account 'people' has left" in refused(*RELEASE)
    (folder / "plan.toml").write_text(PLAN.replace('"people"', '"nobody"'))
    assert command(*RELEASE)[0] == 2
    assert kinds() == []


def test_requests_are_listed_and_shown(folder, sealed_source, done, command):
    command(*RELEASE)
    out = done("ledger", "requests", "l.ledger")
    assert out.splitlines()[1].split()[:3] == ["r1", "people", "epsilon"]
    assert "Protects every single row" in done("ledger", "requests", "l.ledger", "--request", "r1")
    data = json.loads(done("ledger", "requests", "l.ledger", "--request", "r1", "--json"))
    assert data["dry_run"]["queries"][0]["query"] == "visits"
    command("ledger", "approve", "l.ledger", "r1", "--who", "berta")
    assert "r1" not in done("ledger", "requests", "l.ledger")
    assert "approved" in done("ledger", "requests", "l.ledger", "--all")
    for wrong in (["--request", "r2"], ["--account", "nobody"]):
        assert command("ledger", "requests", "l.ledger", *wrong)[0] == 2


def test_a_dry_run_of_other_programs_is_shown_as_it_is(folder, done, refused):
    with Ledger.open("l.ledger") as ledger:
        ledger.open_account("others", epsilon=1, approval=True)
        for name, data in (("text", b"ten steps\x1b[31m"), ("list", b"[1, 2]"), ("noise", b"\xff")):
            cost = ledger.account("others").total
            ledger.file_request(account="others", request=name, cost=cost, dry_run=data)
    assert "ten steps\\x1b[31m" in done("ledger", "requests", "l.ledger", "--request", "text")
    for words in (["list", "--json"], ["list"], ["noise"]):
        done("ledger", "requests", "l.ledger", "--request", *words)
    line = ["ledger", "requests", "l.ledger", "--request", "text", "--account", "people"]
    assert "is of another account" in refused(*line)


def test_an_account_is_opened_with_approval_or_for_each_period(done, refused):
    line = ["ledger", "open", "l.ledger", "board", "--epsilon", "1"]
    assert refused(*line, "--approval", "boss").startswith("error: approval='boss': must be")
    assert refused(*line, "--period", "week").startswith("error: period='week': must be")
    out = done(*line, "--approval", "anyone", "--period", "year")
    assert "board needs approval by anyone" in out
    assert "for each year (UTC)" in out
    assert "people needs approval by another person" in done("ledger", "show", "l.ledger")


PROMISE = "all releases charged in one quarter together are (1, 0)-private. Over k quarters they are k times that"


@pytest.fixture
def quarterly(folder):
    with Ledger.open("l.ledger") as ledger:
        ledger.open_account("board", epsilon=1, period="quarter")
    (folder / "plan.toml").write_text(PLAN.replace('"people"', '"board"'))
    return folder


@pytest.mark.few(3)
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
def test_every_command_states_the_weaker_promise_of_periods(line, quarterly, done):
    assert PROMISE in done(*line)
    (quarterly / "plan.toml").write_text(PLAN.replace('"people"', '"once"'))
    with Ledger.create("once.ledger") as ledger:  # control
        ledger.open_account("once", epsilon=1)
    once = ["--ledger", "once.ledger"] if line[0] in ("release", "sql") else []
    assert "times that" not in done(*[each.replace("l.ledger", "once.ledger") for each in line], *once)


def test_what_is_left_names_the_period_and_verify_repeats_the_promise(quarterly, done, refused):
    assert "account 'board' has epsilon 0.5 left in 20" in done(*RELEASE, "-o", "t.json", "--certificate", "c.json")
    assert PROMISE in done("verify", "c.json", "t.json", "--ledger", "l.ledger")
    assert PROMISE in json.loads(done("verify", "c.json", "t.json", "--json"))["promise"]
    out = done("ledger", "show", "l.ledger", "--account", "board")
    assert "epsilon 1, delta 0 each quarter" in out
    assert "Spent in 1 quarter so far; what is left is of 20" in out
    line = ["release", "plan.toml", "--request"]
    done(*line, "r2")
    assert "; nothing was spent; the next quarter begins on 20" in refused(*line, "r3")
