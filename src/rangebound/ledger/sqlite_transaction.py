"""One transaction on the SQLite file of a ledger: what is asked of it, and in which words."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from types import TracebackType
from typing import Protocol

from rangebound.ledger.chain import LedgerEntry

_COLUMNS = ", ".join(LedgerEntry._fields)
INSERT = (
    f"INSERT INTO entries ({_COLUMNS}) VALUES ({', '.join('?' * len(LedgerEntry._fields))}) "
    "ON CONFLICT (request, kind) WHERE request IS NOT NULL DO NOTHING"
)
STORE = "INSERT INTO payloads (seq, bytes) VALUES (?, ?)"
_FROM = f"SELECT {_COLUMNS} FROM entries WHERE seq >= ? ORDER BY seq"
ONE = f"SELECT {_COLUMNS} FROM entries WHERE seq = ?"
_FIND = f"SELECT {_COLUMNS} FROM entries WHERE request = ? AND kind = ?"


class Connections(Protocol):
    """What a transaction asks of the store that owns the connection."""

    def begin(self, words: str) -> tuple[sqlite3.Connection, tuple[int, int]]:
        """The connection with a transaction begun, and the version of the file that it finds."""
        ...

    def commit(self, connection: sqlite3.Connection) -> None:
        """Make the transaction durable."""
        ...

    def end(self, error: BaseException | None) -> None:
        """Undo what was not committed, and give the connection back."""
        ...


class SQLiteTransaction:
    """One transaction on the store's connection: begun by `with`, and undone at its end unless it was committed."""

    def __init__(self, store: Connections, words: str) -> None:
        self._store = store
        self._words = words

    def __enter__(self) -> SQLiteTransaction:
        self._connection, self.version = self._store.begin(self._words)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._store.end(error)

    def entries(self, start: int) -> Iterator[LedgerEntry]:
        """The entries from number `start` on, in order of their numbers."""
        return map(LedgerEntry._make, self._connection.execute(_FROM, (start,)))

    def entry(self, seq: int) -> LedgerEntry | None:
        """The entry with a number."""
        row = self._connection.execute(ONE, (seq,)).fetchone()
        return row and LedgerEntry._make(row)

    def find(self, kind: str, request: str) -> LedgerEntry | None:
        """The entry of a kind with a request id."""
        row = self._connection.execute(_FIND, (request, kind)).fetchone()
        return row and LedgerEntry._make(row)

    def payload(self, seq: int) -> bytes | None:
        """The bytes that were stored with an entry."""
        row = self._connection.execute("SELECT bytes FROM payloads WHERE seq = ?", (seq,)).fetchone()
        return row[0] if row and isinstance(row[0], bytes) else None

    def payloads(self) -> Iterator[int]:
        """The numbers of the entries that have bytes stored."""
        return (row[0] for row in self._connection.execute("SELECT seq FROM payloads ORDER BY seq"))

    def append(self, entry: LedgerEntry, payload: bytes | None = None) -> bool:
        """Add an entry, and bytes with it; or nothing, if there is one of its kind for its request already."""
        if not self._connection.execute(INSERT, entry).rowcount:
            return False
        if payload is not None:
            self._connection.execute(STORE, (entry.seq, payload))
        return True

    def commit(self) -> None:
        """Make what was added durable, in the file that bears the ledger's name."""
        self._store.commit(self._connection)
