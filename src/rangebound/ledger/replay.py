"""The state that the entries of a ledger add up to: a pass over the chain that trusts only what is under a seal.

An account has a balance, for good or for each period by the calendar in UTC. One that needs approval has requests: each
is filed once, decided once by a person, and pays for one spend.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from rangebound.errors import LedgerTampered, RangeboundError
from rangebound.ledger.amount import Amount, rounded_down
from rangebound.ledger.chain import FORMAT, NO_SEAL, EntryKind, LedgerEntry, holds, may_be_one
from rangebound.ledger.rule import AnyCost, Rule, Units, rule_from_dict

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class BudgetPeriod(StrEnum):
    """How long the total of an account lasts."""

    MONTH = "month"
    QUARTER = "quarter"
    YEAR = "year"

    def number(self, time: int) -> int:
        """The period that a time is in, counted from year 0; `time` is in microseconds since 1970.

        >>> BudgetPeriod.QUARTER.number(0) - BudgetPeriod.QUARTER.number(-1)
        1
        """
        day = moment(time)
        return (12 * day.year + day.month - 1) // _MONTHS[self]

    def named(self, number: int) -> str:
        """The name of a period.

        >>> (
        ...     BudgetPeriod.QUARTER.named(BudgetPeriod.QUARTER.number(0)),
        ...     BudgetPeriod.MONTH.named(BudgetPeriod.MONTH.number(0)),
        ... )
        ('1970-Q1', '1970-01')
        """
        year, part = divmod(number, 12 // _MONTHS[self])
        return {"month": f"{year}-{part + 1:02d}", "quarter": f"{year}-Q{part + 1}", "year": f"{year}"}[self.value]

    def begins(self, number: int) -> str:
        """The first day of a period.

        >>> BudgetPeriod.YEAR.begins(2027)
        '2027-01-01'
        """
        year, month = divmod(number * _MONTHS[self], 12)
        return f"{year}-{month + 1:02d}-01"


_MONTHS = {BudgetPeriod.MONTH: 1, BudgetPeriod.QUARTER: 3, BudgetPeriod.YEAR: 12}


def moment(microseconds: int) -> datetime:
    """The time for people; a clock beyond the years 1 to 9999 is shown as the first or last moment of them."""
    try:
        return _EPOCH + timedelta(microseconds=microseconds)
    except OverflowError:
        return (datetime.max if microseconds > 0 else datetime.min).replace(tzinfo=UTC)


class Approval(StrEnum):
    """Who may approve the requests of an account: anybody but the one who asked, or anybody."""

    OTHERS = "others"
    ANYONE = "anyone"


class RequestStatus(StrEnum):
    """How far a request has come; what was decided stays decided."""

    WAITING = "waiting"
    APPROVED = "approved"
    REJECTED = "rejected"


@dataclass(kw_only=True)
class FiledRequest:
    """A request as the chain has it: the entry that filed it, the one that decided it, and whether it was charged."""

    filed: LedgerEntry
    decided: LedgerEntry | None = None
    charged: bool = False

    @property
    def status(self) -> RequestStatus:
        """How far it has come."""
        if self.decided is None:
            return RequestStatus.WAITING
        return RequestStatus.APPROVED if self.decided.kind == EntryKind.APPROVE else RequestStatus.REJECTED

    def covers(self, spend: LedgerEntry) -> bool:
        """Whether it asks for exactly this charge: the same account, cost and `what`."""
        own = self.filed
        return (own.account, own.what, own.first, own.second) == (spend.account, spend.what, spend.first, spend.second)

    def may_decide(self, kind: str, who: str, approval: Approval | None) -> bool:
        """Whether a person may decide so: who asked may withdraw a request, but not approve it where others must."""
        return kind == EntryKind.REJECT or approval is Approval.ANYONE or not may_be_one(who, self.filed.who)

    def decide(self, entry: LedgerEntry, approval: Approval | None) -> None:
        """Add the decision; a `ValueError` where it breaks a rule."""
        if self.decided is not None or (entry.ref, entry.account) != (self.filed.seq, self.filed.account):
            raise ValueError("a request is decided once")
        if not self.may_decide(entry.kind, entry.who, approval):
            raise ValueError("who asks does not approve")
        self.decided = entry

    def spend(self, entry: LedgerEntry) -> None:
        """Let it pay for a spend, once; a `ValueError` where it does not cover it."""
        if self.status is not RequestStatus.APPROVED or self.charged or not self.covers(entry):
            raise ValueError("a spend of this account needs an approved request of the same cost and `what`")
        self.charged = True


@dataclass(kw_only=True)
class Balance:
    """An account and what was spent from it so far; of one with periods, in the period of its last spend.

    Times are in microseconds since 1970, the latest that the chain has seen: a clock that goes back begins no period.
    """

    opened: LedgerEntry
    rule: Rule
    epsilon: Amount
    delta: Amount
    total: Units
    spent: Units = (0, 0)
    spends: int = 0
    approval: Approval | None = None  # who may approve, where a spend needs that
    period: BudgetPeriod | None = None  # how long the total lasts, where that is not for good
    current: int | None = None  # the number of the period of the last spend
    periods: int = 0  # in how many of them there were spends

    def spent_at(self, time: int) -> Units:
        """What is spent in the period of a time; all of it, where there are no periods."""
        begun = self.period is None or self.current is None or self.period.number(time) <= self.current
        return self.spent if begun else (0, 0)

    def admits(self, cost: Units, time: int = 0) -> bool:
        """Whether this much is left."""
        spent = self.spent_at(time)
        return spent[0] + cost[0] <= self.total[0] and spent[1] + cost[1] <= self.total[1]

    def may_admit(self, cost: Units) -> bool:
        """Whether this much is left, or will be in another period."""
        return self.admits(cost) if self.period is None else replace(self, spent=(0, 0), current=None).admits(cost)

    def charge(self, cost: Units, time: int = 0) -> None:
        """Spend it."""
        spent = self.spent_at(time)
        if self.period is not None:
            number = self.period.number(time)
            if self.current is None or number > self.current:
                self.current = number
                self.periods += 1
        self.spent = (spent[0] + cost[0], spent[1] + cost[1])
        self.spends += 1

    def without(self, spends: Iterable[LedgerEntry], time: int = 0) -> Balance:
        """The balance at a time as if some of its spends had not been; those of earlier periods make no difference."""
        spent, period = self.spent_at(time), self.period
        own = [each for each in spends if period is None or period.number(each.time) == period.number(time)]
        first, second = sum(each.first or 0 for each in own), sum(each.second or 0 for each in own)
        left = max(0, spent[0] - first), max(0, spent[1] - second)
        return replace(self, spent=left, spends=self.spends - len(own)) if own else self

    def remaining(self, time: int = 0) -> AnyCost:
        """What is left, exactly."""
        spent = self.spent_at(time)
        return self.rule.cost((self.total[0] - spent[0], self.total[1] - spent[1]))


@dataclass(kw_only=True)
class Replay:
    """The state of a ledger after its entry `last`."""

    key: bytes = field(repr=False)
    name: str = ""  # the ledger's own id
    last: LedgerEntry | None = None
    latest: int = -(2**63)  # the latest time of all entries: clocks may go back
    accounts: dict[str, Balance] = field(default_factory=dict)
    pending: dict[int, str | None] = field(default_factory=dict)  # the requests of spends without published bytes
    place: str = ""  # the kind of store that the ledger was moved to last
    address: str = ""
    moves: tuple[int, ...] = ()  # the numbers of the entries that say where the ledger goes
    failed: set[int] = field(default_factory=set)  # spends whose bytes could not be stored, and never will be
    requests: dict[str, FiledRequest] = field(default_factory=dict)  # by their ids, in accounts that need approval

    @property
    def next_seq(self) -> int:
        """The number of the entry to come."""
        return self.last.seq + 1 if self.last else 1

    @property
    def last_seal(self) -> bytes:
        """The seal that the entry to come is chained to."""
        return self.last.seal if self.last else NO_SEAL

    @property
    def rules(self) -> dict[str, Rule]:
        """The rules of the accounts, by which amounts are shown."""
        return {name: each.rule for name, each in self.accounts.items()}

    def advance(self, entries: Iterator[LedgerEntry]) -> None:
        """Check and add the entries that came since; they begin with the last one that is known, if there is one."""
        if self.last is not None and next(entries, None) != self.last:
            raise LedgerTampered(f"entry {self.last.seq}: has changed or gone; the ledger was edited or rolled back")
        for entry in entries:
            if entry.seq != self.next_seq:
                raise LedgerTampered(f"entry {self.next_seq}: is missing")
            if not holds(self.key, self.last_seal, entry):
                raise LedgerTampered(f"entry {entry.seq}: is not as it was written, or the key is not this ledger's")
            self.add(entry)
        if self.last is None:
            raise LedgerTampered("entry 1: is missing")

    def add(self, entry: LedgerEntry) -> None:
        """Add an entry that is known to be genuine."""
        try:
            self.latest = max(self.latest, entry.time)
            _STEPS[entry.kind](self, entry)
        except (KeyError, TypeError, ValueError, RangeboundError) as error:
            raise LedgerTampered(f"entry {entry.seq}: breaks the rules of a ledger ({error!r})") from error
        self.last = entry


def in_same_place(moves: Sequence[int], entry: LedgerEntry) -> bool:
    """Whether an entry was made in the kind of place where the ledger is now, after its `moves` between a file, where
    names are as stated, and a database, where they begin with a login.

    >>> [in_same_place([3, 5], LedgerEntry(seq, 0, "spend")) for seq in (2, 4, 6)]
    [True, False, True]
    """
    return sum(each > entry.seq for each in moves) % 2 == 0


def trial(state: Replay, entry: LedgerEntry) -> None:
    """Raise `LedgerTampered` if an entry breaks the rules of a ledger after the state, which stays as it is."""
    account, request = entry.account or "", entry.request or ""
    replace(
        state,
        accounts={account: copy(state.accounts[account])} if account in state.accounts else {},
        requests={request: copy(state.requests[request])} if request in state.requests else {},
        pending={entry.ref: state.pending[entry.ref]} if entry.ref in state.pending else {},
        failed=set(),
    ).add(entry)


def terms(
    rule: Rule, epsilon: Amount, delta: Amount, approval: Approval | None = None, period: BudgetPeriod | None = None
) -> str:
    """What an account promises, as the line that its entry holds; terms that it does not have are not named."""
    own = {name: each.value for name, each in (("approval", approval), ("period", period)) if each is not None}
    return json.dumps({**rule.to_dict(), **own, "promise": [str(epsilon), str(delta)]}, sort_keys=True)


def _begin(replay: Replay, entry: LedgerEntry) -> None:
    if replay.last is not None or entry.what != FORMAT:
        raise ValueError(f"a ledger begins once, with {FORMAT!r}")
    replay.name = entry.request or ""


def _open(replay: Replay, entry: LedgerEntry) -> None:
    data = json.loads(entry.what)
    epsilon, delta = data.pop("promise")
    approval = Approval(data.pop("approval")) if "approval" in data else None
    period = BudgetPeriod(data.pop("period")) if "period" in data else None
    if entry.account is None or entry.account in replay.accounts or entry.first is None or entry.second is None:
        raise ValueError("an account is opened once")
    rule, promise = rule_from_dict(data), (rounded_down("epsilon", epsilon), rounded_down("delta", delta))
    if terms(rule, *promise, approval, period) != entry.what:  # such as a name twice, or a number with more digits
        raise ValueError("the terms of an account are written in one way")
    replay.accounts[entry.account] = Balance(
        opened=entry,
        rule=rule,
        epsilon=promise[0],
        delta=promise[1],
        total=(entry.first, entry.second),
        approval=approval,
        period=period,
    )


def _spend(replay: Replay, entry: LedgerEntry) -> None:
    balance = replay.accounts[entry.account or ""]
    cost = (entry.first or 0, entry.second or 0)
    if min(cost) < 0 or max(cost) == 0 or entry.request is None or not balance.admits(cost, replay.latest):
        raise ValueError("a spend costs something, and no more than is left")
    if balance.approval is not None:
        replay.requests[entry.request].spend(entry)
    balance.charge(cost, replay.latest)
    replay.pending[entry.seq] = entry.request


def _complete(replay: Replay, entry: LedgerEntry) -> None:
    if entry.ref is None or (entry.kind == EntryKind.PUBLISH and entry.digest is None):
        raise ValueError("bytes are published, or fail, for a spend")
    if replay.pending[entry.ref] != entry.request:
        raise ValueError("a spend is completed under its own request")
    del replay.pending[entry.ref]
    if entry.kind == EntryKind.FAIL:
        replay.failed.add(entry.ref)


def _ask(replay: Replay, entry: LedgerEntry) -> None:
    cost = (entry.first or 0, entry.second or 0)
    if min(cost) < 0 or max(cost) == 0 or entry.request is None or entry.digest is None:
        raise ValueError("a request asks for a cost, with bytes that show what for")
    if replay.accounts[entry.account or ""].approval is None or entry.request in replay.requests:
        raise ValueError("a request is filed once, in an account that needs approval")
    replay.requests[entry.request] = FiledRequest(filed=entry)


def _answer(replay: Replay, entry: LedgerEntry) -> None:
    replay.requests[entry.request or ""].decide(entry, replay.accounts[entry.account or ""].approval)


def _move(replay: Replay, entry: LedgerEntry) -> None:
    if entry.what not in ("file", "postgres") or entry.what == replay.place:
        raise ValueError("a ledger moves between a file and a database")
    replay.place, replay.address = entry.what, entry.note
    replay.moves += (entry.seq,)


_STEPS: dict[str, Callable[[Replay, LedgerEntry], None]] = {
    EntryKind.LEDGER: _begin,
    EntryKind.ACCOUNT: _open,
    EntryKind.SPEND: _spend,
    EntryKind.PUBLISH: _complete,
    EntryKind.FAIL: _complete,
    EntryKind.REQUEST: _ask,
    EntryKind.APPROVE: _answer,
    EntryKind.REJECT: _answer,
    EntryKind.MOVE: _move,
}
