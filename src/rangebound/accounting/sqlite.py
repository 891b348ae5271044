"""A ledger's entries in one SQLite file: write-ahead log, every commit synced to the disk, one writer at a time.

A store has one connection, which the threads of a process take in turn: SQLite admits one writer anyway. The connection
is closed around a fork, because neither SQLite's locks nor its memory of them survive one.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

from rangebound import arguments
from rangebound.accounting.chain import Entry
from rangebound.accounting.key import sync_folder
from rangebound.errors import ArgumentError, LedgerTampered, LedgerUnavailable

PATIENCE = 25.0
"""Seconds to wait for other threads, and again for other processes, before giving up."""

_PAUSE, _LONGEST_PAUSE = 0.0005, 0.01  # seconds between two looks at a file that another process writes
_MARK = 0x52424C47  # in the header of the file, to tell a ledger from other databases
_COLUMNS = ", ".join(Entry._fields)
_SCHEMA = {
    "entries": "CREATE TABLE entries (seq INTEGER PRIMARY KEY, time INTEGER NOT NULL, kind TEXT NOT NULL, "
    "account TEXT, request TEXT, first INTEGER, second INTEGER, ref INTEGER, digest BLOB, who TEXT NOT NULL, "
    "what TEXT NOT NULL, note TEXT NOT NULL, seal BLOB NOT NULL)",
    "requests": "CREATE UNIQUE INDEX requests ON entries (request, kind) WHERE request IS NOT NULL",
    "payloads": "CREATE TABLE payloads (seq INTEGER PRIMARY KEY, bytes BLOB NOT NULL)",
}
_INSERT = f"INSERT INTO entries ({_COLUMNS}) VALUES ({', '.join('?' * len(Entry._fields))})"
_FROM = f"SELECT {_COLUMNS} FROM entries WHERE seq >= ? ORDER BY seq"
_ONE = f"SELECT {_COLUMNS} FROM entries WHERE seq = ?"
_FIND = f"SELECT {_COLUMNS} FROM entries WHERE request = ? AND kind = ?"

_FAULTS: dict[str, tuple[type[LedgerUnavailable] | type[LedgerTampered], str]] = {
    "SQLITE_BUSY": (LedgerUnavailable, "is locked by another process; nothing was written, try again"),
    "SQLITE_LOCKED": (LedgerUnavailable, "is locked by another connection; nothing was written, try again"),
    "SQLITE_READONLY": (LedgerUnavailable, "is read-only; nothing was written"),
    "SQLITE_FULL": (LedgerUnavailable, "is on a full disk; nothing was written"),
    "SQLITE_IOERR": (LedgerUnavailable, "cannot be read or written, perhaps the disk is full"),
    "SQLITE_CANTOPEN": (LedgerUnavailable, "cannot be opened"),
    "SQLITE_PERM": (LedgerUnavailable, "may not be opened"),
    "SQLITE_AUTH": (LedgerUnavailable, "may not be opened"),
    "SQLITE_TOOBIG": (LedgerUnavailable, "cannot hold so large a value"),
    "SQLITE_PROTOCOL": (LedgerUnavailable, "is kept too busy by others; nothing was written, try again"),
    "SQLITE_NOMEM": (LedgerUnavailable, "needs more memory than there is"),
    "SQLITE_CORRUPT": (LedgerTampered, "is damaged"),
    "SQLITE_NOTADB": (LedgerTampered, "is no SQLite database"),
}


class SQLiteTransaction:
    """One transaction on the store's connection."""

    def __init__(self, connection: sqlite3.Connection, unchanged: Callable[[], None]) -> None:
        self._connection = connection
        self._unchanged = unchanged

    def entries(self, start: int) -> Iterator[Entry]:
        """The entries from number `start` on, in order of their numbers."""
        return map(Entry._make, self._connection.execute(_FROM, (start,)))

    def entry(self, seq: int) -> Entry | None:
        """The entry with a number."""
        row = self._connection.execute(_ONE, (seq,)).fetchone()
        return row and Entry._make(row)

    def find(self, kind: str, request: str) -> Entry | None:
        """The entry of a kind with a request id."""
        row = self._connection.execute(_FIND, (request, kind)).fetchone()
        return row and Entry._make(row)

    def payload(self, seq: int) -> bytes | None:
        """The bytes that were stored with an entry."""
        row = self._connection.execute("SELECT bytes FROM payloads WHERE seq = ?", (seq,)).fetchone()
        return row[0] if row and isinstance(row[0], bytes) else None

    def payloads(self) -> Iterator[int]:
        """The numbers of the entries that have bytes stored."""
        return (row[0] for row in self._connection.execute("SELECT seq FROM payloads ORDER BY seq"))

    def append(self, entry: Entry, payload: bytes | None = None) -> None:
        """Add an entry, and bytes with it."""
        self._connection.execute(_INSERT, entry)
        if payload is not None:
            self._connection.execute("INSERT INTO payloads (seq, bytes) VALUES (?, ?)", (entry.seq, payload))

    def commit(self) -> None:
        """Make what was added durable, in the file that bears the ledger's name."""
        self._unchanged()
        self._connection.execute("COMMIT")
        self._unchanged()


class SQLiteStore:
    """The entries of a ledger in the SQLite file at `path`, which must exist (`create` makes one)."""

    def __init__(self, path: Path, *, patience: float = PATIENCE) -> None:
        self.path = Path(os.path.realpath(path))  # one name for the file, its log and its key, whatever links lead here
        self._patience = arguments.positive("patience", patience)
        self._lock = threading.Lock()
        self._forking = False
        self._connection: sqlite3.Connection | None = None
        self._identity: tuple[int, int] | None = None
        self._schema = 0
        _STORES[id(self)] = self

    def writing(self) -> AbstractContextManager[SQLiteTransaction]:
        """A transaction that no other writer overlaps; left without `commit`, it changes nothing."""
        return self._transaction("BEGIN IMMEDIATE")

    def reading(self) -> AbstractContextManager[SQLiteTransaction]:
        """A transaction that sees one state of the store throughout."""
        return self._transaction("BEGIN")

    def damage(self) -> list[str]:
        """What SQLite itself finds wrong with the file."""
        with self._transaction("BEGIN"):
            assert self._connection is not None
            found = [row[0] for row in self._connection.execute("PRAGMA integrity_check")]
            return [] if found == ["ok"] else [line for text in found for line in str(text).splitlines()]

    def create(self, first: Callable[[], Entry]) -> None:
        """Make the file with its first entry, which is asked for once the file is ours alone."""
        with self._held():
            if self._connection is None:
                self._connection = self._connect("rwc")
            try:
                self._connection.execute("BEGIN IMMEDIATE")
                if self._connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                    raise ArgumentError(f"path={arguments.shown(str(self.path))}: is a database already")
                for statement in _SCHEMA.values():
                    self._connection.execute(statement)
                self._connection.execute(f"PRAGMA application_id = {_MARK}")
                self._connection.execute(_INSERT, first())
                self._connection.execute("COMMIT")
                sync_folder(self.path.parent)
            finally:
                self._close()

    def close(self) -> None:
        """Let go of the file; the next transaction opens it again."""
        with self._held():
            self._close()

    def __del__(self) -> None:
        if getattr(self, "_connection", None) is not None:
            self._close()

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[SQLiteTransaction]:
        with self._held():
            self._unchanged()
            connection = self._open()
            try:
                self._begin(connection, begin)
                if connection.execute("PRAGMA schema_version").fetchone()[0] != self._schema:
                    self._close()  # a new trigger could undo what is written; opening again looks at all of them
                    raise LedgerTampered(f"{self._name}: its tables were changed while it was in use")
                yield SQLiteTransaction(connection, self._unchanged)
            except sqlite3.Error:
                self._close()  # after a fault of the disk, only a fresh connection is sure of the state of the file
                raise
            finally:
                if self._connection is not None and connection.in_transaction:
                    connection.execute("ROLLBACK")

    def _begin(self, connection: sqlite3.Connection, begin: str) -> None:
        """Begin as soon as the file is free. SQLite itself would look after ever longer pauses, up to a tenth of a
        second, and leave the file idle when many wait for it."""
        connection.execute("PRAGMA busy_timeout = 0")
        pause, end = _PAUSE, time.monotonic() + self._patience
        while True:
            try:
                connection.execute(begin)
                break
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > end:
                    raise
            time.sleep(pause)
            pause = min(1.5 * pause, _LONGEST_PAUSE)
        connection.execute(f"PRAGMA busy_timeout = {self._patience * 1000:.0f}")

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            connection = self._connect("rw")
            try:
                status = os.stat(self.path)
                if status.st_nlink != 1:
                    # Each name would get a write-ahead log of its own, and each log would spend the same budget.
                    raise LedgerUnavailable(f"{self._name}: has more than one name on the disk; remove the others")
                connection.execute("BEGIN")  # so that all of the following is about one state of the file
                version = connection.execute("PRAGMA schema_version").fetchone()[0]
                mark = connection.execute("PRAGMA application_id").fetchone()[0]
                schema = dict(connection.execute("SELECT name, sql FROM sqlite_master").fetchall())
                if not schema and not mark:
                    raise LedgerUnavailable(f"{self._name}: is empty; a ledger begins with `create`")
                if mark != _MARK or schema != _SCHEMA:
                    raise LedgerTampered(f"{self._name}: has other tables, indexes or triggers than a ledger has")
                connection.execute("ROLLBACK")
                with suppress(sqlite3.OperationalError):  # a read-only file can still be read
                    connection.execute("PRAGMA journal_mode = WAL")
            except BaseException:
                connection.close()
                raise
            self._connection, self._identity, self._schema = connection, (status.st_dev, status.st_ino), version
        return self._connection

    def _connect(self, mode: str) -> sqlite3.Connection:
        if mode == "rw" and not self.path.is_file():
            raise LedgerUnavailable(f"{self._name}: there is no such file")
        connection = sqlite3.connect(
            f"{self.path.as_uri()}?mode={mode}",
            uri=True,
            isolation_level=None,
            check_same_thread=False,
            timeout=self._patience,
        )
        try:
            connection.text_factory = lambda data: data.decode("utf-8", "surrogateescape")
            connection.execute("PRAGMA trusted_schema = OFF")
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA fullfsync = ON")
        except BaseException:
            connection.close()
            raise
        return connection

    def _unchanged(self) -> None:
        """Refuse to go on when another file has taken the place of the one that is open: its entries would be lost."""
        if self._connection is None:
            return
        try:
            status = os.stat(self.path)
        except OSError:
            status = None
        if status is None or (status.st_dev, status.st_ino) != self._identity:
            self._close()
            raise LedgerTampered(f"{self._name}: was removed or replaced while it was in use")

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(sqlite3.Error):
                connection.close()

    @contextmanager
    def _held(self) -> Iterator[None]:
        """The connection is ours alone, and SQLite's errors become ours."""
        if not self._lock.acquire(timeout=self._patience):
            raise LedgerUnavailable(f"{self._name}: other threads kept it busy for {self._patience:g} s; try again")
        try:
            yield
        except sqlite3.Error as error:
            name = getattr(error, "sqlite_errorname", "")
            kind, what = next(
                (fault for prefix, fault in _FAULTS.items() if name.startswith(prefix)),
                (LedgerTampered, "cannot be used as a ledger"),
            )
            raise kind(f"{self._name}: {what} ({error})") from error
        except UnicodeDecodeError as error:  # SQLite names what is damaged by the bytes that it finds there
            raise LedgerTampered(f"{self._name}: is damaged") from error
        finally:
            self._lock.release()

    @property
    def _name(self) -> str:
        return f"ledger={arguments.shown(str(self.path))}"

    def before_fork(self) -> None:
        """Finish what is under way and close the file."""
        self._forking = self._lock.acquire(timeout=2 * self._patience)
        if self._forking:
            self._close()

    def after_fork_in_parent(self) -> None:
        """Go on; the file is opened again when it is needed."""
        if self._forking:
            self._forking = False
            self._lock.release()

    def after_fork_in_child(self) -> None:
        """Begin anew. A connection that could not be closed in time stays the parent's: here it is never touched."""
        if self._connection is not None:
            _ABANDONED.append(self._connection)
            self._connection = None
        self._forking = False
        self._lock = threading.Lock()


_STORES: weakref.WeakValueDictionary[int, SQLiteStore] = weakref.WeakValueDictionary()
_ABANDONED: list[sqlite3.Connection] = []


def _each_store(step: Callable[[SQLiteStore], None]) -> None:
    stores = [store for each in _STORES.valuerefs() if (store := each()) is not None]
    for store in sorted(stores, key=id):  # in one order, so that two threads that fork cannot wait for each other
        step(store)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=lambda: _each_store(SQLiteStore.before_fork),
        after_in_parent=lambda: _each_store(SQLiteStore.after_fork_in_parent),
        after_in_child=lambda: _each_store(SQLiteStore.after_fork_in_child),
    )
