"""One transaction on the tables of a ledger in PostgreSQL: what is asked of it, and in which words."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any, NamedTuple, Protocol

from rangebound.ledger.chain import LedgerEntry
from rangebound.ledger.postgres_schema import COLUMNS

AT_ONCE = 1000
"""So many entries are read in one go, as every transaction does with those that are new."""

_NAMES = itertools.count()  # of cursors, of which several may be open
_PAGE = 2000  # rows that cross the wire together where many are read


class Begun(NamedTuple):
    """A transaction that has begun: the connection, the entries from number `start` on if they are not many, and those
    of the request that it is about."""

    connection: Any
    start: int | None
    entries: Sequence[tuple[Any, ...]]
    version: object
    about: Sequence[tuple[Any, ...]] = ()


class ServerConnections(Protocol):
    """What a transaction asks of the store that owns the connection."""

    schema: str

    def begin(self, *, write: bool, request: str | None) -> Begun:
        """The connection with a transaction begun, which is about a request."""
        ...

    def commit(self, entry: LedgerEntry, payload: bytes | None) -> object:
        """Add an entry with its bytes, and make the transaction durable; the version after that."""
        ...

    def end(self, error: BaseException | None) -> None:
        """Undo what was not committed, and give the connection back."""
        ...


class PostgresTransaction:
    """One transaction on the store's connection: begun by `with`, and undone at its end unless it was committed."""

    def __init__(self, store: ServerConnections, *, write: bool, request: str | None = None) -> None:
        self._store = store
        self._write = write
        self._request = request
        self._row: tuple[LedgerEntry, bytes | None] | None = None

    def __enter__(self) -> PostgresTransaction:
        self._begun = self._store.begin(write=self._write, request=self._request)
        self.version = self._begun.version
        self._about = {row[2]: LedgerEntry._make(row) for row in self._begun.about}  # by kind
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._store.end(error)

    def entries(self, start: int) -> Iterator[LedgerEntry]:
        """The entries from number `start` on, in order of their numbers."""
        if start == self._begun.start:
            return map(LedgerEntry._make, self._begun.entries)
        rows = self._many(f"SELECT {COLUMNS} FROM {self._store.schema}.entries WHERE seq >= %s ORDER BY seq", start)
        return map(LedgerEntry._make, rows)

    def entry(self, seq: int) -> LedgerEntry | None:
        """The entry with a number."""
        return self._one("seq = %s", seq)

    def find(self, kind: str, request: str) -> LedgerEntry | None:
        """The entry of a kind with a request id."""
        if request == self._request:
            return self._about.get(kind)
        return self._one("request = %s AND kind = %s", request, kind)

    def payload(self, seq: int) -> bytes | None:
        """The bytes that were stored with an entry."""
        row = self._run(f"SELECT bytes FROM {self._store.schema}.payloads WHERE seq = %s", seq).fetchone()
        return row[0] if row else None

    def payloads(self) -> Iterator[int]:
        """The numbers of the entries that have bytes stored."""
        return (row[0] for row in self._many(f"SELECT seq FROM {self._store.schema}.payloads ORDER BY seq"))

    def append(self, entry: LedgerEntry, payload: bytes | None = None) -> bool:
        """Add an entry, and bytes with it; or nothing, if there is one of its kind for its request already."""
        if entry.request is not None and self.find(entry.kind, entry.request) is not None:
            return False
        assert self._row is None, "a transaction adds one entry"
        self._row = entry, payload
        return True

    def commit(self) -> None:
        """Send what was added, and make it durable."""
        assert self._row is not None
        self.version = self._store.commit(*self._row)

    def _one(self, where: str, *values: object) -> LedgerEntry | None:
        row = self._run(f"SELECT {COLUMNS} FROM {self._store.schema}.entries WHERE {where}", *values).fetchone()
        return row and LedgerEntry._make(row)

    def _run(self, statement: str, *values: object) -> Any:
        return self._begun.connection.execute(statement.encode(), values)

    def _many(self, statement: str, *values: object) -> Iterator[tuple[Any, ...]]:
        """Rows that need not be in memory together."""
        with self._begun.connection.cursor(name=f"rangebound {next(_NAMES)}") as cursor:
            cursor.itersize = _PAGE
            cursor.execute(statement.encode(), values)
            yield from cursor
