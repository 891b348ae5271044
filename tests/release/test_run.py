"""Whole releases: charged before data are read, published once, in many forms."""

import datetime
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv

import rangebound.release.run as run_module
from rangebound.errors import ApprovalNeeded, ArgumentError, BudgetExceeded, PlanError
from rangebound.ledger.book import Ledger
from rangebound.release import Budget, Release, demo, explain, make_plan, parse_plan, read_plan, release
from rangebound.release.output.plan_facts import sha256
from rangebound.release.prepare import prepare
from tests.release.plans import KINDS, SUPPORTED, plan_data
from tests.release.test_range import PEOPLE, table


def test_privately_selected_keys_are_those_with_many_owners():
    people = list(range(4000))
    data = pa.table({"person": people, "clinic": ["big" if each % 2 else f"lone {each}" for each in people]})
    plan = plan_data(["clinic"], KINDS[:2], unit={"column": "person"})
    plan = make_plan({**plan, "budget": {"epsilon": 1.0, "delta": 1e-12}})  # a third of delta for each of 2,000 keys
    found = release(plan, data, ledger=None)
    assert {cell.key for cell in found.cells} == {("big",)}


@pytest.fixture
def ledger(tmp_path):
    with Ledger.create(tmp_path / "l.ledger") as book:
        book.open_account("people", epsilon=2)
        yield book


CHARGED = {**plan_data([], KINDS[:1]), "budget": {"epsilon": 1.0, "account": "people"}}


def test_a_request_is_charged_once_and_published_once(ledger):
    plan, data = make_plan(CHARGED), table(50)
    first = release(plan, data, ledger=ledger, request="one", who="anna")
    assert {each.who for each in ledger.history() if each.request == "one"} == {"anna"}
    assert release(plan, data, ledger=ledger, request="one").to_bytes() == first.to_bytes()
    assert str(ledger.account("people").remaining) == "epsilon 1"
    release(plan, data, ledger=ledger, request="two")
    assert "anna" not in {each.who for each in ledger.history() if each.request == "two"}
    with pytest.raises(BudgetExceeded):
        release(plan, data, ledger=ledger, request="three")


def test_a_killed_release_is_charged_and_publishes_nothing_until_it_is_run_again(ledger, monkeypatch):
    plan, data = make_plan(CHARGED), table(50)

    def killed(*_):
        assert str(ledger.account("people").remaining) == "epsilon 1"  # charged before data are read
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(run_module, "aggregated", killed)
        with pytest.raises(KeyboardInterrupt):
            release(plan, data, ledger=ledger, request="one")
    assert ledger.published("one") is None
    assert str(ledger.account("people").remaining) == "epsilon 1"
    found = release(plan, data, ledger=ledger, request="one")
    assert ledger.published("one") == found.to_bytes()
    assert str(ledger.account("people").remaining) == "epsilon 1"


def test_nothing_is_charged_for_a_plan_that_does_not_fit(ledger):
    plan = make_plan({**CHARGED, "query": [{"name": "n", "kind": "mean", "column": "gone", "range": [0, 1]}]})
    with pytest.raises(PlanError):
        release(plan, table(5), ledger=ledger, request="one")
    with pytest.raises(ArgumentError, match="request"):
        release(make_plan(CHARGED), table(5), ledger=ledger)
    with pytest.raises(ArgumentError, match="account"):
        release(make_plan(plan_data([], KINDS[:1])), table(5), ledger=ledger, request="one")
    assert str(ledger.account("people").remaining) == "epsilon 2"


@pytest.mark.few(2)
@pytest.mark.claim("charge")
@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"budget": {"epsilon": 5e-324, "account": "people"}}, "query[0].weight"),
        ({"budget": {"epsilon": 1e-31, "account": "people"}}, "query[0].weight"),
        (
            {"query": [{"name": "a", "kind": "count"}, {"name": "b", "kind": "count", "weight": 1e-40}]},
            "query[1].weight",
        ),
        (
            {
                "budget": {"epsilon": 1e-12, "delta": 1e-9, "account": "people"},
                "query": [{"name": "a", "kind": "count", "by": ["clinic"]}],
            },
            "selection",
        ),
    ],
)
def test_shares_that_are_too_small_are_refused_before_the_charge(ledger, change, field):
    with pytest.raises(PlanError) as caught:
        release(make_plan({**CHARGED, **change}), table(5), ledger=ledger, request="one")
    assert caught.value.field == field
    assert str(ledger.account("people").remaining) == "epsilon 2"


@pytest.mark.few(4)
@pytest.mark.parametrize("kind", KINDS, ids=lambda each: each["kind"])
def test_the_smallest_epsilon_goes_through(kind):
    plan = make_plan({**plan_data([], [kind], unit=PEOPLE), "budget": {"epsilon": 4e-30}})
    explain(plan)
    for cell in release(plan, table(3), ledger=None).cells:
        assert cell.lower <= cell.value <= cell.upper


def test_an_account_protects_one_kind_of_unit(ledger):
    def plan(**unit):
        return make_plan({**CHARGED, "budget": {"epsilon": 0.5, "account": "people"}, "unit": unit})

    release(plan(column="person"), table(5), ledger=ledger, request="one")
    others = [{}, {"column": "clinic"}, {"column": "person", "neighbours": "replace", "size": 30}]
    for number, other in enumerate(others):
        with pytest.raises(PlanError, match="has paid for unit 'person', add or remove") as caught:
            release(plan(**other), table(5), ledger=ledger, request=f"other {number}")
        assert caught.value.field == "unit"
    assert str(ledger.account("people").remaining) == "epsilon 1.5"
    release(plan(column="person", rows=9, groups=2), table(5), ledger=ledger, request="two")
    ledger.open_account("rows", epsilon=1)
    rows = make_plan({**CHARGED, "budget": {"epsilon": 0.5, "account": "rows"}})
    release(rows, table(5), ledger=ledger, request="three")
    release(rows, table(5), ledger=ledger, request="four")


def test_there_is_no_way_past_the_ledger_that_is_not_spelt_out():
    plan, data = make_plan(CHARGED), table(5)
    with pytest.raises(TypeError, match="ledger"):
        release(plan, data)
    with pytest.raises(TypeError, match=r"must be a Ledger, such as rb\.Ledger\.open"):
        release(plan, data, ledger="l.ledger", request="one")
    with pytest.raises(ArgumentError, match="request='one': needs a ledger"):
        release(plan, data, ledger=None, request="one")
    assert '"ledger":null' in release(plan, data, ledger=None).certificate.replace(" ", "")


@pytest.mark.slow
def test_the_table_comes_in_all_forms(tmp_path):
    keys = {"clinic": ["=cmd()", "<b>", "a"]}
    plan = make_plan(plan_data(["clinic"], SUPPORTED, unit=PEOPLE, keys=keys, title="<script>"))
    found = release(plan, table(50), ledger=None)
    assert Release.from_bytes(found.to_bytes()).rows() == found.rows()
    assert found.to_arrow().num_rows == len(found.to_pandas()) == found.to_polars().height == len(found.cells)
    for ending in ("csv", "parquet", "json", "html"):
        found.write(tmp_path / f"table.{ending}")
    assert "'=cmd()" in (tmp_path / "table.csv").read_text()
    page = (tmp_path / "table.html").read_text()
    assert ("<script>" in page, "<b>" in page, "&lt;b&gt;" in page) == (False, False, True)
    with pytest.raises(ArgumentError, match="end in"):
        found.write(tmp_path / "table.xls")


@pytest.mark.slow
def test_a_plan_with_dates_survives_its_bytes():
    plan = parse_plan(demo.plan())
    found = release(plan, csv.read_csv(pa.BufferReader(demo.table().encode())).slice(0, 9), ledger=None)
    assert Release.from_bytes(found.to_bytes()).plan == plan
    day = next(row for row in found.rows() if row["kind"] == "median")
    assert datetime.date.fromisoformat(day["date"]).weekday() < 5
    assert (datetime.date.fromisoformat(day["date"]) - datetime.date(1970, 1, 1)).days == day["value"]
    assert "median day of visit: median of 'day', which lies in [2025-01-06, 2025-03-28]" in explain(plan)


@pytest.mark.slow
def test_the_demo_table_is_the_same_whenever_it_is_made():
    rows = demo.rows()
    assert (len(rows), len({row["person_id"] for row in rows})) == (10_000, 2_000)
    digest = "66a15a774bca1aa92b47849274eacb062df18518873b1df4270d7c18110d2ae1"
    assert sha256(demo.table().encode()) == digest
    assert all(0 <= int(row["satisfaction"]) <= 100 for row in rows)


def held(kind, level, truth):
    plan = make_plan(plan_data([], [{"kind": "count", "mechanism": kind}]))
    publisher = replace(prepare(plan).publishers[0], level=level)
    lower, upper = publisher.intervals(publisher.mechanism.release(np.full(4000, truth), step=1.0))
    return ((lower <= truth) & (truth <= upper)).mean()


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "kind", ["rectify Laplace", "rectify Gaussian", "rectify TruncatedLaplacian", "truncate Laplace"]
)
def test_intervals_hold_the_truth_as_often_as_they_say(kind):
    for truth in (0.0, 3.0, 1000.0):
        assert held(kind, 0.9, truth) >= 0.9 - 0.02  # rounding to steps makes it 0.92 at least: nine standard errors


def test_control_shorter_intervals_do_not():
    assert held("rectify Laplace", 0.5, 1000.0) < 0.88


def test_a_plan_that_names_its_table_is_released_without_more(tmp_path, monkeypatch, ledger):
    (tmp_path / "visits.csv").write_text("age\n41\n27\n")
    text = 'source = {path = "visits.csv"}\nbudget = {epsilon = 50.0, account = "people"}\n'
    (tmp_path / "plan.toml").write_text(text + 'query = [{name = "n", kind = "count"}]\n')
    plan = read_plan(tmp_path / "plan.toml")
    monkeypatch.chdir("/")  # the path is relative to the plan
    assert release(plan, ledger=None).cells[0].value == 2.0
    ledger.open_account("slow", epsilon=100, approval=True)
    waiting = plan.model_copy(update={"budget": Budget(epsilon=1, account="slow")})
    with pytest.raises(ApprovalNeeded):
        release(waiting, ledger=ledger, request="one")
    (tmp_path / "visits.csv").unlink()
    with pytest.raises(ApprovalNeeded):  # the table is not looked at before
        release(waiting, ledger=ledger, request="one")
    for nowhere in (make_plan(CHARGED), make_plan({**CHARGED, "source": {"path": "visits.csv"}}, folder=None)):
        with pytest.raises(ArgumentError, match="data=None: must be a table"):
            release(nowhere, ledger=None)


def test_keys_that_no_question_uses_change_nothing_and_are_noted():
    data = {**plan_data([], KINDS[:1]), "budget": {"epsilon": 50.0}}
    unused = make_plan({**data, "keys": {"gone": ["a", "b"]}})  # the table has no such column
    assert "the keys of 'gone' are listed, and no question groups by it" in explain(unused)
    assert "gone" not in explain(make_plan(data))
    published = [release(each, table(50), ledger=None).rows() for each in (unused, make_plan(data))]
    assert published[0] == published[1]
    with pytest.raises(PlanError, match="only_listed asks for it"):  # there they would choose rows
        make_plan({**data, "keys": {"gone": ["a", "b"]}, "only_listed": True})
    with pytest.raises(PlanError, match="did you mean"):
        make_plan({**data, "keys": {"regoin": ["a"]}, "budget": {"epsilon": 1.0, "delta": 1e-6}, "query": [GROUPED]})


GROUPED = {"name": "n", "kind": "count", "by": ["region"]}
