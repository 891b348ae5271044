"""The store in PostgreSQL: addresses, tables, keys and heads of a client, and what is refused."""

import os
import threading
import time

import psycopg
import pytest

from rangebound.errors import ArgumentError, LedgerTampered, LedgerUnavailable
from rangebound.ledger import Ledger, ledger_files, verify
from rangebound.ledger.head import VARIABLE
from rangebound.ledger.postgres_place import PostgresPlace, postgres_place
from rangebound.ledger.postgres_store import PostgresStore
from rangebound.ledger.store import ConnectionLost
from rangebound.ledger.user_folder import user_folder
from tests.ledger.postgres import schema_of
from tests.ledger.processes import script
from tests.ledger.rules import TENTH


@pytest.fixture
def path(address):
    return address


@pytest.fixture
def schema(address):
    return schema_of(address)


@pytest.fixture
def raw(postgres):
    """A connection of the superuser, past the ledger."""
    with psycopg.connect(postgres, autocommit=True) as connection:
        yield connection


@pytest.fixture
def key_file(ledger):
    return user_folder("key") / f"{ledger._chain.state.name}.key"


def spend(ledger, name):
    return ledger.reserve(account="people", request=name, cost=TENTH)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("postgresql://host/db", PostgresPlace(address="postgresql://host/db", schema="rangebound")),
        ("postgresql://host/db?schema=a_1", PostgresPlace(address="postgresql://host/db", schema="a_1")),
        (
            "postgresql://host/db?connect_timeout=3&schema=b&sslmode=require",
            PostgresPlace(address="postgresql://host/db?connect_timeout=3&sslmode=require", schema="b"),
        ),
        ("service=office?schema=census", PostgresPlace(address="service=office", schema="census")),
        ("service=office", PostgresPlace(address="service=office", schema="rangebound")),
    ],
)
def test_an_address_names_a_schema_of_a_database(text, meant):
    assert postgres_place(text) == meant
    assert postgres_place(str(meant)) == meant


@pytest.mark.parametrize("name", ["", "A", "a-b", "pg_a", 'a"', "a;b", "1a", "a" * 42, "a b", "ä"])
def test_other_names_of_schemas_are_refused(name):
    with pytest.raises(ArgumentError, match=r"^schema: must"):
        postgres_place(f"postgresql://host/db?schema={name}")
    with pytest.raises(ArgumentError, match="given once"):
        postgres_place("postgresql://host/db?schema=a&schema=b")


@pytest.mark.parametrize(
    "address", ["postgresql://ann:secret@host/db", "postgresql://host/db?password=secret", "service=a password=secret"]
)
def test_a_password_is_refused_and_not_shown(address):
    for call in (Ledger.open, Ledger.create, verify, lambda each: Ledger.adopt(each, head="1:" + "0" * 64)):
        with pytest.raises(ArgumentError, match="must hold no password") as caught:
            call(address)
        assert "secret" not in str(caught.value)


def test_a_server_that_does_not_answer_is_unavailable(tmp_path):
    with pytest.raises(LedgerUnavailable, match="no connection"):
        Ledger.open(f"postgresql://ann@/db?host={tmp_path}")


def test_a_place_holds_one_ledger(ledger, address, raw, schema):
    with pytest.raises(ArgumentError, match="something in the schema"):
        Ledger.create(address)
    with pytest.raises(LedgerUnavailable, match="there is no ledger"):
        Ledger.open(address + "x")
    raw.execute(f"CREATE SCHEMA {schema}x")
    with Ledger.create(address + "x") as other:  # an empty schema is a place
        assert other.accounts() == []
    assert len(ledger.accounts()) == 1


def test_many_make_the_same_ledger_and_one_succeeds(address):
    made, refused = [], []

    def make():
        try:
            made.append(Ledger.create(address))
        except ArgumentError as error:
            refused.append(str(error))

    threads = [threading.Thread(target=make) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1
    assert len(refused) == 5
    made[0].verify()
    made[0].close()


def test_the_key_is_the_users_alone_and_must_be_handed_on(ledger, address, key_file, tmp_path, monkeypatch):
    assert key_file.stat().st_mode & 0o777 == 0o600
    assert key_file in ledger_files(address)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "colleague"))
    with pytest.raises(LedgerUnavailable, match="ask for the key"):
        Ledger.open(address)
    with Ledger.open(address, key=key_file) as other:
        assert other.accounts() == ledger.accounts()
    (tmp_path / "other.key").write_text("0" * 64 + "\n")
    (tmp_path / "other.key").chmod(0o600)
    with pytest.raises(LedgerTampered):
        Ledger.open(address, key=tmp_path / "other.key")


def test_who_is_the_login_and_a_stated_name_after_it(ledger):
    spend(ledger, "1")
    ledger.reserve(account="people", request="2", cost=TENTH, who="ben")
    assert [each.who for each in ledger.history()[2:]] == ["postgres", "postgres/ben"]


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
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_other_tables_triggers_and_rules_are_refused(ledger, address, raw, schema, change):
    Ledger.open(address).close()  # the control
    ledger.close()
    raw.execute(change.format(s=schema))
    for call in (Ledger.open, verify):
        with pytest.raises(LedgerTampered, match="other tables"):
            call(address)


def test_not_even_the_superuser_changes_an_entry_by_mistake(ledger, raw, schema):
    ledger.release(account="people", request="1", cost=TENTH, compute=lambda _: b"x")
    for statement in (
        "UPDATE {s}.entries SET first = 0",
        "DELETE FROM {s}.entries WHERE seq = 3",
        "TRUNCATE {s}.entries, {s}.payloads",
        "UPDATE {s}.payloads SET bytes = ''",
        "DELETE FROM {s}.payloads",
        "TRUNCATE {s}.payloads",
        "INSERT INTO {s}.entries (seq, time, kind, who, what, note, seal) VALUES (9, 0, 'fail', '', '', '', '')",
        "INSERT INTO {s}.entries (seq, time, kind, who, what, note, seal) VALUES (4, 0, 'fail', '', '', '', '')",
        "INSERT INTO {s}.payloads VALUES (5, 'x')",
        "INSERT INTO {s}.payloads VALUES (3, 'x')",
    ):
        with pytest.raises(psycopg.Error) as caught:
            raw.execute(statement.format(s=schema))
        assert caught.value.sqlstate == "RB001", statement
    ledger.verify()
    raw.execute(
        f"INSERT INTO {schema}.entries (seq, time, kind, who, what, note, seal) VALUES (5, 0, 'a', '', '', '', '')"
    )
    with pytest.raises(LedgerTampered, match="entry 5"):  # the next number is taken; the seal is missed
        ledger.verify()


def test_an_entry_that_somebody_changed_is_found(ledger, address, raw, schema):
    for name in "123":
        spend(ledger, name)
    ledger.close()
    raw.execute("SET session_replication_role = replica")  # no triggers
    raw.execute(f"UPDATE {schema}.entries SET first = first - 1 WHERE seq = 4")
    for call in (Ledger.open, verify):
        with pytest.raises(LedgerTampered, match="entry 4"):
            call(address)


@pytest.fixture
def rolled_back(ledger, raw, schema):
    """As after a restore of a backup: the last two entries are gone."""

    def roll() -> None:
        raw.execute("SET session_replication_role = replica")
        raw.execute(f"DELETE FROM {schema}.entries WHERE seq > (SELECT max(seq) - 2 FROM {schema}.entries)")
        raw.execute("SET session_replication_role = origin")

    return roll


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_rollback_is_noticed_by_everyone_who_was_there(
    ledger, address, rolled_back, monkeypatch, tmp_path, key_file, elsewhere
):
    if elsewhere:
        (tmp_path / "heads").mkdir()
        monkeypatch.setenv(VARIABLE, str(tmp_path / "heads"))
    with Ledger.open(address) as other:
        for name in "123":
            spend(ledger, name)
        assert len(other.history()) == 5  # it only reads
    head = ledger.head
    running = Ledger.open(address)
    rolled_back()
    for each in (ledger, running):
        with pytest.raises(LedgerTampered, match="rolled back"):
            spend(each, "4")
    running._chain.store.close()
    for call in (Ledger.open, verify):
        with pytest.raises(LedgerTampered, match="rolled back"):
            call(address)
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "newcomer"))
    with pytest.raises(LedgerTampered, match="does not go on"):
        Ledger.adopt(address, head=head)
    with Ledger.open(address) as newcomer:  # the control: who was never there cannot know
        assert newcomer.account("people").spends == 1
    with pytest.raises(LedgerTampered, match="does not go on"):
        verify(address, head=head)


def test_who_only_read_notices_too(ledger, address, rolled_back, key_file, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "auditor"))
    with Ledger.open(address, key=key_file) as auditor:
        for name in "123":
            spend(ledger, name)
        assert len(auditor.history()) == 5
    rolled_back()
    with pytest.raises(LedgerTampered, match="rolled back"):
        Ledger.open(address, key=key_file)


def test_a_lock_gives_a_clear_error_in_time(ledger, address, raw):
    key = ledger._chain.store._key
    raw.execute("SELECT pg_advisory_lock(%s)", (key,))
    with Ledger.open(address, patience=0.3) as hasty:
        start = time.monotonic()
        with pytest.raises(LedgerUnavailable, match="locked by another process"):
            hasty.release(account="people", request="1", cost=TENTH, compute=lambda _: pytest.fail("computed"))
        assert time.monotonic() - start < 20
        assert hasty.account("people").spends == 0  # reading goes on
        raw.execute("SELECT pg_advisory_unlock(%s)", (key,))
        hasty.release(account="people", request="1", cost=TENTH, compute=lambda _: b"x")


def test_a_server_that_does_not_sync_is_refused(ledger, monkeypatch):
    class Careless:
        def execute(self, statement):
            return self

        def fetchone(self):
            return self.row

    careless = Careless()
    for careless.row, word in ((("off", "UTF8"), "fsync"), (("on", "LATIN1"), "LATIN1")):
        with pytest.raises(LedgerUnavailable, match=word):
            ledger._chain.store._check_server(careless)
    careless.row = ("on", "UTF8")
    ledger._chain.store._check_server(careless)


def test_a_closed_ledger_connects_again_by_itself(ledger):
    spend(ledger, "1")
    ledger.close()
    spend(ledger, "2")
    assert ledger.account("people").spends == 2


ENDED = "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE application_name = 'rangebound ledger'"


def test_a_connection_that_the_server_ended_meanwhile_is_made_anew(ledger, raw):
    for name in "123":
        spend(ledger, name)
        raw.execute(ENDED)
    assert ledger.account("people").spends == 3
    ledger.verify()


def test_a_connection_that_is_lost_in_a_transaction_is_an_error_and_made_anew(ledger, raw, monkeypatch):
    commit = PostgresStore.commit

    def lost(self, entry):
        raw.execute(ENDED)
        return commit(self, entry)

    monkeypatch.setattr(PostgresStore, "commit", lost)
    with pytest.raises(ConnectionLost, match="not charged twice"):
        spend(ledger, "1")
    monkeypatch.setattr(PostgresStore, "commit", commit)
    assert ledger.account("people").spends == 0
    spend(ledger, "1")
    assert ledger.account("people").spends == 1
    ledger.verify()


def test_a_spend_interrupted_by_the_user_leaves_the_ledger_usable(ledger, monkeypatch):
    commit = PostgresStore.commit

    def interrupted(self, entry):
        monkeypatch.setattr(PostgresStore, "commit", commit)
        raise KeyboardInterrupt

    monkeypatch.setattr(PostgresStore, "commit", interrupted)
    with pytest.raises(KeyboardInterrupt):
        spend(ledger, "1")
    assert ledger.account("people").spends == 0
    spend(ledger, "1")
    assert ledger.account("people").spends == 1


def test_a_fork_may_go_on_spending_on_both_sides(address):
    code = """
    ledger = Ledger.create(sys.argv[1])
    open_for(ledger, "sum", 10)
    ledger.reserve(account="people", request="before", cost=TENTH)
    children = []
    for turn in range(3):
        pid = os.fork()
        if not pid:
            ledger.reserve(account="people", request=f"child {turn}", cost=TENTH)
            ledger.close()
            os._exit(0)
        children.append(pid)
        ledger.reserve(account="people", request=f"parent {turn}", cost=TENTH)
    assert not any(os.waitpid(pid, 0)[1] for pid in children)
    print(ledger.account("people").spends)
    ledger.verify()
    ledger.close()
    """
    assert script(code, address) == "7\n"


def test_threads_share_one_ledger(ledger):
    def work(thread):
        for each in range(2):
            spend(ledger, f"{thread}-{each}")

    threads = [threading.Thread(target=work, args=(each,)) for each in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ledger.account("people").spends == 10
    ledger.verify()


def test_more_entries_than_are_read_at_once_are_read_in_pages(ledger, address, monkeypatch):
    with Ledger.open(address) as other:
        monkeypatch.setattr("rangebound.ledger.postgres_store.AT_ONCE", 3)
        for name in "12345678":
            spend(ledger, name)
        assert other.account("people").spends == 8
        spend(other, "9")
        other.verify()


def test_the_environment_may_name_the_folder_of_heads(address, tmp_path, monkeypatch):
    (tmp_path / "heads").mkdir()
    monkeypatch.setenv(VARIABLE, str(tmp_path / "heads"))
    with Ledger.create(address) as ledger:
        name = ledger._chain.state.name
        assert os.listdir(tmp_path / "heads") == [f"{name}.head"]
        assert tmp_path / "heads" / f"{name}.head" in ledger_files(address)
