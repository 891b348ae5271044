"""Accounts with periods: a total for each, by the latest time that the chain has seen, and a promise that says so."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rangebound.errors import ArgumentError, ArgumentTypeError, BudgetExceeded, LedgerTampered
from rangebound.ledger.book import Ledger
from rangebound.ledger.chain import LedgerEntry
from rangebound.ledger.replay import BudgetPeriod, moment
from rangebound.ledger.rule import Cost
from tests.ledger.test_replay import EPSILON, account, spend, state

HALF = Cost(epsilon=0.5)


def at(text: str) -> int:
    """A time in UTC, as microseconds since 1970."""
    day = datetime.fromisoformat(text).replace(tzinfo=UTC)
    return (day - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


@pytest.fixture
def clock(monkeypatch):
    """A way to set the clock of this machine."""

    def put(text: str) -> None:
        monkeypatch.setattr("rangebound.ledger.chain.time.time_ns", lambda: at(text) * 1000)

    put("2026-11-16T21:00:00")
    return put


@pytest.fixture(params=["path", "address"])
def book(request, clock):
    with Ledger.create(request.getfixturevalue(request.param)) as made:
        made.open_account("people", epsilon=1, period="quarter")
        yield made


def spent(book: Ledger, *names: str) -> None:
    for name in names:
        book.release(account="people", request=name, cost=HALF, compute=lambda _: b"x")


@given(st.integers(at("0001-01-01"), at("9999-12-31")), st.sampled_from(list(BudgetPeriod)))
def test_a_period_is_that_of_the_calendar(time, period):
    day = moment(time)
    quarter = {"month": f"{day:%m}", "quarter": f"Q{(day.month + 2) // 3}", "year": ""}[period.value]
    assert period.named(period.number(time)) == f"{day.year}-{quarter}".rstrip("-")
    assert period.begins(period.number(time)) <= f"{day.year}-{day:%m-%d}" or day.year < 1000


@given(st.integers(-(2**62), 2**62), st.integers(-(2**62), 2**62), st.sampled_from(list(BudgetPeriod)))
def test_later_times_are_in_no_earlier_period(one, other, period):
    assert (period.number(min(one, other))) <= period.number(max(one, other))
    for day in {"month": ["2024-03-01"], "quarter": ["2027-01-01", "2026-07-01"], "year": ["2027-01-01"]}[period.value]:
        assert period.number(at(day)) == period.number(at(day) - 1) + 1
        assert period.begins(period.number(at(day))) == day


@pytest.mark.few(1)
def test_each_period_has_the_whole_total_and_no_more(book, clock):
    for quarter, day in enumerate(["2026-11-16", "2027-01-01", "2027-04-30", "2028-12-31"], start=1):
        clock(day)
        spent(book, f"{day} 1", f"{day} 2")
        with pytest.raises(BudgetExceeded):
            spent(book, f"{day} 3")
        found = book.account("people")
        assert (found.spends, found.periods, found.spent) == (2 * quarter, quarter, Cost(epsilon=1))
    assert book.verify().entries == 2 + 4 * 4


def test_what_is_left_and_errors_name_the_period_and_control_there_is_none_without_periods(book, clock):
    book.open_account("once", epsilon=1)
    book.reserve(account="once", request="0", cost=Cost(epsilon=1))
    spent(book, "1", "2")
    assert book.account("people").current == "2026-Q4"
    words = r"has left in 2026-Q4 \(epsilon 0\); nothing was spent; the next quarter begins on 2027-01-01 \(UTC\)"
    with pytest.raises(BudgetExceeded, match=words) as caught:
        spent(book, "3")
    assert caught.value.remaining == Cost(epsilon=0)
    clock("2027-01-01")
    assert (book.account("people").current, str(book.account("people").remaining)) == ("2027-Q1", "epsilon 1")
    assert book.accounts()[0].remaining == Cost(epsilon=1)
    with pytest.raises(BudgetExceeded) as caught:
        book.reserve(account="once", request="4", cost=HALF)
    assert "begins" not in str(caught.value)
    assert book.account("once").weaker_promise is None


def test_a_clock_that_goes_back_gives_nothing_new(book, clock):
    spent(book, "1", "2")
    for day in ("2026-07-01", "2025-12-31", "1969-01-01"):
        clock(day)
        assert book.account("people").current == "2026-Q4"
        with pytest.raises(BudgetExceeded, match="2026-Q4"):
            spent(book, f"at {day}")
    clock("2027-01-01")
    book.open_account("others", epsilon=1)  # any entry moves the time, not only a spend
    clock("2026-12-31")
    spent(book, "3", "4")
    assert book.account("people").current == "2027-Q1"
    with pytest.raises(BudgetExceeded, match="2027-Q1"):
        spent(book, "5")


def test_a_clock_beyond_the_calendar_is_in_its_last_period(book, monkeypatch):
    monkeypatch.setattr("rangebound.ledger.chain.time.time_ns", lambda: 2**62 * 1000)
    spent(book, "1", "2")
    with pytest.raises(BudgetExceeded, match="9999-Q4"):
        spent(book, "3")


def test_a_clock_that_goes_back_between_check_and_entry_breaks_nothing(book, monkeypatch):
    """The period in which a charge is admitted is the one in which it is counted, whatever the clock does then."""
    spent(book, "1", "2")
    times = iter([at("2027-01-01")])
    monkeypatch.setattr("rangebound.ledger.chain.time.time_ns", lambda: next(times, at("2026-12-31")) * 1000)
    book.reserve(account="people", request="3", cost=HALF)
    assert book.account("people").current == "2027-Q1"
    book.verify()


def test_periods_and_approval_go_together(path, clock):
    with Ledger.create(path) as book:
        book.open_account("people", epsilon=1, period="month", approval=True)
        asked = {"account": "people", "what": "x"}
        for name, cost in (("1", Cost(epsilon=1)), ("2", HALF)):
            book.file_request(**asked, request=name, cost=cost, dry_run=b"", who="anna")
            book.approve(name, who="berta")
        book.reserve(**asked, request="1", cost=Cost(epsilon=1))
        with pytest.raises(BudgetExceeded, match="2026-11"):
            book.reserve(**asked, request="2", cost=HALF)
        book.file_request(**asked, request="3", cost=HALF, dry_run=b"")  # may be charged in another month
        with pytest.raises(BudgetExceeded):
            book.file_request(**asked, request="4", cost=Cost(epsilon="1.1"), dry_run=b"")
        clock("2026-12-01")
        book.reserve(**asked, request="2", cost=HALF)
        terms = json.loads(book.history()[1].what)
        assert terms == {"approval": "others", "period": "month", "promise": ["1", "0"], "rule": "sum"}


def test_an_account_says_what_its_weaker_promise_is_and_has_no_other_period(book):
    data = json.loads(json.dumps(book.account("people").to_dict()))
    words = data["weaker_promise"]
    assert "for each quarter (UTC): all releases charged in one quarter together are (1, 0)-private." in words
    assert "Over k quarters they are k times that, (k * 1, k * 0)-private" in words
    assert (data["period"], data["current"], data["periods"]) == ("quarter", "2026-Q4", 0)
    for wrong in ("week", "Quarter", "", 3):
        with pytest.raises((ArgumentError, ArgumentTypeError), match="period="):
            book.open_account("x", epsilon=1, period=wrong)


WHAT = f'{{"period": "quarter", "promise": ["{EPSILON}", "0.000001"], "rule": "sum"}}'


def timed(day: str, entry: LedgerEntry) -> LedgerEntry:
    return entry._replace(time=at(day))


def test_a_chain_that_spends_a_period_twice_or_has_another_is_refused():
    drafts = [timed("2026-10-01", account(what=WHAT)), timed("2026-10-01", spend(10**12, "1"))]
    state(*drafts, timed("2027-01-01", spend(1, "2")))  # control
    twice = [[*drafts, timed(day, spend(1, "2"))] for day in ("2026-10-02", "2026-12-31", "2026-01-01")]
    other = [[account(what=WHAT.replace('"quarter"', word))] for word in ('"week"', "null", "3")]
    for wrong in (*twice, *other):
        with pytest.raises(LedgerTampered, match="breaks the rules"):
            state(*wrong)


def test_an_account_without_some_spends_is_that_of_its_period(book, clock):
    assert book.account("people", without=["no such request"]) == book.account("people")
    spent(book, "1", "2")
    assert str(book.account("people", without=["1"]).remaining) == "epsilon 0.5"
    found = book.account("people", without=["1", "2"])
    assert (str(found.remaining), found.spends) == ("epsilon 1", 0)
    book.open_account("others", epsilon=1)
    assert book.account("others", without=["1"]) == book.account("others")  # the spend is of another account
    clock("2027-01-01")
    spent(book, "3")
    assert str(book.account("people", without=["1"]).remaining) == "epsilon 0.5"  # of the quarter before
    assert str(book.account("people", without=["3"]).remaining) == "epsilon 1"
    assert str(book.account("people").remaining) == "epsilon 0.5"  # the control: nothing was changed
