"""A request by itself: decided once, by the right person, good for one spend of exactly what it asks for."""

import pytest

from rangebound.ledger.approval import Approval, FiledRequest, RequestStatus
from rangebound.ledger.chain import LedgerEntry

FILED = LedgerEntry(3, 0, "request", account="people", request="1", first=5, second=0, who="anna", what="table")
APPROVED = LedgerEntry(4, 0, "approve", account="people", request="1", ref=3, who="berta")
REJECTED = APPROVED._replace(kind="reject")
SPEND = LedgerEntry(5, 0, "spend", account="people", request="1", first=5, second=0, who="carl", what="table")


def asked(*decisions: LedgerEntry, approval: Approval = Approval.OTHERS) -> FiledRequest:
    found = FiledRequest(filed=FILED)
    for each in decisions:
        found.decide(each, approval)
    return found


def test_a_request_waits_until_it_is_decided():
    assert asked().status is RequestStatus.WAITING
    assert asked(APPROVED).status is RequestStatus.APPROVED
    assert asked(REJECTED).status is RequestStatus.REJECTED


def test_an_approved_request_pays_once():
    found = asked(APPROVED)
    found.spend(SPEND)
    assert found.charged
    with pytest.raises(ValueError, match="needs an approved request"):
        found.spend(SPEND)


@pytest.mark.parametrize("decisions", [[], [REJECTED]])
def test_what_is_not_approved_pays_for_nothing(decisions):
    with pytest.raises(ValueError, match="needs an approved request"):
        asked(*decisions).spend(SPEND)


@pytest.mark.parametrize("other", [{"account": "others"}, {"what": "map"}, {"first": 4}, {"first": 6}, {"second": 1}])
def test_a_request_covers_exactly_what_it_asks_for(other):
    assert asked(APPROVED).covers(SPEND)
    with pytest.raises(ValueError, match="needs an approved request"):
        asked(APPROVED).spend(SPEND._replace(**other))


@pytest.mark.parametrize("first", [APPROVED, REJECTED])
@pytest.mark.parametrize("second", [APPROVED, REJECTED])
def test_a_request_is_decided_once(first, second):
    with pytest.raises(ValueError, match="decided once"):
        asked(first, second)


@pytest.mark.parametrize("other", [{"ref": 2}, {"ref": None}, {"account": "others"}])
def test_a_decision_names_its_request(other):
    with pytest.raises(ValueError, match="decided once"):
        asked(APPROVED._replace(**other))


def test_who_asks_may_withdraw_but_not_approve_unless_the_account_says_so():
    own = {"who": FILED.who}
    assert asked(REJECTED._replace(**own)).status is RequestStatus.REJECTED
    assert asked(APPROVED._replace(**own), approval=Approval.ANYONE).status is RequestStatus.APPROVED
    with pytest.raises(ValueError, match="who asks does not approve"):
        asked(APPROVED._replace(**own))


SPELLINGS = ["anna", "Anna", " anna", "an\u200bna", "ａｎｎａ", "anna/bob", "service/anna", "service/Anna", "anna/anna"]  # noqa: RUF001


@pytest.mark.parametrize("name", SPELLINGS, ids=ascii)
def test_who_asks_does_not_approve_under_another_spelling_or_login(name):
    with pytest.raises(ValueError, match="who asks does not approve"):
        asked(APPROVED._replace(who=name))
    with pytest.raises(ValueError, match="who asks does not approve"):
        FiledRequest(filed=FILED._replace(who=name)).decide(APPROVED._replace(who="anna"), Approval.OTHERS)


OTHERS = [
    ("anna", "berta"),
    ("service/anna", "service/berta"),
    ("service/anna", "berta"),
    ("anna", "berta/bob"),
    ("service/anna", "other/berta"),
]


@pytest.mark.parametrize(("one", "other"), OTHERS)
def test_control_two_people_of_one_service_are_two(one, other):
    for who, decider in ((one, other), (other, one)):
        found = FiledRequest(filed=FILED._replace(who=who))
        found.decide(APPROVED._replace(who=decider), Approval.OTHERS)
        assert found.status is RequestStatus.APPROVED
