"""Where a ledger keeps its entries: the interface between the rules of spending and a database.

A store has one connection, which the threads of a process take in turn, closed around a fork, since neither a lock on a
file nor a connection to a server can be shared by two processes.
"""

from __future__ import annotations

import os
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeAlias

from rangebound.errors import LedgerTampered, LedgerUnavailable
from rangebound.ledger.chain import LedgerEntry
from rangebound.values import arguments

COLUMNS = ", ".join(LedgerEntry._fields)
AnyFault: TypeAlias = LedgerUnavailable | LedgerTampered
Row: TypeAlias = tuple[LedgerEntry, bytes | None]
"""An entry, and the bytes that are stored with it."""


class NoRoom(LedgerUnavailable):
    """A store could not take what was to be added, perhaps for its size; nothing was added."""


class ConnectionLost(LedgerUnavailable):
    """A store was lost in the middle of a transaction: what was read there may not be durable, and what was written
    may or may not be there."""


class Transaction:
    """One transaction on a store, begun by `with`; nothing that was added stays unless `commit` returns."""

    connection: Any
    version: object
    """The same as in an earlier transaction only if no other writer has changed anything since then."""

    def __init__(self, store: Store, *, write: bool, request: str | None = None) -> None:
        self.store, self.write, self.request = store, write, request
        self.known: dict[int, Sequence[tuple[Any, ...]]] = {}  # rows that are read already, by the number of the first
        self.about: dict[str, LedgerEntry] | None = None  # the entries of the request, where they are read already
        self.added: Row | None = None  # what is sent only when it is committed

    def __enter__(self) -> Transaction:
        self.store.begin(self)
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        self.store.end(error)

    def entries(self, start: int) -> Iterator[LedgerEntry]:
        """The entries from number `start` on, in order of their numbers."""
        words = f"SELECT {COLUMNS} FROM {{entries}} WHERE seq >= {{value}} ORDER BY seq"
        return map(LedgerEntry._make, self.known[start] if start in self.known else self._many(words, start))

    def entry(self, seq: int) -> LedgerEntry | None:
        """The entry with a number."""
        return self._one("seq = {value}", seq)

    def find(self, kind: str, request: str) -> LedgerEntry | None:
        """The entry of a kind with a request id."""
        if self.about is not None and request == self.request:
            return self.about.get(kind)
        return self._one("request = {value} AND kind = {value}", request, kind)

    def payload(self, seq: int) -> bytes | None:
        """The bytes that were stored with an entry."""
        row = self._run("SELECT bytes FROM {payloads} WHERE seq = {value}", seq).fetchone()
        return row[0] if row and isinstance(row[0], bytes) else None

    def payloads(self) -> Iterator[int]:
        """The numbers of the entries that have bytes stored."""
        return (row[0] for row in self._many("SELECT seq FROM {payloads} ORDER BY seq"))

    def append(self, entry: LedgerEntry, payload: bytes | None = None) -> bool:
        """Add an entry, and bytes with it; or nothing, if there is one of its kind for its request already."""
        return self.store.append(self, entry, payload)

    def commit(self) -> None:
        """Make what was added durable: once this returns it survives a crash and a loss of power."""
        self.store.commit(self)

    def _one(self, where: str, *values: object) -> LedgerEntry | None:
        row = self._run(f"SELECT {COLUMNS} FROM {{entries}} WHERE {where}", *values).fetchone()
        return row and LedgerEntry._make(row)

    def _run(self, words: str, *values: object) -> Any:
        return self.connection.execute(words.format(**self.store.words), values)

    def _many(self, words: str, *values: object) -> Iterator[tuple[Any, ...]]:
        return self.store.many(self.connection, words.format(**self.store.words), values)


class Store(ABC):
    """Entries and bytes, changed by one writer at a time, in one process or in many."""

    kind: str
    """What the store is: "file", "postgres", or another that a ledger never moves to."""
    words: dict[str, str]
    """How its SQL names the tables `entries` and `payloads`, and a `value`."""
    foreign: tuple[type[Exception], ...]
    """The errors of the database."""
    _connection: Any = None

    def __init__(self, shown: str, patience: float) -> None:
        self.patience = arguments.positive("patience", patience)
        self._name = f"ledger={arguments.shown(shown)}"
        self._lock = threading.Lock()
        self._forking = False
        _STORES[id(self)] = self

    @property
    def login(self) -> str | None:
        """The name by which the store itself knows who writes, or None: then it is as stated."""
        return None

    def writing(self, request: str | None = None) -> Transaction:
        """A transaction that no other writer overlaps; left without `commit`, it changes nothing. A store may look up
        the entries of the request in advance."""
        return Transaction(self, write=True, request=request)

    def reading(self) -> Transaction:
        """A transaction that sees one state of the store throughout."""
        return Transaction(self, write=False)

    @abstractmethod
    def begin(self, transaction: Transaction) -> None:
        """Begin a transaction as soon as the store is free: its connection, ours alone, and its version; `end` gives
        the connection back."""

    @abstractmethod
    def append(self, transaction: Transaction, entry: LedgerEntry, payload: bytes | None) -> bool:
        """Add an entry, as `Transaction.append` says."""

    @abstractmethod
    def commit(self, transaction: Transaction) -> None:
        """Make what was added durable; the transaction has the version from then on."""

    @abstractmethod
    def end(self, error: BaseException | None) -> None:
        """Undo what was not committed, and give the connection back; an error of the database becomes one of ours."""

    @abstractmethod
    def reread(self, seq: int) -> LedgerEntry | None:
        """The entry with a number, as a process that opens the store by its name now would find it."""

    @abstractmethod
    def damage(self) -> list[str]:
        """What the store itself finds wrong with its file."""

    @abstractmethod
    def create(self, rows: Callable[[], Iterable[Row]], *, roles: bool = False) -> None:
        """Make the tables with the first entries, which are asked for once the place is ours alone."""

    @abstractmethod
    def _ours(self, error: Any) -> AnyFault:
        """An error of the database in our words."""

    def many(self, connection: Any, words: str, values: Sequence[object]) -> Iterator[tuple[Any, ...]]:
        """Rows that need not be in memory together."""
        return iter(connection.execute(words, values))

    def _take(self) -> None:
        if not self._lock.acquire(timeout=self.patience):
            raise LedgerUnavailable(f"{self._name}: other threads kept it busy for {self.patience:g} s; try again")

    @contextmanager
    def _held(self) -> Iterator[None]:
        """The connection is ours alone, and the database's errors become ours."""
        self._take()
        try:
            yield
        except self.foreign as error:
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


_ABANDONED: list[Any] = []
_STORES: weakref.WeakValueDictionary[int, Store] = weakref.WeakValueDictionary()


def _each(step: Callable[[Store], None]) -> None:
    stores = [store for each in _STORES.valuerefs() if (store := each()) is not None]
    for store in sorted(stores, key=id):  # in one order, so that two threads that fork cannot wait for each other
        step(store)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=lambda: _each(Store.before_fork),
        after_in_parent=lambda: _each(Store.after_fork_in_parent),
        after_in_child=lambda: _each(Store.after_fork_in_child),
    )
