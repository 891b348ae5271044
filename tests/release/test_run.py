"""Whole releases: near the truth, charged before data are read, published once, certified, in many forms."""

import contextlib
import datetime
import json
import math
import random
import statistics
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import rangebound.release.run as run_module
from rangebound.errors import ArgumentError, BudgetExceeded, CertificateInvalid, PlanError
from rangebound.ledger.book import Ledger
from rangebound.release import Release, check_certificate, explain, make_plan, release
from rangebound.release.noise.allocation import spent
from rangebound.release.output.table import plan_json, sha256
from rangebound.release.prepare import allocations, prepare, prepared
from tests.release.plans import KINDS, SUPPORTED, plan_data
from tests.release.test_range import PEOPLE, table

CLINICS = {"clinic": ["a", "b", "nobody's"]}


def test_numbers_are_near_the_truth_and_intervals_hold_it():
    chance = random.Random(3)
    waits = [chance.uniform(0, 100) for _ in range(5000)]
    data = pa.table({"wait": waits, "age": [40] * 5000, "person": list(range(5000))})
    kinds = [each for each in KINDS if each["kind"] in ("count", "mean", "variance", "share", "median")]
    plan = make_plan({**plan_data([], kinds), "budget": {"epsilon": 20.0}})
    truth = {
        "count": 5000,
        "mean": statistics.fmean(waits),
        "variance": statistics.pvariance(waits),
        "share": sum(x > 50 for x in waits) / 5000,
    }
    hits = 0
    for _ in range(10):
        for row in release(plan, data, ledger=None).rows():
            if row["kind"] == "median":
                assert abs(row["value"] - 50) <= 10
            else:
                assert row["value"] == pytest.approx(truth[row["kind"]], rel=0.05)
                hits += row["lower"] - 1e-6 <= truth[row["kind"]] <= row["upper"] + 1e-6
    # A count is held with chance 0.96, the others, made of several coordinates, with 0.997 at least: fewer than 32 of
    # the 40 has a chance below 1e-8.
    assert hits >= 32


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
    first = release(plan, data, ledger=ledger, request="one")
    assert release(plan, data, ledger=ledger, request="one").to_bytes() == first.to_bytes()
    assert str(ledger.account("people").remaining) == "epsilon 1"
    release(plan, data, ledger=ledger, request="two")
    with pytest.raises(BudgetExceeded):
        release(plan, data, ledger=ledger, request="three")


def test_the_ledger_notes_who_asked(ledger):
    plan, data = make_plan(CHARGED), table(50)
    release(plan, data, ledger=ledger, request="one", who="anna")
    assert {each.who for each in ledger.history() if each.request == "one"} == {"anna"}
    release(plan, data, ledger=ledger, request="two")
    assert "anna" not in {each.who for each in ledger.history() if each.request == "two"}


def test_a_killed_release_is_charged_and_publishes_nothing_until_it_is_run_again(ledger, monkeypatch):
    plan, data = make_plan(CHARGED), table(50)

    def killed(*_):
        assert str(ledger.account("people").remaining) == "epsilon 1"  # charged before data are read
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(run_module, "aggregate", killed)
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


UNITS = [{}, PEOPLE, {**PEOPLE, "neighbours": "replace", "size": 30}]


@pytest.mark.parametrize(("unit", "keys"), [(UNITS[0], CLINICS), (UNITS[1], None), (UNITS[2], CLINICS)], ids=str)
def test_what_is_allocated_is_within_the_budget_and_mechanisms_keep_it(unit, keys):
    kinds = [each for each in SUPPORTED if unit or each["kind"] != "count of units"]
    plan = make_plan(plan_data(["clinic"], kinds, unit=unit, **({"keys": keys} if keys else {})))
    first, *_, last = allocations(plan)
    epsilon, delta = spent(first)
    assert 0.999999 < epsilon <= plan.budget.epsilon
    assert 0.999999e-6 < delta <= plan.budget.delta
    square = sum(each.square for each in last.shares)
    assert 0.999999 * last.mu**2 < square <= Fraction(last.mu) ** 2
    for way in (first, last):
        ready = prepared(plan, way)
        for index in range(len(plan.query)):
            share, needed = way.questions[index], way.sensitivities[index]
            ready.publishers[index].check(needed, share)
            if needed.cell:
                less = replace(share, epsilon=share.epsilon * 0.99, mu=share.mu * 0.99)
                with pytest.raises(CertificateInvalid):  # control: nobody spends less than its share
                    ready.publishers[index].check(needed, less)


def test_a_certificate_holds_for_its_release_and_for_no_other():
    plan = make_plan(plan_data(["clinic"], SUPPORTED, unit=PEOPLE, keys=CLINICS))
    found = release(plan, table(50), ledger=None)
    checked = check_certificate(found.certificate, found.to_bytes())
    assert (checked.epsilon, checked.numbers, checked.entry) == (1.0, len(found.cells), None)
    data = json.loads(found.certificate)
    other = release(plan, table(50), ledger=None)
    with pytest.raises(CertificateInvalid, match="published"):
        check_certificate(found.certificate, other.to_bytes())
    for change in (
        {"epsilon": 0.5},
        {"plan": "0" * 64},
        {"queries": data["queries"][1:]},
        {"queries": [{**data["queries"][0], "epsilon": 0.1}, *data["queries"][1:]]},
        {"queries": [{**data["queries"][0], "mechanism": data["queries"][1]["mechanism"]}, *data["queries"][1:]]},
        {"selections": [1]},
        {"format": "x"},
    ):
        with pytest.raises(CertificateInvalid):
            check_certificate(json.dumps({**data, **change}), found.to_bytes())
    cells = json.loads(found.to_bytes())["cells"]
    for altered in (
        cells[1:],
        [*cells, cells[0]],
        [{**cells[0], "epsilon": 0.5}, *cells[1:]],
        [{**cells[0], "key": ["a clinic of one"]}, *cells[1:]],
        [{**cells[0], "part": "x"}, *cells[1:]],
        [{**cells[0], "value": -1.0}, *cells[1:]],
    ):
        body = as_bytes({**json.loads(found.to_bytes()), "cells": altered})
        with pytest.raises(CertificateInvalid, match=r"cells: are not|do not follow"):
            check_certificate(as_text({**data, "published": sha256(body)}), body)
    for text in ("", "[]", "{}", "null"):
        with pytest.raises(CertificateInvalid):
            check_certificate(text, found.to_bytes())
    with pytest.raises(CertificateInvalid):
        check_certificate(found.certificate, b"{}")


def as_bytes(data):
    """Plain data as a release is written."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def as_text(data):
    """Plain data as a certificate is written."""
    return json.dumps(data, sort_keys=True, indent=1)


def leaves(data, path=()):
    """The paths of all values in plain data."""
    yield path
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in items:
        yield from leaves(value, (*path, key))


def changed(data, path, value):
    if not path:
        return value
    copy = dict(data) if isinstance(data, dict) else list(data)
    copy[path[0]] = changed(data[path[0]], path[1:], value)
    return copy


def test_whatever_is_written_into_a_release_and_its_certificate_is_checked_or_refused():
    kinds = [KINDS[0], KINDS[3], KINDS[7]]
    plan = make_plan(plan_data(["clinic"], kinds, unit=PEOPLE, keys=CLINICS))  # public, so there are cells
    found = release(plan, table(50), ledger=None)
    published, certificate = json.loads(found.to_bytes()), json.loads(found.certificate)
    chance = random.Random(4)
    values = [None, True, -1, 0, 7, 1e300, math.nan, "", "x", [], {}, [1], {"a": 1}]
    refused = 0
    for _ in range(200):
        other, stated = published, certificate
        for _ in range(chance.choice([1, 2])):
            if chance.random() < 0.6:
                other = changed(other, chance.choice(list(leaves(other))), chance.choice(values))
            else:
                stated = changed(stated, chance.choice(list(leaves(stated))), chance.choice(values))
        data = as_bytes(other)
        if isinstance(stated, dict):  # whoever alters a table can hash it again
            stated = {**stated, "published": sha256(data)}
            with contextlib.suppress(ValueError):
                stated["plan"] = sha256(plan_json(Release.from_bytes(data).plan).encode())
        try:
            check_certificate(as_text(stated), data)
        except CertificateInvalid:
            refused += 1
    assert 100 < refused < 200


def test_no_number_is_lost_where_names_are_alike():
    kinds = [
        {"kind": "quantiles", "column": "wait", "range": [0, 100], "step": 10.0, "levels": [0.1234561, 0.1234562]},
        {"kind": "histogram", "column": "wait", "range": [1e6, 1e6 + 10], "bins": 10},
        {
            "kind": "histogram",
            "column": "day",
            "range": [datetime.date(2025, 1, 1), datetime.date(2025, 1, 5)],
            "bins": 2,
        },
        {
            "kind": "histogram",
            "column": "day",
            "range": [datetime.date(2025, 1, 1), datetime.date(2025, 1, 9)],
            "bins": 8,
        },
    ]
    data = table(5).append_column("day", pa.array([datetime.date(2025, 1, 2)] * 5))
    found = release(make_plan(plan_data([], kinds)), data, ledger=None)
    assert [sum(cell.question == at for cell in found.cells) for at in range(4)] == [2, 10, 2, 8]
    names = [cell.part for cell in found.cells if cell.question == 2]
    assert names == ["2025-01-01 to 2025-01-03", "2025-01-03 to 2025-01-05"]
    check_certificate(found.certificate, found.to_bytes())


def test_the_table_comes_in_all_forms(tmp_path):
    keys = {"clinic": ["=cmd()", "<b>", "a"]}
    plan = make_plan(plan_data(["clinic"], SUPPORTED, unit=PEOPLE, keys=keys, title="<script>"))
    found = release(plan, table(50), ledger=None)
    again = Release.from_bytes(found.to_bytes())
    assert again.rows() == found.rows()
    assert found.to_arrow().num_rows == len(found.to_pandas()) == found.to_polars().height == len(found.cells)
    for ending in ("csv", "parquet", "json", "html"):
        found.write(tmp_path / f"table.{ending}")
    assert "'=cmd()" in (tmp_path / "table.csv").read_text()
    page = (tmp_path / "table.html").read_text()
    assert "<script>" not in page
    assert "<b>" not in page
    assert "&lt;b&gt;" in page
    with pytest.raises(ArgumentError, match="end in"):
        found.write(tmp_path / "table.xls")


def test_a_plan_with_dates_survives_its_bytes():
    from rangebound.release import demo, parse_plan

    plan = parse_plan(demo.plan())
    data = pa.table(
        {
            "person_id": ["x"],
            "clinic": ["hill"],
            "age": [4],
            "waiting": [1.0],
            "satisfaction": [3],
            "day": [datetime.date(2025, 1, 7)],
        }
    )
    found = release(plan, data, ledger=None)
    assert Release.from_bytes(found.to_bytes()).plan == plan
    day = next(row for row in found.rows() if row["kind"] == "median")
    assert datetime.date.fromisoformat(day["date"]).weekday() < 5
    assert (datetime.date.fromisoformat(day["date"]) - datetime.date(1970, 1, 1)).days == day["value"]
    assert "median day of visit: median of 'day', which lies in [2025-01-06, 2025-03-28]" in explain(plan)


def test_the_demo_table_is_the_same_whenever_it_is_made():
    import hashlib

    from rangebound.release import demo

    rows = demo.rows()
    assert (len(rows), len({row["person_id"] for row in rows})) == (10_000, 2_000)
    digest = "66a15a774bca1aa92b47849274eacb062df18518873b1df4270d7c18110d2ae1"
    assert hashlib.sha256(demo.table().encode()).hexdigest() == digest
    assert all(0 <= int(row["satisfaction"]) <= 100 for row in rows)


@pytest.mark.parametrize(
    "kind", ["rectify Laplace", "rectify Gaussian", "rectify TruncatedLaplacian", "truncate Laplace"]
)
def test_intervals_hold_the_truth_as_often_as_they_say(kind):
    plan = make_plan(plan_data([], [{"kind": "count", "mechanism": kind}]))
    publisher = replace(prepare(plan).publishers[0], level=0.9)
    for truth in (0.0, 3.0, 1000.0):
        lower, upper = publisher.intervals(publisher.mechanism.release(np.full(4000, truth), step=1.0))
        inside = ((lower <= truth) & (truth <= upper)).mean()
        assert inside >= 0.9 - 0.02  # rounding to steps makes it 0.92 at least: nine standard errors


def test_control_shorter_intervals_do_not():
    plan = make_plan(plan_data([], [{"kind": "count", "mechanism": "rectify Laplace"}]))
    publisher = replace(prepare(plan).publishers[0], level=0.5)
    lower, upper = publisher.intervals(publisher.mechanism.release(np.full(4000, 1000.0), step=1.0))
    assert ((lower <= 1000) & (upper >= 1000)).mean() < 0.88
