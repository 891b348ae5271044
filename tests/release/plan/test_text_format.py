"""The format of a text file as a plan states it: what can be stated, and of which files."""

from contextlib import nullcontext

import pytest

from rangebound.errors import PlanError
from rangebound.release import Source, make_plan
from rangebound.release.plan.source import Join, TextFormat

COUNT = [{"name": "n", "kind": "count"}]
STATED = {
    "encoding": "Latin-1",
    "delimiter": ";",
    "quote": "'",
    "multiline": True,
    "decimal": ",",
    "thousands": "_",
    "date_format": "%d.%m.%Y",
}
WRONG = [
    ({"encoding": "utf-7"}, "must be an encoding such as"),
    ({"encoding": "rot13"}, "must be an encoding such as"),
    ({"delimiter": ";;"}, "one character"),
    ({"delimiter": "a"}, "one character"),
    ({"quote": "x"}, "must be one of"),
    ({"decimal": ";"}, 'must be "." or ","'),
    ({"thousands": "0"}, "must be one of"),
    ({"thousands": "."}, "must not be the decimal sign"),
    ({"thousands": ",", "decimal": ","}, "must not be the decimal sign"),
    ({"date_format": "%d.%m.%y"}, "%d, %m and %Y in any order"),
    ({"date_format": "%d/%m-%Y"}, "%d, %m and %Y in any order"),
    ({"date_format": "%d.%m.%m"}, "%d, %m and %Y in any order"),
]


@pytest.mark.parametrize(("fields", "words"), WRONG, ids=str)
def test_what_no_file_is_written_as_is_refused(fields, words):
    with pytest.raises(PlanError, match=words):
        Source(path="t.csv", **fields)


@pytest.mark.parametrize("path", ["t.xlsx", "t.parquet", "t.duckdb", None])
def test_tables_with_types_have_no_format_and_workbooks_that_of_their_texts(path):
    place = {"path": path} if path else {"postgres": "service=a", "table": "t"}
    for name, value in STATED.items():
        of_texts = name in ("decimal", "thousands", "date_format")
        with nullcontext() if path == "t.xlsx" and of_texts else pytest.raises(PlanError, match=f"{name}: applies to"):
            Source(**place, **{name: value})


def test_a_format_is_written_and_read_with_its_plan():
    join = {"path": "o.csv", "public": True, "on": ["a"], "columns": ["b"], "decimal": ",", "encoding": "cp1252"}
    data = {"source": {"path": "t.csv", **STATED}, "budget": {"epsilon": 1.0}, "join": [join], "query": COUNT}
    from rangebound.release import parse_plan

    plan = make_plan(data)
    assert parse_plan(plan.to_toml()) == plan
    assert plan.source.text_fields == STATED
    assert plan.join[0].text_fields == {"decimal": ",", "encoding": "cp1252"}
    assert list(Source.model_fields)[:2] == list(Join.model_fields)[:2] == ["path", "table"]
    assert TextFormat().text_fields == {}
