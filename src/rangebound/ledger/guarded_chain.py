"""The sealed chain of a ledger in its store, guarded by its head: checked as a whole, and extended entry by entry."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field

from rangebound.errors import LedgerTampered, LedgerUnavailable
from rangebound.ledger.chain import (
    BEARERS,
    NO_SEAL,
    EntryKind,
    Head,
    LedgerEntry,
    holds,
    login_of,
    may_be_one,
    now,
    parse_head,
    sealed,
    signed,
)
from rangebound.ledger.head import HeadFile, HeldHead, Key
from rangebound.ledger.record import Record, record_of
from rangebound.ledger.replay import Replay, in_same_place, trial
from rangebound.ledger.store import ConnectionLost, Store, Transaction
from rangebound.values import arguments

_UNKNOWN = object()
_RECENT = 1024  # heads that are remembered, since other processes move theirs a little later
_BEGINNING = -(2**63)  # an entry below number 1 is someone else's


@arguments.brief
@dataclass(frozen=True, kw_only=True)
class Report:
    """What a successful check saw: how many entries, the head to keep, and where the clock was set back.

    Of entries that were made in a database, whose logins are known, `by_another` are those that complete the charge of
    another login: what they published is not from whoever was charged. `taken_up` are spends of a request that was
    approved for another login. `one_login` are approvals by the login that asked, under another stated name: a service
    does so for its people, and nobody else should. `not_told` are spends and completions under another name of which
    no login tells whether they are by another person: made in a file, or by a login that states several names.
    """

    entries: int
    head: str
    clock_set_back: tuple[int, ...]
    by_another: tuple[int, ...] = ()
    one_login: tuple[int, ...] = ()
    taken_up: tuple[int, ...] = ()
    not_told: tuple[int, ...] = ()


def examine(
    store: Store, key: bytes, *, head: str | None = None, kept: Callable[[str], Head | None] | None = None
) -> Report:
    """Check a ledger from its first entry to its last; `kept` is where the head of a ledger with some id is kept.

    Guarantee: an entry that was changed, removed, moved or doubled is found, and so are changed bytes. Entries cut
    off at the end (an old copy) are found when a later head is given, as `Ledger.head` said it, or kept.
    Raises: `LedgerTampered` with all findings.
    """
    given = None if head is None else parse_head(head)
    findings: list[str] = []
    seen = Progress()
    try:
        findings += [f"file: {line}" for line in store.damage()]
        with store.reading() as transaction:
            entries = transaction.entries(_BEGINNING)
            findings += check_entries(entries, Replay(key=key), seen)
            for seq, digest in seen.published.items():
                payload = transaction.payload(seq)
                if payload is None:
                    findings.append(f"entry {seq}: its published bytes are missing")
                elif hashlib.sha256(payload).digest() != digest:
                    findings.append(f"entry {seq}: its published bytes are not as they were stored")
            findings += strays(transaction, seen.published)
        # Read after the entries, and compared with those that there are then: others may add some at any time.
        heads = [given] if given is not None else []
        if kept is not None and seen.name:
            try:
                heads += filter(None, [kept(seen.name)])
            except LedgerTampered as error:
                findings.append(str(error))
        with store.reading() as transaction:
            findings += [line for head in heads for line in missing(transaction, head)]
    except LedgerTampered as error:
        findings.append(str(error))
    refuse(findings)
    return Report(
        entries=seen.last,
        head=f"{seen.last}:{seen.seal.hex()}",
        clock_set_back=tuple(seen.set_back),
        **_by_whom(seen, in_database=store.login is not None),
    )


@dataclass(kw_only=True)
class Progress:
    """What the pass over the entries has found so far."""

    name: str = ""
    last: int = 0
    seal: bytes = NO_SEAL
    latest: int = 0
    set_back: list[int] = field(default_factory=list)
    moves: list[LedgerEntry] = field(default_factory=list)
    begun: dict[int, LedgerEntry] = field(default_factory=dict)  # charges and requests, until they are completed
    asked: dict[tuple[str | None, str | None], LedgerEntry] = field(default_factory=dict)  # until they are charged
    followed: list[tuple[LedgerEntry, LedgerEntry]] = field(default_factory=list)  # by an entry under another name
    published: dict[int, bytes | None] = field(default_factory=dict)


def check_entries(entries: Iterator[LedgerEntry], state: Replay, seen: Progress) -> Iterator[str]:
    """What is wrong with entries, from the first to the last; `state` is what they add up to, up to the first fault."""
    replay: Replay | None = state
    for entry in entries:
        if entry.seq != seen.last + 1:
            yield f"entry {seen.last + 1}: is missing" if entry.seq > 0 else f"entry {entry.seq}: was never written"
            replay = None
        if not holds(state.key, seen.seal, entry):
            yield f"entry {entry.seq}: is not as it was written, or not where it was, or the key is not this ledger's"
            replay = None
        if replay is not None:  # sums make sense only as long as everything so far is genuine
            try:
                replay.add(entry)
            except LedgerTampered as error:
                yield str(error)
                replay = None
        _note(entry, seen)
    if not seen.last:
        yield "entry 1: is missing"


def _note(entry: LedgerEntry, seen: Progress) -> None:
    if type(entry.time) is int:
        if entry.time < seen.latest:
            seen.set_back.append(entry.seq)
        seen.latest = max(seen.latest, entry.time)
    if entry.kind == EntryKind.LEDGER and entry.seq == 1:
        seen.name = entry.request or ""
    if entry.kind in BEARERS:
        seen.published[entry.seq] = entry.digest
    seen.last = entry.seq
    seen.seal = entry.seal if type(entry.seal) is bytes else NO_SEAL
    if entry.kind == EntryKind.MOVE:
        seen.moves.append(entry)
    first = seen.begun.pop(entry.ref, None) if entry.ref is not None else None
    if entry.kind in (EntryKind.SPEND, EntryKind.REQUEST):
        seen.begun[entry.seq] = entry
        first = seen.asked.pop((entry.account, entry.request), None)
    if entry.kind == EntryKind.REQUEST:
        seen.asked[entry.account, entry.request] = entry
    if first is not None and first.who != entry.who:
        seen.followed.append((first, entry))


def _by_whom(seen: Progress, *, in_database: bool) -> dict[str, tuple[int, ...]]:
    """The entries that are about a charge or a request under another name, by what their logins tell."""
    in_database = seen.moves[-1].what == "postgres" if seen.moves else in_database
    moves = [each.seq for each in seen.moves]
    found: dict[str, list[int]] = {"by_another": [], "one_login": [], "taken_up": [], "not_told": []}
    for first, entry in seen.followed:
        told = all(in_same_place(moves, each) is in_database for each in (first, entry))
        same = login_of(first.who) == login_of(entry.who)
        if told and same and entry.kind == EntryKind.APPROVE:
            found["one_login"].append(entry.seq)
        elif entry.kind in (EntryKind.APPROVE, EntryKind.REJECT):
            continue
        elif told and not same:
            found["taken_up" if entry.kind == EntryKind.SPEND else "by_another"].append(entry.seq)
        elif not may_be_one(first.who, entry.who):
            found["not_told"].append(entry.seq)
    return {name: tuple(seqs) for name, seqs in found.items()}


def strays(transaction: Transaction, published: Container[int]) -> Iterator[str]:
    """What is wrong with bytes that belong to no entry."""
    for seq in transaction.payloads():
        if seq not in published:
            yield f"entry {seq}: has bytes that were never published"


def missing(transaction: Transaction, head: Head) -> Iterator[str]:
    """What is wrong with a ledger that lacks an entry of which a head is known."""
    found = transaction.entry(head.seq)
    if found is None or found.seal != head.seal:
        yield (
            f"head: the ledger does not go on from entry {head.seq}, of which this head is known; it was rolled back, "
            "another copy of it was spent from, or it is another ledger"
        )


def refuse(findings: Iterable[str]) -> None:
    """Raise `LedgerTampered` if there are findings: the first, and all of them in a field."""
    found = tuple(findings)
    if found:
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        raise LedgerTampered(found[0] + more, findings=found)


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
        """Close the store, once the head has been moved to the last entry that is known to be durable."""
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
                self._sure = last.head

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
                held.advance(entry.head)
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

        self.state.advance(noted(transaction.entries(_BEGINNING)))
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
        self._recent[entry.seq % _RECENT] = entry.head
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
