"""Group commit: what others hand over is added with one commit, and checked as if they had written it themselves."""

import hashlib
import os
import select
import socket
import threading
import time

import pytest

from rangebound.errors import BudgetExceeded, LedgerUnavailable, RequestConflict
from rangebound.ledger import Cost, Ledger
from rangebound.ledger.chain import EntryKind, LedgerEntry
from rangebound.ledger.group_commit import LARGEST, CommitGroup
from rangebound.ledger.sqlite import SQLiteStore
from tests.ledger.processes import script
from tests.ledger.rules import TENTH

KEY = bytes(range(32))
SPEND = LedgerEntry(0, 0, EntryKind.SPEND.value, account="people", request="1", first=5, second=0, who="a")
DRAWN = b"42\n43"
PUBLISH = LedgerEntry(
    0, 0, EntryKind.PUBLISH.value, account="people", request="1", ref=3, digest=hashlib.sha256(DRAWN).digest()
)


@pytest.fixture
def path(either):
    return either


@pytest.fixture
def place():
    """A name that nobody else has."""
    return os.urandom(8).hex()


def asked(place, draft=SPEND, payload=None, key=KEY, patience=5.0):
    """What `turn` gives in a thread of its own, once it ends."""
    found = []

    def work():
        try:
            with CommitGroup(key).turn(place, draft, payload, patience=patience) as seq:
                found.append(seq)
        except LedgerUnavailable as error:
            found.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    return thread, found


def gathered(group, place):
    """What has come, once something has had the time to."""
    end = time.monotonic() + 5
    while time.monotonic() < end:
        time.sleep(0.1)
        if select.select(list(group._listeners.values()), [], [], 0)[0]:
            break
    return group.gathered(place, 0.05)


@pytest.mark.parametrize(("draft", "payload"), [(SPEND, None), (PUBLISH, DRAWN)])
def test_who_comes_second_hands_over_what_it_wants_to_add_and_is_told_its_number(place, draft, payload):
    group = CommitGroup(KEY)
    with group.turn(place, SPEND, None, patience=5.0) as own:
        assert own is None
        thread, found = asked(place, draft, payload)
        (guest,) = gathered(group, place)
        assert (guest.draft, guest.payload) == (draft, payload)
        guest.answer(7)
        thread.join()
    assert found == [7]
    with group.turn(place, SPEND, None, patience=5.0) as again:  # the name is free again
        assert again is None


def test_who_gets_no_answer_takes_its_turn_and_who_is_refused_writes_alone(place):
    for answer in (False, True):
        group = CommitGroup(KEY)
        with group.turn(place, SPEND, None, patience=5.0):
            thread, found = asked(place)
            (guest,) = gathered(group, place)
            assert not group._listeners  # whoever comes now takes a turn of its own
            if answer:
                guest.answer(0)
            else:
                guest.close()
            thread.join()
        assert found == [None]


def test_who_comes_too_late_for_one_writer_is_the_next(place):
    group = CommitGroup(KEY)
    with group.turn(place, SPEND, None, patience=5.0):
        assert group.gathered(place, 0.0) == []
        thread, found = asked(place)
        thread.join()
    assert found == [None]


def test_a_writer_that_does_not_answer_is_an_error_in_time(place):
    group = CommitGroup(KEY)
    with group.turn(place, SPEND, None, patience=5.0):
        thread, found = asked(place, patience=0.3)
        thread.join(5)
    assert "not charged twice" in str(found[0])


def test_an_answer_without_the_key_counts_for_nothing(place):
    group = CommitGroup(KEY)
    with group.turn(place, SPEND, None, patience=5.0):
        thread, found = asked(place)
        (guest,) = gathered(group, place)
        guest._key = bytes(32)
        guest.answer(7)
        thread.join()
    assert found == [None]


def sent(group, data):
    with socket.socket(socket.AF_UNIX) as link:
        link.connect(next(iter(group._listeners)))
        link.sendall(data)
        return group.gathered(PLACE, 0.01)


PLACE = f"{os.getpid()}"


@pytest.mark.parametrize(
    "data",
    [b"", b"\0\0", b"\xff" * 100, b"\0\0\0\x10" + bytes(48), b"\0\0\0\0" + bytes(32)],
    ids=["nothing", "half", "long", "unsealed", "empty"],
)
def test_what_is_not_under_the_key_is_not_taken(data):
    group = CommitGroup(KEY)
    with group.turn(PLACE, SPEND, None, patience=5.0):
        assert sent(group, data) == []


@pytest.mark.parametrize(
    ("draft", "payload"),
    [
        (SPEND._replace(kind="account"), None),
        (SPEND._replace(account=None), None),
        (SPEND._replace(first="5"), None),
        (SPEND._replace(first=True), None),
        (PUBLISH, b"other bytes"),
    ],
)
def test_other_entries_and_bytes_are_not_taken(place, draft, payload):
    group = CommitGroup(KEY)
    with group.turn(place, SPEND, None, patience=5.0):
        thread, found = asked(place, draft, payload)
        time.sleep(0.1)
        assert group.gathered(place, 0.05) == []
        thread.join()
    assert found == [None]


def test_other_ledgers_keys_and_long_bytes_have_turns_of_their_own(place):
    with CommitGroup(KEY).turn(place, SPEND, None, patience=0.1):
        for other in (
            CommitGroup(KEY).turn(place + "x", SPEND, None, patience=0.1),
            CommitGroup(KEY).turn(None, SPEND, None, patience=0.1),
            CommitGroup(bytes(32)).turn(place, SPEND, None, patience=0.1),
            CommitGroup(KEY).turn(place, PUBLISH, bytes(LARGEST + 1), patience=0.1),
        ):
            with other as seq:
                assert seq is None


@pytest.fixture
def handing(ledger, path, monkeypatch):
    """A ledger whose next entry waits until three others have handed theirs to it."""
    gather = CommitGroup.gathered
    others = [Ledger.open(path) for _ in range(3)]

    def patient(self, place, linger):
        if self is ledger._chain.group and self._listeners:
            time.sleep(0.5)
            return gather(self, place, 0.2)
        return gather(self, place, linger)

    monkeypatch.setattr(CommitGroup, "gathered", patient)

    def hand(own, *calls):
        """What each call gives or raises, `own` on the ledger that writes."""
        found = {}

        def work(name, call, book):
            try:
                found[name] = call(book)
            except (BudgetExceeded, RequestConflict) as error:
                found[name] = type(error)

        threads = [threading.Thread(target=work, args=("own", own, ledger))]
        threads += [
            threading.Thread(target=work, args=(each, call, book))
            for each, (call, book) in enumerate(zip(calls, others, strict=False))
        ]
        for thread in threads:
            thread.start()
            time.sleep(0.1)
        for thread in threads:
            thread.join()
        return [found[each] for each in ("own", *range(len(calls)))]

    yield hand
    for each in others:
        each.close()


def spend(name, cost=TENTH):
    return lambda book: book.reserve(account="people", request=name, cost=cost)


def commits(monkeypatch):
    """Where the number of commits is counted."""
    count = []
    from rangebound.ledger.postgres_store import PostgresStore

    for store in (SQLiteStore, PostgresStore):
        commit = store.commit
        monkeypatch.setattr(store, "commit", lambda self, rows, commit=commit: (count.append(1), commit(self, rows))[1])
    return count


def test_four_charges_are_one_commit(ledger, handing, monkeypatch):
    count = commits(monkeypatch)
    made = handing(spend("a"), spend("b"), spend("c"), spend("d"))
    assert sorted(each.seq for each in made) == [3, 4, 5, 6]
    assert len(count) == 1
    assert ledger.account("people").spends == 4
    published = handing(*(lambda book, r=r: book.publish(r, r.request.encode()) for r in made))
    assert published == [b"a", b"b", b"c", b"d"]
    assert len(count) == 2
    assert [ledger.published(name) for name in "abcd"] == published
    assert str(ledger._chain.head.read()) == ledger.head
    ledger.verify()


def test_what_is_handed_over_is_charged_only_if_it_fits(ledger, handing):
    large = Cost(epsilon="0.5")
    made = handing(spend("a", large), spend("b", Cost(epsilon="0.6")), spend("c", large), spend("d"))
    assert [getattr(each, "seq", each) for each in made] == [3, BudgetExceeded, 4, BudgetExceeded]
    assert str(ledger.account("people").remaining) == "epsilon 0, delta 0.000001"
    ledger.verify()


def test_the_same_request_is_charged_once_and_another_cost_is_a_conflict(ledger, handing):
    ledger.reserve(account="people", request="known", cost=TENTH)
    made = handing(spend("a"), spend("a"), spend("a", Cost(epsilon="0.2")), spend("known"))
    assert [getattr(each, "seq", each) for each in made] == [4, 4, RequestConflict, 3]
    assert ledger.account("people").spends == 2
    ledger.verify()


def test_the_first_bytes_handed_over_are_the_answer_of_all(ledger, handing):
    made = ledger.reserve(account="people", request="1", cost=TENTH)
    calls = [lambda book, data=data: book.publish(made, data) for data in (b"a", b"b", b"c")]
    assert len(set(handing(spend("other"), *calls)[1:])) == 1
    assert ledger.published("1") in (b"a", b"b", b"c")
    ledger.verify()


def test_a_writer_whose_commit_fails_leaves_the_others_to_themselves(ledger, handing, monkeypatch):
    failed = []
    store = type(ledger._chain.store)
    commit = store.commit

    def once(self, rows):
        if self is ledger._chain.store and not failed:
            failed.append(1)
            raise LedgerUnavailable("ledger: no")
        return commit(self, rows)

    monkeypatch.setattr(store, "commit", once)

    def own(book):
        with pytest.raises(LedgerUnavailable):
            spend("a")(book)

    assert all(each.seq for each in handing(own, spend("b"), spend("c"), spend("d"))[1:])
    assert failed
    assert ledger.account("people").spends == 3
    ledger.verify()


def test_a_child_of_a_fork_lets_go_of_the_name(path):
    if not isinstance(path, str):
        path = str(path)
    code = """
    ledger = Ledger.create(sys.argv[1])
    open_for(ledger, "sum", 10)
    chain = ledger._chain
    draft = chain.state.last._replace(kind="spend", request="1", seal=b"")
    with chain.turn(draft) as seq:
        assert seq is None
        pid = os.fork()
        if not pid:
            time.sleep(30)
            os._exit(0)
    with chain.turn(draft) as seq:
        assert seq is None
    ledger.reserve(account="people", request="2", cost=TENTH)
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    print(ledger.account("people").spends)
    ledger.close()
    """
    assert script(code, path).strip() == "1"
