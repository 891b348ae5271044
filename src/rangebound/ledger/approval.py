"""Approval before a charge: a request is filed once, decided once by a person, and pays for one spend."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from unicodedata import normalize

from rangebound.ledger.chain import EntryKind, LedgerEntry


class Approval(StrEnum):
    """Who may approve the requests of an account: anybody but the one who asked, or anybody."""

    OTHERS = "others"
    ANYONE = "anyone"


class RequestStatus(StrEnum):
    """How far a request has come; what was decided stays decided."""

    WAITING = "waiting"
    APPROVED = "approved"
    REJECTED = "rejected"


_STATUS = {EntryKind.APPROVE.value: RequestStatus.APPROVED, EntryKind.REJECT.value: RequestStatus.REJECTED}


def may_be_one(one: str, other: str) -> bool:
    """Whether two names in a ledger may be those of one person.

    In a database a name is a login, or a login and another name that was stated: `service/anna`. Of one login, stated
    names are different people, as those of a service; a login is also anyone who states it elsewhere, and the same as
    itself with a stated name. Case, spaces and letters that are not seen make no difference.

    >>> may_be_one("anna", "service/anna"), may_be_one("anna", "anna/bob"), may_be_one("anna", " Anna")
    (True, True, True)
    >>> may_be_one("service/anna", "service/berta"), may_be_one("anna", "berta")
    (False, False)
    """
    (login, _, said), (second, _, told) = (folded(each).partition("/") for each in (one, other))
    if login == second and bool(said) == bool(told):
        return said == told
    return bool({login, said} & {second, told} - {""})


def login_of(who: str) -> str:
    """The login in a name of a ledger in a database, where another one may be stated behind it.

    >>> login_of("service/anna"), login_of("anna")
    ('service', 'anna')
    """
    return who.partition("/")[0]


def by_login(login: str, who: str) -> bool:
    """Whether a name in a ledger in a database is one of this login.

    >>> by_login("anna", "anna/bob"), by_login("anna", "service/anna")
    (True, False)
    """
    return f"{who}/".startswith(f"{login}/")


def in_same_place(moves: Sequence[int], entry: LedgerEntry) -> bool:
    """Whether an entry was made in the kind of place where the ledger is now, after its `moves` between a file, where
    names are as stated, and a database, where they begin with a login.

    >>> [in_same_place([3, 5], LedgerEntry(seq, 0, "spend")) for seq in (2, 4, 6)]
    [True, False, True]
    """
    return sum(each > entry.seq for each in moves) % 2 == 0


def folded(name: str) -> str:
    """A name without what makes no difference: case, spaces and letters that are not seen.

    >>> folded(" An\u200bna"), folded("unit/Anna")
    ('anna', 'unit/anna')
    """
    return "".join(each for each in normalize("NFKC", name).casefold() if each.isprintable() and not each.isspace())


@dataclass(kw_only=True)
class FiledRequest:
    """A request as the chain has it: the entry that filed it, the one that decided it, and whether it was charged."""

    filed: LedgerEntry
    decided: LedgerEntry | None = None
    charged: bool = False

    @property
    def status(self) -> RequestStatus:
        """How far it has come."""
        return RequestStatus.WAITING if self.decided is None else _STATUS[self.decided.kind]

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
