"""Requests of accounts that need approval: filed with a dry run, decided once, listed for those who decide."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from rangebound.errors import ArgumentError, LedgerTampered, RequestConflict
from rangebound.ledger.approval import FiledRequest
from rangebound.ledger.chain import EntryKind, LedgerEntry
from rangebound.ledger.charge_checks import balance_of, conflict, drafted, exceeded, refuse_rejected
from rangebound.ledger.guarded_chain import GuardedChain, now, signed
from rangebound.ledger.names import plain_name
from rangebound.ledger.record import ApprovalRequest, Record, request_of
from rangebound.ledger.replay import Replay
from rangebound.ledger.rule import AnyCost, charged
from rangebound.ledger.store import Transaction
from rangebound.values import arguments


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
        asked = _asked(chain.state, request)
        own = asked.filed
        balance = balance_of(chain.state, own.account or "")
        if asked.decided is None:
            if not asked.may_decide(kind, draft.who, balance.approval):
                raise ArgumentError(
                    f"who={arguments.shown(draft.who)}: asked for request {arguments.shown(request)}, and the one who "
                    "asks must not approve; ask another person"
                )
            _genuine(chain, transaction, own)
            draft = draft._replace(account=own.account, request=own.request, ref=own.seq)
            if chain.append(transaction, draft) is None:
                raise LedgerTampered(f"entry {own.seq}: has a decision that is not in the chain")
        elif (asked.decided.kind, asked.decided.who) != (kind, draft.who):
            raise RequestConflict(
                f"request={arguments.shown(request)}: was {asked.status.value} by "
                f"{arguments.shown(asked.decided.who)}, and is decided once; asking again needs a new id"
            )
        return request_of(asked, balance.rule)


def listed(chain: GuardedChain, account: str | None) -> list[ApprovalRequest]:
    """The requests of an account, or of all, in the order in which they were filed."""

    def take(_: Transaction) -> list[ApprovalRequest]:
        if account is not None:
            balance_of(chain.state, account)
        return [
            request_of(each, chain.state.accounts[each.filed.account or ""].rule)
            for each in chain.state.requests.values()
            if account in (None, each.filed.account)
        ]

    return chain.read(take)


def dry_run_of(chain: GuardedChain, request: str) -> bytes:
    """The bytes that a request was filed with, checked against their digest."""

    def take(transaction: Transaction) -> bytes:
        return chain.stored(transaction, _genuine(chain, transaction, _asked(chain.state, request).filed))

    return chain.read(take)


def _asked(state: Replay, request: str) -> FiledRequest:
    plain_name("request", request)
    try:
        return state.requests[request]
    except KeyError:
        raise ArgumentError(
            f"request={arguments.shown(request)}: was not filed in this ledger; `rangebound ledger requests` and "
            "`Ledger.requests` list those that were"
        ) from None


def _genuine(chain: GuardedChain, transaction: Transaction, filed: LedgerEntry) -> LedgerEntry:
    """The entry of a request as it is in the store now, which must be the one that is known."""
    if chain.find(transaction, EntryKind.REQUEST, filed.request or "") != filed:
        raise LedgerTampered(f"entry {filed.seq}: is not as it was written")
    return filed
