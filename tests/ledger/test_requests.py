"""Accounts that need approval: nothing is charged or computed before a person has approved exactly that."""

import json
import os
import signal
import sqlite3
import threading
from collections.abc import Iterator

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
from rangebound.ledger.approval import Approval, RequestStatus
from rangebound.ledger.book import Ledger
from rangebound.ledger.chain import FORMAT, NO_SEAL, EntryKind, LedgerEntry, sealed
from rangebound.ledger.key import key_path, read_key
from rangebound.ledger.rule import Cost, GaussianCost, GaussianFilter
from tests.ledger.memory_store import MemoryStore
from tests.ledger.processes import script

TENTH = Cost(epsilon=0.1)
ASKED = {"account": "people", "request": "1", "cost": TENTH, "what": "table 1"}
KEY = bytes(32)


@pytest.fixture(params=["sqlite", "memory"])
def book(request, path) -> Iterator[Ledger]:
    first = sealed(KEY, NO_SEAL, LedgerEntry(1, 0, EntryKind.LEDGER.value, request="id", what=FORMAT))
    with Ledger.create(path) if request.param == "sqlite" else Ledger(MemoryStore(first), KEY) as made:
        made.open_account("people", epsilon=1, delta="1e-6", approval=True)
        yield made


def never(_: object) -> bytes:
    raise AssertionError("computed without approval")


def filed(book: Ledger, **other: object) -> None:
    book.file_request(**{**ASKED, "dry_run": b"one table", "who": "anna", **other})


def spends(book: Ledger) -> int:
    return book.account("people").spends


def test_filed_approved_charged_published(book):
    asked = book.file_request(**ASKED, dry_run=b"one table", who="anna", note="for the report")
    assert (asked.status, asked.who, asked.cost, asked.decided_by) == (RequestStatus.WAITING, "anna", TENTH, None)
    approved = book.approve("1", who="berta", note="fine")
    assert (approved.status, approved.decided_by, approved.reason) == (RequestStatus.APPROVED, "berta", "fine")
    assert not approved.charged
    assert spends(book) == 0  # neither costs anything
    assert book.release(**ASKED, compute=lambda cost: b"42", who="anna") == b"42"
    assert book.release(**ASKED, compute=never) == b"42"
    assert book.requests()[0].charged
    kinds = [each.kind.value for each in book.history()]
    assert kinds == ["ledger", "account", "request", "approve", "spend", "publish"]
    book.verify()


def test_nothing_is_charged_or_computed_before_approval(book):
    with pytest.raises(ApprovalNeeded, match="file the request first") as caught:
        book.release(**ASKED, compute=never)
    assert (caught.value.account, caught.value.request, caught.value.filed) == ("people", "1", False)
    filed(book)
    with pytest.raises(ApprovalNeeded, match="waits") as caught:
        book.release(**ASKED, compute=never)
    assert caught.value.filed
    assert spends(book) == 0
    assert book.verify().entries == 3


def test_control_an_account_without_approval_charges_at_once(book):
    book.open_account("free", epsilon=1)
    assert book.release(**{**ASKED, "account": "free"}, compute=lambda cost: b"42") == b"42"
    with pytest.raises(ArgumentError, match="needs no approval"):
        filed(book, account="free", request="2")


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


def test_a_request_pays_in_its_own_account_alone(book):
    book.open_account("others", epsilon=1, approval="others")
    filed(book)
    book.approve("1", who="berta")
    with pytest.raises(RequestConflict):
        book.reserve(**{**ASKED, "account": "others"})
    book.open_account("free", epsilon=1)
    book.reserve(account="free", request="2", cost=TENTH)
    with pytest.raises(RequestConflict):
        filed(book, request="2")
    with pytest.raises(ApprovalNeeded):
        book.reserve(**{**ASKED, "request": "3"})


def test_filed_twice_is_one_request_with_the_first_dry_run(book):
    filed(book)
    filed(book, dry_run=b"another", who="carl")
    assert [each.who for each in book.requests()] == ["anna"]
    assert book.dry_run("1") == b"one table"
    book.approve("1", who="berta")
    filed(book)
    assert book.requests()[0].status is RequestStatus.APPROVED


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


def test_a_decision_again_by_the_same_person_changes_nothing(book):
    filed(book)
    book.approve("1", who="berta")
    assert book.approve("1", who="berta").decided_by == "berta"
    for decide in (book.approve, book.reject):
        with pytest.raises(RequestConflict, match="was approved by 'berta'"):
            decide("1", who="carl")
    assert book.verify().entries == 4


def test_who_asks_may_not_approve_but_withdraw(book):
    filed(book)
    with pytest.raises(ArgumentError, match=r"who='anna': asked for request '1'.*must not approve"):
        book.approve("1", who="anna")
    assert book.requests()[0].status is RequestStatus.WAITING
    assert book.reject("1", who="anna").status is RequestStatus.REJECTED


def test_an_account_may_say_that_anyone_approves(book):
    account = book.open_account("alone", epsilon=1, approval="anyone")
    assert account.approval is Approval.ANYONE
    assert account.to_dict()["approval"] == "anyone"
    filed(book, account="alone")
    assert book.approve("1", who="anna").status is RequestStatus.APPROVED


def test_a_user_without_a_name_is_the_same_person(book):
    filed(book, who="")
    with pytest.raises(ArgumentError, match="must not approve"):
        book.approve("1", who="")


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


def test_a_check_may_refuse_a_request(book):
    def refuse(history: list[object]) -> None:
        raise ArgumentError(f"{len(history)}: must be none")

    with pytest.raises(ArgumentError, match="1: must be none"):
        filed(book, check=refuse)
    assert book.requests() == []


def test_costs_in_several_ways_are_filed_as_they_will_be_charged(book):
    book.open_account("tables", epsilon=1, delta="1e-6", rule=GaussianFilter(), approval=True)
    costs = (GaussianCost(mu="0.01"), Cost(epsilon=0.5))
    asked = book.file_request(account="tables", request="1", cost=costs, dry_run=b"")
    assert asked.cost == GaussianCost(mu="0.01")
    book.approve("1", who="berta")
    assert book.reserve(account="tables", request="1", cost=costs[0]).cost == costs[0]
    assert book.dry_run("1") == b""


def test_bad_arguments_are_refused(book):
    for dry_run in ("text", None, bytearray(b"x")):
        with pytest.raises(ArgumentTypeError, match="dry_run of type"):
            filed(book, dry_run=dry_run)
    for decide in (book.approve, book.reject, book.dry_run):
        with pytest.raises(ArgumentError, match="was not filed"):
            decide("1")
        with pytest.raises(ArgumentTypeError, match="request=1"):
            decide(1)
    with pytest.raises(ArgumentError, match="approval='boss'"):
        book.open_account("x", epsilon=1, approval="boss")
    with pytest.raises(ArgumentTypeError, match="approval=1"):
        book.open_account("x", epsilon=1, approval=1)
    with pytest.raises(ArgumentError, match="is not in this ledger"):
        book.requests("nobody")


def test_a_request_is_plain_data(book):
    filed(book)
    data = json.loads(json.dumps(book.requests()[0].to_dict()))
    assert data["cost"] == {"epsilon": "0.1", "delta": "0"}
    assert (data["status"], data["decided"], data["charged"]) == ("waiting", None, False)
    book.approve("1", who="berta")
    assert book.requests()[0].to_dict()["decided"].endswith("+00:00")


# A chain that somebody with the key has written, or an older version that knows no approval.


def forged(*drafts: LedgerEntry) -> MemoryStore:
    """A store with an account that needs approval, and then whatever somebody has sealed."""
    what = '{"approval": "others", "promise": ["1", "0"], "rule": "sum"}'
    entries = [
        LedgerEntry(1, 0, "ledger", request="id", what=FORMAT),
        LedgerEntry(2, 0, "account", account="people", first=10**12, second=0, what=what),
        *drafts,
    ]
    rows, before = [], NO_SEAL
    for seq, each in enumerate(entries, start=1):
        rows.append(sealed(KEY, before, each._replace(seq=seq)))
        before = rows[-1].seal
    store = MemoryStore(rows[0])
    store.rows = {each.seq: each for each in rows}
    store.bytes = {each.seq: b"" for each in rows if each.kind == "request"}
    return store


EMPTY = bytes.fromhex("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")  # SHA-256 of no bytes
REQUEST = LedgerEntry(0, 0, "request", account="people", request="1", first=5, second=0, digest=EMPTY, who="anna")
APPROVE = LedgerEntry(0, 0, "approve", account="people", request="1", ref=3, who="berta")
SPEND = LedgerEntry(0, 0, "spend", account="people", request="1", first=5, second=0)


def test_control_the_chain_of_an_approved_spend_is_sound():
    with Ledger(forged(REQUEST, APPROVE, SPEND), KEY) as book:
        assert book.verify().entries == 5
        assert spends(book) == 1


@pytest.mark.parametrize(
    "drafts",
    [
        pytest.param([SPEND], id="no request"),
        pytest.param([REQUEST, SPEND], id="no decision"),
        pytest.param([REQUEST, APPROVE._replace(kind="reject"), SPEND], id="rejected"),
        pytest.param([REQUEST, SPEND, APPROVE._replace(ref=3)], id="approved later"),
        pytest.param([REQUEST, APPROVE, SPEND._replace(first=6)], id="larger"),
        pytest.param([REQUEST, APPROVE, SPEND._replace(what="more")], id="for something else"),
        pytest.param([REQUEST, APPROVE, SPEND, SPEND], id="twice"),
        pytest.param([REQUEST, APPROVE._replace(who="anna"), SPEND], id="by oneself"),
        pytest.param([REQUEST, APPROVE._replace(ref=2), SPEND], id="of another entry"),
        pytest.param([REQUEST, APPROVE, APPROVE], id="approved twice"),
        pytest.param([REQUEST, REQUEST], id="filed twice"),
        pytest.param([REQUEST._replace(first=0)], id="for nothing"),
        pytest.param([REQUEST._replace(first=-1)], id="for less than nothing"),
        pytest.param([REQUEST._replace(digest=None)], id="without a dry run"),
        pytest.param([REQUEST._replace(account="others")], id="of no account"),
        pytest.param([APPROVE], id="approved from nothing"),
    ],
)
def test_a_chain_that_breaks_the_rules_of_approval_is_refused(drafts):
    with pytest.raises(LedgerTampered, match="breaks the rules"):
        Ledger(forged(*drafts), KEY)


def test_a_request_in_an_account_without_approval_is_refused():
    free = LedgerEntry(
        0, 0, "account", account="free", first=10**12, second=0, what='{"promise": ["1", "0"], "rule": "sum"}'
    )
    with pytest.raises(LedgerTampered, match="breaks the rules"):
        Ledger(forged(free, REQUEST._replace(account="free")), KEY)
    with pytest.raises(LedgerTampered, match="breaks the rules"):
        Ledger(forged(free, REQUEST, APPROVE._replace(ref=4, account="free")), KEY)


@pytest.mark.parametrize("word", ['"boss"', "true", "null", '"anyone", "approval": "anyone"'])
def test_terms_that_name_another_approval_are_refused(word):
    what = f'{{"approval": {word}, "promise": ["1", "0"], "rule": "sum"}}'
    with pytest.raises(LedgerTampered, match="breaks the rules"):
        Ledger(forged(LedgerEntry(0, 0, "account", account="x", first=1, second=0, what=what)), KEY)


def test_verify_of_a_file_finds_an_unapproved_spend_and_changed_dry_runs(path):
    """Sealed with the ledger's own key, behind the back of its rules."""
    with Ledger.create(path) as book:
        book.open_account("people", epsilon=1, approval=True)
        filed(book)
        chain = book._chain
        last = chain.state.last
        entry = sealed(
            read_key(key_path(path, None)[0]), last.seal, SPEND._replace(seq=4, first=10**11, what="table 1")
        )
        with chain.store.writing() as transaction:
            transaction.append(entry)
            transaction.commit()
    with pytest.raises(LedgerTampered, match=r"entry 4: breaks the rules of a ledger.*needs an approved request"):
        verify(path)
    with pytest.raises(LedgerTampered, match="entry 4: breaks the rules"):
        Ledger.open(path)


def test_a_dry_run_that_was_changed_is_found(path):
    with Ledger.create(path) as book:
        book.open_account("people", epsilon=1, approval=True)
        filed(book)
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE payloads SET bytes = ?", (b"harmless",))
    connection.close()
    with pytest.raises(LedgerTampered, match="not as they were stored"):
        verify(path)
    with Ledger.open(path) as book, pytest.raises(LedgerTampered, match="not as they were stored"):
        book.dry_run("1")


# Many at once, and crashes in between.


def test_of_many_who_decide_at_once_one_does(path):
    with Ledger.create(path) as book:
        book.open_account("people", epsilon=1, approval=True)
        for name in range(5):
            filed(book, request=f"{name}")
        outcomes: dict[str, list[str]] = {f"{name}": [] for name in range(5)}

        def decide(person: int) -> None:
            for name, found in outcomes.items():
                try:
                    kind = book.approve if person % 2 else book.reject
                    found.append(kind(name, who=f"person {person}").status.value)
                except RequestConflict:
                    found.append("refused")

        threads = [threading.Thread(target=decide, args=(each,)) for each in range(6)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        for each in book.requests():
            assert sorted(outcomes[each.request]) == sorted([each.status.value, *["refused"] * 5])
        assert book.verify().entries == 2 + 5 + 5


def test_approval_and_spending_race_without_an_unapproved_charge(path):
    """Processes spend as soon as they may, while others approve and reject: what was rejected is never charged."""
    code = """
    from rangebound.errors import ApprovalNeeded, RequestConflict, RequestRejected
    ids = [f"{name}" for name in range(8)]
    def asked(name):
        return {"account": "people", "request": name, "cost": TENTH, "what": "table " + name}
    with Ledger.create(path) as ledger:
        ledger.open_account("people", epsilon=1, approval=True)
        for name in ids:
            ledger.file_request(**asked(name), dry_run=b"", who="anna")
    children = []
    for child in range(4):
        pid = os.fork()
        if not pid:
            status = 1
            try:
                ledger, open_ids = Ledger.open(path), list(ids)
                while open_ids:
                    for name in list(open_ids):
                        try:
                            if child == 0:
                                ledger.approve(name, who="berta")
                            elif child == 1:
                                ledger.reject(name, who="carl")
                            else:
                                ledger.release(**asked(name), compute=lambda _: b"x")
                            open_ids.remove(name)
                        except ApprovalNeeded:
                            pass
                        except (RequestConflict, RequestRejected):
                            open_ids.remove(name)
                    if child == 0:
                        time.sleep(0.001)
                status = 0
            finally:
                os._exit(status)
        children.append(pid)
    assert not [pid for pid in children if os.waitpid(pid, 0)[1]]
    with Ledger.open(path) as ledger:
        ledger.verify()
        states = [(each.status.value, each.charged) for each in ledger.requests()]
        assert set(states) <= {("approved", True), ("rejected", False)}, states
        assert len(states) == 8
        assert ledger.account("people").spends == states.count(("approved", True))
    print("sound")
    """
    assert script(code, path) == "sound\n"


def die_at_commit(book: Ledger, point: str) -> None:
    """Have this process killed just before or just after its next commit."""
    kind = type(book._chain.store)
    original = kind.commit

    def commit(store: object, connection: object) -> None:
        if point == "after":
            original(store, connection)
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
    pid = os.fork()
    if not pid:
        try:
            book = Ledger.open(path)
            for name, take in steps.items():
                if name == step:
                    die_at_commit(book, point)
                take(book)
        finally:
            os._exit(1)  # not reached: a kill leaves no exit status
    assert os.WIFSIGNALED(os.waitpid(pid, 0)[1])
    with Ledger.open(path) as book:
        book.verify()
        done = {"file": 3, "approve": 4, "spend": 5}[step] - (point == "before")
        assert book.verify().entries == done
        for take in steps.values():
            take(book)
        assert [each.kind.value for each in book.history()][2:] == ["request", "approve", "spend", "publish"]
