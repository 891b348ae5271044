"""Tables for pandas, Polars and Arrow: of a release and of what a service sends, the same numbers in the same types."""

import datetime
import math

import pandas
import polars
import pyarrow as pa
import pytest

from rangebound.release import make_plan, release
from rangebound.web.client import PublishedTable

DAY = datetime.date(2025, 1, 31)
PLAN = {
    "budget": {"epsilon": 80.0},
    "keys": {"place": ["01", "=2", "", "1970-01-01"]},
    "query": [
        {"name": "rows", "kind": "count", "by": ["place"]},
        {"name": "last", "kind": "maximum", "column": "day", "range": [datetime.date(2025, 1, 1), DAY]},
    ],
}
FORMS = ("to_pandas", "to_polars", "to_arrow")


@pytest.fixture(scope="module")
def found():
    rows = pa.table({"place": ["01"] * 40 + ["=2"] * 3, "day": [DAY] * 43})
    return release(make_plan(PLAN), rows, ledger=None)


def rows_of(table):
    rows = table.astype(object).to_dict("records") if isinstance(table, pandas.DataFrame) else None
    rows = rows or (table.to_dicts() if isinstance(table, polars.DataFrame) else table.to_pylist())
    none = lambda each: each is None or each is pandas.NA or each is pandas.NaT or each != each  # noqa: E731
    day = lambda each: each.date() if isinstance(each, datetime.datetime) else each  # noqa: E731
    return [{name: None if none(each) else day(each) for name, each in row.items()} for row in rows]


@pytest.mark.parametrize("form", FORMS)
def test_numbers_are_numbers_and_dates_are_dates_from_a_release_and_from_a_service(found, form):
    sent = PublishedTable(id="a", table=found.to_bytes(), csv=found.to_csv(), certificate="", report="")
    here, there = (getattr(each, form)() for each in (found, sent))
    wanted = [row | {"date": row["date"] and datetime.date.fromisoformat(row["date"])} for row in found.rows()]
    texts = [{name: each or None for name, each in row.items() if name != "place"} for row in wanted]
    for rows in (rows_of(here), rows_of(there)):
        assert [{name: each or None for name, each in row.items() if name != "place"} for row in rows] == texts
        assert [row["place"] for row in rows] == [row["place"] for row in wanted] == [*PLAN["keys"]["place"], None]
        assert type(rows[0]["value"]) is float
        assert rows[0]["unreliable"] in (True, False)
        assert math.isfinite(rows[0]["lower"])
        assert rows[-1]["date"] == DAY
    assert [row["value"] for row in sent.rows()] != [row["value"] for row in found.rows()]  # the control: texts
    assert described(here) == described(there)


def described(table):
    return str(table.dtypes if isinstance(table, pandas.DataFrame) else table.schema)
