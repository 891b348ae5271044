"""Results come in the order of the plan: questions, public keys as listed, selected keys sorted, columns as in `by`."""

import csv
import io
import random

import pyarrow as pa
import pytest

from rangebound.release import make_plan, release
from rangebound.release.output.order import grouping_columns, reading_order
from rangebound.release.output.report import report

ROWS = range(2000)
TABLE = pa.table(
    {
        "who": [f"p{at}" for at in ROWS],
        "place": [("south", "north", "east")[at % 3] for at in ROWS],
        "floor": [(10, 9, 2)[at % 3] for at in ROWS],
        "x": [float(at % 10) for at in ROWS],
    }
)
MEAN = {"kind": "mean", "column": "x", "range": [0, 10]}
MIXED = [
    {"name": "z", "kind": "count", "by": ["place"]},
    {"name": "total", "kind": "count"},
    {"name": "by floor", "by": ["floor"], **MEAN},
    {"name": "a", "by": ["place"], **MEAN},
    {"name": "median", "kind": "median", "column": "x", "range": [0, 10], "step": 1.0},
    {"name": "both", "kind": "count", "by": ["floor", "place"]},
    {"name": "bins", "kind": "histogram", "column": "x", "range": [0, 10], "bins": 2, "by": ["place"]},
]


def released(queries, **parts):
    plan = make_plan({"budget": {"epsilon": 90.0, "delta": 1e-3}, "query": queries, **parts})
    return release(plan, TABLE, ledger=None)


def forms(found):
    return [
        found.rows(),
        list(csv.DictReader(io.StringIO(found.to_csv()))),
        found.to_arrow().to_pylist(),
        found.to_pandas().to_dict("records"),
        found.to_polars().to_dicts(),
    ]


def in_order(names):
    return list(dict.fromkeys(names))


@pytest.mark.parametrize("public", [True, False])
@pytest.mark.parametrize("clipping", [True, False])
def test_questions_come_in_the_order_of_the_plan(public, clipping):
    keys = {"place": ["north", "south", "east"], "floor": [2, 10, 9]} if public else {}
    found = released(MIXED, keys=keys, report_clipping=clipping)
    asked = [each.name for each in found.plan.query]
    assert asked[: len(MIXED)] == [each["name"] for each in MIXED]
    assert len(asked) > len(MIXED) or not clipping
    for rows in forms(found):
        names = [row["query"] for row in rows]
        assert in_order(names) == asked
        assert len(list(dict.fromkeys(names))) == sum(a != b for a, b in zip(["", *names], names, strict=False))
        for name, column in (("z", "place"), ("by floor", "floor"), ("a", "place")):
            own = [str(row[column]) for row in rows if row["query"] == name]
            wanted = (
                [str(each) for each in keys[column]] if public else {"place": ["east", "north", "south"]}.get(column)
            )
            assert own == (wanted or ["2", "9", "10"])
    page = report(found)
    places = [page.index(f"<h3>{name}: ") for name in asked]
    assert places == sorted(places)


def test_the_cells_of_the_certified_bytes_are_the_same_numbers():
    found = released(MIXED, keys={"place": ["north", "south", "east"], "floor": [2, 10, 9]})
    order = reading_order(found.plan, found.cells)
    assert sorted(order) == list(range(len(found.cells)))
    assert order != sorted(order)  # blocks are drawn together, and are apart in the plan
    assert [row["value"] for row in found.rows()] == [found.cells[at].value for at in order]
    assert [row["lower"] for row in found.rows()] == [found.cells[at].lower for at in order]


def test_selected_keys_beside_listed_ones_go_by_the_list():
    found = released(
        [{"name": "n", "kind": "count", "by": ["place", "floor"]}], keys={"place": ["south", "north", "east"]}
    )
    assert [(row["place"], row["floor"]) for row in found.rows()] == [("south", "10"), ("north", "9"), ("east", "2")]


@pytest.mark.parametrize(
    "question",
    [
        {"kind": "crosstab", "by": ["floor", "place"]},
        {"kind": "series", "by": ["place", "day"]},
        {
            "kind": "hierarchy",
            "by": ["place"],
            "levels": [{"name": "side", "members": {"b": ["south"], "a": ["north"]}}],
        },
        {"kind": "histogram", "by": ["place"], "column": "x", "range": [0, 10], "bins": 3},
        {"kind": "quantiles", "by": ["place"], "column": "x", "range": [0, 10], "levels": [0.2, 0.9]},
    ],
)
def test_the_groups_and_parts_of_every_kind_come_in_its_own_order(question):
    keys = {"floor": [10, 9], "place": ["south", "north"], "day": {"days": [pa.scalar(0, pa.date32()).as_py()] * 2}}
    keys["day"]["days"][1] = pa.scalar(9, pa.date32()).as_py()
    plan = make_plan(
        {
            "budget": {"epsilon": 9.0, "delta": 1e-3},
            "keys": {name: keys[name] for name in question["by"]},
            "query": [{"name": "q", **question}],
        }
    )
    days = pa.array([at % 10 for at in ROWS], pa.int32()).cast(pa.date32())
    found = release(plan, TABLE.append_column("day", days), ledger=None)
    labels = [label for group in plan.query[0].labels(_public(plan)) for label in group]
    rows = [(tuple(row[column] for column in question["by"]), row["part"]) for row in found.rows()]
    assert rows == labels
    assert found.columns[2 : 2 + len(question["by"])] == tuple(question["by"])


def _public(plan):
    from rangebound.release.plan.groupings import public_keys

    return public_keys(plan, plan.query[0].by)


def test_columns_have_the_order_of_each_by_where_there_is_one():
    source = random.Random(3)
    for _ in range(300):
        names = list("abcdef")
        source.shuffle(names)
        some = [[each for each in names if source.random() < 0.5] for _ in range(4)]  # all follow one hidden order
        found = grouping_columns(some)
        assert set(found) == {each for part in some for each in part}
        for part in some:
            assert [each for each in found if each in part] == part
    found = released(
        [{"name": "n", "kind": "count", "by": ["place"]}, {"name": "m", "kind": "count", "by": ["floor", "place"]}]
    )
    assert found.columns[2:4] == ("floor", "place")
    assert grouping_columns([["x", "y"], ["y", "x"], []]) == ("x", "y")
