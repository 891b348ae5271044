"""Where a ledger keeps its entries: the interface between the rules of spending and a database."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Protocol

from rangebound.errors import LedgerUnavailable
from rangebound.ledger.chain import LedgerEntry


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
