"""A range for a column whose range is not known: in order, certified, and around most values."""

import datetime
import json

import numpy as np
import pyarrow as pa
import pytest

from rangebound.errors import CertificateInvalid, PlanError
from rangebound.release import check_certificate, explain, make_plan, release
from rangebound.release.output.report import report
from tests.thinning import crossed

UNITS = [
    {},
    {"column": "person", "rows": 2, "groups": 2},
    {"column": "person", "groups": 2, "neighbours": "replace", "size": 1000},
]


def table(values, **more):
    return pa.table({"person": [at // 2 for at in range(len(values))], "x": pa.array(values, pa.float64()), **more})


def found(data, unit=None, epsilon=20.0, delta=0.0, **fields):
    asked = {"name": "range", "kind": "bounds", "column": "x", **fields}
    keys = {"keys": {"g": ["a", "b"]}} if fields.get("by") else {}
    plan = {"budget": {"epsilon": epsilon, "delta": delta}, "unit": unit or {}, "query": [asked], **keys}
    return release(make_plan(plan), data, ledger=None)


@crossed({"by": [[], ["g"]], "unit": UNITS})
def test_it_holds_most_values_and_is_not_absurd(unit, by):
    values = np.random.default_rng(2).normal(60, 10, 2000)
    rows = found(table(values, g=["a", "b"] * 1000), unit, by=by).rows()
    assert [row["part"] for row in rows] == ["lower", "upper"] * (len(by) + 1)
    for lower, upper in zip(rows[::2], rows[1::2], strict=True):
        inside = (values >= lower["value"]) & (values <= upper["value"])
        assert inside.mean() > 0.9
        assert 20 <= lower["value"] < 60 < upper["value"] <= 120
        assert lower["rank_error"] == upper["rank_error"] > 0


@crossed({"values": [[], [7.0], [None, np.nan, np.inf], [5.0] * 30, [1e300, -1e300] * 20], "delta": [0.0, 1e-6]})
def test_it_is_in_order_in_range_and_certified_whatever_the_table(values, delta):
    made = found(table(values), epsilon=1.0, delta=delta)
    lower, upper = made.rows()
    assert -8e11 <= lower["value"] <= upper["value"] <= 8e11
    assert check_certificate(made.certificate, made.to_bytes()).numbers == 2
    damaged = json.loads(made.to_bytes())
    damaged["cells"][0]["draws"] = [3.3]
    with pytest.raises(CertificateInvalid):
        check_certificate(made.certificate, json.dumps(damaged).encode())


def test_dates_have_ends_at_years():
    days = [datetime.date(2012, 3, 1) + datetime.timedelta(days=at) for at in range(1500)]
    lower, upper = found(pa.table({"x": days}), dates=True).rows()
    assert (lower["date"], upper["date"]) == ("2012-01-01", "2017-01-01")


def test_a_unit_counts_once_however_many_rows_it_has():
    values = [5.0] * 3000 + [9e6] * 3000
    person = list(range(3000)) + [3000] * 3000
    data = pa.table({"person": person, "x": values})
    assert found(data, UNITS[1]).rows()[1]["value"] <= 6.0
    assert found(data).rows()[1]["value"] >= 9e6


def test_rows_that_are_not_asked_for_do_not_count():
    data = table([5.0] * 2000 + [1e6] * 2000)
    upper = found(data, where=[{"column": "x", "is": "<", "value": 100}]).rows()[1]
    assert upper["value"] <= 6.0


@pytest.mark.parametrize(
    ("fields", "words"), [({"support": [0, 1]}, "support: is not"), ({"step": 1.0}, "step: is not")]
)
def test_what_is_not_for_it_is_refused(fields, words):
    with pytest.raises(PlanError, match=words):
        found(table([1.0]), **fields)


def test_a_column_of_dates_needs_its_field():
    with pytest.raises(PlanError, match="does not serve for numbers"):
        found(pa.table({"x": [datetime.date(2025, 1, 1)]}))


def test_it_is_explained_and_reported():
    made = found(table(list(range(100))))
    said = explain(made.plan)
    assert "aimed at all but 2 % of the values at each end" in said
    assert "beyond each end lie at most 2 % of the units and" in said
    assert "range: bounds" in report(made)
