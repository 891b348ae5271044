"""A privacy budget that outlives the process: charged before anything is drawn, and never twice for one request."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from rangebound import arguments
from rangebound.errors import (
    ArgumentError,
    ArgumentTypeError,
    BudgetExceeded,
    LedgerTampered,
    LedgerUnavailable,
    RequestConflict,
    RequestFailed,
)
from rangebound.ledger.amount import Exact, rounded_down
from rangebound.ledger.chain import FORMAT, NO_SEAL, Entry, Kind, holds, sealed
from rangebound.ledger.head import ENDING, Head, HeadFile, HeldHead, head_folder, head_of, head_path
from rangebound.ledger.key import Key, key_path, make_key, read_key
from rangebound.ledger.names import file_path, person, plain_name, prose
from rangebound.ledger.record import Account, Record, Reservation, account_of, record_of
from rangebound.ledger.replay import Balance, Replay, terms
from rangebound.ledger.rule import AnyCost, Cost, PlainSum, RenyiCost, RenyiFilter, Rule
from rangebound.ledger.sqlite import FILES, PATIENCE, SQLiteStore, may_be_database
from rangebound.ledger.store import NoRoom, Store, Transaction
from rangebound.ledger.verification import Report, examine, missing, parse_head, strays

T = TypeVar("T")
C = TypeVar("C", Cost, RenyiCost)
Check = Callable[[list[Record]], None]

PAYLOAD_LIMIT = 256 * 2**20
"""The most bytes that one request may publish: what could be larger is refused before it is charged."""

_LATEST = 2**63 // 1000  # microseconds since 1970: the last moment that a count of nanoseconds can hold
_UNKNOWN = object()


class Ledger:
    """Accounts with a privacy budget each, in a file that several threads and processes may share.

    Guarantee: `release` calls `compute` only once its cost is on the disk, and returns only bytes that are on the disk.
    What an account leaks in all is never above its total, in any order of threads, processes and crashes. An old copy
    put in the ledger's place, under a running process or between two, is found by the head in a file of its own.
    Assumes: the costs are worst-case guarantees of what is computed; one copy of the file is in use; nobody who can
    read the key file forges entries, and nobody puts ledger and head back together (`docs/ledger.md` says what can and
    cannot be found out).
    Edge cases: an error in `compute`, or a crash, leaves the charge standing. The same request may be run again: it
    spends nothing more, and whichever run stores its bytes first determines the answer of all. Bytes that could not be
    stored (too many, no room) are not drawn again: the same request then raises `RequestFailed`.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> ledger = Ledger.create(folder.name + "/census.ledger")
    >>> _ = ledger.open_account("residents", epsilon=1)
    >>> ledger.release(account="residents", request="table 1", cost=Cost(epsilon=0.1), compute=lambda cost: b"42")
    b'42'
    >>> ledger.release(account="residents", request="table 1", cost=Cost(epsilon=0.1), compute=lambda cost: b"43")
    b'42'
    >>> print(ledger.account("residents").remaining)
    epsilon 0.9
    >>> ledger.close()
    >>> folder.cleanup()
    """

    def __init__(self, store: Store, key: bytes | None = None) -> None:
        if key is None or isinstance(store, (str, os.PathLike)):
            raise ArgumentTypeError("Ledger(...): write Ledger.open(path), or Ledger.create(path) for a new ledger")
        self._store = store
        self._state = Replay(key=Key(key))
        self._head: HeadFile | None = None
        self._lost: set[int] = set()  # spends whose bytes could not be stored, where not even that could be
        self._version: object = _UNKNOWN  # of the store, as far as the state is known to be its own
        damage = store.damage()
        if damage:  # a file put together from two states may hold a chain that is whole as far as it goes
            raise LedgerTampered(f"file: {damage[0]}", findings=tuple(f"file: {line}" for line in damage))
        with store.reading() as transaction:
            self._begin(transaction)

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        *,
        key: str | os.PathLike[str] | None = None,
        note: str = "",
        patience: float = PATIENCE,
    ) -> Ledger:
        """Make a new ledger at `path`, its head, and its key (see `docs/ledger.md`) unless there is one at the given
        place."""
        store = SQLiteStore(file_path("path", path), patience=patience)
        place, said = key_path(store.path, key)
        if not store.path.parent.is_dir():
            raise ArgumentError(f"path={arguments.shown(str(path))}: must be in an existing folder")
        if store.path.exists() and (not store.path.is_file() or store.path.stat().st_size):
            raise ArgumentError(f"path={arguments.shown(str(path))}: must not exist yet; `Ledger.open` opens a ledger")
        name = os.urandom(16).hex()
        head = head_path(store.path, name)
        for what, there in {"key": place.exists() and not said, "head": head.exists()}.items():
            if there:
                raise ArgumentError(
                    f"path={arguments.shown(str(path))}: there is a {what} beside it, so there was a ledger; bring it "
                    f"back, or remove the {what} to begin anew"
                )
        text = prose("note", note)

        def first() -> Entry:
            found = read_key(place) if place.exists() else make_key(place)
            entry = Entry(1, _now(), Kind.LEDGER.value, request=name, what=FORMAT, note=text)
            entry = sealed(found, NO_SEAL, entry)
            HeadFile(head, name, found, patience=patience).create(head_of(entry))
            return entry

        store.create(first)
        return cls(store, read_key(place))._guarded(patience)

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        key: str | os.PathLike[str] | None = None,
        patience: float = PATIENCE,
    ) -> Ledger:
        """Open the ledger at `path`; every entry is checked first, and a wrong one raises `LedgerTampered`.

        `patience` is how many seconds to wait for other threads, and then again for other processes.

        Guarantee: what `verify` finds is found here too, but for published bytes that were changed: those are checked
        when they are asked for.
        """
        return cls(*_located(path, key, patience))._guarded(patience)

    @classmethod
    def adopt(
        cls,
        path: str | os.PathLike[str],
        *,
        head: str | None = None,
        key: str | os.PathLike[str] | None = None,
        patience: float = PATIENCE,
    ) -> Ledger:
        """Open a ledger whose head is missing (moved without it, or made by version 0.1), and make the head anew.

        Guarantee: the ledger goes on from `head`, as `Ledger.head` said it last; whoever calls this vouches that
        nothing was spent after that but what the ledger holds. Without `head`, the error says where the file ends.
        """
        ledger = cls(*_located(path, key, patience))
        if head is None:
            raise ArgumentError(
                "head: must be the last one that you know (`rangebound ledger show` and certificates of releases have "
                f"it); the file as it is ends at {ledger.head}"
            )
        known = parse_head(head)
        ledger._read(lambda transaction: _refuse(missing(transaction, known)))
        assert ledger._state.last is not None
        ledger._head_file(patience).create(head_of(ledger._state.last))
        return ledger._guarded(patience)

    @arguments.guided
    def open_account(
        self,
        name: str,
        *,
        epsilon: Exact,
        delta: Exact = 0,
        rule: Rule | None = None,
        who: str | None = None,
        note: str = "",
    ) -> Account:
        """Open an account whose releases together stay (epsilon, delta)-private; the promise and `rule` are for good.

        The total is rounded down to 1e-12; `rule` is `PlainSum()` or `RenyiFilter(order=...)`.
        """
        plain_name("name", name)
        rule = PlainSum() if rule is None else rule
        arguments.instance("rule", rule, (PlainSum, RenyiFilter), "a PlainSum or a RenyiFilter")
        limit, slack = rounded_down("epsilon", epsilon), rounded_down("delta", delta)
        if slack.fraction >= 1:
            raise ArgumentError(f"delta={slack}: must lie in [0, 1)")
        total = rule.total(limit, slack).units
        if not any(total):
            raise ArgumentError("epsilon=0, delta=0: one of them must be positive; nothing could be spent")
        words: dict[str, Any] = {"who": person(who), "what": terms(rule, limit, slack), "note": prose("note", note)}
        with self._store.writing() as transaction:
            state = self._advance(transaction)
            if name in state.accounts:
                raise ArgumentError(f"name={arguments.shown(name)}: is open already; an account is opened once")
            self._append(transaction, Kind.ACCOUNT, account=name, first=total[0], second=total[1], **words)
            return account_of(name, state.accounts[name])

    @arguments.guided
    def reserve(
        self,
        *,
        account: str,
        request: str,
        cost: AnyCost,
        what: str = "",
        who: str | None = None,
        note: str = "",
        check: Check | None = None,
    ) -> Reservation:
        """Charge `cost` to an account; when this returns, the charge is on the disk.

        `check` may refuse a new charge by an error of its own. It gets the account's history, and nothing is added to
        that, by any process, before the charge is.

        Edge cases: a known `request` is not charged again, and comes back with its bytes if it has any; with another
        account, cost or `what` it raises `RequestConflict`. Too little left raises `BudgetExceeded`. A request whose
        bytes could not be stored raises `RequestFailed`.
        """
        plain_name("account", account)
        plain_name("request", request)
        arguments.instance("cost", cost, (Cost, RenyiCost), "a Cost, such as Cost(epsilon=0.1), or a RenyiCost")
        if not any(cost.units):
            raise ArgumentError(f"cost={cost}: must be positive; what gives nothing away needs no budget")
        words: dict[str, Any] = {"who": person(who), "what": prose("what", what), "note": prose("note", note)}
        with self._store.writing() as transaction:
            state = self._advance(transaction)
            balance = _balance(state, account)
            units = balance.rule.units(cost)
            spend, published = None, None
            if check is not None and self._found(transaction, Kind.SPEND, request) is None:
                check(self._records(transaction, account))
            if balance.admits(units):
                first, second = units
                spend = self._append(
                    transaction, Kind.SPEND, account=account, request=request, first=first, second=second, **words
                )
            if spend is None:  # the request is known, or costs too much
                spend = self._found(transaction, Kind.SPEND, request)
                if spend is None:
                    raise BudgetExceeded(
                        f"cost={cost}: account {arguments.shown(account)} has less left ({balance.remaining}); "
                        "nothing was spent",
                        account=account,
                        remaining=balance.remaining,
                        requested=cost,
                    )
                if (spend.account, (spend.first, spend.second), spend.what) != (account, units, words["what"]):
                    raise RequestConflict(
                        f"request={arguments.shown(request)}: was used before for another account, cost or `what` "
                        "(of a table: its plan); a new release needs a new id"
                    )
                self._refuse_failed(spend)
                published = None if spend.seq in state.pending else self._stored(transaction, spend)
            return Reservation(seq=spend.seq, account=account, request=request, cost=cost, published=published)

    def publish(self, reservation: Reservation, payload: bytes, *, who: str | None = None) -> bytes:
        """Store the bytes of a reserved release, and return the bytes that may be revealed: the first ones stored.

        Edge cases: what cannot be stored, because it is of another type, has more than `PAYLOAD_LIMIT` bytes or finds
        no room, is noted as failed. The request is then never computed again: a second draw for one charge could be
        chosen by its size.
        """
        arguments.instance("reservation", reservation, Reservation, "what `reserve` returned")
        if type(payload) is not bytes:
            # Not shown: it may be a draw.
            self._settle(reservation, Kind.FAIL, who=who)
            raise ArgumentTypeError(
                f"payload of type {type(payload).__name__}: must be bytes, such as json.dumps(answer).encode(); "
                "the charge stands"
            )
        if len(payload) > PAYLOAD_LIMIT:  # by how much is not said: it may be the size of a draw
            self._settle(reservation, Kind.FAIL, who=who)
            raise ArgumentError(
                f"payload: must have at most {PAYLOAD_LIMIT} bytes; the charge stands, publish it in parts"
            )
        try:
            return self._settle(reservation, Kind.PUBLISH, payload, who=who)
        except NoRoom as error:
            self._lost.add(reservation.seq)
            with suppress(LedgerUnavailable):  # where there is no room for this either, this process remembers it
                self._settle(reservation, Kind.FAIL, who=who)
            raise LedgerUnavailable(f"{error}; the charge stands, and the request is not computed again") from error

    @arguments.guided
    def release(
        self,
        *,
        account: str,
        request: str,
        cost: C,
        compute: Callable[[C], bytes],
        what: str = "",
        who: str | None = None,
        note: str = "",
        check: Check | None = None,
    ) -> bytes:
        """Charge, compute, store, reveal: the bytes of `compute(cost)`, or those stored for the request before.

        `float(cost.epsilon)` is never above the charge, so it is what `compute` calibrates its mechanism to; `check` is
        that of `reserve`.
        """
        arguments.function("compute", compute, 1, "a function of the cost that gives bytes")
        reservation = self.reserve(
            account=account, request=request, cost=cost, what=what, who=who, note=note, check=check
        )
        if reservation.published is not None:
            return reservation.published
        return self.publish(reservation, compute(cost), who=who)

    def account(self, name: str) -> Account:
        """An account as it stands now."""
        return self._read(lambda _: account_of(name, _balance(self._state, name)))

    def accounts(self) -> list[Account]:
        """All accounts as they stand now, in the order in which they were opened."""
        return self._read(lambda _: [account_of(name, each) for name, each in self._state.accounts.items()])

    def history(self, account: str | None = None) -> list[Record]:
        """Who did what and when, in the order in which it was done, whatever the clocks said."""

        def take(transaction: Transaction) -> list[Record]:
            if account is not None:
                _balance(self._state, account)
            return self._records(transaction, account)

        return self._read(take)

    def published(self, request: str) -> bytes | None:
        """The bytes that were published for a request, or None if there are none."""
        plain_name("request", request)

        def take(transaction: Transaction) -> bytes | None:
            spend = self._found(transaction, Kind.SPEND, request)
            if spend is None or spend.seq in self._state.pending or spend.seq in self._state.failed:
                return None
            return self._stored(transaction, spend)

        return self._read(take)

    @property
    def head(self) -> str:
        """The number and the seal of the last entry: kept elsewhere, it lets `verify` find a rollback."""
        return self._read(lambda _: f"{self._state.next_seq - 1}:{self._state.last_seal.hex()}")

    def verify(self, *, head: str | None = None) -> Report:
        """Check every entry, every stored byte, the file itself and the head that is kept outside it; raises
        `LedgerTampered` with all findings."""
        kept = self._head
        return examine(self._store, self._state.key, head=head, kept=None if kept is None else lambda _: kept.read())

    def close(self) -> None:
        """Let go of the file."""
        self._store.close()

    def __enter__(self) -> Ledger:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _begin(self, transaction: Transaction) -> None:
        """Check all entries, and that there is nothing else."""
        published = set()

        def noted(entries: Iterator[Entry]) -> Iterator[Entry]:
            for entry in entries:
                if entry.kind == Kind.PUBLISH:
                    published.add(entry.seq)
                yield entry

        self._state.advance(noted(transaction.entries(-(2**63))))  # an entry below number 1 is someone else's
        self._version = transaction.version
        _refuse(strays(transaction, published))

    def _guarded(self, patience: float) -> Ledger:
        """Compare the ledger with its head, and keep doing so."""
        self._head = self._head_file(patience)
        head = self._head.read()
        self._read(lambda transaction: _refuse(missing(transaction, head)))
        return self

    def _head_file(self, patience: float) -> HeadFile:
        assert isinstance(self._store, SQLiteStore)
        name = self._state.name
        return HeadFile(head_path(self._store.path, name), name, self._state.key, patience=patience)

    @contextmanager
    def _holding(self, transaction: Transaction) -> Iterator[HeldHead | None]:
        """The head, held for us alone and known to be an entry of this ledger."""
        if self._head is None:
            yield None
            return
        with self._head.held() as held:
            if self._state.last is None or held.head != head_of(self._state.last):
                _refuse(missing(transaction, held.head))
            yield held

    def _advance(self, transaction: Transaction) -> Replay:
        if transaction.version != self._version:
            self._version = _UNKNOWN
            self._state.advance(transaction.entries(max(1, self._state.next_seq - 1)))
            self._version = transaction.version
        return self._state

    def _read(self, take: Callable[[Transaction], T]) -> T:
        with self._store.reading() as transaction:
            self._advance(transaction)
            return take(transaction)

    def _records(self, transaction: Transaction, account: str | None) -> list[Record]:
        rules = {name: each.rule for name, each in self._state.accounts.items()}
        return [record_of(e, rules) for e in transaction.entries(1) if account is None or e.account == account]

    def _append(
        self, transaction: Transaction, kind: Kind, payload: bytes | None = None, **fields: Any
    ) -> Entry | None:
        """Add an entry durably, unless there is one of its kind for its request. The state follows only when the commit
        has succeeded, and the entry is in the file that others find; if that is unclear, the next transaction finds
        out."""
        state = self._state
        entry = sealed(state.key, state.last_seal, Entry(state.next_seq, _now(), kind.value, **fields))
        with self._holding(transaction) as held:
            if not transaction.append(entry, payload):
                return None
            self._version = _UNKNOWN
            transaction.commit()
            if self._store.reread(entry.seq) != entry:
                raise LedgerTampered(f"entry {entry.seq}: was written, but is not in the file; nothing was released")
            if held is not None:
                held.advance(head_of(entry))
        state.add(entry)
        self._version = transaction.version
        return entry

    def _settle(self, reservation: Reservation, kind: Kind, payload: bytes | None = None, *, who: str | None) -> bytes:
        """End a charge by its bytes, or by the note that there are none; the bytes that may be revealed."""
        digest = None if payload is None else hashlib.sha256(payload).digest()
        words = {"account": reservation.account, "request": reservation.request, "who": person(who)}
        with self._store.writing() as transaction:
            state = self._advance(transaction)
            spend = self._found(transaction, Kind.SPEND, reservation.request)
            if spend is None or spend.seq != reservation.seq:
                raise ArgumentError(f"reservation={arguments.shown(reservation)}: is not of this ledger")
            if kind is Kind.PUBLISH:
                self._refuse_failed(spend)
            if spend.seq in state.failed:
                return b""
            if spend.seq not in state.pending:
                return self._stored(transaction, spend)
            if self._append(transaction, kind, payload, ref=spend.seq, digest=digest, **words) is None:
                raise LedgerTampered(f"entry {spend.seq}: has published bytes that are not in the chain")
        return payload or b""

    def _refuse_failed(self, spend: Entry) -> None:
        if spend.seq in self._state.failed or (spend.seq in self._lost and spend.seq in self._state.pending):
            raise RequestFailed(
                f"request={arguments.shown(spend.request)}: was charged and computed, but could not be stored; it is "
                "not computed again, since each draw would leak more; a new release needs a new id"
            )

    def _found(self, transaction: Transaction, kind: Kind, request: str) -> Entry | None:
        """The entry for a request, checked again: it may have changed since the chain was walked. Not so the last one,
        with which every transaction begins."""
        last = self._state.last
        if last is not None and (last.kind, last.request) == (kind, request):
            return last
        entry = transaction.find(kind, request)
        if entry is None:
            return None
        before = transaction.entry(entry.seq - 1)
        genuine = before is not None and holds(self._state.key, before.seal, entry)
        if not genuine or (entry.kind, entry.request) != (kind, request):
            raise LedgerTampered(f"entry {entry.seq}: is not as it was written")
        return entry

    def _stored(self, transaction: Transaction, spend: Entry) -> bytes:
        entry = self._found(transaction, Kind.PUBLISH, spend.request or "")
        payload = None if entry is None else transaction.payload(entry.seq)
        if entry is None or entry.ref != spend.seq or payload is None:
            raise LedgerTampered(f"entry {spend.seq}: its published bytes are missing")
        if hashlib.sha256(payload).digest() != entry.digest:
            raise LedgerTampered(f"entry {entry.seq}: its published bytes are not as they were stored")
        return payload


def verify(
    path: str | os.PathLike[str], *, key: str | os.PathLike[str] | None = None, head: str | None = None
) -> Report:
    """Check the ledger at `path` to its end, even if it is too damaged to be opened.

    Guarantee: as `examine` says. A rollback is found by the head that is kept outside the file (beside it, or in the
    folder `RANGEBOUND_HEAD`), or by one that was noted elsewhere and is given.
    Raises: `LedgerTampered` with all findings.
    """
    store, secret = _located(path, key, PATIENCE)

    def kept(name: str) -> Head:
        return HeadFile(head_path(store.path, name), name, secret, patience=PATIENCE).read()

    try:
        return examine(store, secret, head=head, kept=kept)
    finally:
        store.close()


def ledger_files(path: str | os.PathLike[str], *, key: str | os.PathLike[str] | None = None) -> tuple[Path, ...]:
    """Every file that belongs to the ledger at `path`, whether or not it exists: nothing else may be written there.

    The first is the ledger itself, as the system names it; `key` is that of `Ledger.open`.

    >>> [each.name for each in ledger_files("census.ledger")][:2]
    ['census.ledger', 'census.ledger-journal']
    """
    ledger = Path(os.path.realpath(file_path("path", path)))
    beside = [ledger.with_name(ledger.name + ending) for ending in (*FILES, ENDING)]
    folder = head_folder()
    heads = [] if folder is None else sorted(folder.glob(f"*{ENDING}"))
    return (*beside, Path(os.path.realpath(key_path(ledger, key)[0])), *heads)


def _located(
    path: str | os.PathLike[str], key: str | os.PathLike[str] | None, patience: float
) -> tuple[SQLiteStore, bytes]:
    store = SQLiteStore(file_path("path", path), patience=patience)
    if not store.path.is_file():
        raise LedgerUnavailable(
            f"ledger={arguments.shown(str(path))}: there is no such file; "
            "`Ledger.create` or `rangebound ledger open` makes one"
        )
    place = key_path(store.path, key)[0]
    if not place.exists() and not may_be_database(store.path):
        raise LedgerUnavailable(f"ledger={arguments.shown(str(path))}: is another kind of file")
    return store, read_key(place)


def _now() -> int:
    try:
        return time.time_ns() // 1000
    except OverflowError:  # a clock beyond the year 2262; times are for people, the order is by number
        return _LATEST


def _refuse(findings: Iterator[str]) -> None:
    found = tuple(findings)
    if found:
        raise LedgerTampered(found[0], findings=found)


def _balance(state: Replay, name: str) -> Balance:
    try:
        return state.accounts[name]
    except (KeyError, TypeError):
        raise ArgumentError(
            f"account={arguments.shown(name)}: is not in this ledger; it has {arguments.shown(list(state.accounts))}"
        ) from None
