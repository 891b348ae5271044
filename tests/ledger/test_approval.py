"""Who may approve: another person than the one who asks, under whatever spelling or login."""

import pytest

from rangebound.ledger.chain import LedgerEntry
from rangebound.ledger.replay import Approval, FiledRequest, RequestStatus

FILED = LedgerEntry(3, 0, "request", account="people", request="1", first=5, second=0, what="table")
APPROVED = LedgerEntry(4, 0, "approve", account="people", request="1", ref=3)


def decided(who: str, decider: str) -> RequestStatus:
    found = FiledRequest(filed=FILED._replace(who=who))
    found.decide(APPROVED._replace(who=decider), Approval.OTHERS)
    return found.status


SPELLINGS = ["anna", "Anna", " anna", "an\u200bna", "ａｎｎａ", "anna/bob", "service/anna", "service/Anna", "anna/anna"]  # noqa: RUF001


@pytest.mark.parametrize("name", SPELLINGS, ids=ascii)
def test_who_asks_does_not_approve_under_another_spelling_or_login(name):
    for who, decider in (("anna", name), (name, "anna")):
        with pytest.raises(ValueError, match="who asks does not approve"):
            decided(who, decider)


OTHERS = [("anna", "berta"), ("service/anna", "service/berta"), ("anna", "berta/bob"), ("service/anna", "other/berta")]


@pytest.mark.parametrize(("one", "other"), OTHERS)
def test_control_two_people_of_one_service_are_two(one, other):
    assert decided(one, other) is decided(other, one) is RequestStatus.APPROVED
