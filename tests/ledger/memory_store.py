"""A store in memory: the smallest thing that keeps the promises of `Store`, for tests of what is built on it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rangebound.ledger.chain import LedgerEntry


class MemoryTransaction:
    def __init__(self, store: MemoryStore) -> None:
        self.store, self.rows, self.bytes = store, dict(store.rows), dict(store.bytes)
        self.version: object = store.version

    def entries(self, start: int) -> Iterator[LedgerEntry]:
        return iter([self.rows[seq] for seq in sorted(self.rows) if seq >= start])

    def entry(self, seq: int) -> LedgerEntry | None:
        return self.rows.get(seq)

    def find(self, kind: str, request: str) -> LedgerEntry | None:
        return next((each for each in self.rows.values() if (each.kind, each.request) == (kind, request)), None)

    def payload(self, seq: int) -> bytes | None:
        return self.bytes.get(seq)

    def payloads(self) -> Iterator[int]:
        return iter(sorted(self.bytes))

    def known(self, drafts: Sequence[LedgerEntry]) -> set[tuple[str, str | None]]:
        return {(each.kind, each.request) for each in drafts if self.find(each.kind, each.request or "") is not None}

    def append(self, entry: LedgerEntry, payload: bytes | None = None) -> bool:
        if entry.request is not None and self.find(entry.kind, entry.request) is not None:
            return False
        self.rows[entry.seq] = entry
        if payload is not None:
            self.bytes[entry.seq] = payload
        return True

    def commit(self) -> None:
        self.store.rows, self.store.bytes = self.rows, self.bytes


class MemoryStore:
    kind = "memory"
    login = identity = None
    patience = linger = 1.0

    def __init__(self, first: LedgerEntry) -> None:
        self.rows, self.bytes, self.version = {first.seq: first}, dict[int, bytes](), 0

    @contextmanager
    def writing(self, request: str | None = None) -> Iterator[MemoryTransaction]:
        yield MemoryTransaction(self)

    reading = writing

    def reread(self, first: int, last: int) -> list[LedgerEntry]:
        return [self.rows[seq] for seq in range(first, last + 1) if seq in self.rows]

    def damage(self) -> list[str]:
        return []

    def close(self) -> None:
        pass
