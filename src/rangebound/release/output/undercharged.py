"""Releases of a ledger that were charged less than they cost: version 0.2 did so for workloads in plain sums."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from rangebound.errors import RangeboundError
from rangebound.ledger.book import Ledger
from rangebound.ledger.chain import EntryKind
from rangebound.ledger.record import Record
from rangebound.ledger.rule import AnyCost, PlainSum, Rule
from rangebound.release.output.conversion import prepared_of
from rangebound.release.output.ledger_entry import charges, covers, is_release, least_due, shortfall
from rangebound.release.output.table import Release


@dataclass(frozen=True, kw_only=True)
class ChargeFinding:
    """An entry of a ledger that was charged less than is `due`; None where its published bytes do not say what is."""

    entry: int
    account: str
    request: str
    paid: AnyCost
    due: AnyCost | None

    def to_dict(self) -> dict[str, object]:
        """The finding as plain data, with costs in the terms of the account."""
        costs = {"paid": self.paid.to_dict(), "due": None if self.due is None else self.due.to_dict()}
        return {"entry": self.entry, "account": self.account, "request": self.request, **costs}

    def __str__(self) -> str:
        where = f"entry {self.entry} (account {self.account!r}, request {self.request!r})"
        if self.due is None:
            return f"{where}: what it costs is not known, since its published bytes are not a table of this version"
        return f"{where}: was charged {shortfall(self.paid, self.due)}"


def undercharged(ledger: Ledger) -> list[ChargeFinding]:
    """The releases of a ledger that were charged too little, and those of which that is not known.

    What a release costs is computed again from its published bytes. Plain sums of epsilon and delta were always right,
    and so were numbers that are drawn group by group, and workloads in which a unit is in one group: whatever sums it
    moves there lose its share together, and one coin of that was charged. A charge without published bytes has revealed
    nothing.

    Guarantee: names every release that was charged less than it costs, if its published bytes are of this format.
    """
    return [
        found
        for account in ledger.accounts()
        if not isinstance(account.rule, PlainSum)
        for record in ledger.history(account.name)
        if record.kind is EntryKind.SPEND and is_release(record)
        for found in _found(ledger, record, account.rule)
    ]


def _found(ledger: Ledger, record: Record, rule: Rule) -> Iterator[ChargeFinding]:
    account, request, paid = record.account, record.request, record.cost
    published = None if request is None else ledger.published(request)
    if published is None or account is None or request is None or paid is None:
        return
    due: AnyCost | None = None
    with suppress(RangeboundError):
        release = Release.from_bytes(published)
        plan = release.plan
        shared = [at for at, each in enumerate(plan.query) if each.together and plan.unit_of(each).groups > 1]
        if not shared:
            return
        ready = prepared_of(release)
        if ready and all(ready.publishers[at].words() == release.mechanisms[at] for at in shared):
            due = least_due(rule, charges(ready), paid)  # else another version measured something else
    if due is None or not covers(paid, due):
        yield ChargeFinding(entry=record.seq, account=account, request=request, paid=paid, due=due)
