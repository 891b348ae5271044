"""Pictures of published numbers: every number of a small table is drawn, where it belongs, and texts are escaped."""

import datetime
import re
import xml.etree.ElementTree as ET

import pytest

from rangebound.release.output.report import pictures
from tests.release.output.asked import asked, released, report

DAYS = [str(datetime.date(2025, 1, 6) + datetime.timedelta(at)) for at in range(20)]
CLINICS = ["north", "<b>south</b>"]
TREE = {"by": ["clinic"], "levels": [{"name": "region", "members": {"r": CLINICS}}]}
ROW = {"query": "q", "kind": "count", "g": "", "part": "", "unreliable": False, "date": False}
QUESTIONS = [
    {"name": "cross", "kind": "crosstab", "by": ["clinic", "sex"]},
    {"name": "tree", "kind": "hierarchy", **TREE},
    {"name": "days", "kind": "series", "by": ["day", "clinic"]},
    {"name": "plain", "kind": "count", "by": ["sex"]},
    {"name": "daily", "kind": "count", "by": ["day"]},
    {"name": "bins", "kind": "histogram", "column": "age", "range": [0, 100], "bins": 3},
]


@pytest.fixture(scope="session")
def table():
    plan = asked(*QUESTIONS, delta=1e-6, keys={"day": DAYS, "clinic": CLINICS, "sex": ["f", "m"]})
    ages = [float(at % 90) for at in range(400)]
    return released(plan, {"day": DAYS * 20, "clinic": CLINICS * 200, "sex": ["f", "m"] * 200, "age": ages})


def drawn(table, name, *, levels):
    return pictures(name, table.rows(), levels=levels)


def svgs(page):
    return [ET.fromstring(each) for each in re.findall(r"<svg.*?</svg>", page)]


@pytest.mark.slow
def test_a_crosstab_of_two_columns_is_a_table_with_margins(table):
    page = drawn(table, "cross", levels=True)
    own = [row for row in table.rows() if row["query"] == "cross"]
    assert "<svg" not in page
    order = (0, 1, 4, 2, 3, 5, 6, 7, 8)  # each row of cells with its margin, then the sums
    assert [float(each) for each in re.findall(r"<td[^>]*>(-?[0-9.]+)<br>", page)] == [own[at]["value"] for at in order]
    assert "&lt;b&gt;south&lt;/b&gt;" in page
    assert "<b>south" not in page


def test_levels_have_pictures_of_their_own_and_days_of_any_question_are_a_series(table):
    page = drawn(table, "tree", levels=True)
    assert re.findall(r"<p class=panel>(.*?)</p>", page) == ["by clinic", "region", "total"]
    assert [len(each.findall(".//circle")) for each in svgs(page)] == [2, 1, 1]
    pages = {name: drawn(table, name, levels=False) for name in ("daily", "plain", "bins", "nothing")}
    assert [len(svgs(pages["daily"])), "<polygon" in pages["daily"], "<polygon" in pages["plain"]] == [1, True, False]
    assert [pages[name].count("<circle") for name in ("plain", "bins")] == [2, 3]  # parts are not levels
    assert pages["nothing"] == ""


def test_a_series_is_drawn_over_time_for_every_group(table):
    page = drawn(table, "days", levels=True)
    groups = ("&lt;b&gt;south&lt;/b&gt;", "north")
    names = [*(f"by day, {each}" for each in groups), "week", "month", *(f"running, {each}" for each in groups)]
    assert re.findall(r"<p class=panel>(.*?)</p>", page) == names
    first = svgs(page)[0]
    points = first.find(".//polygon").get("points").split()
    assert len(points) == 2 * len(DAYS)  # the band: there along the upper ends, and back along the lower ones
    rows = sorted(
        (row for row in table.rows() if row["query"] == "days" and row["clinic"] == CLINICS[1] and row["part"] == ""),
        key=lambda row: row["day"],
    )
    heights = [float(line.get("y1")) for line in first.findall(".//line") if "curve" in line.get("class")]
    values = [row["value"] for row in rows[:-1]]
    assert sorted(range(19), key=lambda at: (-heights[at], at)) == sorted(range(19), key=lambda at: (values[at], at))


def test_what_is_left_out_of_pictures_is_said():
    row = ROW | {"value": 1.0, "lower": 0.0, "upper": 2.0}
    page = pictures("q", [{**row, "g": str(at)} for at in range(250)], levels=False)
    assert page.count("<circle") == 200
    assert "The table alone has 50 more numbers." in page
    many = [{**row, "part": str(part), "g": str(at)} for part in range(30) for at in range(2)]
    assert "6 more pictures left out; the table has all numbers" in pictures("q", many, levels=True)


def test_the_page_has_all_of_them(table):
    page = report(table)
    for question in table.plan.query:
        assert f"<h3>{question.name}: {question.kind}</h3>" in page
    assert "<b>south" not in page
    assert "<script" not in page
    assert re.findall(r"https?://", page) == []  # one file, no network
    assert re.findall(r"<h2 id=(\w+)>", page) == ["short", "pictures", "statistics", "privacy"]
    assert set(re.findall(r"href=#(\w+)", page)) == {"short", "pictures", "statistics", "privacy"}
    for name in re.findall(r"var\((--\w+)\)", page):  # every colour is there for light, for dark and for paper
        assert page.count(f"{name}: #") == 3


@pytest.mark.parametrize("from_zero", [False, True])
@pytest.mark.parametrize(
    "ends", [(3.0, 9.0), (0.0, 10.0), (50.0, 60.0), (-4.0, 2.0), (7.0, 7.0), (0.0, 0.0), (1e-7, 2e-7)]
)
def test_no_bar_touches_an_end_of_its_axis(ends, from_zero):
    rows = [{**ROW, "value": sum(ends) / 2, "lower": ends[0], "upper": ends[1]}]
    (drawing,) = svgs(pictures("q", rows, levels=False, from_zero=from_zero))
    bar = next(line for line in drawing.findall(".//line") if line.get("class") == "bar")
    left, right = 210.0, 520.0  # of the axis
    assert left < float(bar.get("x1")) or (from_zero and ends[0] == 0.0)
    assert left <= float(bar.get("x1")) <= float(bar.get("x2")) < right
    shown = [each.text for each in drawing.findall(".//text") if each.get("class") == "small"]
    assert not from_zero or ends[0] < 0.0 or shown[0] == "0"
