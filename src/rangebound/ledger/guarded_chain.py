"""The sealed chain of a ledger in its store, guarded by its head: read, checked, and extended entry by entry."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from rangebound.errors import LedgerTampered, LedgerUnavailable
from rangebound.ledger.chain import BEARERS, EntryKind, LedgerEntry, holds, sealed
from rangebound.ledger.head import Head, HeadFile, HeldHead, head_of
from rangebound.ledger.key import Key
from rangebound.ledger.names import person
from rangebound.ledger.record import Record, record_of
from rangebound.ledger.replay import Replay, trial
from rangebound.ledger.store import ConnectionLost, Store, Transaction
from rangebound.ledger.verification import missing, refuse, strays
from rangebound.values import arguments

_LATEST = 2**63 // 1000  # microseconds since 1970: the last moment that a count of nanoseconds can hold
_UNKNOWN = object()
_RECENT = 1024  # heads that are remembered, since other processes move theirs a little later


class GuardedChain:
    """The chain in `store`, with the state that its entries add up to.

    Guarantee: every entry was checked once before it counts, and an entry that is looked up is checked again. An entry
    that was added is on the disk, in the file that others find, and in the head, before `append` returns.
    Raises: `LedgerTampered` where the chain, the file or the head is not as it was written.
    """

    def __init__(self, store: Store, key: bytes) -> None:
        self.store = store
        self.state = Replay(key=Key(key))
        self.head: HeadFile | None = None
        self.lost: set[int] = set()  # spends whose bytes could not be stored, where not even that could be
        self._version: object = _UNKNOWN  # of the store, as far as the state is known to be its own
        self._sure: Head | None = None  # of which the store has said that it is durable
        self._recent: list[Head | None] = [None] * _RECENT
        damage = store.damage()
        if damage:  # a file put together from two states may hold a chain that is whole as far as it goes
            raise LedgerTampered(f"file: {damage[0]}", findings=tuple(f"file: {line}" for line in damage))
        with self._within(store.reading()) as transaction:
            self._begin(transaction)
        self._refuse_moved()

    def guard(self, head: HeadFile) -> None:
        """Compare the chain with its head, and keep doing so."""
        assert self._sure is not None
        self.head = head
        head.begin(self._sure)
        last = head.read()
        with self.reading() as transaction:
            refuse(missing(transaction, last))
        head.follow(self._sure)

    def close(self) -> None:
        """Let go of the store; the head has then come as far as the chain was seen."""
        if self.head is not None and self._sure is not None:
            self.head.follow(self._sure)
        self.store.close()

    @contextmanager
    def reading(self) -> Iterator[Transaction]:
        """A transaction that begins with the state brought up to date."""
        with self._within(self.store.reading()) as transaction:
            self._advance(transaction)
            yield transaction

    @contextmanager
    def writing(self, request: str | None = None) -> Iterator[Transaction]:
        """A transaction that no other writer overlaps, with the state brought up to date; `request` is the one that it
        is about."""
        with self._within(self.store.writing(request)) as transaction:
            self._advance(transaction)
            yield transaction

    @contextmanager
    def _within(self, begun: AbstractContextManager[Transaction]) -> Iterator[Transaction]:
        """A transaction whose end makes sure that the state is durable, unless the store is lost in it."""
        last = None
        try:
            with begun as transaction:
                try:
                    yield transaction
                finally:
                    last = self.state.last
        except BaseException as error:
            if isinstance(error, ConnectionLost) or not isinstance(error, Exception):
                last = None
            raise
        finally:
            if last is not None and (self._sure is None or last.seq > self._sure.seq):
                self._sure = head_of(last)

    def append(self, transaction: Transaction, draft: LedgerEntry, payload: bytes | None = None) -> LedgerEntry | None:
        """Add an entry durably, with number, time and seal; or nothing, if there is one of its kind for its request.
        A draft that has a time keeps it.

        The state follows only when the commit has succeeded and the entry is in the file that others find; if that is
        unclear, the next transaction finds out.
        """
        who, time = signed(self.store.login, draft.who), draft.time or now()
        entry = sealed(
            self.state.key, self.state.last_seal, draft._replace(seq=self.state.next_seq, time=time, who=who)
        )
        with self._holding(transaction) as held:
            if not transaction.append(entry, payload):
                return None
            trial(self.state, entry)  # a chain that breaks its own rules could never be opened again
            self._version = _UNKNOWN
            transaction.commit()
            if self.store.reread(entry.seq) != entry:
                raise LedgerTampered(f"entry {entry.seq}: was written, but is not in the file; nothing was released")
            if held is not None:
                held.advance(head_of(entry))
        self.state.add(entry)
        self._note(entry)
        self._version = transaction.version
        return entry

    def latest(self, time: int) -> int:
        """The later of a time and of the latest that the chain has seen: periods of a budget go by that."""
        return max(self.state.latest, time)

    def find(self, transaction: Transaction, kind: EntryKind, request: str) -> LedgerEntry | None:
        """The entry for a request, checked again: it may have changed since the chain was read. The last entry needs no
        second check, because every transaction begins with it."""
        last = self.state.last
        if last is not None and (last.kind, last.request) == (kind, request):
            return last
        entry = transaction.find(kind, request)
        if entry is None:
            return None
        before = transaction.entry(entry.seq - 1)
        genuine = before is not None and holds(self.state.key, before.seal, entry)
        if not genuine or (entry.kind, entry.request) != (kind, request):
            raise LedgerTampered(f"entry {entry.seq}: is not as it was written")
        return entry

    def payload(self, transaction: Transaction, spend: LedgerEntry) -> bytes:
        """The bytes that were published for a spend, checked against their digest."""
        entry = self.find(transaction, EntryKind.PUBLISH, spend.request or "")
        if entry is None or entry.ref != spend.seq:
            raise LedgerTampered(f"entry {spend.seq}: its published bytes are missing")
        return self.stored(transaction, entry)

    def stored(self, transaction: Transaction, entry: LedgerEntry) -> bytes:
        """The bytes of an entry that has some, checked against their digest."""
        payload = transaction.payload(entry.seq)
        if payload is None:
            raise LedgerTampered(f"entry {entry.seq}: its published bytes are missing")
        if hashlib.sha256(payload).digest() != entry.digest:
            raise LedgerTampered(f"entry {entry.seq}: its published bytes are not as they were stored")
        return payload

    def records(self, transaction: Transaction, account: str | None) -> list[Record]:
        """The history of an account, or of all."""
        rules = self.state.rules
        return [record_of(e, rules) for e in transaction.entries(1) if account is None or e.account == account]

    def _begin(self, transaction: Transaction) -> None:
        """Check all entries, and that there is nothing else."""
        published = set()

        def noted(entries: Iterator[LedgerEntry]) -> Iterator[LedgerEntry]:
            for entry in entries:
                if entry.kind in BEARERS:
                    published.add(entry.seq)
                yield self._note(entry)

        self.state.advance(noted(transaction.entries(-(2**63))))  # an entry below number 1 is someone else's
        self._version = transaction.version
        refuse(strays(transaction, published))

    def _advance(self, transaction: Transaction) -> None:
        if transaction.version != self._version:
            self._version, last = _UNKNOWN, self.state.last
            try:
                self.state.advance(map(self._note, transaction.entries(max(1, self.state.next_seq - 1))))
            except LedgerTampered:
                if last is None or self._sure is None or last.seq <= self._sure.seq:
                    raise
                self._begin_anew(transaction, self._sure)
            self._version = transaction.version
        self._refuse_moved()

    def _refuse_moved(self) -> None:
        if self.state.place not in ("", self.store.kind):
            raise LedgerUnavailable(
                f"ledger: has moved to {arguments.shown(self.state.address)}, and takes no charge here any more; it "
                "can still be verified"
            )

    def _begin_anew(self, transaction: Transaction, sure: Head) -> None:
        """Forget the state, which holds entries that were never durable and may be gone after a crash, and read the
        chain from its beginning; it must go on from the last entry that was."""
        vars(self.state).update(vars(Replay(key=self.state.key)))
        self._recent = [None] * _RECENT
        self._begin(transaction)
        refuse(missing(transaction, sure))

    def _note(self, entry: LedgerEntry) -> LedgerEntry:
        self._recent[entry.seq % _RECENT] = head_of(entry)
        return entry

    @contextmanager
    def _holding(self, transaction: Transaction) -> Iterator[HeldHead | None]:
        """The head, locked and known to be an entry of this ledger."""
        if self.head is None:
            yield None
            return
        with self.head.held() as held:
            if held.head != self._recent[held.head.seq % _RECENT]:
                refuse(missing(transaction, held.head))
            yield held


def signed(login: str | None, who: str) -> str:
    """Who adds an entry: as stated, or on a server by the login, with another name that was stated after it.

    >>> signed(None, "anna"), signed("service", "anna"), signed("anna", "anna"), signed("service", "service/anna")
    ('anna', 'service/anna', 'anna', 'service/anna')
    """
    if login is None or who.startswith(f"{login}/"):
        return who
    return login if who in ("", login, person(None)) else f"{login}/{who}"


def now() -> int:
    """Microseconds since 1970 by the clock of this machine."""
    try:
        return time.time_ns() // 1000
    except OverflowError:  # a clock beyond the year 2262; times are for people, the order is by number
        return _LATEST
