"""Accounts that need approval: nothing is charged or computed before a person has approved exactly that."""

import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial

import pytest

from rangebound.errors import (
    ApprovalNeeded,
    ArgumentError,
    ArgumentTypeError,
    BudgetExceeded,
    LedgerTampered,
    RequestConflict,
    RequestRejected,
)
from rangebound.ledger import verify
from rangebound.ledger.book import Ledger
from rangebound.ledger.chain import LedgerEntry, sealed
from rangebound.ledger.head import key_path, read_key
from rangebound.ledger.replay import Approval, RequestStatus
from rangebound.ledger.rule import Cost, GaussianCost, GaussianFilter
from tests.ledger.memory_store import memory_ledger
from tests.ledger.processes import forked
from tests.ledger.rules import TENTH, edit, never

ASKED = {"account": "people", "request": "1", "cost": TENTH, "what": "table 1"}


@pytest.fixture(params=["sqlite", "memory"])
def book(request, path) -> Iterator[Ledger]:
    with Ledger.create(path) if request.param == "sqlite" else memory_ledger() as made:
        made.open_account("people", epsilon=1, delta="1e-6", approval=True)
        yield made


def filed(book: Ledger, **other: object) -> None:
    book.file_request(**{**ASKED, "dry_run": b"one table", "who": "anna", **other})


def spends(book: Ledger) -> int:
    return book.account("people").spends


def test_nothing_is_charged_or_computed_before_it_is_filed_and_approved(book):
    with pytest.raises(ApprovalNeeded, match="file the request first") as caught:
        book.release(**ASKED, compute=never)
    assert (caught.value.account, caught.value.request, caught.value.filed) == ("people", "1", False)
    asked = book.file_request(**ASKED, dry_run=b"one table", who="anna", note="for the report")
    assert (asked.status, asked.who, asked.cost, asked.decided_by) == (RequestStatus.WAITING, "anna", TENTH, None)
    data = json.loads(json.dumps(asked.to_dict()))
    assert (data["cost"], data["decided"], data["charged"]) == ({"epsilon": "0.1", "delta": "0"}, None, False)
    with pytest.raises(ApprovalNeeded, match="waits") as caught:
        book.release(**ASKED, compute=never)
    assert caught.value.filed
    approved = book.approve("1", who="berta", note="fine")
    assert (approved.status, approved.decided_by, approved.reason) == (RequestStatus.APPROVED, "berta", "fine")
    assert approved.to_dict()["decided"].endswith("+00:00")
    assert (approved.charged, spends(book)) == (False, 0)  # neither costs anything
    assert book.release(**ASKED, compute=lambda cost: b"42", who="anna") == b"42"
    assert book.release(**ASKED, compute=never) == b"42"
    assert book.requests()[0].charged
    kinds = [each.kind.value for each in book.history()]
    assert kinds == ["ledger", "account", "request", "approve", "spend", "publish"]
    book.verify()


@pytest.mark.parametrize("other", [{"cost": Cost(epsilon=0.2)}, {"cost": Cost(epsilon=0.05)}, {"what": "table 2"}])
def test_an_approved_request_pays_for_nothing_else(book, other):
    filed(book)
    book.approve("1", who="berta")
    with pytest.raises(RequestConflict):
        book.release(**{**ASKED, **other}, compute=never)
    with pytest.raises(RequestConflict):
        filed(book, **other)
    assert spends(book) == 0
    book.reserve(**ASKED)
    with pytest.raises(RequestConflict):  # and not after its charge either
        book.release(**{**ASKED, **other}, compute=never)


def test_a_request_pays_in_its_own_account_alone_and_control_one_without_approval_charges_at_once(book):
    book.open_account("others", epsilon=1, approval="others")
    book.open_account("free", epsilon=1)
    assert book.release(account="free", request="2", cost=TENTH, compute=lambda cost: b"42") == b"42"
    with pytest.raises(ArgumentError, match="needs no approval"):
        filed(book, account="free", request="4")
    filed(book)
    book.approve("1", who="berta")
    for call in (lambda: book.reserve(**{**ASKED, "account": "others"}), lambda: filed(book, request="2")):
        with pytest.raises(RequestConflict):
            call()
    with pytest.raises(ApprovalNeeded):
        book.reserve(**{**ASKED, "request": "3"})


def test_filed_twice_or_decided_twice_by_the_same_person_changes_nothing(book):
    filed(book)
    filed(book, dry_run=b"another", who="carl")
    assert [each.who for each in book.requests()] == ["anna"]
    assert book.dry_run("1") == b"one table"
    for _ in range(2):
        assert book.approve("1", who="berta").decided_by == "berta"
        filed(book)
    for decide in (book.approve, book.reject):
        with pytest.raises(RequestConflict, match="was approved by 'berta'"):
            decide("1", who="carl")
    assert book.verify().entries == 4


def test_a_rejected_request_stays_rejected_and_a_new_id_may_ask(book):
    filed(book)
    book.reject("1", who="berta", note="too many groups")
    for again in (lambda: filed(book), lambda: book.release(**ASKED, compute=never)):
        with pytest.raises(RequestRejected, match=r"rejected by 'berta' \(too many groups\).*new id"):
            again()
    with pytest.raises(RequestConflict, match="was rejected by 'berta'"):
        book.approve("1", who="berta")
    filed(book, request="2")
    book.approve("2", who="berta")
    assert book.release(**{**ASKED, "request": "2"}, compute=lambda cost: b"42") == b"42"
    assert [each.status.value for each in book.requests("people")] == ["rejected", "approved"]


def test_who_asks_may_not_approve_but_withdraw_unless_the_account_says_that_anyone_may(book):
    filed(book)
    filed(book, request="nameless", who="")
    for request, who in (("1", "anna"), ("nameless", "")):
        with pytest.raises(ArgumentError, match=rf"who='{who}': asked for request '{request}'.*must not approve"):
            book.approve(request, who=who)
    assert book.requests()[0].status is RequestStatus.WAITING
    assert book.reject("1", who="anna").status is RequestStatus.REJECTED
    account = book.open_account("alone", epsilon=1, approval="anyone")
    assert (account.approval, account.to_dict()["approval"]) == (Approval.ANYONE, "anyone")
    filed(book, account="alone", request="2")
    assert book.approve("2", who="anna").status is RequestStatus.APPROVED


def test_a_cost_above_what_is_left_is_not_filed_and_an_approval_keeps_nothing_back(book):
    with pytest.raises(BudgetExceeded):
        filed(book, cost=Cost(epsilon="1.1"))
    for name in ("1", "2"):
        filed(book, request=name, cost=Cost(epsilon=0.6))
        book.approve(name, who="berta")
    book.reserve(**{**ASKED, "cost": Cost(epsilon=0.6)})
    with pytest.raises(BudgetExceeded):
        book.reserve(**{**ASKED, "request": "2", "cost": Cost(epsilon=0.6)})
    assert spends(book) == 1


def test_costs_in_several_ways_are_filed_as_they_will_be_charged(book):
    book.open_account("tables", epsilon=1, delta="1e-6", rule=GaussianFilter(), approval=True)
    costs = (GaussianCost(mu="0.01"), Cost(epsilon=0.5))
    asked = book.file_request(account="tables", request="1", cost=costs, dry_run=b"")
    assert asked.cost == GaussianCost(mu="0.01")
    book.approve("1", who="berta")
    assert book.reserve(account="tables", request="1", cost=costs[0]).cost == costs[0]
    assert book.dry_run("1") == b""


def test_bad_arguments_are_refused_and_a_check_may_refuse(book):
    def refuse(history: list[object]) -> None:
        raise KeyError(len(history))

    calls = [(lambda each=each: filed(book, dry_run=each), "dry_run of type") for each in ("text", None, bytearray())]
    for decide in (book.approve, book.reject, book.dry_run):
        calls += [(lambda decide=decide: decide("1"), "was not filed"), (lambda decide=decide: decide(1), "request=1")]
    calls += [(lambda each=each: book.open_account("x", epsilon=1, approval=each), "approval=") for each in ("boss", 1)]
    calls += [(lambda: book.requests("nobody"), "is not in this ledger"), (lambda: filed(book, check=refuse), "1")]
    for call, words in calls:
        with pytest.raises((ArgumentError, ArgumentTypeError, KeyError), match=words):
            call()
    assert book.requests() == []


# A chain that somebody with the key has written, or an older version that knows no approval.

GUARDED = LedgerEntry(0, 0, "account", account="people", first=10**12, second=0)
GUARDED = GUARDED._replace(what='{"approval": "others", "promise": ["1", "0"], "rule": "sum"}')
FREE = GUARDED._replace(account="free", what='{"promise": ["1", "0"], "rule": "sum"}')
EMPTY = bytes.fromhex("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")  # SHA-256 of no bytes
REQUEST = LedgerEntry(0, 0, "request", account="people", request="1", first=5, second=0, digest=EMPTY, who="anna")
APPROVE = LedgerEntry(0, 0, "approve", account="people", request="1", ref=3, who="berta")
SPEND = LedgerEntry(0, 0, "spend", account="people", request="1", first=5, second=0)


@pytest.mark.parametrize(
    "drafts",
    [
        pytest.param([SPEND], id="no request"),
        pytest.param([REQUEST, SPEND], id="no decision"),
        pytest.param([REQUEST, APPROVE._replace(kind="reject"), SPEND], id="rejected"),
        pytest.param([REQUEST, SPEND, APPROVE._replace(ref=3)], id="approved later"),
        pytest.param([REQUEST, APPROVE, SPEND._replace(first=6)], id="larger"),
        pytest.param([REQUEST, APPROVE, SPEND._replace(first=4)], id="smaller"),
        pytest.param([REQUEST, APPROVE, SPEND._replace(second=1)], id="with a delta"),
        pytest.param([REQUEST, APPROVE, SPEND._replace(what="more")], id="for something else"),
        pytest.param([REQUEST, APPROVE, SPEND, SPEND], id="twice"),
        pytest.param([REQUEST, APPROVE._replace(who="anna"), SPEND], id="by oneself"),
        pytest.param([REQUEST, APPROVE._replace(ref=2), SPEND], id="of another entry"),
        pytest.param([REQUEST, APPROVE._replace(ref=None), SPEND], id="of no entry"),
        pytest.param([REQUEST, APPROVE, APPROVE], id="approved twice"),
        pytest.param([REQUEST, APPROVE._replace(kind="reject"), APPROVE], id="rejected and approved"),
        pytest.param([REQUEST, REQUEST], id="filed twice"),
        pytest.param([REQUEST._replace(first=0)], id="for nothing"),
        pytest.param([REQUEST._replace(first=-1)], id="for less than nothing"),
        pytest.param([REQUEST._replace(digest=None)], id="without a dry run"),
        pytest.param([REQUEST._replace(account="others")], id="of no account"),
        pytest.param([APPROVE], id="approved from nothing"),
        pytest.param([FREE, REQUEST._replace(account="free")], id="without need"),
        pytest.param([FREE, REQUEST, APPROVE._replace(ref=4, account="free")], id="decided for another account"),
        *(
            pytest.param([GUARDED._replace(account="x", what=GUARDED.what.replace('"others"', word))], id=word)
            for word in ('"boss"', "true", "null", '"anyone", "approval": "anyone"')
        ),
    ],
)
def test_a_chain_that_breaks_the_rules_of_approval_is_refused(drafts):
    with memory_ledger(GUARDED, REQUEST, APPROVE, SPEND) as book:  # the control
        assert (book.verify().entries, spends(book)) == (5, 1)
    with pytest.raises(LedgerTampered, match="breaks the rules"):
        memory_ledger(GUARDED, *drafts)


def test_verify_of_a_file_finds_changed_dry_runs_and_an_unapproved_spend(path):
    """The spend is sealed with the ledger's own key, behind the back of its rules."""
    with Ledger.create(path) as book:
        book.open_account("people", epsilon=1, approval=True)
        filed(book)
        edit(path, "UPDATE payloads SET bytes = CAST('harmless' AS BLOB)")
        for call in (lambda: verify(path), lambda: book.dry_run("1")):
            with pytest.raises(LedgerTampered, match="not as they were stored"):
                call()
        key, last = read_key(key_path(path, None)[0]), book._chain.state.last
        with book._chain.store.writing() as transaction:
            transaction.append(sealed(key, last.seal, SPEND._replace(seq=4, first=10**11, what="table 1")))
            transaction.commit()
    for call in (Ledger.open, verify):
        with pytest.raises(LedgerTampered, match=r"entry 4: breaks the rules of a ledger.*needs an approved request"):
            call(path)


def test_approval_and_spending_race_without_an_unapproved_charge(path):
    """Processes spend as soon as they may, while others approve and reject: what was rejected is never charged."""
    with Ledger.create(path) as ledger:
        ledger.open_account("people", epsilon=1, approval=True)
        for name in "12345678":
            filed(ledger, request=name)

    def work(child: int) -> None:
        ledger, left = Ledger.open(path), list("12345678")
        while left:
            for name in list(left):
                with suppress(ApprovalNeeded):
                    with suppress(RequestConflict, RequestRejected):
                        if child == 0:
                            ledger.approve(name, who="berta")
                        elif child == 1:
                            ledger.reject(name, who="carl")
                        else:
                            ledger.release(**{**ASKED, "request": name}, compute=lambda _: b"x")
                    left.remove(name)
            time.sleep(0.001 if child == 0 else 0)

    children = [forked(partial(work, child)) for child in range(4)]
    assert not any(os.waitpid(pid, 0)[1] for pid in children)
    with Ledger.open(path) as ledger:
        ledger.verify()
        states = [(each.status.value, each.charged) for each in ledger.requests()]
        assert set(states) <= {("approved", True), ("rejected", False)}, states
        assert len(states) == 8
        assert spends(ledger) == states.count(("approved", True))


def die_at_commit(book: Ledger, point: str) -> None:
    """Have this process killed just before or just after its next commit."""
    kind = type(book._chain.store)
    original = kind.commit

    def commit(*arguments: object) -> None:
        if point == "after":
            original(*arguments)
        os.kill(os.getpid(), signal.SIGKILL)

    kind.commit = commit


@pytest.mark.parametrize("point", ["before", "after"])
@pytest.mark.parametrize("step", ["file", "approve", "spend"])
def test_a_crash_between_two_steps_leaves_each_done_or_not_done(path, step, point):
    """Killed just before or just after the commit of a step, every step can be taken again, with the same end."""
    with Ledger.create(path) as book:
        book.open_account("people", epsilon=1, approval=True)
    steps = {
        "file": lambda book: filed(book),
        "approve": lambda book: book.approve("1", who="berta"),
        "spend": lambda book: book.release(**ASKED, compute=lambda _: b"42"),
    }

    def killed() -> None:
        book = Ledger.open(path)
        for name, take in steps.items():
            if name == step:
                die_at_commit(book, point)
            take(book)

    assert os.WIFSIGNALED(os.waitpid(forked(killed), 0)[1])
    with Ledger.open(path) as book:
        done = {"file": 3, "approve": 4, "spend": 5}[step] - (point == "before")
        assert book.verify().entries == done
        for take in steps.values():
            take(book)
        assert [each.kind.value for each in book.history()][2:] == ["request", "approve", "spend", "publish"]
