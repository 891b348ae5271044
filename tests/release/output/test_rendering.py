"""Results come in the order of the plan: questions, public keys as listed, selected keys sorted, columns as in `by`."""

import datetime
import itertools
import random

import pyarrow as pa
import pytest

from rangebound.errors import PlanError
from rangebound.release import check_certificate, parse_plan
from rangebound.release.output.plan_facts import plan_json
from rangebound.release.output.rendering import grouping_columns
from rangebound.release.output.table import Release, reading_order
from rangebound.release.plan.groupings import public_keys
from rangebound.release.plan.kinds.summed_counts import Level
from tests.release.output.asked import asked, forms, released, report

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


def made(*queries, **parts):
    return released(asked(*queries, epsilon=90.0, delta=1e-3, **parts), TABLE)


PLACES = {"place": ["south", "north", "east"]}
SORTED = {"place": ["east", "north", "south"], "floor": [2, 9, 10]}
SIDES = {"b": ["south"], "a": ["north"]}
ZONES = {"flat": ["south", "north"], "alps": ["east"]}


def test_members_of_a_hierarchy_come_in_the_order_of_the_plan():
    levels = [{"name": "zone", "members": ZONES}, {"name": "side", "members": {"w": ["alps"], "e": ["flat"]}}]
    found = made({"kind": "hierarchy", "by": ["place"], "levels": levels}, keys=PLACES)
    listed = ["south", "north", "east", "flat", "alps", "w", "e"]
    for rows in forms(found):
        assert [row["place"] for row in rows][:-1] == listed  # the total has none
    assert [round(row["value"], -1) for row in found.rows()] == [670, 670, 670, 1330, 670, 670, 1330, 2000]
    again = Release.from_bytes(found.to_bytes())
    assert (again.plan, again.rows()) == (found.plan, found.rows())
    assert parse_plan(found.plan.to_toml()) == found.plan
    assert check_certificate(found.certificate, found.to_bytes()).numbers == 8
    assert found.plan.query[0].levels[0] != Level(name="zone", members=dict(sorted(ZONES.items())))


def test_members_in_the_order_of_their_letters_are_written_as_they_always_were():
    """Releases and certificates of earlier versions have their members sorted, as a table of canonical JSON."""

    def written(members):
        levels = [{"name": "zone", "members": members}]
        return plan_json(asked({"kind": "hierarchy", "by": ["place"], "levels": levels}, keys=PLACES))

    assert '"members":{"alps":["east"],"flat":["south","north"]}' in written(dict(sorted(ZONES.items())))
    assert '"members":[["flat",["south","north"]],["alps",["east"]]]' in written(ZONES)
    with pytest.raises(PlanError, match=r"levels.*members.*must be a table of names, each with a list of keys"):
        written([["flat", ["south"]], ["flat", ["north"]]])


@pytest.mark.few(1)
@pytest.mark.parametrize("public", [True, False])
@pytest.mark.parametrize("clipping", [True, False])
def test_questions_come_in_the_order_of_the_plan(public, clipping):
    keys = {"place": ["north", "south", "east"], "floor": [2, 10, 9]} if public else {}
    found = made(*MIXED, keys=keys, report_clipping=clipping)
    order = [each.name for each in found.plan.query]
    assert order[: len(MIXED)] == [each["name"] for each in MIXED]
    assert len(order) > len(MIXED) or not clipping
    order_of_cells = reading_order(found)
    assert sorted(order_of_cells) == list(range(len(found.cells)))
    assert [row["value"] for row in found.rows()] == [found.cells[at].value for at in order_of_cells]
    for rows in forms(found):
        assert [name for name, _ in itertools.groupby(row["query"] for row in rows)] == order
        for name, column in (("z", "place"), ("by floor", "floor"), ("a", "place")):
            own = [str(row[column]) for row in rows if row["query"] == name]
            assert own == [str(each) for each in (keys or SORTED)[column]]
    page = report(found).partition("<h2 id=pictures>")[2]
    places = [page.index(f"<h3>{name}: ") for name in order]
    assert places == sorted(places)


def test_selected_keys_beside_listed_ones_go_by_the_list():
    found = made({"kind": "count", "by": ["place", "floor"]}, keys=PLACES)
    assert [(row["place"], row["floor"]) for row in found.rows()] == [("south", "10"), ("north", "9"), ("east", "2")]


@pytest.mark.few(3)
@pytest.mark.parametrize(
    "question",
    [
        {"kind": "crosstab", "by": ["floor", "place"]},
        {"kind": "series", "by": ["place", "day"]},
        {"kind": "hierarchy", "by": ["place"], "levels": [{"name": "side", "members": SIDES}]},
        {"kind": "histogram", "by": ["place"], "column": "x", "range": [0, 10], "bins": 3},
        {"kind": "quantiles", "by": ["place"], "column": "x", "range": [0, 10], "levels": [0.2, 0.9]},
    ],
)
def test_the_groups_and_parts_of_every_kind_come_in_its_own_order(question):
    days = [datetime.date(1970, 1, 1 + at) for at in range(10)]
    keys = {"floor": [10, 9], "place": ["south", "north"], "day": {"days": [days[0], days[9]]}}
    plan = asked(question, epsilon=9.0, delta=1e-3, keys={name: keys[name] for name in question["by"]})
    found = released(plan, TABLE.append_column("day", [days * 200]))
    labels = [label for group in plan.query[0].labels(public_keys(plan, plan.query[0].by)) for label in group]
    rows = [(tuple(row[column] for column in question["by"]), row["part"]) for row in found.rows()]
    assert rows == labels
    assert found.columns[2 : 2 + len(question["by"])] == tuple(question["by"])


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
    assert grouping_columns([["x", "y"], ["y", "x"], []]) == ("x", "y")
