"""The store in PostgreSQL: addresses, tables, keys and heads of a client, and what is refused."""

from contextlib import suppress
from unittest.mock import Mock

import psycopg
import pytest

from rangebound.errors import ArgumentError, LedgerTampered, LedgerUnavailable
from rangebound.ledger import Ledger, ledger_files, verify
from rangebound.ledger.head import HEAD_VARIABLE, make_key, user_folder
from rangebound.ledger.postgres_schema import PostgresPlace, postgres_place
from rangebound.ledger.postgres_store import PostgresStore
from rangebound.ledger.store import ConnectionLost
from tests.ledger.postgres import schema_of
from tests.ledger.processes import script, together
from tests.ledger.rules import never, release, reserve


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


@pytest.mark.parametrize(
    ("text", "address", "schema"),
    [
        ("postgresql://host/db", "postgresql://host/db", "rangebound"),
        ("postgresql://host/db?schema=a_1", "postgresql://host/db", "a_1"),
        ("postgresql://host/db?port=3&schema=b&user=u", "postgresql://host/db?port=3&user=u", "b"),
        ("service=office?schema=census", "service=office", "census"),
    ],
)
def test_an_address_names_a_schema_of_a_database(text, address, schema):
    meant = PostgresPlace(address=address, schema=schema)
    assert postgres_place(text) == postgres_place(str(meant)) == meant


@pytest.mark.parametrize("name", ["", "A", "a-b", "pg_a", 'a"', "a;b", "1a", "a" * 42, "a b", "ä"])
def test_other_names_of_schemas_are_refused(name):
    for schema in (name, "a&schema=b"):
        with pytest.raises(ArgumentError, match=r"^schema: must"):
            postgres_place(f"postgresql://host/db?schema={schema}")


@pytest.mark.parametrize(
    "address", ["postgresql://ann:secret@host/db", "postgresql://host/db?password=secret", "service=a password=secret"]
)
def test_a_password_is_refused_and_not_shown(address):
    for call in (Ledger.open, Ledger.create, verify, lambda each: Ledger.adopt(each, head="1:" + "0" * 64)):
        with pytest.raises(ArgumentError, match="must hold no password") as caught:
            call(address)
        assert "secret" not in str(caught.value)


def test_a_place_holds_one_ledger(ledger, address, raw, schema, tmp_path):
    with pytest.raises(LedgerUnavailable, match="no connection"):
        Ledger.open(f"postgresql://ann@/db?host={tmp_path}")
    with pytest.raises(ArgumentError, match="something in the schema"):
        Ledger.create(address)
    with pytest.raises(LedgerUnavailable, match="there is no ledger"):
        Ledger.open(address + "x")
    raw.execute(f"CREATE SCHEMA {schema}x")
    with Ledger.create(address + "x") as other:  # an empty schema is a place
        assert other.accounts() == []
    assert len(ledger.accounts()) == 1


def test_many_make_the_same_ledger_and_one_succeeds(address):
    def make(_):
        with suppress(ArgumentError):
            return Ledger.create(address)

    (made,) = filter(None, together(6, make))
    made.verify()
    made.close()


def test_the_key_is_the_users_alone_and_must_be_handed_on(ledger, address, key_file, tmp_path, monkeypatch):
    assert key_file.stat().st_mode & 0o777 == 0o600
    assert key_file in ledger_files(address)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "colleague"))
    with pytest.raises(LedgerUnavailable, match="ask for the key"):
        Ledger.open(address)
    with Ledger.open(address, key=key_file) as other:
        assert other.accounts() == ledger.accounts()
    make_key(tmp_path / "other.key")
    with pytest.raises(LedgerTampered):
        Ledger.open(address, key=tmp_path / "other.key")


def test_not_even_the_superuser_changes_an_entry_by_mistake_and_on_purpose_it_is_found(ledger, address, raw, schema):
    release(ledger, "1")
    row = "INSERT INTO {s}.entries (seq, time, kind, who, what, note, seal) VALUES (%d, 0, 'fail', '', '', '', '')"
    for statement in (
        "UPDATE {s}.entries SET first = 0",
        "DELETE FROM {s}.entries WHERE seq = 3",
        "TRUNCATE {s}.entries, {s}.payloads",
        "UPDATE {s}.payloads SET bytes = ''",
        "DELETE FROM {s}.payloads",
        "TRUNCATE {s}.payloads",
        row % 9,
        row % 4,
        "INSERT INTO {s}.payloads VALUES (5, 'x')",
        "INSERT INTO {s}.payloads VALUES (3, 'x')",
    ):
        with pytest.raises(psycopg.Error) as caught:
            raw.execute(statement.format(s=schema))
        assert caught.value.sqlstate == "RB001", statement
    ledger.verify()
    raw.execute((row % 5).format(s=schema))
    with pytest.raises(LedgerTampered, match="entry 5"):  # the next number is taken; the seal is missed
        ledger.verify()
    raw.execute("SET session_replication_role = replica")  # no triggers
    raw.execute(f"UPDATE {schema}.entries SET first = first - 1 WHERE seq = 3")
    for call in (Ledger.open, verify):
        with pytest.raises(LedgerTampered, match="entry 3"):
            call(address)


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_rollback_is_noticed_by_everyone_who_was_there(
    ledger, address, raw, schema, monkeypatch, tmp_path, key_file, elsewhere
):
    def become(user):
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / user))

    if elsewhere:
        (tmp_path / "heads").mkdir()
        monkeypatch.setenv(HEAD_VARIABLE, str(tmp_path / "heads"))
    become("auditor")
    with Ledger.open(address, key=key_file) as other:
        for name in "123":
            reserve(ledger, name)
        assert len(other.history()) == 5  # it only reads
    head = ledger.head
    assert not elsewhere or tmp_path / "heads" / f"{ledger._chain.state.name}.head" in ledger_files(address)
    running = Ledger.open(address)
    raw.execute("SET session_replication_role = replica")  # as after a restore of a backup: the last two are gone
    raw.execute(f"DELETE FROM {schema}.entries WHERE seq > (SELECT max(seq) - 2 FROM {schema}.entries)")
    for each in (ledger, running):
        with pytest.raises(LedgerTampered, match="rolled back"):
            reserve(each, "4")
    running._chain.store.close()
    for user in ("auditor", "XDG_STATE_HOME"):
        become(user)
        for call in (Ledger.open, verify):
            with pytest.raises(LedgerTampered, match="rolled back"):
                call(address)
    monkeypatch.delenv(HEAD_VARIABLE, raising=False)
    become("newcomer")
    with Ledger.open(address) as newcomer:  # the control: who was never there cannot know
        assert newcomer.account("people").spends == 1
    for call in (lambda: Ledger.adopt(address, head=head), lambda: verify(address, head=head)):
        with pytest.raises(LedgerTampered, match="does not go on"):
            call()


def test_a_lock_gives_a_clear_error_while_it_is_held(ledger, address, raw):
    key = ledger._chain.store._key
    raw.execute("SELECT pg_advisory_lock(%s)", (key,))
    with Ledger.open(address, patience=0.3) as hasty:
        with pytest.raises(LedgerUnavailable, match="locked by another process"):  # the lock is held until then
            release(hasty, "1", never)
        assert hasty.account("people").spends == 0  # reading goes on
        raw.execute("SELECT pg_advisory_unlock(%s)", (key,))
        release(hasty, "1")


def test_a_server_that_does_not_sync_is_refused(ledger):
    for row, word in ((("off", "UTF8"), "fsync"), (("on", "LATIN1"), "LATIN1")):
        with pytest.raises(LedgerUnavailable, match=word):
            ledger._chain.store.place.check_server(Mock(**{"execute.return_value.fetchone.return_value": row}))


ENDED = "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE application_name = 'rangebound ledger'"


def test_a_connection_that_was_closed_or_that_the_server_ended_meanwhile_is_made_anew(ledger, raw):
    for name, end in (("1", ledger.close), ("2", lambda: raw.execute(ENDED)), ("3", lambda: raw.execute(ENDED))):
        reserve(ledger, name)
        end()
    assert ledger.account("people").spends == 3
    ledger.verify()


@pytest.mark.parametrize("error", [ConnectionLost, KeyboardInterrupt])
def test_a_connection_that_is_lost_or_a_user_who_interrupts_leaves_the_ledger_usable(ledger, raw, monkeypatch, error):
    commit = PostgresStore.commit

    def lost(self, *row):
        if error is KeyboardInterrupt:
            raise error
        raw.execute(ENDED)
        return commit(self, *row)

    monkeypatch.setattr(PostgresStore, "commit", lost)
    with pytest.raises(error, match="not charged twice" if error is ConnectionLost else None):
        reserve(ledger, "1")
    monkeypatch.setattr(PostgresStore, "commit", commit)
    assert ledger.account("people").spends == 0
    reserve(ledger, "1")
    assert ledger.account("people").spends == 1
    ledger.verify()


@pytest.mark.slow
def test_a_fork_may_go_on_spending_on_both_sides(address):
    code = """
    ledger = Ledger.create(sys.argv[1])
    open_for(ledger, "sum", 10)
    reserve(ledger, "before")
    children = []
    for turn in range(3):
        children.append(forked(lambda: (reserve(ledger, f"child {turn}"), ledger.close())))
        reserve(ledger, f"parent {turn}")
    assert not any(os.waitpid(pid, 0)[1] for pid in children)
    print(ledger.account("people").spends)
    ledger.verify()
    ledger.close()
    """
    assert script(code, address) == "7\n"


def test_more_entries_than_are_read_at_once_are_read_in_pages(ledger, address, monkeypatch):
    with Ledger.open(address) as other:
        monkeypatch.setattr("rangebound.ledger.postgres_store.AT_ONCE", 3)
        for name in "12345678":
            reserve(ledger, name)
        assert other.account("people").spends == 8
        reserve(other, "9")
        other.verify()
