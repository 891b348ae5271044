"""Hostile input: every refusal is one line in our own words, without a traceback, SQL or the insides of a library."""

import copy
import json

import pytest

from rangebound.ledger.book import Ledger
from tests.cli.visits import INSIDE, one_line
from tests.thinning import crossed

PLAN = {
    "title": "visits",
    "source": {"path": "visits.csv"},
    "unit": {"column": "person", "rows": 2, "groups": 1},
    "budget": {"epsilon": 1.0, "delta": 1e-6, "account": "people", "ledger": "people.ledger"},
    "keys": {"clinic": ["a", "b"]},
    "selection": 1.0,
    "level": 0.95,
    "consistent": True,
    "query": [
        {
            "name": "wait",
            "kind": "mean",
            "column": "wait",
            "range": [0, 100],
            "by": ["clinic"],
            "support": [0, 50],
            "step": 0.5,
            "weight": 2.0,
            "where": [{"column": "wait", "is": ">", "value": 1}],
        },
        {"name": "parts", "kind": "histogram", "column": "wait", "range": [0, 100], "bins": 4},
        {"name": "middle", "kind": "quantiles", "column": "wait", "range": [0, 100], "levels": [0.5]},
        {"name": "part", "kind": "share", "of": [{"column": "wait", "is": "in", "value": [1, 2]}], "partition": "p"},
        {"name": "visits", "kind": "count", "mechanism": "rectify Laplace"},
    ],
}
VALUES = {
    "nan": "nan",
    "infinity": "-inf",
    "beyond doubles": "1e999",
    "negative": "-1",
    "zero": "0.0",
    "huge": "9" * 400,
    "tiny": "1e-320",
    "empty": '""',
    "sql": '"\'; DROP TABLE visits; --"',
    "code zero": '"a\\u0000b"',
    "control": '"\\u001b[31mred\\r\\n"',
    "long": '"' + "x" * 5000 + '"',
    "list": "[]",
    "nested": "[[[[]]]]",
    "mixed": '[1, "a", true]',
    "table": "{}",
    "inner": "{a = {b = 1}}",
    "true": "true",
    "date": "2024-02-30",
    "time": "2024-01-01T10:00:00Z",
    "other": '"median"',
}


def written(value):
    """A value as TOML in one line; a text that is given as it is stays so."""
    if isinstance(value, Raw):
        return value.text
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {written(each)}" for key, each in value.items()) + "}"
    return "[" + ", ".join(map(written, value)) + "]" if isinstance(value, list) else json.dumps(value)


class Raw:
    def __init__(self, text):
        self.text = text


def places(value, before=()):
    for key, each in value.items() if isinstance(value, dict) else enumerate(value):
        yield (*before, key)
        if isinstance(each, (dict, list)):
            yield from places(each, (*before, key))


def changed(place, text):
    plan = copy.deepcopy(PLAN)
    inner = plan
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = Raw(text)
    return "\n".join(f"{key} = {written(each)}" for key, each in plan.items())


@pytest.fixture(scope="session")
def prepared(tmp_path_factory):
    place = tmp_path_factory.mktemp("hostile")
    (place / "visits.csv").write_text("person,clinic,wait\n1,a,3\n2,b,4\n")
    with Ledger.create(place / "people.ledger") as ledger:
        ledger.open_account("people", epsilon=1)
    return place


@pytest.fixture
def folder(prepared, monkeypatch):
    monkeypatch.chdir(prepared)
    return prepared


FIRST = ("nested", "inner")
"""By default: tables in tables, and what only the inner parts of a message could show."""


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(each, marks=([pytest.mark.slow] if each == "sql" else [pytest.mark.long]) * (each not in FIRST))
        for each in VALUES
    ],
)
def test_no_value_in_any_place_of_a_plan_shows_what_is_inside(name, folder, command):
    refused = 0
    for place in places(PLAN):
        (folder / "plan.toml").write_text(changed(place, VALUES[name]))
        code, *said = command("plan", "check", "plan.toml")
        if code:
            one_line(code, *said)
            refused += 1
    assert refused > len(list(places(PLAN))) // 3


WORDS = {
    "not valid TOML": "= = =",
    "deep": "a = " + "[" * 3000 + "]" * 3000,
    "bytes": b"\xff\xfe\x00",
    "nothing": "",
    "two of a key": "a = 1\na = 2",
    "an unknown table": "[budgets]\nepsilon = 1.0",
    "a name of Python's": "__class__ = 1",
    "a table that is a list": "query = 3\nbudget = 4",
    "many queries": "budget = {epsilon = 1.0}\nquery = [" + '{name = "a", kind = "count"}, ' * 1001 + "]",
    "an unknown kind": 'budget = {epsilon = 1.0}\nquery = [{name = "a", kind = "average"}]',
    "no kind": 'budget = {epsilon = 1.0}\nquery = [{name = "a"}]',
}


@crossed({"line": ["plan check", "plan explain", "release", "verify"], "name": WORDS})
def test_no_file_in_the_place_of_another_shows_what_is_inside(name, line, folder, refused):
    words = WORDS[name]
    (folder / "odd.toml").write_bytes(words if isinstance(words, bytes) else words.encode())
    files = ["odd.toml", "odd.toml"] if line == "verify" else ["odd.toml"]
    assert refused(*line.split(), *files, *(["--request", "1"] if line == "release" else []))


LINES = [
    "ledger show odd.toml",
    "ledger open odd.toml a --epsilon 1",
    "ledger open new.ledger a --epsilon nan",
    "ledger open new.ledger a --epsilon 1 --delta 2",
    "ledger open people.ledger/x a --epsilon 1",
    "ledger show people.ledger --key odd.toml",
    "ledger verify people.ledger --head 1:zz",
    "account odd.toml",
    "account visits.csv",
    "plan new odd.toml",
    "plan new odd.parquet",
    "plan new visits.csv --table t",
    "plan new people.ledger --table entries",
    "release good.toml --request 1 --ledger odd.toml",
    "release good.toml --request 1 --key odd.toml",
    "release good.toml --request 1 --spark sc://host",
    "release odd.parquet --request 1",
    "verify odd.toml odd.parquet --ledger people.ledger",
    "plot law --range 0:20 --sensitivity 1 --scale 1 --at inf -o a.png",
]


@pytest.mark.parametrize("line", LINES)
def test_no_command_shows_what_is_inside(line, folder, refused):
    (folder / "odd.toml").write_bytes(b"\x00\xff{[")
    (folder / "odd.parquet").write_bytes(b"PAR1 and then nothing PAR1")
    (folder / "good.toml").write_text(changed(("title",), '"good"'))
    assert refused(*line.split())


def test_control_the_insides_of_a_library_are_found():
    told = "1 validation error for Plan [type=int_type, input_value='a', input_type=str]"
    assert INSIDE.search(told)
    assert INSIDE.search("duckdb.duckdb.BinderException: Binder Error: SELECT x")
