"""Spending: what is charged, what comes back, and what is refused with nothing spent."""

import contextlib
import copy
import math
import pickle
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path

import pytest

import rangebound as rb
from rangebound.errors import (
    ArgumentError,
    ArgumentTypeError,
    BudgetExceeded,
    LedgerTampered,
    LedgerUnavailable,
    RangeboundError,
    RequestConflict,
    RequestFailed,
)
from rangebound.ledger.book import Ledger
from rangebound.ledger.chain import NO_SEAL, EntryKind, LedgerEntry, sealed
from rangebound.ledger.export import to_csv, to_json
from rangebound.ledger.key import key_path
from rangebound.ledger.rule import Cost, GaussianCost, GaussianFilter, RenyiCost, RenyiFilter
from rangebound.ledger.sqlite_transaction import SQLiteTransaction
from rangebound.ledger.store import NoRoom
from rangebound.ledger.user_folder import user_folder

TENTH = Cost(epsilon=0.1)


class ListStore:
    """The smallest store there can be: a list. Shows that the ledger asks no more of a store than its protocol."""

    kind = "list"
    login = identity = None
    patience = linger = 1.0

    def __init__(self, key: bytes) -> None:
        self.rows = [
            sealed(
                key, NO_SEAL, LedgerEntry(1, 0, "ledger", None, "id", *[None] * 4, "", "rangebound ledger 1", "", b"")
            )
        ]
        self.bytes: dict[int, bytes] = {}

    @contextlib.contextmanager
    def writing(self, request: str | None = None) -> Iterator["ListStore"]:
        self.draft: list[tuple[LedgerEntry, bytes | None]] = []
        yield self

    reading = writing

    def entries(self, start: int) -> Iterator[LedgerEntry]:
        return iter(self.rows[max(0, start - 1) :])

    def entry(self, seq: int) -> LedgerEntry | None:
        return self.rows[seq - 1] if 0 < seq <= len(self.rows) else None

    def reread(self, first: int, last: int) -> list[LedgerEntry]:
        return self.rows[first - 1 : last]

    def known(self, drafts: list[LedgerEntry]) -> set[tuple[str, str | None]]:
        return {(each.kind, each.request) for each in drafts if self.find(each.kind, each.request or "") is not None}

    def find(self, kind: str, request: str) -> LedgerEntry | None:
        return next((row for row in self.rows if (row.kind, row.request) == (kind, request)), None)

    def payload(self, seq: int) -> bytes | None:
        return self.bytes.get(seq)

    def payloads(self) -> Iterator[int]:
        return iter(self.bytes)

    @property
    def version(self) -> object:
        return object()  # it never says that nothing has changed, so the ledger always looks

    def append(self, entry: LedgerEntry, payload: bytes | None = None) -> bool:
        if entry.request is not None and self.find(entry.kind, entry.request) is not None:
            return False
        self.draft.append((entry, payload))
        return True

    def commit(self) -> None:
        for entry, payload in self.draft:
            self.rows.append(entry)
            if payload is not None:
                self.bytes[entry.seq] = payload

    def damage(self) -> list[str]:
        return []

    def close(self) -> None:
        pass


@pytest.fixture
def path(either):
    """Of a ledger in a file, or in PostgreSQL."""
    return either


@pytest.fixture
def key_file(path, ledger):
    """Where the key is by default."""
    return key_path(path if isinstance(path, Path) else user_folder("key") / ledger._chain.state.name, None)[0]


@pytest.fixture(params=["sqlite", "list"])
def any_ledger(request, path):
    made = Ledger.create(path) if request.param == "sqlite" else Ledger(ListStore(bytes(32)), bytes(32))
    with made as ledger:
        ledger.open_account("people", epsilon=1, delta="1e-6")
        yield ledger


def spent(ledger: Ledger) -> Cost:
    return ledger.account("people").spent


def test_ten_tenths_are_the_whole_and_the_eleventh_is_refused(any_ledger):
    for i in range(10):
        assert any_ledger.release(account="people", request=f"{i}", cost=TENTH, compute=lambda _: b"x") == b"x"
    assert any_ledger.account("people").remaining == Cost(epsilon=0, delta="1e-6")
    with pytest.raises(BudgetExceeded) as caught:
        any_ledger.reserve(account="people", request="more", cost=Cost(epsilon="1e-12"))
    assert caught.value.remaining == Cost(epsilon=0, delta="1e-6")
    assert caught.value.requested == Cost(epsilon="1e-12")
    assert caught.value.account == "people"
    assert isinstance(caught.value, ValueError)
    again = pickle.loads(pickle.dumps(caught.value))
    assert (again.remaining, again.requested, str(again)) == (
        caught.value.remaining,
        caught.value.requested,
        str(caught.value),
    )
    assert spent(any_ledger) == Cost(epsilon=1)
    assert any_ledger.verify().entries == 22


def test_delta_is_a_budget_of_its_own(any_ledger):
    with pytest.raises(BudgetExceeded):
        any_ledger.reserve(account="people", request="1", cost=Cost(epsilon="0.1", delta="0.000001000001"))
    any_ledger.reserve(account="people", request="1", cost=Cost(epsilon=0, delta="0.000001"))
    assert any_ledger.account("people").remaining == Cost(epsilon=1)


def test_the_charge_is_in_the_file_before_anything_is_computed(ledger, path):
    def compute(cost: Cost) -> bytes:
        with Ledger.open(path) as other:
            assert spent(other) == cost == TENTH
        return b"answer"

    assert ledger.release(account="people", request="1", cost=TENTH, compute=compute) == b"answer"


def test_the_bytes_are_in_the_file_before_they_are_revealed(ledger, path):
    assert ledger.release(account="people", request="1", cost=TENTH, compute=lambda _: b"answer") == b"answer"
    with Ledger.open(path) as other:
        assert other.published("1") == b"answer"
        assert other.published("2") is None


def test_an_error_stays_charged_and_the_same_request_tries_again_for_nothing(any_ledger):
    def fail(_: Cost) -> bytes:
        raise RuntimeError("no memory")

    for _ in range(3):
        with pytest.raises(RuntimeError, match="no memory"):
            any_ledger.release(account="people", request="1", cost=TENTH, compute=fail)
        assert spent(any_ledger) == TENTH
        assert any_ledger.published("1") is None
    assert any_ledger.release(account="people", request="1", cost=TENTH, compute=lambda _: b"now") == b"now"
    assert any_ledger.release(account="people", request="1", cost=TENTH, compute=fail) == b"now"
    assert spent(any_ledger) == TENTH


@pytest.mark.parametrize("answer", ["text", None, 42, bytearray(b"x"), memoryview(b"x")])
def test_an_answer_that_is_not_bytes_stays_charged_and_is_not_revealed(any_ledger, answer):
    with pytest.raises(ArgumentTypeError, match=r"^payload of type "):
        any_ledger.release(account="people", request="1", cost=TENTH, compute=lambda _: answer)
    assert spent(any_ledger) == TENTH


def test_a_thousand_times_the_same_request_is_one_spend_and_one_answer(ledger):
    answers = {
        ledger.release(account="people", request="1", cost=TENTH, compute=lambda _, i=i: f"draw {i}".encode())
        for i in range(1000)
    }
    assert answers == {b"draw 0"}
    assert spent(ledger) == TENTH


def test_two_that_compute_at_once_reveal_the_same(ledger):
    """The first to store wins; the other one's draw is never seen."""
    both = threading.Barrier(2)
    answers = []

    def run(name: str) -> None:
        def compute(_: Cost) -> bytes:
            both.wait(60)
            return name.encode()

        answers.append(ledger.release(account="people", request="1", cost=TENTH, compute=compute))

    threads = [threading.Thread(target=run, args=(name,)) for name in ("a", "b")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 2
    assert len(set(answers)) == 1
    assert answers[0] == ledger.published("1")
    assert spent(ledger) == TENTH


@pytest.mark.parametrize(
    "change",
    [{"cost": Cost(epsilon=0.2)}, {"cost": Cost(epsilon=0.1, delta="1e-9")}, {"account": "other"}, {"what": "table 2"}],
)
def test_a_request_id_means_one_thing(any_ledger, change):
    any_ledger.open_account("other", epsilon=1, delta="1e-6")
    call = {"account": "people", "request": "1", "cost": TENTH, "what": "table 1"}
    any_ledger.reserve(**call)
    with pytest.raises(RequestConflict, match="new id"):
        any_ledger.reserve(**{**call, **change})
    assert spent(any_ledger) == TENTH
    assert any_ledger.account("other").spent == Cost(epsilon=0)
    any_ledger.reserve(**call, who="someone else", note="another note")


def test_a_reservation_of_another_ledger_is_refused(any_ledger, memory):
    with Ledger.create(memory / "other.ledger") as other:
        other.open_account("people", epsilon=1)
        reservation = other.reserve(account="people", request="1", cost=TENTH)
    with pytest.raises(ArgumentError, match="not of this ledger"):
        any_ledger.publish(reservation, b"x")


BAD = [
    {"cost": Cost(epsilon=0)},
    {"cost": Cost(epsilon=-0.0, delta="-0")},
    {"cost": 0.1},
    {"cost": None},
    {"cost": (0.1, 0)},
    {"cost": ()},
    {"cost": [TENTH]},
    {"cost": (TENTH, 0.1)},
    {"cost": (TENTH, Cost(epsilon=0))},
    {"cost": GaussianCost(mu=0)},
    {"cost": GaussianCost(mu=0.1)},
    {"cost": (GaussianCost(mu=0.1), RenyiCost(order=2, divergence=0.1))},
    {"cost": RenyiCost(order=2, divergence=0.1)},
    {"account": "nobody"},
    {"account": None},
    {"account": ["people"]},
    {"account": "people "},
    {"account": "Peo\u0301ple"},
    {"request": ""},
    {"request": "a\nb"},
    {"request": "a\0"},
    {"request": "\ud800"},
    {"request": "\u202e1"},
    {"request": "x" * 201},
    {"request": 1},
    {"note": None},
    {"note": "\0"},
    {"note": "\udc80"},
    {"note": "x" * 10_001},
    {"what": b"x"},
    {"who": 3},
    {"compute": b"x"},
]


@pytest.mark.parametrize("change", BAD, ids=lambda change: repr(change)[:40])
def test_bad_input_is_refused_by_name_with_nothing_spent_or_computed(any_ledger, change):
    calls = []
    call = {"account": "people", "request": "1", "cost": TENTH, "compute": lambda _: calls.append(1) or b"x"}
    with pytest.raises((ArgumentError, ArgumentTypeError), match=rf"^{next(iter(change))}="):
        any_ledger.release(**{**call, **change})
    assert calls == []
    assert spent(any_ledger) == Cost(epsilon=0)
    assert any_ledger.verify().entries == 2


@pytest.mark.parametrize("value", [math.nan, math.inf, "1e400", -1, True, "x"])
def test_bad_amounts_never_become_a_cost(value):
    with pytest.raises(RangeboundError):
        Cost(epsilon=value)


@pytest.mark.parametrize("value", [5e-324, "1e-400", 2e-308])
def test_subnormal_spends_cost_a_unit_each(any_ledger, value):
    for i in range(3):
        any_ledger.reserve(account="people", request=f"{i}", cost=Cost(epsilon=value))
    assert spent(any_ledger) == Cost(epsilon="0.000000000003")


@pytest.mark.parametrize(
    "change",
    [
        {"epsilon": math.nan},
        {"epsilon": math.inf},
        {"epsilon": "1e400"},
        {"epsilon": 0, "delta": 0},
        {"epsilon": "1e-13"},
        {"delta": 1},
        {"delta": "1e-13"},
        {"delta": -0.1},
        {"epsilon": True},
        {"rule": "sum"},
        {"rule": RenyiFilter(order=8), "delta": 0},
        {"rule": GaussianFilter(), "delta": 0},
        {"rule": GaussianFilter(), "epsilon": "1e-12", "delta": "1e-12"},
        {"rule": GaussianFilter},
        {"note": 1},
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_bad_account_is_not_opened(any_ledger, change):
    with pytest.raises(RangeboundError):
        any_ledger.open_account("new", **{"epsilon": 1, **change})
    assert [each.name for each in any_ledger.accounts()] == ["people"]


def test_an_account_is_opened_once_and_for_good(any_ledger):
    with pytest.raises(ArgumentError, match="open already"):
        any_ledger.open_account("people", epsilon=100)
    assert str(any_ledger.account("people").total) == "epsilon 1, delta 0.000001"


def test_totals_are_rounded_down(any_ledger):
    account = any_ledger.open_account("third", epsilon=Fraction(1, 3))
    assert str(account.total) == "epsilon 0.333333333333"
    with pytest.raises(BudgetExceeded):
        any_ledger.reserve(account="third", request="1", cost=Cost(epsilon=Fraction(1, 3)))


def test_a_renyi_account_spends_divergence_at_its_order(any_ledger):
    account = any_ledger.open_account("model", epsilon=2, delta="1e-6", rule=RenyiFilter(order=16))
    whole = account.total
    assert str(account.epsilon) == "2"
    half = RenyiCost(order=16, divergence=whole.divergence.fraction / 2)
    any_ledger.reserve(account="model", request="1", cost=half)
    with pytest.raises(ArgumentTypeError, match="order of this account is fixed"):
        any_ledger.reserve(account="model", request="2", cost=RenyiCost(order=8, divergence="0.1"))
    with pytest.raises(ArgumentTypeError):
        any_ledger.reserve(account="model", request="2", cost=Cost(epsilon="0.1", delta="1e-12"))
    with pytest.raises(BudgetExceeded):
        any_ledger.reserve(account="model", request="2", cost=RenyiCost(order=16, divergence=whole.divergence))
    assert any_ledger.account("model").spent == half
    any_ledger.reserve(account="model", request="2", cost=any_ledger.account("model").remaining)
    assert any_ledger.account("model").remaining == RenyiCost(order=16, divergence=0)


def test_a_gaussian_account_spends_squares_of_mu_and_deltas(any_ledger):
    account = any_ledger.open_account("tables", epsilon=1, delta="1e-6", rule=GaussianFilter())
    assert str(account.total) == "mu 0.233459072876 (mu^2 0.054503138708), delta 0.00000025"
    any_ledger.reserve(account="tables", request="1", cost=GaussianCost(mu=0.2))
    any_ledger.reserve(account="tables", request="2", cost=GaussianCost(mu="0.01", delta="2e-7"))
    found = any_ledger.account("tables")
    assert str(found.spent) == "mu 0.200249843946 (mu^2 0.0401), delta 0.0000002"
    assert found.remaining.units == (14403138708, 50000)
    with pytest.raises(ArgumentTypeError, match="adds squares of mu"):
        any_ledger.reserve(account="tables", request="3", cost=RenyiCost(order=8, divergence="0.1"))
    with pytest.raises(BudgetExceeded, match=r"^cost=epsilon 0.1 \(mu 0.1253.* in this account\): exceeds") as caught:
        any_ledger.reserve(account="tables", request="3", cost=TENTH)
    assert caught.value.requested == GaussianCost.of_units(GaussianFilter().units(TENTH))
    with pytest.raises(BudgetExceeded):
        any_ledger.reserve(account="tables", request="3", cost=GaussianCost(mu="0.01", delta="0.000000050001"))
    any_ledger.reserve(account="tables", request="3", cost=GaussianCost(mu=Fraction(found.remaining.mu), delta="5e-8"))
    assert any_ledger.account("tables").remaining == GaussianCost(mu=0)
    assert any_ledger.account("tables").left == "no mu"
    assert any_ledger.verify().entries == 6


BOTH = (GaussianCost(mu=0.01), Cost(epsilon="0.1", delta="1e-9"))


@pytest.mark.parametrize(("account", "taken"), [("people", BOTH[1]), ("tables", BOTH[0]), ("model", BOTH[0])])
def test_of_several_costs_the_first_that_the_rule_can_hold_is_charged_and_computed_with(any_ledger, account, taken):
    any_ledger.open_account("tables", epsilon=1, delta="1e-6", rule=GaussianFilter())
    any_ledger.open_account("model", epsilon=2, delta="1e-6", rule=RenyiFilter(order=16))
    seen = []
    call = {"account": account, "request": "1", "compute": lambda cost: seen.append(cost) or b"x"}
    assert any_ledger.release(**call, cost=BOTH) == b"x"
    assert seen == [taken]
    found = any_ledger.account(account)
    assert found.spent.units == found.rule.units(taken)
    assert any_ledger.reserve(account=account, request="1", cost=BOTH).cost == taken
    assert any_ledger.release(**call, cost=taken) == b"x"  # the same amounts are the same request
    with pytest.raises(RequestConflict):
        any_ledger.release(**call, cost=(GaussianCost(mu=0.02), Cost(epsilon="0.2")))
    assert any_ledger.account(account).spends == len(seen) == 1


def test_a_mechanism_calibrated_to_the_charge_is_certified_below_it(ledger):
    query = rb.Query(range=rb.Interval(0, 100), sensitivity=1.0)

    def compute(cost: Cost) -> bytes:
        mechanism = rb.calibrate(noise=rb.Laplace, query=query, epsilon=float(cost.epsilon))
        assert Fraction(mechanism.epsilon()) <= cost.epsilon.fraction
        return b"drawn"

    ledger.release(account="people", request="1", cost=TENTH, compute=compute)


def test_history_says_who_what_and_when(ledger):
    login = ledger._chain.store.login
    before_name = "" if login is None else f"{login}/"  # a server writes down who is logged in
    before = datetime.now(UTC) - timedelta(seconds=5)
    ledger.release(
        account="people",
        request="t1",
        cost=TENTH,
        compute=lambda _: b"1",
        what="table 1",
        who="ben",
        note="first\nyear",
    )
    ledger.open_account("other", epsilon=1)
    records = ledger.history()
    assert [record.kind for record in records] == [
        EntryKind.LEDGER,
        EntryKind.ACCOUNT,
        EntryKind.SPEND,
        EntryKind.PUBLISH,
        EntryKind.ACCOUNT,
    ]
    assert [record.seq for record in records] == [1, 2, 3, 4, 5]
    account, spend, publish = records[1:4]
    assert (account.who, account.note, str(account.cost)) == (
        f"{before_name}anna",
        "survey of 2026",
        "epsilon 1, delta 0.000001",
    )
    assert (spend.who, spend.what, spend.note, spend.request, spend.cost) == (
        f"{before_name}ben",
        "table 1",
        "first\nyear",
        "t1",
        TENTH,
    )
    assert publish.who == f"{before_name}ben"
    assert publish.digest == "6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b"
    assert before <= spend.time <= datetime.now(UTC)
    assert [record.seq for record in ledger.history("people")] == [2, 3, 4]
    with pytest.raises(ArgumentError, match="not in this ledger"):
        ledger.history("nobody")


def test_everyone_sees_the_same_at_once(ledger, path):
    with Ledger.open(path) as other:
        for i in range(5):
            (ledger, other)[i % 2].reserve(account="people", request=f"{i}", cost=TENTH)
            assert ledger.account("people") == other.account("people")
            assert ledger.head == other.head


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
            any_ledger.release(account="people", request="b", cost=TENTH, compute=lambda _: b"", check=refuse)
    assert seen == [["ours"]] * 2
    assert spent(any_ledger) == TENTH
    any_ledger.reserve(account="people", request="a", cost=TENTH, what="ours", check=refuse)  # charged before
    assert len(seen) == 2


def test_nobody_charges_between_a_check_and_its_charge(ledger, path):
    def meanwhile(_):
        with Ledger.open(path, patience=0.2) as other, pytest.raises(LedgerUnavailable):
            other.reserve(account="people", request="theirs", cost=TENTH)

    ledger.reserve(account="people", request="ours", cost=TENTH, check=meanwhile)
    with Ledger.open(path, patience=0.2) as other:  # control: after it, they do
        other.reserve(account="people", request="theirs", cost=TENTH)
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


def test_too_many_bytes_stay_charged_and_are_not_revealed(ledger, monkeypatch):
    monkeypatch.setattr("rangebound.ledger.book.PAYLOAD_LIMIT", 10)
    with pytest.raises(ArgumentError, match="at most 10 bytes") as caught:
        ledger.release(account="people", request="1", cost=TENTH, compute=lambda _: b"x" * 4711)
    assert "4711" not in str(caught.value)  # the size is made from a draw
    assert spent(ledger) == TENTH


UNSTORABLE = {"too many": b"x" * 4711, "no bytes": "text", "nothing": None}


@pytest.mark.parametrize("answer", UNSTORABLE.values(), ids=UNSTORABLE)
def test_a_draw_that_could_not_be_stored_is_not_made_again(any_ledger, monkeypatch, answer):
    """Each attempt would be a fresh draw under one charge, and whether it is stored may depend on it."""
    monkeypatch.setattr("rangebound.ledger.book.PAYLOAD_LIMIT", 10)
    computed = []

    def release(payload):
        compute = lambda _: computed.append(1) or payload  # noqa: E731
        return any_ledger.release(account="people", request="1", cost=TENTH, compute=compute)

    with pytest.raises((ArgumentError, ArgumentTypeError), match="the charge stands"):
        release(answer)
    words = set()
    for payload in (answer, b"fits", answer):
        with pytest.raises(RequestFailed, match="not computed again") as caught:
            release(payload)
        words.add(str(caught.value))
    assert len(words) == len(computed) == 1
    assert any_ledger.published("1") is None
    assert [each.kind for each in any_ledger.history("people")[1:]] == [EntryKind.SPEND, EntryKind.FAIL]
    assert spent(any_ledger) == TENTH
    assert any_ledger.release(account="people", request="2", cost=TENTH, compute=lambda _: b"fits") == b"fits"
    any_ledger.verify()


def test_a_failed_draw_is_remembered_by_other_processes(ledger, path, monkeypatch):
    monkeypatch.setattr("rangebound.ledger.book.PAYLOAD_LIMIT", 10)
    with pytest.raises(ArgumentError):
        ledger.release(account="people", request="1", cost=TENTH, compute=lambda _: b"x" * 11)
    with Ledger.open(path) as other, pytest.raises(RequestFailed):
        other.release(account="people", request="1", cost=TENTH, compute=lambda _: pytest.fail("computed"))


def test_of_two_draws_the_one_that_fits_is_kept(ledger, monkeypatch):
    """Whoever computes too much finds what the other has stored, and who comes too late is refused."""
    monkeypatch.setattr("rangebound.ledger.book.PAYLOAD_LIMIT", 10)
    first, second = (ledger.reserve(account="people", request="1", cost=TENTH) for _ in range(2))
    assert ledger.publish(first, b"fits") == b"fits"
    with pytest.raises(ArgumentError):
        ledger.publish(second, b"x" * 11)
    assert ledger.release(account="people", request="1", cost=TENTH, compute=lambda _: b"no") == b"fits"
    late, early = (ledger.reserve(account="people", request="2", cost=TENTH) for _ in range(2))
    with pytest.raises(ArgumentError):
        ledger.publish(early, b"x" * 11)
    with pytest.raises(RequestFailed):
        ledger.publish(late, b"fits")
    ledger.verify()


@pytest.mark.parametrize("at_once", [False, True])
def test_a_draw_that_finds_no_room_is_not_made_again(ledger, monkeypatch, at_once):
    """Whether there is room may depend on the size of a draw; where not even the note finds room, it is remembered."""
    append, computed = SQLiteTransaction.append, []

    def full(self, entry, payload=None):
        if payload is not None or at_once:
            raise NoRoom("ledger: is on a full disk")
        return append(self, entry, payload)

    reservation = ledger.reserve(account="people", request="1", cost=TENTH)
    monkeypatch.setattr(SQLiteTransaction, "append", full)
    with pytest.raises(LedgerUnavailable, match="full disk; the charge stands, and the request is not computed again"):
        ledger.publish(reservation, b"drawn")
    monkeypatch.undo()
    for _ in range(2):
        with pytest.raises(RequestFailed):
            ledger.release(account="people", request="1", cost=TENTH, compute=lambda _: computed.append(1) or b"x")
    assert computed == []
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

    monkeypatch.setattr("rangebound.ledger.guarded_chain.time.time_ns", clock)
    ledger.release(account="people", request="1", cost=TENTH, compute=lambda _: b"x")
    ledger.open_account("others", epsilon=1)
    monkeypatch.undo()
    ledger.release(account="people", request="2", cost=TENTH, compute=lambda _: b"x", check=lambda history: None)
    assert [each.to_dict()["request"] for each in ledger.history("people")[1:]] == ["1", "1", "2", "2"]
    assert to_csv(ledger.history()).count("\n") == 8
    assert to_json(ledger)
    with Ledger.open(path) as other:
        assert other.accounts() == ledger.accounts()
        assert bool(other.verify().clock_set_back)


def test_the_key_shows_itself_to_nobody(ledger, key_file):
    """Not in the text of any object of the room, not in its pickle, not in an error, not as a local of a traceback."""
    secret = key_file.read_text().strip()
    reservation = ledger.reserve(account="people", request="1", cost=TENTH)
    key = ledger._chain.state.key
    assert key.hex() == secret  # the control: it is the key
    things = [
        key,
        [key],
        ledger,
        ledger._chain.state,
        ledger._chain.store,
        ledger._chain.head,
        reservation,
        ledger.account("people"),
    ]
    things += [
        vars(ledger),
        vars(ledger._chain),
        vars(ledger._chain.state),
        vars(ledger._chain.head),
        ledger.history(),
        ledger.verify(),
    ]
    shown = [text for thing in things for text in (repr(thing), str(thing), f"{thing}", ascii(thing))]
    for thing in things:
        try:
            shown.append(repr(pickle.dumps(thing)))
        except TypeError:
            continue
    for text in shown:
        assert secret not in text
        assert repr(bytes(key))[2:-1] not in text
    for change in (copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="key of a ledger"):
            change(ledger._chain.state)
    assert repr(bytes(key))[2:-1] in repr({"key": bytes(key)})  # the control: plain bytes would have been found


@pytest.mark.parametrize("how", ["argument", "environment"])
def test_a_key_given_in_place_of_its_path_is_not_shown(ledger, path, monkeypatch, how):
    secret = path.with_name(path.name + ".key").read_text().strip()
    monkeypatch.setenv("RANGEBOUND_LEDGER_KEY", secret)
    with pytest.raises(ArgumentError, match="must be the path") as caught:
        Ledger.open(path, key=secret.upper() if how == "argument" else None)
    assert secret not in str(caught.value).lower()


def test_a_clock_set_back_a_year_changes_no_order_and_is_noted(ledger, monkeypatch):
    import time as clock

    now = clock.time_ns()
    ledger.reserve(account="people", request="1", cost=TENTH)
    monkeypatch.setattr("rangebound.ledger.guarded_chain.time.time_ns", lambda: now - 365 * 86400 * 10**9)
    ledger.reserve(account="people", request="2", cost=TENTH)
    monkeypatch.undo()
    ledger.reserve(account="people", request="3", cost=TENTH)
    records = [record for record in ledger.history() if record.kind is EntryKind.SPEND]
    assert [record.request for record in records] == ["1", "2", "3"]
    assert records[1].time < records[0].time
    assert ledger.verify().clock_set_back == (records[1].seq,)
    assert spent(ledger) == Cost(epsilon=0.3)


def test_a_clock_is_behind_until_it_passes_the_latest_time(ledger, monkeypatch):
    import time as clock

    now = clock.time_ns()
    ledger.reserve(account="people", request="1", cost=TENTH)
    for request, hours in (("2", -48), ("3", -24), ("4", 24)):
        monkeypatch.setattr("rangebound.ledger.guarded_chain.time.time_ns", lambda at=hours: now + at * 3600 * 10**9)
        ledger.reserve(account="people", request=request, cost=TENTH)
    records = [record for record in ledger.history() if record.kind is EntryKind.SPEND]
    assert ledger.verify().clock_set_back == (records[1].seq, records[2].seq)


def test_many_tiny_spends_are_exact():
    ledger = Ledger(ListStore(bytes(32)), bytes(32))
    ledger.open_account("people", epsilon=1)
    find = ListStore.find
    try:
        ListStore.find = lambda self, kind, request: None  # the list would be searched from end to end each time
        for i in range(20_000):
            ledger.reserve(account="people", request=f"{i}", cost=Cost(epsilon=1e-6))
    finally:
        ListStore.find = find
    assert ledger.account("people").spent == Cost(epsilon="0.02")


@pytest.mark.long
def test_a_million_tiny_spends_are_exactly_one(path):
    with Ledger.create(path) as ledger:
        ledger.open_account("people", epsilon=1)
        for i in range(10**6):
            ledger.reserve(account="people", request=f"{i}", cost=Cost(epsilon=1e-6))
        assert ledger.account("people").remaining == Cost(epsilon=0)
        with pytest.raises(BudgetExceeded):
            ledger.reserve(account="people", request="more", cost=Cost(epsilon=5e-324))
    with Ledger.open(path) as ledger:
        assert ledger.account("people").spent == Cost(epsilon=1)


def test_control_a_ledger_whose_commits_do_nothing_is_caught():
    class Forgetful(ListStore):
        def commit(self) -> None:
            pass

    store = ListStore(bytes(32))
    ledger = Ledger(store, bytes(32))
    ledger.open_account("people", epsilon=1)
    store.__class__ = Forgetful
    with pytest.raises(LedgerTampered, match="is not in the file"):
        ledger.release(account="people", request="1", cost=TENTH, compute=lambda _: pytest.fail("computed"))
