"""A store in memory: the smallest thing that keeps the promises of `Store`; and chains sealed past all rules."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rangebound.ledger.book import Ledger
from rangebound.ledger.chain import FORMAT, NO_SEAL, LedgerEntry, sealed

KEY = b"k" * 32


def chained(*drafts: LedgerEntry, key: bytes = KEY) -> list[LedgerEntry]:
    """The entries with numbers and seals, behind a first one, whatever the rules say."""
    entries, before = [], NO_SEAL
    for seq, draft in enumerate((LedgerEntry(1, 0, "ledger", request="id", what=FORMAT), *drafts), start=1):
        entries.append(sealed(key, before, draft._replace(seq=seq)))
        before = entries[-1].seal
    return entries


def memory_ledger(*drafts: LedgerEntry) -> Ledger:
    return Ledger(MemoryStore(*drafts), KEY)


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
    login = None

    def __init__(self, *drafts: LedgerEntry) -> None:
        self.rows, self.version = {each.seq: each for each in chained(*drafts)}, 0
        self.bytes = {each.seq: b"" for each in self.rows.values() if each.kind == "request"}

    @contextmanager
    def writing(self, request: str | None = None) -> Iterator[MemoryTransaction]:
        yield MemoryTransaction(self)

    reading = writing

    def reread(self, seq: int) -> LedgerEntry | None:
        return self.rows.get(seq)

    def damage(self) -> list[str]:
        return []

    def close(self) -> None:
        pass
