"""The full check of a ledger: every entry, every stored byte, the file, and whether it goes on from known heads."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass

from rangebound import arguments
from rangebound.errors import ArgumentError, LedgerTampered
from rangebound.ledger.approval import login_of
from rangebound.ledger.chain import BEARERS, NO_SEAL, EntryKind, LedgerEntry, holds
from rangebound.ledger.head import Head
from rangebound.ledger.replay import Replay
from rangebound.ledger.store import Store, Transaction

_HEAD = re.compile(r"([1-9]\d{0,17}):([0-9a-f]{64})", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class Report:
    """What a successful check saw: how many entries, the head to keep, and where the clock was set back.

    In a database, whose logins are known, `by_another` are entries that complete the charge of another login: what they
    published is not from whoever was charged. `one_login` are approvals by the login that asked, under another stated
    name: a service does so for its people, and nobody else should.
    """

    entries: int
    head: str
    clock_set_back: tuple[int, ...]
    by_another: tuple[int, ...] = ()
    one_login: tuple[int, ...] = ()


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
            entries = transaction.entries(-(2**63))  # an entry below number 1 is someone else's
            findings += check_entries(entries, Replay(key=key), seen)
            findings += _bytes(transaction, seen)
        logins = store.login is not None
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
    if findings:
        more = f" (and {len(findings) - 1} more)" if len(findings) > 1 else ""
        raise LedgerTampered(findings[0] + more, findings=tuple(findings))
    return Report(
        entries=seen.last,
        head=f"{seen.last}:{seen.seal.hex()}",
        clock_set_back=tuple(seen.set_back),
        by_another=tuple(seen.by_another) if logins else (),
        one_login=tuple(seen.one_login) if logins else (),
    )


class Progress:
    """What the pass over the entries has found so far."""

    def __init__(self) -> None:
        self.name = ""
        self.last = 0
        self.seal = NO_SEAL
        self.latest = 0
        self.set_back: list[int] = []
        self.by_another: list[int] = []
        self.one_login: list[int] = []
        self.begun: dict[int, str] = {}  # who has charged or asked, until that is completed
        self.published: dict[int, bytes | None] = {}


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
    _note_who(entry, seen)
    seen.last = entry.seq
    seen.seal = entry.seal if type(entry.seal) is bytes else NO_SEAL


def _note_who(entry: LedgerEntry, seen: Progress) -> None:
    if entry.kind in (EntryKind.SPEND, EntryKind.REQUEST):
        seen.begun[entry.seq] = entry.who
    first = seen.begun.pop(entry.ref, None) if entry.ref is not None else None
    if first is None:
        return
    same = login_of(first) == login_of(entry.who)
    if entry.kind in (EntryKind.PUBLISH, EntryKind.FAIL) and not same:
        seen.by_another.append(entry.seq)
    if entry.kind == EntryKind.APPROVE and same and first != entry.who:
        seen.one_login.append(entry.seq)


def _bytes(transaction: Transaction, seen: Progress) -> Iterator[str]:
    for seq, digest in seen.published.items():
        payload = transaction.payload(seq)
        if payload is None:
            yield f"entry {seq}: its published bytes are missing"
        elif hashlib.sha256(payload).digest() != digest:
            yield f"entry {seq}: its published bytes are not as they were stored"
    yield from strays(transaction, seen.published)


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


def parse_head(head: str) -> Head:
    """A head as `Ledger.head` gave it."""
    match = _HEAD.fullmatch(head) if type(head) is str else None
    if match is None:
        rule = "must be NUMBER:SEAL, as `rangebound ledger show` prints it and `Ledger.head` gives it"
        raise ArgumentError(f"head={arguments.shown(head)}: {rule}")
    return Head(int(match[1]), bytes.fromhex(match[2]))
