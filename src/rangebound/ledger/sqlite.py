"""A ledger's entries in one SQLite file: every commit synced to the disk, one writer at a time.

The file alone is the ledger. SQLite's rollback journal lies beside it only during a commit, so there is no log that
could be lost, doubled or put back between two (docs/decisions/0009).

A store has one connection: SQLite admits one writer anyway. No code of ours opens the file by other means: closing it
there would drop the locks that this process holds on it.
"""

from __future__ import annotations

import os
import re
import sqlite3
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from rangebound.errors import ArgumentError, LedgerTampered, LedgerUnavailable
from rangebound.ledger.chain import LedgerEntry
from rangebound.ledger.head import sync_folder
from rangebound.ledger.store import COLUMNS, AnyFault, NoRoom, Row, Store, Transaction
from rangebound.values import arguments

PATIENCE = 25.0
"""Seconds to wait for other threads, and again for other processes, before giving up."""

FILES = ("", "-journal", "-wal", "-shm")
"""What SQLite adds to the name of a database for the files that belong to it."""

_PAUSE, _LONGEST_PAUSE = 0.0005, 0.003  # seconds between two looks at a file that another process writes
_MOUNTS = Path("/proc/self/mountinfo")
_MARK = 0x52424C47  # in the header of the file, to tell a ledger from other databases
_SCHEMA = {
    "entries": "CREATE TABLE entries (seq INTEGER PRIMARY KEY, time INTEGER NOT NULL, kind TEXT NOT NULL, "
    "account TEXT, request TEXT, first INTEGER, second INTEGER, ref INTEGER, digest BLOB, who TEXT NOT NULL, "
    "what TEXT NOT NULL, note TEXT NOT NULL, seal BLOB NOT NULL)",
    "requests": "CREATE UNIQUE INDEX requests ON entries (request, kind) WHERE request IS NOT NULL",
    "payloads": "CREATE TABLE payloads (seq INTEGER PRIMARY KEY, bytes BLOB NOT NULL)",
}

_INSERT = (
    f"INSERT INTO entries ({COLUMNS}) VALUES ({', '.join('?' * len(LedgerEntry._fields))}) "
    "ON CONFLICT (request, kind) WHERE request IS NOT NULL DO NOTHING"
)

_FAULTS: dict[str, tuple[type[AnyFault], str]] = {
    "SQLITE_BUSY": (LedgerUnavailable, "is locked by another process; nothing was written, try again"),
    "SQLITE_LOCKED": (LedgerUnavailable, "is locked by another connection; nothing was written, try again"),
    "SQLITE_READONLY": (LedgerUnavailable, "is read-only; nothing was written"),
    "SQLITE_FULL": (NoRoom, "is on a full disk; nothing was written"),
    "SQLITE_IOERR": (NoRoom, "cannot be read or written, perhaps the disk is full"),
    "SQLITE_CANTOPEN": (LedgerUnavailable, "cannot be opened"),
    "SQLITE_PERM": (LedgerUnavailable, "may not be opened"),
    "SQLITE_AUTH": (LedgerUnavailable, "may not be opened"),
    "SQLITE_TOOBIG": (NoRoom, "cannot hold so large a value"),
    "SQLITE_PROTOCOL": (LedgerUnavailable, "is kept too busy by others; nothing was written, try again"),
    "SQLITE_NOMEM": (NoRoom, "needs more memory than there is"),
    "SQLITE_CORRUPT": (LedgerTampered, "is damaged"),
    "SQLITE_NOTADB": (LedgerTampered, "is not an SQLite database"),
}


class SQLiteStore(Store):
    """The entries of a ledger in the SQLite file at `path`, which must exist (`create` makes one)."""

    kind = "file"
    foreign = (sqlite3.Error, UnicodeDecodeError)  # SQLite says what is damaged in the very bytes that are

    def __init__(self, path: Path, *, patience: float = PATIENCE) -> None:
        self.path = Path(os.path.realpath(path))  # one name for the file, its log and its key, whatever links lead here
        super().__init__(str(self.path), patience)
        self.words = {"entries": "entries", "payloads": "payloads", "value": "?"}
        self._place, self._address = str(self.path), self.path.as_uri()
        self._connection: sqlite3.Connection | None = None
        self._identity: tuple[int, int] | None = None
        self._openings = self._schema = 0
        self._seen: int | None = None

    def reread(self, seq: int) -> LedgerEntry | None:
        """The entry with a number, through a connection that is opened for this alone: nothing that this process
        remembers of the file plays a part."""
        connection = sqlite3.connect(f"{self._address}?mode=rw", uri=True, isolation_level=None, timeout=self.patience)
        try:
            connection.text_factory = _text
            row = connection.execute(f"SELECT {COLUMNS} FROM entries WHERE seq = ?", (seq,)).fetchone()
            return row and LedgerEntry._make(row)
        finally:
            connection.close()

    def damage(self) -> list[str]:
        """What SQLite itself finds wrong with the file."""
        with self.reading():
            assert self._connection is not None
            found = [row[0] for row in self._connection.execute("PRAGMA integrity_check")]
            return [] if found == ["ok"] else [line for text in found for line in str(text).splitlines()]

    def create(self, rows: Callable[[], Iterable[Row]], *, roles: bool = False) -> None:
        """Make the file, which has no `roles`."""
        with self._held():
            if self._connection is None:
                with suppress(OSError):  # one that is there stays as it is; where there are no rights, SQLite says so
                    # SQLite's own would be for all to read, and so would its journals.
                    os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
                self._connection = self._connect("rwc")
            try:
                self._connection.execute("BEGIN IMMEDIATE")
                if self._connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                    raise ArgumentError(f"path={arguments.shown(str(self.path))}: is a database already")
                for statement in _SCHEMA.values():
                    self._connection.execute(statement)
                self._connection.execute(f"PRAGMA application_id = {_MARK}")
                for entry, payload in rows():
                    _added(self._connection, entry, payload)
                self._connection.execute("COMMIT")
                sync_folder(self.path.parent)
            finally:
                self._close()

    def append(self, transaction: Transaction, entry: LedgerEntry, payload: bytes | None) -> bool:
        return _added(transaction.connection, entry, payload)

    def begin(self, transaction: Transaction) -> None:
        self._take()
        try:
            connection = self._open()
            self._patiently(connection, "BEGIN IMMEDIATE" if transaction.write else "BEGIN")
            # It stays the same while only this connection writes. A crash of another process may keep even it waiting.
            seen = self._patiently(connection, "PRAGMA data_version").fetchone()[0]
            if seen != self._seen:
                if connection.execute("PRAGMA schema_version").fetchone()[0] != self._schema:
                    self._close()  # a new trigger could undo what is written; opening again looks at all of them
                    raise LedgerTampered(f"{self._name}: its tables were changed while it was in use")
                if connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal":
                    self._close()
                    raise LedgerTampered(f"{self._name}: was given a write-ahead log while it was in use")
                self._seen = seen
        except BaseException as error:
            self.end(error)
            raise
        transaction.connection, transaction.version = connection, (self._openings, seen)

    def commit(self, transaction: Transaction) -> None:
        """As stated, in the file that bears the ledger's name, which must be the one that is open."""
        self._patiently(transaction.connection, "COMMIT")
        self._unchanged()

    def end(self, error: BaseException | None) -> None:
        """As stated; what was read from a file that has lost its name is not given out."""
        try:
            if isinstance(error, sqlite3.Error):
                self._close()  # after a fault of the disk, only a fresh connection is sure of the state of the file
            elif self._connection is not None and self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
                self._unchanged()
        except sqlite3.Error as fault:
            error = fault
        finally:
            self._lock.release()
        if isinstance(error, self.foreign):
            raise self._ours(error) from error

    def _patiently(self, connection: sqlite3.Connection, words: str) -> sqlite3.Cursor:
        """Execute as soon as the file is free. SQLite itself would look after ever longer pauses, up to a tenth of a
        second, and leave the file idle when many wait for it."""
        pause, end = _PAUSE, time.monotonic() + self.patience
        while True:
            try:
                return connection.execute(words)
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > end:
                    raise
            time.sleep(pause)
            pause = min(1.5 * pause, _LONGEST_PAUSE)

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            connection = self._connect("rw")
            try:
                status = os.stat(self.path)
                self._single(status)
                if _is_mounted(self._place):
                    raise LedgerUnavailable(f"{self._name}: is mounted as a single file; mount its folder instead")
                connection.execute("BEGIN")  # so that all of the following is about one state of the file
                version = connection.execute("PRAGMA schema_version").fetchone()[0]
                mark = connection.execute("PRAGMA application_id").fetchone()[0]
                schema = dict(connection.execute("SELECT name, sql FROM sqlite_master").fetchall())
                if not schema and not mark:
                    raise LedgerUnavailable(f"{self._name}: is empty; a ledger begins with `create`")
                if mark != _MARK or schema != _SCHEMA:
                    raise LedgerTampered(f"{self._name}: has other tables, indexes or triggers than a ledger has")
                connection.execute("ROLLBACK")
                if connection.execute("PRAGMA journal_mode = DELETE").fetchone()[0] != "delete":
                    raise LedgerUnavailable(f"{self._name}: has a write-ahead log that others use; end them, try again")
                connection.execute("PRAGMA busy_timeout = 0")  # from here on `_patiently` waits
            except BaseException:
                connection.close()
                raise
            self._connection, self._identity, self._schema = connection, (status.st_dev, status.st_ino), version
            self._openings, self._seen = self._openings + 1, None
        return self._connection

    def _connect(self, mode: str) -> sqlite3.Connection:
        if mode == "rw" and not self.path.is_file():
            raise LedgerUnavailable(f"{self._name}: there is no such file")
        connection = sqlite3.connect(
            f"{self._address}?mode={mode}",
            uri=True,
            isolation_level=None,
            check_same_thread=False,
            timeout=self.patience,
        )
        try:
            connection.text_factory = _text
            connection.execute("PRAGMA trusted_schema = OFF")
            connection.execute("PRAGMA synchronous = EXTRA")  # the folder too, or the journal could come back
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
            status = os.stat(self._place)
        except OSError:
            status = None
        if status is None or (status.st_dev, status.st_ino) != self._identity:
            self._close()
            raise LedgerTampered(f"{self._name}: was removed or replaced while it was in use")
        self._single(status)

    def _single(self, status: os.stat_result) -> None:
        """Refuse a second name: each would have a journal and a head of its own, and what a killed process left in the
        one would undo what was charged through the other."""
        if status.st_nlink != 1:
            raise LedgerUnavailable(f"{self._name}: has more than one name on the disk; remove the others")

    def _ours(self, error: Exception) -> AnyFault:
        if isinstance(error, UnicodeDecodeError):
            return LedgerTampered(f"{self._name}: is damaged")
        name = getattr(error, "sqlite_errorname", "")
        kind, what = next(
            (fault for prefix, fault in _FAULTS.items() if name.startswith(prefix)),
            (LedgerTampered, "cannot be used as a ledger"),
        )
        return kind(f"{self._name}: {what} ({error})")


def _added(connection: sqlite3.Connection, entry: LedgerEntry, payload: bytes | None) -> bool:
    if not connection.execute(_INSERT, entry).rowcount:
        return False
    if payload is not None:
        connection.execute("INSERT INTO payloads (seq, bytes) VALUES (?, ?)", (entry.seq, payload))
    return True


def may_be_database(path: Path) -> bool:
    """Whether a file is not certainly of another kind."""
    try:
        connection = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)
        try:
            connection.execute("PRAGMA schema_version").fetchone()
        finally:
            connection.close()
    except sqlite3.Error as error:
        return error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_NOTADB
    return True


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _is_mounted(place: str) -> bool:
    """Whether this very file is mounted here, as containers can do: a second name that no link count shows."""
    try:
        lines = _MOUNTS.read_bytes().splitlines()
    except OSError:
        return False  # not Linux
    points = (line.split(b" ")[4] for line in lines)
    return os.fsencode(place) in {
        re.sub(rb"\\([0-7]{3})", lambda code: bytes([int(code[1], 8)]), each) for each in points
    }
