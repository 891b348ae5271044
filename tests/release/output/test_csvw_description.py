"""Descriptions of .csv files by CSVW, validated by the package csvw, which others wrote."""

import csv
import io
import json
import math
import warnings
from dataclasses import replace

import pytest

from rangebound.release import demo, parse_plan
from tests.release.output.asked import asked, released

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from csvw import CSVW

HOSTILE = ["=1+1", 'a"b,c', "one\ntwo", "<x>", "{y}", "_:z", ""]


def described(made, folder, name="table.csv"):
    made.write(folder / name)
    made.write(folder / f"{name}-metadata.json")
    return folder / f"{name}-metadata.json"


def faults(path):
    """What csvw finds wrong: the description, and every cell of the file by its type."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        found = CSVW(str(path), validate=True)
        valid = found.is_valid
        if valid:
            for table in found.tables:
                list(table.iterdicts())
    mine = [str(each.message) for each in said if "csvw" in each.filename]
    return [*map(str, found.warnings), *mine, *([] if valid else ["not valid"])]


@pytest.fixture(scope="session")
def published():
    reader = pytest.importorskip("pyarrow.csv")
    return released(parse_plan(demo.plan()), reader.read_csv(io.BytesIO(demo.table().encode())))


@pytest.mark.slow
def test_the_description_of_the_demo_is_valid_and_its_cells_are_the_published_ones(published, tmp_path):
    path = described(published, tmp_path)
    assert faults(path) == []
    (table,) = CSVW(str(path)).tables
    read = list(table.iterdicts())
    titles = [each["titles"] for each in json.loads(path.read_text())["tableSchema"]["columns"]]
    assert titles == next(csv.reader(io.StringIO(published.to_csv())))  # which the validator does not compare
    for one, row in zip(read, published.rows(), strict=True):
        assert all(one[name] == row[name] for name in ("value", "query", "unreliable"))
        assert (one["date"] and str(one["date"])[:10]) == row["date"]


@pytest.mark.few(1)
@pytest.mark.parametrize("change", [{"datatype": "double"}, {"name": "kind"}, None], ids=str)
def test_the_validator_finds_what_is_wrong(published, tmp_path, change):
    """The control."""
    path = described(published, tmp_path)
    data = json.loads(path.read_text())
    column = data["tableSchema"]["columns"].pop(0)
    data["tableSchema"]["columns"][:0] = [column | change] if change else []
    path.write_text(json.dumps(data))
    try:
        found = faults(path)
    except (ValueError, AssertionError, KeyError):
        found = ["raised"]
    assert found


def test_hostile_names_and_keys_come_through(tmp_path):
    names = ["=who", "_x", "a/b:{c}", "größe", "query"]
    query = [{"name": f"=q {at}", "kind": "count", "by": [name]} for at, name in enumerate(names)]
    plan = asked(*query, title="=1\n2", epsilon=3.0, keys=dict.fromkeys(names, HOSTILE[:6]))
    made = released(plan, dict.fromkeys(names, HOSTILE[:6] * 5))
    assert faults(described(made, tmp_path)) == []
    path = described(made, tmp_path, "a b#c.csv")  # csvw takes addresses as they are, and would not find the file
    data = json.loads(path.read_text(encoding="utf-8"))
    assert data["url"] == "a%20b%23c.csv"
    assert "\n" not in data["dc:title"]
    titles = [each["titles"] for each in data["tableSchema"]["columns"]]
    assert {"'=who", "größe", "query", "query_"} <= set(titles)


def test_an_infinite_number_makes_a_column_of_texts(published, tmp_path):
    cell = replace(published.cells[0], upper=math.inf)
    path = described(replace(published, cells=(cell, *published.cells[1:])), tmp_path)
    types = {each["name"]: each["datatype"] for each in json.loads(path.read_text())["tableSchema"]["columns"]}
    assert (types["upper"], types["lower"]) == ("string", "double")
    assert faults(path) == []
