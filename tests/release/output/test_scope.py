"""What a number is of: every form of a table says it, and what the words leave out did not happen."""

import csv
import io
import json
import math
import re
from types import SimpleNamespace

import pandas as pd
import pyarrow as pa
import pytest

from rangebound.cli import printing
from rangebound.errors import ArgumentError
from rangebound.ledger.rule import Cost
from rangebound.release import Release, explain, make_plan, release
from rangebound.release.output.report import report
from rangebound.release.output.scope import scope, scope_lines, scopes
from tests.release.plans import KINDS

KEYS = ["a", "b", "c"]


def asked(kinds, unit=None, by=(), **parts):
    queries = [{"name": f"{each['kind']} {at}", **each, "by": list(by)} for at, each in enumerate(kinds)]
    unit = {"unit": {"column": "who", **unit}} if unit is not None else {}
    keys = {"keys": {"place": KEYS}} if by else {}
    return make_plan({"budget": {"epsilon": 100.0}, "query": queries, **unit, **keys, **parts})


def flights():
    """The plan of the issue: the flights of one maker, with ten rows a plane."""
    query = {"name": "flights", "kind": "sum", "column": "minutes", "range": [0, 500], "by": ["place"]}
    unit = {"column": "who", "rows": 10, "groups": 2}
    return make_plan(
        {"unit": unit, "budget": {"epsilon": 1.0}, "keys": {"place": KEYS}, "query": [query], "title": "planes"}
    )


def test_every_form_of_the_table_says_what_its_numbers_are_of(capsys):
    plan = flights()
    table = pa.table({"who": [1, 1, 2], "place": ["a", "b", "a"], "minutes": [1.0, 2.0, 900.0]})
    made = release(plan, table, ledger=None)
    (said,) = scopes(plan)
    assert said.startswith(
        "groups per 'who' cut at 2, rows per 'who' and group cut at 10, values clipped to 0 to 500, "
    )
    assert {row["scope"] for row in made.rows()} == {said}
    assert {row["scope"] for row in csv.DictReader(io.StringIO(made.to_csv()))} == {said}
    for form in (made.to_arrow().to_pylist(), made.to_pandas().to_dict("records"), made.to_polars().to_dicts()):
        assert {row["scope"] for row in form} == {said}
    assert json.loads(made.to_bytes())["scopes"] == [said]
    assert f"  flights: {said}" in str(made).splitlines()
    assert f"  of: {said}" in explain(plan).splitlines()
    escaped = said.replace("'", "&#x27;")
    assert f"flights: {escaped}</p>" in made._repr_html_()
    assert f"<p class=scope>Of: {escaped}.</p>" in report(made)
    left = SimpleNamespace(
        name="people", remaining=Cost(epsilon=1), left="epsilon 1", current=None, period=None, weaker_promise=None
    )
    charge = printing.Charge(request="r", before=True, account=left, cost=Cost(epsilon=1))
    printing.table(made, charge, as_json=False)
    assert f"  flights: {said}" in capsys.readouterr().out.splitlines()
    printing.table(made, charge, as_json=True)
    assert {row["scope"] for row in json.loads(capsys.readouterr().out)["rows"]} == {said}


def test_nothing_is_said_where_nothing_is_cut():
    plan = asked([{"kind": "count"}])
    assert scopes(plan) == ("",)
    assert scope_lines(plan) == []
    made = release(plan, pa.table({"x": [1]}), ledger=None)
    assert "noise alone" not in str(made)
    assert "  of:" not in explain(plan)
    assert "class=scope" not in report(made)


def test_a_limit_that_cannot_bind_is_not_named():
    count = [{"kind": "count"}]
    assert "groups" not in scope(asked(count, {"groups": 3}, ["place"]), 0)
    assert "groups per 'who' cut at 2" in scope(asked(count, {"groups": 2}, ["place"]), 0)
    private = make_plan(
        {
            "unit": {"column": "who", "groups": 100},
            "budget": {"epsilon": 1.0, "delta": 1e-6},
            "query": [{"name": "n", "kind": "count", "by": ["place"]}],
        }
    )
    assert "groups per 'who' cut at 100" in scope(private, 0)
    assert "cut at" not in scope(asked([{"kind": "count of units"}], {"rows": 2}), 0)


def test_numbers_and_days_are_said_in_full():
    query = {"name": "x", "kind": "mean", "column": "x", "range": [-0.123456789, 12345678.5]}
    plan = make_plan({"budget": {"epsilon": 1.0}, "query": [query]})
    assert "values clipped to -0.123456789 to 12345678.5" in scope(plan, 0)


def test_a_support_that_moves_the_answer_is_named():
    def said(**parts):
        return scope(asked([{"kind": "count", **parts}]), 0)

    assert said(support=[[0, 5], [10, 20]]) == "answer moved into 0 to 20"
    query = {"name": "x", "kind": "mean", "column": "x", "range": [0, 20]}
    gaps = make_plan({"budget": {"epsilon": 1.0}, "query": [{**query, "support": [[0, 5], [10, 20]]}]})
    assert "moved" not in scope(gaps, 0)


def test_a_minimum_is_named_as_the_quantile_that_it_is():
    kinds = [{"kind": "minimum", "column": "x", "range": [0, 1]}, {"kind": "maximum", "column": "x", "range": [0, 1]}]
    low, high = scopes(asked(kinds))
    assert low.startswith("quantile at level 0.01, ")
    assert high.startswith("quantile at level 0.99, ")


def plain_table(rows=400):
    """A table in which nothing is to be cut: one row an owner, values inside, nothing missing."""
    return pd.DataFrame(
        {
            "who": pd.array(range(rows), dtype="Int64"),
            "wait": [float(at % 90 + 5) for at in range(rows)],
            "age": 30,
        }
    )


def hazards():
    """Tables in which one thing is to be cut, beside the words that must then say so."""
    many = plain_table()
    many["who"] = many["who"].where(many["wait"] < 60, 0)
    far = plain_table()
    far.loc[far.index % 4 == 0, "wait"] = 5000.0
    absent = plain_table()
    absent.loc[absent.index % 4 == 0, "wait"] = math.nan
    nobody = plain_table()
    nobody.loc[nobody.index % 4 == 0, "who"] = pd.NA
    words = "missing values left out|rows without 'wait' counted"
    return {"rows per 'who'": many, "clipped": far, words: absent, "rows without 'who'": nobody}


def truth(kind, table):
    """The answer of the table as it is, by pandas: what somebody expects who knows nothing of ranges and bounds."""
    x = table["wait"]
    found = {
        "count": len(table),
        "count of units": table["who"].nunique(dropna=False),
        "sum": x.sum(),
        "mean": x.mean(),
        "variance": x.var(ddof=0),
        "standard deviation": x.std(ddof=0),
        "share": (x > 50).sum() / x.notna().sum(),
        "median": x.median(),
        "minimum": x.quantile(0.01),
        "maximum": x.quantile(0.99),
    }
    return float(found[kind])


NAIVE = [{key: value for key, value in each.items() if key != "where"} for each in KINDS]
NAIVE = [each for each in NAIVE if each["kind"] not in ("quantiles", "histogram", "central range")]
OFF = {"minimum": 11, "maximum": 11, "median": 6}  # their grid has steps of 10


@pytest.mark.parametrize("hazard", [None, *hazards()])
def test_an_answer_that_is_not_the_one_of_the_table_as_it_is_says_why(hazard):
    table = plain_table() if hazard is None else hazards()[hazard]
    plan = asked(NAIVE, {"rows": 1})
    made = release(plan, pa.Table.from_pandas(table, preserve_index=False), ledger=None)
    moved = set()
    for cell, said in zip(made.cells, scopes(plan), strict=True):
        kind = plan.query[cell.question].kind
        expected = truth(kind, table)
        if abs(cell.value - expected) > OFF.get(kind, 0.1 * max(abs(expected), 1.0)):
            moved.add(kind)
            assert hazard is not None, kind
            assert re.search(hazard, said), kind
    if hazard is not None:  # the control: each table does move some answer
        assert moved


def test_a_table_of_the_first_version_is_refused_with_the_reason():
    made = release(asked([{"kind": "count"}]), pa.table({"x": [1]}), ledger=None)
    old = made.to_bytes().replace(b"rangebound release 2", b"rangebound release 1")
    with pytest.raises(ArgumentError, match=r"published by version 0\.1"):
        Release.from_bytes(old)
