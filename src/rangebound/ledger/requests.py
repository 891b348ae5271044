"""Charges and requests on a chain: what is checked before a charge is written, what completes it, and the requests of
accounts that need approval, filed with a dry run, decided once, listed for those who decide."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

from rangebound.errors import (
    ApprovalNeeded,
    ArgumentError,
    BudgetExceeded,
    LedgerTampered,
    RequestConflict,
    RequestFailed,
    RequestRejected,
)
from rangebound.ledger.chain import EntryKind, LedgerEntry, by_login, now, person, plain_name, prose, signed
from rangebound.ledger.guarded_chain import GuardedChain
from rangebound.ledger.record import ApprovalRequest, Record, Reservation, request_of
from rangebound.ledger.replay import Balance, FiledRequest, Replay, RequestStatus, in_same_place
from rangebound.ledger.rule import AnyCost, Cost, GaussianCost, RenyiCost, Units, charged
from rangebound.ledger.store import Transaction
from rangebound.values import arguments


def drafted(kind: EntryKind, *, who: str | None, what: str = "", note: str = "", **fields: Any) -> LedgerEntry:
    """An entry that has no number, time or seal yet."""
    return LedgerEntry(0, 0, kind.value, who=person(who), what=prose("what", what), note=prose("note", note), **fields)


def costs_of(cost: object) -> tuple[AnyCost, ...]:
    """The costs of one release, checked: one, or several in a tuple."""
    costs = cost if type(cost) is tuple and cost else (cost,)
    words = "a Cost, such as Cost(epsilon=0.1), a GaussianCost or a RenyiCost, or a tuple of them"
    for each in costs:
        arguments.instance("cost", each, (Cost, GaussianCost, RenyiCost), words)
        if not any(each.units):
            raise ArgumentError(f"cost={each}: must be positive; what leaks nothing needs no budget")
    return costs


def exceeded(name: str, balance: Balance, cost: AnyCost, units: Units, time: int) -> BudgetExceeded:
    """The error for a cost that is more than what is left, both in the account's own terms."""
    asked, left = balance.rule.cost(units), balance.remaining(time)
    within = after = ""
    if balance.period is not None:
        number = max(balance.period.number(time), balance.current or 0)
        within = f" in {balance.period.named(number)}"
        after = f"; the next {balance.period.value} begins on {balance.period.begins(number + 1)} (UTC)"
    way = after or "; lower the cost, of a plan its budget.epsilon, or open another account by `rangebound ledger open`"
    same = "" if asked == cost else f" ({asked} in this account)"
    return BudgetExceeded(
        f"cost={cost}{same}: exceeds what account {arguments.shown(name)} has left{within} ({left}); nothing was spent"
        f"{way}",
        account=name,
        remaining=left,
        requested=asked,
    )


def balance_of(state: Replay, name: str) -> Balance:
    """The account with a name."""
    try:
        return state.accounts[name]
    except (KeyError, TypeError):
        raise ArgumentError(
            f"account={arguments.shown(name)}: is not in this ledger; it has {arguments.shown(list(state.accounts))}"
        ) from None


def conflict(request: str | None) -> RequestConflict:
    """The error for a request that is known for something else."""
    return RequestConflict(
        f"request={arguments.shown(request)}: was used before for another account, cost or `what` "
        "(of a table: its plan); a new release needs a new id"
    )


def of_another(state: Replay, login: str | None, entry: LedgerEntry) -> bool:
    """Whether another login than this one has made an entry; of one that was made in a file nobody knows."""
    return login is not None and not by_login(login, entry.who) and in_same_place(state.moves, entry)


def demand_approval(state: Replay, spend: LedgerEntry, login: str | None) -> None:
    """Refuse a spend whose account needs approval, unless its request was approved for exactly this, and for whoever
    asked: in a database, by the same login."""
    account, request = spend.account or "", spend.request or ""
    if state.accounts[account].approval is None:
        return
    asked = state.requests.get(request)
    if asked is not None and not asked.covers(spend):
        raise conflict(request)
    if asked is None or asked.status is RequestStatus.WAITING:
        raise approval_needed(account, request, filed=asked is not None)
    refuse_rejected(asked)
    if of_another(state, login, asked.filed):
        raise request_of_another(request, asked.filed.who)


def request_of_another(request: str, who: str) -> RequestConflict:
    """The error for an approved request that somebody else has asked for."""
    return RequestConflict(
        f"request={arguments.shown(request)}: was asked for by {arguments.shown(who)}, for whom alone it is approved; "
        "ask them to run it, or file a request of your own under a new id"
    )


def approval_needed(account: str, request: str, *, filed: bool) -> ApprovalNeeded:
    """The error for a request that is not approved yet."""
    way = (
        "the request is filed and waits for it; `rangebound ledger approve` or `Ledger.approve` gives it"
        if filed
        else "file the request first, by `rangebound release` or `Ledger.file_request`"
    )
    return ApprovalNeeded(
        f"request={arguments.shown(request)}: account {arguments.shown(account)} needs approval, and nothing was read "
        f"or spent; {way}",
        account=account,
        request=request,
        filed=filed,
    )


def refuse_rejected(asked: FiledRequest) -> None:
    """Refuse a request that was rejected."""
    if asked.status is RequestStatus.REJECTED and asked.decided is not None:
        reason = f" ({asked.decided.note})" if asked.decided.note else ""
        raise RequestRejected(
            f"request={arguments.shown(asked.filed.request)}: was rejected by {arguments.shown(asked.decided.who)}"
            f"{reason}; nothing was read or spent, and asking again needs a new id"
        )


def repeated(chain: GuardedChain, transaction: Transaction, spend: LedgerEntry, draft: LedgerEntry) -> bytes | None:
    """The bytes of a request that is known already, if it has any; refused if it was charged for something else."""
    if spend._replace(seq=0, time=0, who=draft.who, note=draft.note, seal=b"") != draft:
        raise conflict(draft.request)
    _refuse_failed(chain, spend)
    return _stored_or_open(chain, transaction, spend)


def complete(
    chain: GuardedChain, reservation: Reservation, kind: EntryKind, payload: bytes | None = None, *, who: str | None
) -> bytes:
    """Complete a charge by its bytes, or by the note that there are none; the bytes that may be revealed."""
    digest = None if payload is None else hashlib.sha256(payload).digest()
    account, request, seq = reservation.account, reservation.request, reservation.seq
    draft = drafted(kind, who=who, account=account, request=request, ref=seq, digest=digest)
    with chain.writing(reservation.request) as transaction:
        spend = chain.find(transaction, EntryKind.SPEND, reservation.request)
        if spend is None or spend.seq != reservation.seq:
            raise ArgumentError(f"reservation={arguments.shown(reservation)}: is not of this ledger")
        if kind is EntryKind.PUBLISH:
            _refuse_failed(chain, spend)
        if spend.seq in chain.state.failed:
            return b""
        stored = _stored_or_open(chain, transaction, spend)
        if stored is not None:
            return stored
        if chain.append(transaction, draft, payload) is None:
            raise LedgerTampered(f"entry {spend.seq}: has published bytes that are not in the chain")
    return payload or b""


def _stored_or_open(chain: GuardedChain, transaction: Transaction, spend: LedgerEntry) -> bytes | None:
    """The bytes of a spend, or None where it is for this login to complete."""
    if spend.seq not in chain.state.pending:
        return chain.payload(transaction, spend)
    if of_another(chain.state, chain.store.login, spend):
        raise RequestConflict(
            f"request={arguments.shown(spend.request)}: was charged by {arguments.shown(spend.who)}, whose login "
            "alone may complete it; ask them to run it again, or use a new id"
        )
    return None


def _refuse_failed(chain: GuardedChain, spend: LedgerEntry) -> None:
    if spend.seq in chain.state.failed or (spend.seq in chain.lost and spend.seq in chain.state.pending):
        raise RequestFailed(
            f"request={arguments.shown(spend.request)}: was charged and computed, but could not be stored; it is "
            "not computed again, since each draw would leak more; a new release needs a new id"
        )


def file_request(
    chain: GuardedChain,
    draft: LedgerEntry,
    costs: tuple[AnyCost, ...],
    dry_run: bytes,
    check: Callable[[list[Record]], None] | None,
) -> ApprovalRequest:
    """Add a request to the chain, or find the one that is there; `draft` names account, request and what."""
    account, request = draft.account or "", draft.request or ""
    with chain.writing() as transaction:
        state = chain.state
        balance = balance_of(state, account)
        if balance.approval is None:
            raise ArgumentError(f"account={arguments.shown(account)}: needs no approval; release without a request")
        taken, units = charged(balance.rule, costs)
        draft = draft._replace(first=units[0], second=units[1], digest=hashlib.sha256(dry_run).digest())
        asked = state.requests.get(request)
        if asked is None:
            if chain.find(transaction, EntryKind.SPEND, request) is not None:
                raise conflict(request)
            if check is not None:
                check(chain.records(transaction, account))
            if not balance.may_admit(units):
                raise exceeded(account, balance, taken, units, chain.latest(now()))
            if chain.append(transaction, draft, dry_run) is None:
                raise LedgerTampered(f"request={arguments.shown(request)}: is in the store, but not in the chain")
            asked = state.requests[request]
        elif not asked.covers(draft):
            raise conflict(request)
        refuse_rejected(asked)
        return request_of(asked, balance.rule)


def decide(chain: GuardedChain, kind: EntryKind, request: str, *, who: str | None, note: str) -> ApprovalRequest:
    """Approve or reject a request; the same decision by the same person again changes nothing."""
    draft = drafted(kind, who=who, note=note)
    draft = draft._replace(who=signed(chain.store.login, draft.who))
    with chain.writing() as transaction:
        asked = asked_for(chain, transaction, request)
        own = asked.filed
        balance = balance_of(chain.state, own.account or "")
        if asked.decided is None:
            if not asked.may_decide(kind, draft.who, balance.approval):
                raise ArgumentError(
                    f"who={arguments.shown(draft.who)}: asked for request {arguments.shown(request)}, and the one who "
                    "asks must not approve; ask another person"
                )
            draft = draft._replace(account=own.account, request=own.request, ref=own.seq)
            if chain.append(transaction, draft) is None:
                raise LedgerTampered(f"entry {own.seq}: has a decision that is not in the chain")
        elif (asked.decided.kind, asked.decided.who) != (kind, draft.who):
            raise RequestConflict(
                f"request={arguments.shown(request)}: was {asked.status.value} by "
                f"{arguments.shown(asked.decided.who)}, and is decided once; asking again needs a new id"
            )
        return request_of(asked, balance.rule)


def asked_for(chain: GuardedChain, transaction: Transaction, request: str) -> FiledRequest:
    """A request, whose entry in the store now must be the one that is known."""
    plain_name("request", request)
    asked = chain.state.requests.get(request)
    if asked is None:
        raise ArgumentError(
            f"request={arguments.shown(request)}: was not filed in this ledger; `rangebound ledger requests` and "
            "`Ledger.requests` list those that were"
        )
    if chain.find(transaction, EntryKind.REQUEST, request) != asked.filed:
        raise LedgerTampered(f"entry {asked.filed.seq}: is not as it was written")
    return asked
