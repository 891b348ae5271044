"""The roles of a team, enforced by the database: what each login may do by SQL of its own, past the library."""

import itertools
from pathlib import Path

import psycopg
import pytest

from rangebound.errors import ApprovalNeeded, ArgumentError, LedgerTampered, LedgerUnavailable, RequestConflict
from rangebound.ledger import Ledger, postgres_schema, requests, verify
from rangebound.ledger.chain import EntryKind
from rangebound.ledger.export import move
from rangebound.ledger.postgres_schema import ROLES, WRITES
from tests.ledger.postgres import fresh_address, schema_of
from tests.ledger.rules import TENTH

KINDS = [*(each.value for each in EntryKind), "another"]
FORBIDDEN = {
    "update": "UPDATE {s}.entries SET first = 0",
    "delete": "DELETE FROM {s}.entries",
    "truncate": "TRUNCATE {s}.entries",
    "update bytes": "UPDATE {s}.payloads SET bytes = ''",
    "delete bytes": "DELETE FROM {s}.payloads",
    "truncate bytes": "TRUNCATE {s}.payloads",
    "no trigger": "ALTER TABLE {s}.entries DISABLE TRIGGER ALL",
    "no policies": "ALTER TABLE {s}.entries DISABLE ROW LEVEL SECURITY",
    "drop a policy": "DROP POLICY by_analyst ON {s}.entries",
    "a policy of one's own": "CREATE POLICY mine ON {s}.entries FOR INSERT WITH CHECK (true)",
    "drop a trigger": "DROP TRIGGER added ON {s}.entries",
    "a trigger of one's own": "CREATE TRIGGER mine BEFORE INSERT ON {s}.entries EXECUTE FUNCTION {s}.added()",
    "another function": "CREATE OR REPLACE FUNCTION {s}.added() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN END'",
    "drop": "DROP TABLE {s}.entries CASCADE",
    "drop the schema": "DROP SCHEMA {s} CASCADE",
    "rename": "ALTER TABLE {s}.entries RENAME TO other",
    "another table": "CREATE TABLE {s}.more ()",
    "own it": "ALTER TABLE {s}.entries OWNER TO session_user",
    "past the triggers": "SET session_replication_role = replica",
    "be the keeper": "SET ROLE {s}_keeper",
    "a role for oneself": "GRANT {s}_owner TO session_user",
    "give rights": "GRANT UPDATE ON {s}.entries TO session_user; UPDATE {s}.entries SET first = 0",
    "lock": "LOCK TABLE {s}.entries IN ACCESS EXCLUSIVE MODE",
}
INSERT = "INSERT INTO {s}.entries (seq, time, kind, who, what, note, seal) VALUES ({n}, 0, '{k}', {w}, '', '', '')"
NEXT = "(SELECT max(seq) + 1 FROM {s}.entries)"
_NUMBER = itertools.count()


@pytest.fixture(scope="session")
def team(postgres, tmp_path_factory):
    """A ledger with roles, a login for each, one without, and the superuser; and the key."""
    address, folder = fresh_address(postgres), tmp_path_factory.mktemp("team")
    key = folder / "ledger.key"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(folder))
        with Ledger.create(address, key=key, roles=True) as ledger:
            ledger.open_account("people", epsilon=1)
            ledger.open_account("guarded", epsilon=1, approval=True)
            ledger.release(account="people", request="first", cost=TENTH, compute=lambda _: b"x")
    logins = {role: f"{role}_{next(_NUMBER)}_{schema_of(address)}" for role in (*ROLES, "outsider")}
    with psycopg.connect(postgres, autocommit=True) as admin:
        for role, login in logins.items():
            member = f" IN ROLE {schema_of(address)}_{role}" if role in ROLES else ""
            admin.execute(f"CREATE ROLE {login} LOGIN{member}")
    return Team(address, key, logins)


class Team:
    def __init__(self, address: str, key: Path, logins: dict[str, str]) -> None:
        self.address, self.key, self.logins, self.schema = address, key, logins, schema_of(address)

    def place(self, role: str) -> str:
        return self.address.replace("//postgres@", f"//{self.logins.get(role, role)}@")

    def opened(self, role: str) -> Ledger:
        return Ledger.open(self.place(role), key=self.key)

    def raw(self, role: str, statement: str) -> None:
        """Run SQL as a role, and undo it."""
        address = self.place(role).partition("&schema=")[0]
        with psycopg.connect(address) as connection:
            connection.execute(statement.format(s=self.schema))
            connection.rollback()

    def insert(self, kind: str, *, number: str = NEXT, who: str = "session_user") -> str:
        return INSERT.format(s=self.schema, n=number.format(s=self.schema), k=kind, w=who)


@pytest.mark.parametrize("role", [*ROLES, "outsider"])
def test_nobody_rewrites_or_reaches_around(team, role):
    for name, statement in FORBIDDEN.items():
        with pytest.raises(psycopg.Error) as caught:
            team.raw(role, statement)
        assert caught.value.sqlstate in ("42501", "42P17", "2BP01"), (name, caught.value)


def test_control_the_statements_are_right_and_the_superuser_may(team):
    refused = []
    for name, statement in FORBIDDEN.items():
        try:
            team.raw("postgres", statement)
        except psycopg.Error as error:
            refused.append((name, error.sqlstate))
    assert {state for _, state in refused} <= {"RB001", "0LP01"}, refused  # by our own triggers
    assert len(refused) <= 7


@pytest.mark.parametrize("role", [*ROLES, "outsider"])
def test_a_role_adds_its_own_kinds_and_no_other(team, role):
    allowed = []
    for kind in KINDS:
        try:
            team.raw(role, team.insert(kind))
            allowed.append(kind)
        except psycopg.errors.InsufficientPrivilege:
            continue
    assert sorted(allowed) == sorted(WRITES.get(role, ()))


@pytest.mark.parametrize("role", list(WRITES))
def test_an_entry_bears_the_name_of_the_login_and_is_the_next_one(team, role):
    kind = WRITES[role][0]
    for who in ("'postgres'", f"'{team.logins['owner']}x'", "''", "session_user || 'x'", "'x/' || session_user"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            team.raw(role, team.insert(kind, who=who))
    for who in ("session_user", "session_user || '/anna'"):  # the control
        team.raw(role, team.insert(kind, who=who))
    for number in ("1", "3", f"{NEXT} + 1", "0", "-1"):
        with pytest.raises(psycopg.Error) as caught:
            team.raw(role, team.insert(kind, number=number))
        assert caught.value.sqlstate == "RB001"


def test_bytes_belong_to_the_last_entry_of_the_same_login(team):
    store = "INSERT INTO {s}.payloads SELECT max(seq), 'x' FROM {s}.entries"
    own = team.insert("publish").replace("note, seal", "note, seal, digest").replace("'', '')", "'', '', sha256('x'))")
    team.raw("analyst", f"{own}; {store}")  # the control
    for role, statement in (
        ("analyst", store.replace("'x'", "'y'")),
        ("analyst", f"{own}; {store.replace(chr(39) + 'x', chr(39) + 'y')}"),
        ("analyst", "INSERT INTO {s}.payloads VALUES (3, 'x')"),
        *((role, store) for role in ("owner", "approver", "auditor", "outsider")),
    ):
        with pytest.raises(psycopg.Error) as caught:
            team.raw(role, statement)
        assert caught.value.sqlstate in ("RB001", "42501"), (role, statement)


def test_operators_of_ones_own_do_not_fool_the_triggers(team, postgres):
    """An analyst who may make a schema puts another `=` before PostgreSQL's."""
    login = team.logins["analyst"]
    with psycopg.connect(postgres, autocommit=True) as admin:
        admin.execute(f"CREATE SCHEMA {login}_own AUTHORIZATION {login}")
    setup = f"""
        CREATE FUNCTION {login}_own.yes(bigint, bigint) RETURNS boolean LANGUAGE sql AS 'SELECT true';
        CREATE OPERATOR {login}_own.= (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = {login}_own.yes);
        SET LOCAL search_path = {login}_own, pg_catalog; """
    with pytest.raises(psycopg.Error) as caught:
        team.raw("analyst", setup + team.insert("spend", number="3"))
    assert caught.value.sqlstate == "RB001"


def test_each_does_their_work_and_no_other_by_the_library(team):
    spend = {"account": "people", "cost": TENTH}
    asked = {"account": "guarded", "request": "asked", "cost": TENTH}
    with team.opened("owner") as owner, team.opened("analyst") as analyst, team.opened("approver") as approver:
        owner.open_account("more", epsilon=1)
        assert analyst.release(request="1", compute=lambda _: b"42", **spend) == b"42"
        analyst.file_request(dry_run=b"{}", **asked)
        with pytest.raises(ArgumentError, match="must not approve"):
            analyst.approve("asked")
        approver.approve("asked")
        assert analyst.release(compute=lambda _: b"43", **asked) == b"43"
        with team.opened("auditor") as auditor:
            assert auditor.published("1") == b"42"
            roles = ["analyst", "analyst", "analyst", "approver", "analyst", "analyst"]
            assert [each.who for each in auditor.history()[-6:]] == [team.logins[role] for role in roles]
            for ledger, name in ((auditor, "a"), (approver, "b"), (owner, "c")):
                with pytest.raises(LedgerUnavailable, match="does not allow"):
                    ledger.release(request=name, compute=lambda _: pytest.fail("computed"), **spend)
            for ledger in (auditor, approver, analyst):
                with pytest.raises(LedgerUnavailable, match="does not allow"):
                    ledger.open_account("another", epsilon=1)
            auditor.verify()
    assert verify(team.place("auditor"), key=team.key).entries > 8
    with pytest.raises(LedgerUnavailable, match=r"does not allow|may not see"):
        team.opened("outsider")


SELF = {"account": "guarded", "cost": TENTH}


def login_with(postgres, address, *roles):
    """The address of a new login with some roles of a ledger."""
    name = f"login_{next(_NUMBER)}_{schema_of(address)}"
    with psycopg.connect(postgres, autocommit=True) as admin:
        members = ", ".join(f"{schema_of(address)}_{role}" for role in roles)
        admin.execute(f"CREATE ROLE {name} LOGIN IN ROLE {members}")
    return address.replace("//postgres@", f"//{name}@")


def test_one_login_does_not_approve_its_own_request_under_two_names(team, postgres):
    with team.opened("owner") as owner:
        owner.open_account("open", epsilon=1, approval="anyone")
    with Ledger.open(login_with(postgres, team.address, "analyst", "approver"), key=team.key) as twin:
        twin.file_request(request="self", dry_run=b"x", who="x", **SELF)
        with pytest.raises(LedgerUnavailable, match="must not approve it, whatever names"):
            twin.approve("self", who="y")
        with pytest.raises(ApprovalNeeded):
            twin.release(request="self", compute=lambda _: pytest.fail("computed"), who="x", **SELF)
        twin.file_request(request="own", dry_run=b"x", who="x", **{**SELF, "account": "open"})
        twin.approve("own", who="y")  # where anyone may
        with team.opened("approver") as other:
            other.approve("self")  # the control
        assert twin.release(request="self", compute=lambda _: b"s", who="x", **SELF) == b"s"
    with Ledger.open(login_with(postgres, team.address, "service"), key=team.key) as service:
        service.file_request(request="served", dry_run=b"x", who="anna", **SELF)
        with pytest.raises(ArgumentError, match="must not approve"):
            service.approve("served", who="Anna")
        service.approve("served", who="berta")
        report = service.verify()
        last = service.history()[-1]
        assert (last.who.partition("/")[2], report.one_login[-1]) == ("berta", last.seq)


def test_nobody_completes_the_charge_of_another_login(team, postgres, monkeypatch):
    asked = {"account": "people", "request": "pending", "cost": TENTH}
    with Ledger.open(login_with(postgres, team.address, "analyst"), key=team.key) as one:
        reservation = one.reserve(**asked)
        with team.opened("analyst") as another:
            with pytest.raises(RequestConflict, match="whose login alone may complete it"):
                another.release(compute=lambda _: pytest.fail("computed"), **asked)
            for payload in (b"forged", "not bytes"):  # bytes, and a failure
                with pytest.raises(RequestConflict, match="whose login alone may complete it"):
                    another.publish(reservation, payload)
                with monkeypatch.context() as patch:  # past the check of the library
                    patch.setattr(requests, "of_another", lambda *_: False)
                    with pytest.raises(LedgerUnavailable, match="one of another login"):
                        another.publish(reservation, payload)
        assert one.release(compute=lambda _: b"true", **asked) == b"true"
        with team.opened("analyst") as another:
            assert another.release(compute=lambda _: pytest.fail("computed"), **asked) == b"true"
            assert not another.verify().by_another


def test_nobody_takes_up_the_approved_request_of_another_login(team, postgres, monkeypatch):
    asked = {"request": "theirs", **SELF}
    with Ledger.open(login_with(postgres, team.address, "analyst"), key=team.key) as one:
        one.file_request(dry_run=b"x", **asked)
        with team.opened("approver") as other:
            other.approve("theirs")
        with team.opened("analyst") as another:
            with pytest.raises(RequestConflict, match="for whom alone it is approved"):
                another.release(compute=lambda _: pytest.fail("computed"), **asked)
            with monkeypatch.context() as patch:  # past the check of the library
                patch.setattr(requests, "of_another", lambda *_: False)
                with pytest.raises(LedgerUnavailable, match="one of another login"):
                    another.reserve(**asked)
            assert one.release(compute=lambda _: b"true", who="me", **asked) == b"true"  # the control
            assert another.release(compute=lambda _: pytest.fail("computed"), **asked) == b"true"  # it is public now
            one.file_request(request="theirs too", dry_run=b"x", **SELF)
            own = {"account": "people", "request": "theirs too", "cost": TENTH}  # not what was asked for
            assert another.release(compute=lambda _: b"own", **own) == b"own"
            assert not another.verify().taken_up


APPROVAL = """SET ROLE {s}_approver;
    INSERT INTO {s}.entries (seq, time, kind, account, request, ref, who, what, note, seal)
    SELECT (SELECT max(seq) + 1 FROM {s}.entries), 0, 'approve', account, request, seq, session_user || '/y', '', '', ''
    FROM {s}.entries WHERE request = 'raw'"""


def test_another_role_by_sql_is_the_same_login(team, postgres):
    address = login_with(postgres, team.address, "analyst", "approver")
    with Ledger.open(address, key=team.key) as twin:
        twin.file_request(request="raw", dry_run=b"x", who="x", **SELF)
    team.raw("approver", APPROVAL)  # the control
    with psycopg.connect(address.partition("&schema=")[0]) as own, pytest.raises(psycopg.Error) as caught:
        own.execute(APPROVAL.format(s=team.schema))
    assert caught.value.sqlstate == "RB002"


def test_what_was_begun_in_a_file_goes_on_in_a_database_by_any_login(postgres, address, tmp_path, monkeypatch):
    """Names in a file are as stated: those of computers, while logins have others."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    path, key, back = tmp_path / "a.ledger", tmp_path / "a.key", tmp_path / "b.ledger"
    with Ledger.create(path, key=key) as made:
        made.open_account("guarded", epsilon=1, approval=True)
        made.open_account("people", epsilon=1)
        for name in ("a", "b"):
            made.file_request(request=name, dry_run=b"x", who="laptop/anna", **SELF)
        made.approve("a", who="laptop/paul")
        made.release(request="a", compute=lambda _: b"a", who="laptop/bert", **SELF)
        made.approve("b", who="laptop/paul")
        made.reserve(account="people", request="pending", cost=TENTH, who="")
        spent = made.history()[-4]
        report = made.verify()
    assert (report.not_told, report.one_login, report.taken_up) == ((spent.seq,), (), ())
    move(path, address, key=key, roles=True).close()
    assert verify(path, key=key).not_told == verify(address, key=key).not_told == (spent.seq,)
    anna, bert = (login_with(postgres, address, "analyst") for _ in range(2))
    with Ledger.open(anna, key=key) as one, Ledger.open(bert, key=key) as another:
        assert one.release(request="b", compute=lambda _: b"b", **SELF) == b"b"
        assert one.release(account="people", request="pending", cost=TENTH, compute=lambda _: b"p") == b"p"
        first, _, second = one.history()[-3:]
        one.reserve(account="people", request="here", cost=TENTH)
        for _ in range(2):  # the control: here a login is known; also past the check of the library
            with pytest.raises((RequestConflict, LedgerUnavailable), match="login"):
                another.release(account="people", request="here", cost=TENTH, compute=lambda _: b"forged")
            monkeypatch.setattr(requests, "of_another", lambda *_: False)
    with move(address, back, key=key) as ledger:
        assert ledger.release(account="people", request="here", cost=TENTH, compute=lambda _: b"h", who="x") == b"h"
        third, report = ledger.history()[-1], ledger.verify()
    assert report.not_told == tuple(each.seq for each in (spent, first, second, third))
    assert (report.by_another, report.one_login, report.taken_up) == ((), (), ())


def test_an_owner_does_not_say_that_entries_came_from_a_file(team):
    """After such an entry the logins before it would be names that were stated."""
    words = team.insert("move").replace("'', '', '')", "'{}', '', '')")
    team.raw("owner", words.format("file"))  # the control
    with pytest.raises(psycopg.Error) as caught:
        team.raw("owner", words.format("postgres"))
    assert caught.value.sqlstate == "RB001"


def test_a_ledger_of_version_0_2_is_opened_and_verification_tells_who_did_what(
    postgres, address, tmp_path, monkeypatch
):
    monkeypatch.setitem(postgres_schema._FUNCTIONS, "added", postgres_schema._SQL["added by 0.2"])
    monkeypatch.setattr(postgres_schema, "_OF_ROLES", {})
    key = tmp_path / "a.key"
    with Ledger.create(address, key=key, roles=True) as made:
        made.open_account("guarded", epsilon=1, approval=True)
        made.open_account("people", epsilon=1)
    monkeypatch.undo()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    twin, anna = (login_with(postgres, address, *roles) for roles in (("analyst", "approver"), ("analyst",)))
    with Ledger.open(twin, key=key) as one, Ledger.open(anna, key=key) as another:
        one.file_request(request="self", dry_run=b"x", who="x", **SELF)
        one.approve("self", who="y")
        reservation = one.reserve(account="people", request="pending", cost=TENTH)
        monkeypatch.setattr(requests, "of_another", lambda *_: False)  # as version 0.2 did
        another.publish(reservation, b"forged")
        another.release(request="self", compute=lambda _: b"taken", **SELF)
        report, (*_, approved, _, published, spent, _) = another.verify(), another.history()
        assert (report.one_login, report.by_another) == ((approved.seq,), (published.seq,))
        assert (report.taken_up, report.not_told) == ((spent.seq,), ())
        one.file_request(request="own", dry_run=b"x", who="x", **SELF)
        one.approve("own", who="y")
        one.release(request="own", compute=lambda _: b"own", who="x", **SELF)
        assert one.verify().taken_up == (spent.seq,)  # the control
        one.file_request(request="stated", dry_run=b"x", who="x", **SELF)
        one.approve("stated", who="y")
        one.release(request="stated", compute=lambda _: b"z", who="z", **SELF)
        *_, stated, completed = one.history()
        assert (stated.who.rpartition("/")[2], one.verify().not_told) == ("z", (stated.seq,))
        assert completed.who == stated.who


def test_names_of_roles_are_taken_once(team, postgres, tmp_path):
    name = f"x{schema_of(team.address)}"
    with psycopg.connect(postgres, autocommit=True) as admin:
        admin.execute(f"CREATE ROLE {name}_owner")
    with pytest.raises(ArgumentError, match="a role"):
        Ledger.create(team.address.replace(team.schema, name), key=tmp_path / "a.key", roles=True)
    with pytest.raises(ArgumentError, match="needs a ledger in PostgreSQL"):
        Ledger.create(tmp_path / "a.ledger", roles=True)


CHANGES = {
    "trigger": "CREATE TRIGGER more AFTER INSERT ON {s}.entries FOR EACH ROW EXECUTE FUNCTION {s}.added()",
    "disabled": "ALTER TABLE {s}.entries DISABLE TRIGGER added",
    "body": "CREATE OR REPLACE FUNCTION {s}.added() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'",
    "unlogged": "ALTER TABLE {s}.entries SET UNLOGGED",
    "rule": "CREATE RULE other AS ON INSERT TO {s}.payloads DO INSTEAD NOTHING",
    "child": "CREATE TABLE {s}.child () INHERITS ({s}.entries)",
    "column": "ALTER TABLE {s}.entries ADD COLUMN more text",
    "type": "ALTER TABLE {s}.payloads ALTER COLUMN seq TYPE integer",
    "index": "DROP INDEX {s}.requests",
    "table": "CREATE TABLE {s}.more ()",
    "no force": "ALTER TABLE {s}.entries NO FORCE ROW LEVEL SECURITY",
    "no policies": "ALTER TABLE {s}.entries DISABLE ROW LEVEL SECURITY",
    "a policy less": "DROP POLICY by_owner ON {s}.entries",
    "a policy more": "CREATE POLICY mine ON {s}.entries FOR INSERT WITH CHECK (true)",
    "another policy": "ALTER POLICY by_owner ON {s}.entries TO {s}_auditor",
}


@pytest.mark.few(8)
@pytest.mark.parametrize("change", CHANGES)
def test_other_tables_triggers_rules_and_policies_are_refused(postgres, address, tmp_path, change):
    key = tmp_path / "a.key"
    roles = "polic" in change or change == "no force"
    Ledger.create(address, key=key, roles=roles).close()
    Ledger.open(address, key=key).close()  # the control
    with psycopg.connect(postgres, autocommit=True) as admin:
        admin.execute(CHANGES[change].format(s=schema_of(address)))
    for call in (Ledger.open, verify):
        with pytest.raises(LedgerTampered, match="other tables"):
            call(address, key=key)
