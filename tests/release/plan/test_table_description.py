"""Descriptions of tables by CSVW-EO become plans; `visits_csvw_eo.json` was written by the package csvw-eo 0.2.1.

It describes the made-up table of `rangebound demo`, as that package reads it off the data: what is in the plan can be
compared with the table itself.
"""

import csv
import datetime
import io
import json
import tomllib
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rangebound.cli.app import run
from rangebound.errors import ArgumentError
from rangebound.release import demo, draft, hazards, parse_plan
from rangebound.release.plan.draft import read_description
from rangebound.release.plan.source import Source
from rangebound.release.plan.table_schema import Family, check_schema

FILE = Path(__file__).with_name("visits_csvw_eo.json")
VISITS = FILE.read_text(encoding="utf-8")


def table(*columns, **others):
    return json.dumps({"tableSchema": {"columns": list(columns)}, **others})


def test_the_description_of_the_demo_is_what_the_table_is():
    found, rows = read_description(VISITS), list(csv.DictReader(io.StringIO(demo.table())))
    assert list(found.schema) == list(rows[0])
    assert (found.unit, found.rows) == ("person_id", max(Counter(row["person_id"] for row in rows).values()))
    assert found.length == len(rows)
    assert set(found.keys["clinic"]) == {row["clinic"] for row in rows}
    for column in ("age", "waiting", "satisfaction"):
        values = [float(row[column]) for row in rows]
        assert found.ranges[column] == (min(values), max(values))
    days = [datetime.date.fromisoformat(row["day"]) for row in rows]
    assert found.ranges["day"] == (min(days), max(days))


def test_a_description_becomes_a_plan_that_holds():
    found = read_description(VISITS)
    plan = parse_plan(draft(found.schema, Source(path="visits.csv"), description=found))
    assert (plan.unit.column, plan.unit.rows) == ("person_id", 171)
    assert [(each.name, each.kind) for each in plan.query] == [
        ("rows", "count"),
        ("rows by clinic", "count"),
        ("age", "mean"),
        ("waiting", "mean"),
        ("satisfaction", "mean"),
        ("day", "median"),
    ]
    assert plan.columns(("clinic",)) == (("harbour", "hill", "north", "south"),)
    assert plan.query[1].groups == 4  # no more than there are keys
    check_schema(plan, found.schema)
    assert hazards(plan) == ()


def test_terms_may_have_prefixes_and_bounds_may_be_in_the_datatype_or_the_partitions():
    text = table(
        {"name": "who", "csvw-eo:privacyId": True},
        {"name": "a", "datatype": {"base": "decimal", "minimum": "0.5", "maximum": 2}},
        {"name": "b", "datatype": "xsd:double", "eo:partitions": [{"lowerBound": 0, "upperBound": 9}]},
        {"name": "c", "datatype": "integer", "keyValues": [3.0, {"partitionValue": 4}, None, 0.5]},
        {"name": "d", "datatype": "date", "keyValues": ["2025-01-31", "no day"]},
        {"name": "e", "datatype": "boolean", "keyValues": [True, False]},
        {"name": "f", "datatype": "duration", "minimum": 0, "maximum": 1},
        **{"csvw-eo:maxContributions": 7},
    )
    found = read_description(json.dumps({"tables": [json.loads(text)]}))
    assert (found.unit, found.rows) == ("who", 7)
    assert found.ranges == {"a": (0.5, 2.0), "b": (0.0, 9.0)}
    assert found.keys == {"c": (3, 4), "d": (datetime.date(2025, 1, 31),), "e": (True, False)}
    assert found.schema["f"] is Family.OTHER
    plan = parse_plan(draft(found.schema, Source(path="t.parquet"), description=found))
    assert [each.name for each in plan.query] == ["rows", "rows by c", "rows by d", "rows by e", "a", "b"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[" * 100_000,
        table(),
        table({"datatype": "string"}),
        table("x"),
        table({"name": "a"}, {"name": "a"}),
        table({"name": "a"}, privacyUnit="b"),
        table({"name": "a"}, privacyUnit=["a"]),
        table({"name": "a"}, maxContributions=0),
        table({"name": "a"}, maxContributions=True),
        table({"name": "a", "datatype": "double", "minimum": 2, "maximum": 1}),
        table({"name": "a", "datatype": "double", "minimum": "x", "maximum": 1}),
        '{"tableSchema": {"columns": [{"name": "a", "datatype": "double", "minimum": -Infinity, "maximum": 1}]}}',
        table({"name": "a", "datatype": "date", "minimum": 3, "maximum": "2025-01-01"}),
        table({"name": "a", "maxGroupsPerUnit": -1}),
        '{"tables": [{}, {}]}',
        '{"tables": [3]}',
    ],
)
def test_what_is_no_description_is_refused_in_one_line(text):
    with pytest.raises(ArgumentError, match=r"\Ametadata[^\n]*\Z"):
        read_description(text)


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), min_size=1, unique=True))
def test_whatever_columns_and_keys_are_called_the_draft_has_them_as_they_are(names):
    names = [f"{name}!" for name in names]  # so that none is the unit
    columns = [{"name": name, "datatype": "string", "keyValues": [name, "other key"]} for name in names]
    found = read_description(table({"name": "unit"}, *columns, privacyUnit="unit"))
    read = tomllib.loads(draft(found.schema, Source(path="t.parquet"), description=found))
    assert read["unit"]["column"] == "unit"
    assert read["keys"] == {name: [name, "other key"] for name in names}
    assert len({each["name"] for each in read["query"]}) == len(read["query"]) == 1 + len(names)


@pytest.mark.slow
def test_the_command_reads_a_description_and_never_opens_the_table(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "meta.json").write_text(VISITS)
    assert run(["plan", "new", "visits.csv", "--metadata", "meta.json", "-o", "plan.toml"]) == 0
    assert "count 171 rows of each 'person_id'" in capsys.readouterr().out
    (tmp_path / "visits.csv").write_text(demo.table())
    assert run(["plan", "check", "plan.toml"]) == 0
    assert "ok: 6 queries" in capsys.readouterr().out
    (tmp_path / "bad.json").write_bytes(b"\xff\xfe{")
    for name in ("bad.json", "none.json"):
        assert run(["plan", "new", "visits.csv", "--metadata", name]) != 0
        assert capsys.readouterr().err.count("\n") == 1
