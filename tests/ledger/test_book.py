"""Spending: what is charged, what comes back, and what is refused with nothing spent."""

import copy
import math
import pickle
import threading
import time
from datetime import UTC, datetime, timedelta
from fractions import Fraction

import pytest

from rangebound.errors import (
    ArgumentError,
    ArgumentTypeError,
    BudgetExceeded,
    LedgerUnavailable,
    RangeboundError,
    RequestConflict,
    RequestFailed,
)
from rangebound.ledger.book import Ledger
from rangebound.ledger.chain import EntryKind
from rangebound.ledger.export import to_csv, to_json
from rangebound.ledger.rule import Cost, GaussianCost, GaussianFilter, RenyiCost, RenyiFilter
from rangebound.ledger.sqlite import SQLiteStore
from rangebound.ledger.store import NoRoom
from tests.ledger.memory_store import memory_ledger
from tests.ledger.processes import together
from tests.ledger.rules import TENTH, never, release, reserve


@pytest.fixture
def path(either):
    """Of a ledger in a file, or in PostgreSQL."""
    return either


@pytest.fixture(params=["sqlite", "memory"])
def any_ledger(request, path):
    with Ledger.create(path) if request.param == "sqlite" else memory_ledger() as ledger:
        ledger.open_account("people", epsilon=1, delta="1e-6")
        yield ledger


def spent(ledger: Ledger) -> Cost:
    return ledger.account("people").spent


def test_ten_tenths_are_the_whole_and_the_eleventh_is_refused(any_ledger):
    for i in range(10):
        assert release(any_ledger, f"{i}") == b"x"
    assert any_ledger.account("people").remaining == Cost(epsilon=0, delta="1e-6")
    with pytest.raises(BudgetExceeded) as caught:
        any_ledger.reserve(account="people", request="more", cost=Cost(epsilon="1e-12"))
    assert caught.value.remaining == Cost(epsilon=0, delta="1e-6")
    assert caught.value.requested == Cost(epsilon="1e-12")
    assert caught.value.account == "people"
    assert isinstance(caught.value, ValueError)
    again = pickle.loads(pickle.dumps(caught.value))
    assert (vars(again), str(again)) == (vars(caught.value), str(caught.value))
    assert spent(any_ledger) == Cost(epsilon=1)
    assert any_ledger.verify().entries == 22


def test_the_charge_is_in_the_file_before_anything_is_computed_and_the_bytes_before_they_are_revealed(ledger, path):
    def compute(cost: Cost) -> bytes:
        with Ledger.open(path) as other:
            assert spent(other) == cost == TENTH
        return b"answer"

    assert release(ledger, "1", compute) == b"answer"
    with Ledger.open(path) as other:
        assert other.published("1") == b"answer"
        assert other.published("2") is None


def test_an_error_stays_charged_and_the_same_request_tries_again_for_nothing(any_ledger):
    def fail(_: Cost) -> bytes:
        raise RuntimeError("no memory")

    for _ in range(3):
        with pytest.raises(RuntimeError, match="no memory"):
            release(any_ledger, "1", fail)
        assert spent(any_ledger) == TENTH
        assert any_ledger.published("1") is None
    assert release(any_ledger, "1", lambda _: b"now") == b"now"
    assert release(any_ledger, "1", fail) == b"now"
    assert spent(any_ledger) == TENTH


def test_two_that_compute_at_once_reveal_the_same(ledger):
    """The first to store wins; the other one's draw is never seen."""
    both = threading.Barrier(2)
    answers = together(2, lambda at: release(ledger, "1", lambda _: both.wait(60) * b"" + b"%d" % at))
    assert answers == [ledger.published("1")] * 2
    assert spent(ledger) == TENTH


def test_a_request_id_means_one_thing_and_a_reservation_is_one_of_its_ledger(any_ledger, memory):
    """Of one account and cost too: `test_every_rule.py` has others."""
    call = {"account": "people", "request": "1", "cost": TENTH, "what": "table 1"}
    any_ledger.reserve(**call)
    with pytest.raises(RequestConflict, match="new id"):
        any_ledger.reserve(**{**call, "what": "table 2"})
    any_ledger.reserve(**call, who="someone else", note="another note")
    assert spent(any_ledger) == TENTH
    with Ledger.create(memory / "other.ledger") as other:
        other.open_account("people", epsilon=1)
        reservation = reserve(other, "2")
    with pytest.raises(ArgumentError, match="not of this ledger"):
        any_ledger.publish(reservation, b"x")


BAD = [
    {"cost": Cost(epsilon=0)},
    {"cost": 0.1},
    {"cost": ()},
    {"cost": (TENTH, 0.1)},
    {"cost": (TENTH, Cost(epsilon=0))},
    {"cost": GaussianCost(mu=0.1)},
    {"cost": (GaussianCost(mu=0.1), RenyiCost(order=2, divergence=0.1))},
    {"account": "nobody"},
    {"account": "people "},
    {"request": ""},
    {"request": 1},
    {"note": None},
    {"what": b"x"},
    {"who": 3},
    {"compute": b"x"},
]


@pytest.mark.parametrize("change", BAD, ids=lambda change: repr(change)[:40])
def test_bad_input_is_refused_by_name_with_nothing_spent_or_computed(any_ledger, change):
    call = {"account": "people", "request": "1", "cost": TENTH, "compute": never}
    with pytest.raises((ArgumentError, ArgumentTypeError), match=rf"^{next(iter(change))}="):
        any_ledger.release(**{**call, **change})
    assert any_ledger.verify().entries == 2


@pytest.mark.parametrize(
    "change",
    [
        {"epsilon": math.nan},
        {"epsilon": 0, "delta": 0},
        {"epsilon": "1e-13"},
        {"delta": 1},
        {"delta": "1e-13"},
        {"rule": "sum"},
        {"rule": RenyiFilter(order=8), "delta": 0},
        {"rule": GaussianFilter(), "epsilon": "1e-12", "delta": "1e-12"},
        {"note": 1},
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_bad_account_is_not_opened(any_ledger, change):
    with pytest.raises(RangeboundError):
        any_ledger.open_account("new", **{"epsilon": 1, **change})
    assert [each.name for each in any_ledger.accounts()] == ["people"]


def test_an_account_is_opened_once_for_good_with_a_total_that_is_rounded_down(any_ledger):
    with pytest.raises(ArgumentError, match="open already"):
        any_ledger.open_account("people", epsilon=100)
    assert str(any_ledger.account("people").total) == "epsilon 1, delta 0.000001"
    account = any_ledger.open_account("third", epsilon=Fraction(1, 3))
    assert str(account.total) == "epsilon 0.333333333333"
    with pytest.raises(BudgetExceeded):
        any_ledger.reserve(account="third", request="1", cost=Cost(epsilon=Fraction(1, 3)))


def test_a_gaussian_account_spends_squares_of_mu_and_deltas(any_ledger):
    account = any_ledger.open_account("tables", epsilon=1, delta="1e-6", rule=GaussianFilter())
    assert str(account.total) == "mu 0.233459072876 (mu^2 0.054503138708), delta 0.00000025"
    any_ledger.reserve(account="tables", request="1", cost=GaussianCost(mu=0.2, delta="2e-7"))
    found = any_ledger.account("tables")
    assert str(found.spent) == "mu 0.2 (mu^2 0.04), delta 0.0000002"
    with pytest.raises(BudgetExceeded, match=r"^cost=epsilon 0.1 \(mu 0.1253.* in this account\): exceeds") as caught:
        any_ledger.reserve(account="tables", request="3", cost=TENTH)
    assert caught.value.requested == GaussianCost.of_units(GaussianFilter().units(TENTH))
    any_ledger.reserve(account="tables", request="3", cost=GaussianCost(mu=Fraction(found.remaining.mu), delta="5e-8"))
    assert any_ledger.account("tables").remaining == GaussianCost(mu=0)
    assert any_ledger.account("tables").left == "no mu"


BOTH = (GaussianCost(mu=0.01), Cost(epsilon="0.1", delta="1e-9"))


@pytest.mark.parametrize(("account", "taken"), [("people", BOTH[1]), ("tables", BOTH[0]), ("model", BOTH[0])])
def test_of_several_costs_the_first_that_the_rule_can_hold_is_charged_and_computed_with(any_ledger, account, taken):
    any_ledger.open_account("tables", epsilon=1, delta="1e-6", rule=GaussianFilter())
    any_ledger.open_account("model", epsilon=2, delta="1e-6", rule=RenyiFilter(order=16))
    seen = []
    call = {"account": account, "request": "1", "compute": lambda cost: seen.append(cost) or b"x"}
    assert any_ledger.release(**call, cost=BOTH) == b"x"
    assert seen == [taken]
    assert any_ledger.release(**call, cost=taken) == b"x"  # the same amounts are the same request
    assert any_ledger.account(account).spends == len(seen) == 1


def test_history_says_who_what_and_when(ledger):
    login = ledger._chain.store.login
    ben, anna = ("ben", "anna") if login is None else (f"{login}/ben", f"{login}/anna")  # a server knows the login
    before = datetime.now(UTC) - timedelta(seconds=5)
    words = {"what": "table 1", "note": "first\nyear"}
    ledger.release(account="people", request="t1", cost=TENTH, compute=lambda _: b"1", who="ben", **words)
    ledger.open_account("other", epsilon=1)
    first, account, spend, publish, other = ledger.history()
    assert [first.kind.value, spend.kind.value, publish.kind.value, other.seq] == ["ledger", "spend", "publish", 5]
    assert (account.who, account.note, str(account.cost)) == (anna, "survey of 2026", "epsilon 1, delta 0.000001")
    assert (spend.who, spend.request, spend.cost) == (ben, "t1", TENTH)
    assert {name: getattr(spend, name) for name in words} == words
    assert (publish.who, publish.cost) == (ben, None)
    assert publish.digest == "6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b"
    assert before <= spend.time <= datetime.now(UTC)
    assert [record.seq for record in ledger.history("people")] == [2, 3, 4]
    with pytest.raises(ArgumentError, match="not in this ledger"):
        ledger.history("nobody")


def test_a_check_sees_the_history_of_its_account_and_may_refuse_with_nothing_spent(any_ledger):
    any_ledger.open_account("others", epsilon=1)
    any_ledger.reserve(account="others", request="x", cost=TENTH, what="theirs")
    any_ledger.reserve(account="people", request="a", cost=TENTH, what="ours")
    seen = []

    def refuse(history):
        seen.append([each.what for each in history if each.kind is EntryKind.SPEND])
        raise KeyError("no")

    for _ in range(2):
        with pytest.raises(KeyError):
            any_ledger.release(account="people", request="b", cost=TENTH, compute=never, check=refuse)
    assert seen == [["ours"]] * 2
    assert spent(any_ledger) == TENTH
    any_ledger.reserve(account="people", request="a", cost=TENTH, what="ours", check=refuse)  # charged before
    assert len(seen) == 2


def test_nobody_charges_between_a_check_and_its_charge(ledger, path):
    def meanwhile(_):
        with Ledger.open(path, patience=0.2) as other, pytest.raises(LedgerUnavailable):
            reserve(other, "theirs")

    ledger.reserve(account="people", request="ours", cost=TENTH, check=meanwhile)
    with Ledger.open(path, patience=0.2) as other:  # control: after it, they do
        reserve(other, "theirs")
    assert [each.request for each in ledger.history("people")][1:] == ["ours", "theirs"]


@pytest.mark.parametrize("name", ["Zürich", "北京", "🙂", "a/b", "'; DROP TABLE entries; --", "%s{}", "[red]x[/red]"])
def test_odd_names_are_just_names(ledger, path, name):
    ledger.open_account(name, epsilon=1)
    ledger.release(account=name, request=name, cost=TENTH, compute=lambda _: name.encode(), note=name, what=name)
    with Ledger.open(path) as other:
        assert other.account(name).spent == TENTH
        assert other.published(name) == name.encode()
        other.verify()


@pytest.mark.parametrize("size", [0, 1, 5000, 20_000_000])
def test_published_bytes_of_any_size_come_back(ledger, size):
    payload = bytes(range(256)) * (size // 256) + b"\0" * (size % 256)
    assert ledger.release(account="people", request="1", cost=TENTH, compute=lambda _: payload) == payload
    assert ledger.published("1") == payload
    ledger.verify()


UNSTORABLE = {"too many": b"x" * 4711, "text": "text", "nothing": None, "array": bytearray(b"x"), "number": 42}


@pytest.mark.parametrize("answer", UNSTORABLE.values(), ids=UNSTORABLE)
def test_a_draw_that_could_not_be_stored_is_not_made_again(any_ledger, path, monkeypatch, answer):
    """Each attempt would be a fresh draw under one charge, and whether it is stored may depend on it."""
    monkeypatch.setattr("rangebound.ledger.book.PAYLOAD_LIMIT", 10)
    with pytest.raises((ArgumentError, ArgumentTypeError), match=r"^payload.*the charge stands") as caught:
        release(any_ledger, "1", lambda _: answer)
    assert "4711" not in str(caught.value)  # the size is made from a draw
    for _ in range(2):
        with pytest.raises(RequestFailed, match="not computed again"):
            release(any_ledger, "1", never)
    assert any_ledger.published("1") is None
    assert [each.kind for each in any_ledger.history("people")[1:]] == [EntryKind.SPEND, EntryKind.FAIL]
    assert spent(any_ledger) == TENTH
    assert release(any_ledger, "2", lambda _: b"fits") == b"fits"
    any_ledger.verify()
    if any_ledger._chain.store.kind != "memory":
        with Ledger.open(path) as other, pytest.raises(RequestFailed):  # other processes remember it
            release(other, "1", never)


def test_of_two_draws_the_one_that_fits_is_kept(ledger, monkeypatch):
    """Whoever computes too much finds what the other has stored, and who comes too late is refused."""
    monkeypatch.setattr("rangebound.ledger.book.PAYLOAD_LIMIT", 10)
    first, second = (reserve(ledger, "1") for _ in range(2))
    assert ledger.publish(first, b"fits") == b"fits"
    with pytest.raises(ArgumentError):
        ledger.publish(second, b"x" * 11)
    assert release(ledger, "1", never) == b"fits"
    late, early = (reserve(ledger, "2") for _ in range(2))
    with pytest.raises(ArgumentError):
        ledger.publish(early, b"x" * 11)
    with pytest.raises(RequestFailed):
        ledger.publish(late, b"fits")
    ledger.verify()


@pytest.mark.parametrize("at_once", [False, True])
def test_a_draw_that_finds_no_room_is_not_made_again(ledger, monkeypatch, at_once):
    """Whether there is room may depend on the size of a draw; where not even the note finds room, it is remembered."""
    append = SQLiteStore.append

    def full(self, transaction, entry, payload):
        if payload is not None or at_once:
            raise NoRoom("ledger: is on a full disk")
        return append(self, transaction, entry, payload)

    reservation = ledger.reserve(account="people", request="1", cost=TENTH)
    monkeypatch.setattr(SQLiteStore, "append", full)
    with pytest.raises(LedgerUnavailable, match="full disk; the charge stands, and the request is not computed again"):
        ledger.publish(reservation, b"drawn")
    monkeypatch.undo()
    for _ in range(2):
        with pytest.raises(RequestFailed):
            release(ledger, "1", never)
    assert [each.kind for each in ledger.history("people")[2:]] == ([] if at_once else [EntryKind.FAIL])


@pytest.mark.parametrize(
    "now",
    [0, -1, -(10**15), -(2**62), 16_725_225_600 * 10**6, 253_402_300_800 * 10**6, 2**63 - 1, None],
    ids=["1970", "1969", "1938", "long ago", "2500", "10000", "far", "beyond"],
)
def test_no_clock_blocks_an_account(ledger, path, monkeypatch, now):
    """`None`: the system's count of nanoseconds overflows."""

    def clock() -> int:
        if now is None:
            raise OverflowError("timestamp out of range for platform time_t")
        return now * 1000

    monkeypatch.setattr("rangebound.ledger.chain.time.time_ns", clock)
    release(ledger, "1")
    ledger.open_account("others", epsilon=1)
    monkeypatch.undo()
    ledger.release(account="people", request="2", cost=TENTH, compute=lambda _: b"x", check=lambda history: None)
    assert [each.to_dict()["request"] for each in ledger.history("people")[1:]] == ["1", "1", "2", "2"]
    assert to_csv(ledger.history()).count("\n") == 8
    assert to_json(ledger)
    with Ledger.open(path) as other:
        assert other.accounts() == ledger.accounts()
        assert bool(other.verify().clock_set_back)


def test_the_key_shows_itself_to_nobody(ledger):
    """Not in the text of any object of the room, not in its pickle, not in an error, not as a local of a traceback."""
    reservation = reserve(ledger, "1")
    chain, key = ledger._chain, ledger._chain.state.key
    things = [key, [key], ledger, chain.state, chain.store, chain.head, reservation, ledger.account("people")]
    things += [*map(vars, (ledger, chain, chain.state, chain.head)), ledger.history(), ledger.verify()]
    shown = [text for thing in things for text in (repr(thing), str(thing), f"{thing}", ascii(thing))]
    for thing in things:
        try:
            shown.append(repr(pickle.dumps(thing)))
        except TypeError:
            continue
    for text in shown:
        assert key.hex() not in text
        assert repr(bytes(key))[2:-1] not in text
    for change in (copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="key of a ledger"):
            change(ledger._chain.state)
    assert repr(bytes(key))[2:-1] in repr({"key": bytes(key)})  # the control: plain bytes would have been found


def test_a_clock_set_back_changes_no_order_and_is_behind_until_it_passes_the_latest_time(ledger, monkeypatch):
    now = time.time_ns()
    reserve(ledger, "1")
    for request, hours in (("2", -48), ("3", -24), ("4", 24)):
        monkeypatch.setattr("rangebound.ledger.chain.time.time_ns", lambda at=hours: now + at * 3600 * 10**9)
        reserve(ledger, request)
    records = [record for record in ledger.history() if record.kind is EntryKind.SPEND]
    assert [record.request for record in records] == ["1", "2", "3", "4"]
    assert ledger.verify().clock_set_back == (records[1].seq, records[2].seq)
