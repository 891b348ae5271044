"""A privacy budget that outlives the process: charged before anything is drawn, and never twice for one request."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from contextlib import suppress

from rangebound.errors import ArgumentError, ArgumentTypeError, LedgerUnavailable
from rangebound.ledger.amount import Exact, rounded_down
from rangebound.ledger.chain import FORMAT, NO_SEAL, EntryKind, LedgerEntry, now, parse_head, plain_name, prose, sealed
from rangebound.ledger.guarded_chain import GuardedChain, Report, examine, missing, refuse
from rangebound.ledger.head import make_key, read_key
from rangebound.ledger.location import AnyStore, PathLike, head_file, located, vacant
from rangebound.ledger.postgres_store import PostgresStore
from rangebound.ledger.record import Account, ApprovalRequest, Record, Reservation, account_of, record_of, request_of
from rangebound.ledger.replay import Approval, BudgetPeriod, terms
from rangebound.ledger.requests import (
    asked_for,
    balance_of,
    complete,
    costs_of,
    decide,
    demand_approval,
    drafted,
    exceeded,
    file_request,
    repeated,
)
from rangebound.ledger.rule import AnyCost, C, GaussianFilter, PlainSum, RenyiFilter, Rule, charged
from rangebound.ledger.sqlite import PATIENCE
from rangebound.ledger.store import NoRoom, Store
from rangebound.values import arguments

Check = Callable[[list[Record]], None]

PAYLOAD_LIMIT = 256 * 2**20
"""The most bytes that one request may publish: what could be larger is refused before it is charged."""


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
    >>> from rangebound.ledger import Cost
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
        self._chain = GuardedChain(store, key)

    @classmethod
    def create(
        cls,
        path: PathLike,
        *,
        key: PathLike | None = None,
        note: str = "",
        patience: float = PATIENCE,
        roles: bool = False,
    ) -> Ledger:
        """Make a new ledger at `path`, its head, and its key (see `docs/ledger.md`) unless there is one at the given
        place. `path` may be the address of a PostgreSQL database; with `roles=True` the database then enforces who may
        open accounts, approve, release and read (`docs/ledger.md`)."""
        name = os.urandom(16).hex()
        store, place = vacant(path, key, name, patience)
        if roles and not isinstance(store, PostgresStore):
            raise ArgumentError("roles=True: needs a ledger in PostgreSQL; a file has no roles")
        draft = LedgerEntry(1, 0, EntryKind.LEDGER.value, request=name, what=FORMAT, note=prose("note", note))

        def first() -> list[tuple[LedgerEntry, bytes | None]]:
            found = make_key(place)
            entry = sealed(found, NO_SEAL, draft._replace(time=now()))
            head_file(store, name, found, patience=patience).create(entry.head)
            return [(entry, None)]

        store.create(first, roles=roles)
        return _guarded(cls(store, read_key(place)), store, patience)

    @classmethod
    def open(cls, path: PathLike, *, key: PathLike | None = None, patience: float = PATIENCE) -> Ledger:
        """Open the ledger at `path`; every entry is checked first, and a wrong one raises `LedgerTampered`.

        `patience` is how many seconds to wait for other threads, and then again for other processes.

        Guarantee: what `verify` finds is found here too, but for published bytes that were changed: those are checked
        when they are asked for.
        """
        store, secret = located(path, key, patience)
        return _guarded(cls(store, secret), store, patience)

    @classmethod
    def adopt(
        cls, path: PathLike, *, head: str | None = None, key: PathLike | None = None, patience: float = PATIENCE
    ) -> Ledger:
        """Open a ledger whose head is missing (moved without it, or made by version 0.1), and make the head anew.

        Guarantee: the ledger goes on from `head`, as `Ledger.head` said it last; the caller vouches that
        nothing was spent after that but what the ledger holds. Without `head`, the error says where the file ends.
        """
        store, secret = located(path, key, patience)
        ledger = cls(store, secret)
        if head is None:
            raise ArgumentError(
                "head: must be the last one that you know (`rangebound ledger show` and certificates of releases have "
                f"it); the file as it is ends at {ledger.head}"
            )
        known = parse_head(head)
        with ledger._chain.reading() as transaction:
            refuse(missing(transaction, known))
        last = ledger._chain.state.last
        assert last is not None
        head_file(store, ledger._chain.state.name, secret, patience=patience).create(last.head)
        return _guarded(ledger, store, patience)

    @arguments.guided
    def open_account(
        self,
        name: str,
        *,
        epsilon: Exact,
        delta: Exact = 0,
        rule: Rule | None = None,
        approval: bool | str = False,
        period: str | None = None,
        who: str | None = None,
        note: str = "",
    ) -> Account:
        """Open an account whose releases together stay (epsilon, delta)-private; the promise and `rule` are for good.

        The total is rounded down to 1e-12; `rule` is `PlainSum()`, `GaussianFilter()` or `RenyiFilter(order=...)`.
        With `approval=True`, or "others", nothing is charged before a request for exactly that is filed
        (`file_request`) and another person approves it (`approve`); with "anyone", the one who asks may approve too.
        With `period`, "month", "quarter" or "year", the total is for each of them, by the calendar in UTC and the
        latest time that the ledger has seen. That is a weaker promise: over k periods it is k times (epsilon, delta).
        """
        plain_name("name", name)
        rule = PlainSum() if rule is None else rule
        needed = Approval.OTHERS if approval is True else None
        if type(approval) is not bool:
            needed = arguments.member("approval", approval, Approval)
        lasting = None if period is None else arguments.member("period", period, BudgetPeriod)
        kinds = (PlainSum, GaussianFilter, RenyiFilter)
        arguments.instance("rule", rule, kinds, "a PlainSum, a GaussianFilter or a RenyiFilter")
        limit, slack = rounded_down("epsilon", epsilon), rounded_down("delta", delta)
        if slack.fraction >= 1:
            raise ArgumentError(f"delta={slack}: must lie in [0, 1)")
        total = rule.total(limit, slack).units
        if not any(total):
            raise ArgumentError("epsilon=0, delta=0: one of them must be positive; nothing could be spent")
        what, (first, second) = terms(rule, limit, slack, needed, lasting), total
        draft = drafted(EntryKind.ACCOUNT, who=who, what=what, note=note, account=name, first=first, second=second)
        with self._chain.writing() as transaction:
            accounts = self._chain.state.accounts
            if name in accounts:
                raise ArgumentError(f"name={arguments.shown(name)}: is open already; an account is opened once")
            self._chain.append(transaction, draft)
            return account_of(name, accounts[name], self._chain.latest(now()))

    @arguments.guided
    def reserve(
        self,
        *,
        account: str,
        request: str,
        cost: AnyCost | tuple[AnyCost, ...],
        what: str = "",
        who: str | None = None,
        note: str = "",
        check: Check | None = None,
    ) -> Reservation:
        """Charge `cost` to an account; when this returns, the charge is on the disk.

        A tuple of costs is the same release stated in several ways, each true by itself: the first one that the
        account's rule can hold is charged. Rules take costs of other kinds where that is always valid: see
        `RenyiFilter` and `GaussianFilter`.

        `check` may refuse a new charge by an error of its own. It gets the account's history, and nothing is added to
        that, by any process, before the charge is.

        Edge cases: a cost that the rule cannot hold is refused, with nothing spent. A known `request` is not charged
        again, and comes back with its bytes if it has any; if the account, `what` or the amounts that it would be
        charged are others, it raises `RequestConflict`; so does, in a database, one that another login has charged and
        not completed. Too little left raises `BudgetExceeded`. A request whose bytes could not be stored raises
        `RequestFailed`. In an account that needs approval, a request that is not approved raises `ApprovalNeeded`, and
        one that was rejected `RequestRejected`.
        """
        plain_name("account", account)
        plain_name("request", request)
        costs = costs_of(cost)
        draft = drafted(EntryKind.SPEND, who=who, what=what, note=note, account=account, request=request)
        with self._chain.writing(request) as transaction:
            balance, time = balance_of(self._chain.state, account), now()
            latest = self._chain.latest(time)  # read once: the entry is counted in the period in which it was admitted
            taken, (first, second) = charged(balance.rule, costs)
            draft = draft._replace(first=first, second=second)
            asked = check is not None or balance.approval is not None
            if asked and self._chain.find(transaction, EntryKind.SPEND, request) is None:
                demand_approval(self._chain.state, draft, self.login)
                if check is not None:
                    check(self._chain.records(transaction, account))
            fits = balance.admits((first, second), latest)
            spend = self._chain.append(transaction, draft._replace(time=time)) if fits else None
            published = None
            if spend is None:  # the request is known, or costs too much
                spend = self._chain.find(transaction, EntryKind.SPEND, request)
                if spend is None:
                    raise exceeded(account, balance, taken, (first, second), latest)
                published = repeated(self._chain, transaction, spend, draft)
            return Reservation(seq=spend.seq, account=account, request=request, cost=taken, published=published)

    def publish(self, reservation: Reservation, payload: bytes, *, who: str | None = None) -> bytes:
        """Store the bytes of a reserved release, and return the bytes that may be revealed: the first ones stored.

        Edge cases: what cannot be stored, because it is of another type, has more than `PAYLOAD_LIMIT` bytes or finds
        no room, is noted as failed. The request is then never computed again: a second draw for one charge could be
        chosen by its size.
        """
        arguments.instance("reservation", reservation, Reservation, "what `reserve` returned")
        if type(payload) is not bytes or len(payload) > PAYLOAD_LIMIT:
            complete(self._chain, reservation, EntryKind.FAIL, who=who)
            if type(payload) is bytes:  # by how much is not said: it may be the size of a draw
                rule = f"must have at most {PAYLOAD_LIMIT} bytes; the charge stands, publish it in parts"
                raise ArgumentError(f"payload: {rule}")
            rule = "must be bytes, such as json.dumps(answer).encode(); the charge stands"
            raise ArgumentTypeError(f"payload of type {type(payload).__name__}: {rule}")  # not shown: may be a draw
        try:
            return complete(self._chain, reservation, EntryKind.PUBLISH, payload, who=who)
        except NoRoom as error:
            self._chain.lost.add(reservation.seq)
            with suppress(LedgerUnavailable):  # where there is no room for this either, this process remembers it
                complete(self._chain, reservation, EntryKind.FAIL, who=who)
            raise LedgerUnavailable(f"{error}; the charge stands, and the request is not computed again") from error

    @arguments.guided
    def release(
        self,
        *,
        account: str,
        request: str,
        cost: C | tuple[C, ...],
        compute: Callable[[C], bytes],
        what: str = "",
        who: str | None = None,
        note: str = "",
        check: Check | None = None,
    ) -> bytes:
        """Charge, compute, store, reveal: the bytes of `compute(cost)`, or those stored for the request before.

        `compute` gets the cost that was charged: of a tuple, the one that the account's rule took, as it was given.
        `float(cost.epsilon)` of a `Cost` and `cost.mu` of a `GaussianCost` are never above the charge, so they are what
        `compute` calibrates its mechanism to. `cost` and `check` are those of `reserve`.
        """
        arguments.function("compute", compute, 1, "a function of the cost that gives bytes")
        reservation = self.reserve(
            account=account, request=request, cost=cost, what=what, who=who, note=note, check=check
        )
        if reservation.published is not None:
            return reservation.published
        taken = next(each for each in (cost if isinstance(cost, tuple) else (cost,)) if each is reservation.cost)
        return self.publish(reservation, compute(taken), who=who)

    @arguments.guided
    def file_request(
        self,
        *,
        account: str,
        request: str,
        cost: AnyCost | tuple[AnyCost, ...],
        dry_run: bytes,
        what: str = "",
        who: str | None = None,
        note: str = "",
        check: Check | None = None,
    ) -> ApprovalRequest:
        """File a request with an account that needs approval; nothing is spent. `reserve` and `release` take the same
        `account`, `request`, `cost` and `what` once it is approved.

        `dry_run` is what the person who decides shall see, and is kept with the request; `check` is that of `reserve`.

        Guarantee: one request, one decision, one charge of exactly this cost, `what` and account.
        Edge cases: filed again for the same, it comes back as it stands, with the first `dry_run`; for something else
        it raises `RequestConflict`, and after a rejection `RequestRejected`. A cost above what is left raises
        `BudgetExceeded`; an approval keeps nothing back, so that later charges may leave too little for it.

        >>> import tempfile
        >>> from rangebound.ledger import Cost
        >>> folder = tempfile.TemporaryDirectory()
        >>> ledger = Ledger.create(folder.name + "/census.ledger")
        >>> _ = ledger.open_account("residents", epsilon=1, approval=True)
        >>> asked = {"account": "residents", "request": "table 1", "cost": Cost(epsilon=0.1)}
        >>> print(ledger.file_request(**asked, dry_run=b"one count", who="anna").status)
        waiting
        >>> print(ledger.approve("table 1", who="berta").status)
        approved
        >>> ledger.release(**asked, compute=lambda cost: b"42")
        b'42'
        >>> ledger.close()
        >>> folder.cleanup()
        """
        plain_name("account", account)
        plain_name("request", request)
        if type(dry_run) is not bytes or len(dry_run) > PAYLOAD_LIMIT:
            raise ArgumentTypeError(
                f"dry_run of type {type(dry_run).__name__}: must be bytes, {PAYLOAD_LIMIT} at most, such as "
                "json.dumps(facts).encode()"
            )
        draft = drafted(EntryKind.REQUEST, who=who, what=what, note=note, account=account, request=request)
        return file_request(self._chain, draft, costs_of(cost), dry_run, check)

    def approve(self, request: str, *, who: str | None = None, note: str = "") -> ApprovalRequest:
        """Approve a request that was filed: it may be charged once, as it was filed.

        Edge cases: the one who asked may not approve, unless the account says "anyone". What was decided stays decided:
        the same decision by the same person changes nothing, and another one raises `RequestConflict`.
        """
        return decide(self._chain, EntryKind.APPROVE, request, who=who, note=note)

    def reject(self, request: str, *, who: str | None = None, note: str = "") -> ApprovalRequest:
        """Reject a request that was filed, for good; `note` is the reason. The one who asked may withdraw it so."""
        return decide(self._chain, EntryKind.REJECT, request, who=who, note=note)

    def requests(self, account: str | None = None) -> list[ApprovalRequest]:
        """The requests of accounts that need approval, of one or of all, in the order in which they were filed."""
        with self._chain.reading():
            state = self._chain.state
            if account is not None:
                balance_of(state, account)
            filed = [each for each in state.requests.values() if account in (None, each.filed.account)]
            return [request_of(each, state.rules[each.filed.account or ""]) for each in filed]

    def dry_run(self, request: str) -> bytes:
        """The bytes that a request was filed with."""
        with self._chain.reading() as transaction:
            asked = asked_for(self._chain, transaction, request)
            return self._chain.stored(transaction, asked.filed)

    def account(self, name: str, *, without: Collection[str] = ()) -> Account:
        """An account as it stands now, or as it would without the spends of some requests."""
        chain = self._chain
        with chain.reading() as transaction:
            balance, latest = balance_of(chain.state, name), chain.latest(now())
            left_out = [chain.find(transaction, EntryKind.SPEND, each) for each in without]
            own = [each for each in left_out if each is not None and each.account == name]
            return account_of(name, balance.without(own, latest), latest)

    def accounts(self) -> list[Account]:
        """All accounts as they stand now, in the order in which they were opened."""
        chain = self._chain
        with chain.reading():
            return [account_of(*each, chain.latest(now())) for each in chain.state.accounts.items()]

    def history(self, account: str | None = None) -> list[Record]:
        """Who did what and when, in the order in which it was done, whatever the clocks said."""
        with self._chain.reading() as transaction:
            if account is not None:
                balance_of(self._chain.state, account)
            return self._chain.records(transaction, account)

    def published(self, request: str) -> bytes | None:
        """The bytes that were published for a request, or None if there are none."""
        plain_name("request", request)
        with self._chain.reading() as transaction:
            spend, state = self._chain.find(transaction, EntryKind.SPEND, request), self._chain.state
            if spend is None or spend.seq in state.pending or spend.seq in state.failed:
                return None
            return self._chain.payload(transaction, spend)

    def paid(self, request: str) -> Record | None:
        """The entry that charged a request, whatever became of its bytes, or None if none did."""
        plain_name("request", request)
        with self._chain.reading() as transaction:
            spend = self._chain.find(transaction, EntryKind.SPEND, request)
            return None if spend is None else record_of(spend, self._chain.state.rules)

    @property
    def login(self) -> str | None:
        """The name by which a database knows who writes here; None in a file, where names are as stated."""
        return self._chain.store.login

    @property
    def head(self) -> str:
        """The number and the seal of the last entry: kept elsewhere, it lets `verify` find a rollback."""
        state = self._chain.state
        with self._chain.reading():
            return f"{state.next_seq - 1}:{state.last_seal.hex()}"

    def verify(self, *, head: str | None = None) -> Report:
        """Check every entry, every stored byte, the file itself and the head that is kept outside it; raises
        `LedgerTampered` with all findings."""
        chain, kept = self._chain, self._chain.head
        return examine(chain.store, chain.state.key, head=head, kept=None if kept is None else lambda _: kept.read())

    def close(self) -> None:
        """Let go of the file."""
        self._chain.close()

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _guarded(ledger: Ledger, store: AnyStore, patience: float) -> Ledger:
    """The ledger, compared with its head from now on."""
    state = ledger._chain.state
    ledger._chain.guard(head_file(store, state.name, state.key, patience=patience))
    return ledger
