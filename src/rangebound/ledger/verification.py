"""The full check of a ledger: every entry, every stored byte, the file, and whether it goes on from known heads."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass

from rangebound.errors import ArgumentError, LedgerTampered
from rangebound.ledger.approval import in_same_place, login_of, may_be_one
from rangebound.ledger.chain import BEARERS, NO_SEAL, EntryKind, LedgerEntry, holds
from rangebound.ledger.head import Head
from rangebound.ledger.replay import Replay
from rangebound.ledger.store import Store, Transaction
from rangebound.values import arguments

_HEAD = re.compile(r"([1-9]\d{0,17}):([0-9a-f]{64})", re.ASCII)


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
            entries = transaction.entries(-(2**63))  # an entry below number 1 is someone else's
            findings += check_entries(entries, Replay(key=key), seen)
            findings += _bytes(transaction, seen)
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


class Progress:
    """What the pass over the entries has found so far."""

    def __init__(self) -> None:
        self.name = ""
        self.last = 0
        self.seal = NO_SEAL
        self.latest = 0
        self.set_back: list[int] = []
        self.moves: list[LedgerEntry] = []
        self.begun: dict[int, LedgerEntry] = {}  # charges and requests, until they are completed or decided
        self.asked: dict[tuple[str | None, str | None], LedgerEntry] = {}  # requests, until they are charged
        self.followed: list[tuple[LedgerEntry, LedgerEntry]] = []  # by an entry under another name
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


def refuse(findings: Iterable[str]) -> None:
    """Raise `LedgerTampered` if there are findings: the first, and all of them in a field."""
    found = tuple(findings)
    if found:
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        raise LedgerTampered(found[0] + more, findings=found)


def parse_head(head: str) -> Head:
    """A head as `Ledger.head` gave it."""
    match = _HEAD.fullmatch(head) if type(head) is str else None
    if match is None:
        rule = "must be NUMBER:SEAL, as `rangebound ledger show` prints it and `Ledger.head` gives it"
        raise ArgumentError(f"head={arguments.shown(head)}: {rule}")
    return Head(int(match[1]), bytes.fromhex(match[2]))
