"""Releases in Python from an account that needs approval: filed first, and no data touched before."""

import json
import sys

import pyarrow as pa
import pytest

import rangebound as rb
from rangebound.errors import ApprovalNeeded, PlanError, RequestConflict, RequestRejected
from rangebound.ledger.book import Ledger
from rangebound.release import parse_plan, suggest
from rangebound.release.output.explain import dry_run
from rangebound.release.run import is_approved, needs_approval

PLAN = parse_plan('budget = {epsilon = 0.5, account = "people"}\nquery = [{name = "visits", kind = "count"}]')
OTHER = parse_plan(f'{PLAN.to_toml()}\n[unit]\ncolumn = "age"')
TABLE = pa.table({"age": [41, 27]})
BASE = {"budget": {"epsilon": 0.5, "account": "people"}}
SELECT = "SELECT COUNT(*) AS visits FROM t"


class Sealed:
    def __getattribute__(self, name: str) -> object:
        raise AssertionError(f"{name} of the data was asked for")


@pytest.fixture
def book(tmp_path):
    with Ledger.create(tmp_path / "l.ledger") as made:
        made.open_account("people", epsilon=1, approval=True)
        made.open_account("free", epsilon=1)
        yield made


def releases(data: object, book: Ledger) -> object:
    return rb.release_table(PLAN, data, ledger=book, request="1")


def asks(data: object, book: Ledger) -> object:
    return rb.sql(SELECT, data, plan=BASE, ledger=book, request="1")


@pytest.mark.parametrize("call", [releases, asks])
def test_the_first_call_files_and_the_same_call_releases_once_it_is_approved(call, book):
    for _ in range(2):
        with pytest.raises(ApprovalNeeded) as caught:
            call(Sealed(), book)
        assert caught.value.filed
    assert [each.request for each in book.requests()] == ["1"]
    kept = json.loads(book.dry_run("1"))
    assert parse_plan(kept.pop("plan")).query[0].kind == "count"
    assert kept == json.loads(json.dumps(dry_run(PLAN, account=book.account("people"))))
    book.approve("1", who="berta")
    with pytest.raises(AssertionError, match="of the data was asked for"):  # control: now it is touched
        call(Sealed(), book)
    assert book.account("people").spends == 0
    call(TABLE, book)
    assert book.account("people").spends == 1


@pytest.mark.parametrize("call", [releases, asks])
def test_a_release_that_is_rejected_or_another_touches_nothing(call, book):
    with pytest.raises(ApprovalNeeded):
        call(Sealed(), book)
    with pytest.raises(RequestConflict):
        rb.release_table(OTHER, Sealed(), ledger=book, request="1")
    book.reject("1", who="berta")
    with pytest.raises(RequestRejected):
        call(Sealed(), book)


def test_another_unit_is_refused_when_it_is_filed(book):
    with pytest.raises(ApprovalNeeded):
        releases(Sealed(), book)
    book.approve("1", who="berta")
    releases(TABLE, book)
    with pytest.raises(PlanError, match="has paid for unit row"):
        rb.release_table(OTHER, Sealed(), ledger=book, request="2")
    assert len(book.requests()) == 1


def test_who_needs_approval(book):
    assert needs_approval(book, "people")
    assert not needs_approval(book, "free")
    assert not needs_approval(book, None)
    assert not needs_approval(None, "people")
    assert not is_approved(book, "1")
    assert not is_approved(book, None)


@pytest.mark.slow
def test_a_suggestion_is_filed_too_and_reads_no_row_before(book, monkeypatch):
    draft = {
        "budget": {"epsilon": 0.5, "account": "people"},
        "query": [{"name": "age", "kind": "mean", "column": "age"}],
    }
    with monkeypatch.context() as sealed:
        sealed.setattr(sys.modules["rangebound.release.gaps"], "_found", lambda *_: pytest.fail("a row was read"))
        with pytest.raises(ApprovalNeeded):
            suggest(draft, TABLE, ledger=book, request="1")
    assert b"Would estimate the range of 'age'" in book.dry_run("1")
    book.approve("1", who="berta")
    suggest(draft, TABLE, ledger=book, request="1")
    assert book.account("people").spends == 1
