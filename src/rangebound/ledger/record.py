"""What a ledger shows: an account as it stands, an entry of the history, a charge that was made."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any

from rangebound.ledger.amount import Amount
from rangebound.ledger.chain import EntryKind, LedgerEntry
from rangebound.ledger.replay import Approval, Balance, BudgetPeriod, FiledRequest, RequestStatus, moment
from rangebound.ledger.rule import AnyCost, Rule
from rangebound.values import arguments


@arguments.brief
@dataclass(frozen=True, kw_only=True)
class Account:
    """An account as it stands: the promise (epsilon, delta), its rule, and what of the total is spent and left.

    Of an account with periods, the promise, `spent` and `remaining` are those of one period, the `current` one;
    `periods` counts those that have spends, as `spends` counts all spends.
    """

    name: str
    epsilon: Amount
    delta: Amount
    rule: Rule
    total: AnyCost
    spent: AnyCost
    remaining: AnyCost
    spends: int
    opened: datetime
    approval: Approval | None = None
    period: BudgetPeriod | None = None
    current: str | None = None
    periods: int = 0

    @property
    def weaker_promise(self) -> str | None:
        """What an account with periods promises, in a sentence: it is weaker than that of one for good."""
        if self.period is None:
            return None
        name, epsilon, delta = self.period.value, self.epsilon, self.delta
        return (
            f"The budget of account {self.name!r} is for each {name} (UTC): all releases charged in one {name} "
            f"together are ({epsilon}, {delta})-private. Over k {name}s they are k times that, "
            f"(k * {epsilon}, k * {delta})-private, and no number bounds what the account leaks in the end."
        )

    @property
    def left(self) -> str:
        """What is left, in words: for a Gaussian account also as epsilon and delta of one more release."""
        return self.rule.left(self.remaining.units, self.delta)

    def to_dict(self) -> dict[str, object]:
        """The account as plain data, with exact decimals as strings."""
        promise = {"epsilon": str(self.epsilon), "delta": str(self.delta)}
        columns = {name: getattr(self, name).to_dict() for name in ("total", "spent", "remaining")}
        periods: dict[str, object] = {}
        if self.period is not None:
            periods = {"period": self.period.value, "current": self.current, "periods": self.periods}
            periods["weaker_promise"] = self.weaker_promise
        return {
            "account": self.name,
            "promise": promise,
            **self.rule.to_dict(),
            **({} if self.approval is None else {"approval": self.approval.value}),
            **periods,
            **columns,
            "left": self.left,
            "spends": self.spends,
            "opened": self.opened.isoformat(),
        }


@arguments.brief
@dataclass(frozen=True, kw_only=True)
class Record:
    """One entry of the history; `cost` is the total for an account, the charge for a spend or a request.

    `microseconds`, `first`, `second` and `ref` are the fields under the seal from which `time` and `cost` come, and the
    number of the entry that this one is about.
    """

    seq: int
    time: datetime
    kind: EntryKind
    account: str | None
    request: str | None
    cost: AnyCost | None
    who: str
    what: str
    note: str
    digest: str | None
    seal: str
    microseconds: int
    first: int | None
    second: int | None
    ref: int | None

    @property
    def head(self) -> str:
        """The head of the ledger at this entry, as `Ledger.head` gave it then."""
        return f"{self.seq}:{self.seal}"

    def to_dict(self) -> dict[str, object]:
        """The entry as plain data, with exact decimals as strings."""
        data = {field.name: getattr(self, field.name) for field in fields(self)}
        cost = None if self.cost is None else self.cost.to_dict()
        return {**data, "time": self.time.isoformat(), "kind": self.kind.value, "cost": cost, "head": self.head}


@arguments.brief
@dataclass(frozen=True, kw_only=True)
class Reservation:
    """A charge that is durable: `cost` may now be leaked, once, under the id `request`.

    `published` holds the bytes that were stored for the request before, if any: those are the answer, and nothing
    may be drawn again.
    """

    seq: int
    account: str
    request: str
    cost: AnyCost
    published: bytes | None = field(repr=False)


@arguments.brief
@dataclass(frozen=True, kw_only=True)
class ApprovalRequest:
    """A request to an account that needs approval: who asks for what, and what was decided.

    `decided_by`, `decided` and `reason` are None as long as it waits; `charged` says whether it was spent.
    """

    seq: int
    account: str
    request: str
    cost: AnyCost
    who: str
    what: str
    note: str
    filed: datetime
    status: RequestStatus
    decided_by: str | None
    decided: datetime | None
    reason: str | None
    charged: bool

    def to_dict(self) -> dict[str, object]:
        """The request as plain data, with exact decimals as strings."""
        data = {field.name: getattr(self, field.name) for field in fields(self)}
        times = {"filed": self.filed.isoformat(), "decided": None if self.decided is None else self.decided.isoformat()}
        return {**data, **times, "cost": self.cost.to_dict(), "status": self.status.value}


def account_of(name: str, balance: Balance, time: int = 0) -> Account:
    """The account with a name, from its balance; `time` is the latest, for one with periods."""
    period = balance.period
    number = 0 if period is None else max(period.number(time), balance.current or 0)
    return Account(
        name=name,
        epsilon=balance.epsilon,
        delta=balance.delta,
        rule=balance.rule,
        total=balance.rule.cost(balance.total),
        spent=balance.rule.cost(balance.spent_at(time)),
        remaining=balance.remaining(time),
        spends=balance.spends,
        opened=moment(balance.opened.time),
        approval=balance.approval,
        period=period,
        current=None if period is None else period.named(number),
        periods=balance.periods,
    )


def record_of(entry: LedgerEntry, rules: dict[str, Rule]) -> Record:
    """The entry as a record of the history, by the rule of its account."""
    paid = entry.first is not None and entry.second is not None and entry.account is not None
    shown: dict[str, Any] = {
        "time": moment(entry.time),
        "kind": EntryKind(entry.kind),
        "cost": rules[entry.account or ""].cost((entry.first or 0, entry.second or 0)) if paid else None,
        "digest": None if entry.digest is None else entry.digest.hex(),
        "seal": entry.seal.hex(),
        "microseconds": entry.time,
    }
    return Record(**(entry._asdict() | shown))


def request_of(asked: FiledRequest, rule: Rule) -> ApprovalRequest:
    """The request as the chain has it, by the rule of its account."""
    own, decided = asked.filed, asked.decided
    return ApprovalRequest(
        seq=own.seq,
        account=own.account or "",
        request=own.request or "",
        cost=rule.cost((own.first or 0, own.second or 0)),
        who=own.who,
        what=own.what,
        note=own.note,
        filed=moment(own.time),
        status=asked.status,
        decided_by=None if decided is None else decided.who,
        decided=None if decided is None else moment(decided.time),
        reason=None if decided is None else decided.note,
        charged=asked.charged,
    )
