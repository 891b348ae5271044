"""Where a ledger keeps its entries: the interface between the rules of spending and a database.

What the stores do alike is here too: one connection, which the threads of a process take in turn, closed around a fork,
since neither a lock on a file nor a connection to a server can be shared by two processes.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any, ClassVar, Protocol, TypeAlias

from rangebound.errors import LedgerTampered, LedgerUnavailable
from rangebound.ledger.chain import LedgerEntry
from rangebound.values import arguments

COLUMNS = ", ".join(LedgerEntry._fields)
AnyFault: TypeAlias = LedgerUnavailable | LedgerTampered


class NoRoom(LedgerUnavailable):
    """A store could not take what was to be added, perhaps for its size; nothing was added."""


class ConnectionLost(LedgerUnavailable):
    """A store was lost in the middle of a transaction: what was read there may not be durable, and what was written
    may or may not be there."""


class Transaction(Protocol):
    """One transaction on a store; nothing that was added stays unless `commit` returns."""

    @property
    def version(self) -> object:
        """The same as in an earlier transaction only if no other writer has changed anything since then."""
        ...

    def entries(self, start: int) -> Iterator[LedgerEntry]:
        """The entries from number `start` on, in order of their numbers."""
        ...

    def entry(self, seq: int) -> LedgerEntry | None:
        """The entry with a number."""
        ...

    def find(self, kind: str, request: str) -> LedgerEntry | None:
        """The entry of a kind with a request id."""
        ...

    def payload(self, seq: int) -> bytes | None:
        """The bytes that were stored with an entry."""
        ...

    def payloads(self) -> Iterator[int]:
        """The numbers of the entries that have bytes stored."""
        ...

    def append(self, entry: LedgerEntry, payload: bytes | None = None) -> bool:
        """Add an entry, and bytes with it; or nothing, if there is one of its kind for its request already."""
        ...

    def commit(self) -> None:
        """Make what was added durable: once this returns it survives a crash and a loss of power."""
        ...


class Store(Protocol):
    """Entries and bytes, changed by one writer at a time, in one process or in many."""

    @property
    def kind(self) -> str:
        """What the store is: "file", "postgres", or another that a ledger never moves to."""
        ...

    @property
    def login(self) -> str | None:
        """The name by which the store itself knows who writes, or None: then it is as stated."""
        ...

    def writing(self, request: str | None = None) -> AbstractContextManager[Transaction]:
        """A transaction that no other writer overlaps; left without `commit`, it changes nothing. A store may look up
        the entries of the request in advance."""
        ...

    def reading(self) -> AbstractContextManager[Transaction]:
        """A transaction that sees one state of the store throughout."""
        ...

    def reread(self, seq: int) -> LedgerEntry | None:
        """The entry with a number, as a process that opens the store by its name now would find it."""
        ...

    def damage(self) -> list[str]:
        """What the store itself finds wrong with its file."""
        ...

    def close(self) -> None:
        """Let go of the file; the next transaction opens it again."""
        ...


class OneConnection:
    """A store with one connection, which its threads take in turn by `_lock`, and which is closed around a fork."""

    _connection: Any = None

    def __init__(self, shown: str, patience: float) -> None:
        self.patience = arguments.positive("patience", patience)
        self._name = f"ledger={arguments.shown(shown)}"
        self._lock = threading.Lock()
        self._forking = False
        _STORES[id(self)] = self

    def _foreign(self) -> tuple[type[Exception], ...]:
        """The errors of the database."""
        raise NotImplementedError

    def _ours(self, error: Any) -> AnyFault:
        """An error of the database in our words."""
        raise NotImplementedError

    def end(self, error: BaseException | None) -> None:
        """Undo what was not committed, and give the connection back; an error of the database becomes one of ours."""
        raise NotImplementedError

    def _take(self) -> None:
        if not self._lock.acquire(timeout=self.patience):
            raise LedgerUnavailable(f"{self._name}: other threads kept it busy for {self.patience:g} s; try again")

    @contextmanager
    def _held(self) -> Iterator[None]:
        """The connection is ours alone, and the database's errors become ours."""
        self._take()
        try:
            yield
        except self._foreign() as error:
            raise self._ours(error) from error
        finally:
            self._lock.release()

    def close(self) -> None:
        """Let go of the connection; the next transaction opens another."""
        with self._held():
            self._close()

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(Exception):
                connection.close()

    def __del__(self) -> None:
        if getattr(self, "_connection", None) is not None:
            self._close()

    def before_fork(self) -> None:
        """Finish what is under way and close the connection."""
        self._forking = self._lock.acquire(timeout=2 * self.patience)
        if self._forking:
            self._close()

    def after_fork_in_parent(self) -> None:
        """Go on; a new connection is made when it is needed."""
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


class OneTransaction:
    """One transaction on the connection of a store: begun by `with`, and undone at its end unless it was committed."""

    _store: Any
    _connection: Any
    _mark: ClassVar[str]  # of a value in a statement
    _schema = ""  # before the name of a table, with a dot

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        self._store.end(error)

    def entries(self, start: int) -> Iterator[LedgerEntry]:
        words = f"SELECT {COLUMNS} FROM {self._schema}entries WHERE seq >= {self._mark} ORDER BY seq"
        return map(LedgerEntry._make, self._many(words, start))

    def entry(self, seq: int) -> LedgerEntry | None:
        return self._one(f"seq = {self._mark}", seq)

    def find(self, kind: str, request: str) -> LedgerEntry | None:
        return self._one(f"request = {self._mark} AND kind = {self._mark}", request, kind)

    def payload(self, seq: int) -> bytes | None:
        row = self._run(f"SELECT bytes FROM {self._schema}payloads WHERE seq = {self._mark}", seq).fetchone()
        return row[0] if row and isinstance(row[0], bytes) else None

    def payloads(self) -> Iterator[int]:
        return (row[0] for row in self._many(f"SELECT seq FROM {self._schema}payloads ORDER BY seq"))

    def _one(self, where: str, *values: object) -> LedgerEntry | None:
        row = self._run(f"SELECT {COLUMNS} FROM {self._schema}entries WHERE {where}", *values).fetchone()
        return row and LedgerEntry._make(row)

    def _run(self, words: str, *values: object) -> Any:
        return self._connection.execute(words, values)

    def _many(self, words: str, *values: object) -> Iterator[tuple[Any, ...]]:
        """Rows that need not be in memory together."""
        return iter(self._run(words, *values))


_ABANDONED: list[Any] = []
_STORES: weakref.WeakValueDictionary[int, OneConnection] = weakref.WeakValueDictionary()


def _each(step: Callable[[OneConnection], None]) -> None:
    stores = [store for each in _STORES.valuerefs() if (store := each()) is not None]
    for store in sorted(stores, key=id):  # in one order, so that two threads that fork cannot wait for each other
        step(store)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=lambda: _each(OneConnection.before_fork),
        after_in_parent=lambda: _each(OneConnection.after_fork_in_parent),
        after_in_child=lambda: _each(OneConnection.after_fork_in_child),
    )
