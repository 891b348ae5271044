"""Hostile rows of every type, on every engine and in every use of a column: they stop nothing and move one row each.

`test_one_row` has every type of Arrow on DuckDB; here are the types of PostgreSQL and Spark, and texts that are very
long: at some of them an engine stops at a pattern, or takes a time that grows with the square of their length.
"""

import csv
import datetime
import itertools
from contextlib import nullcontext

import pyarrow as pa
import pytest
from sqlglot import exp

from rangebound.errors import EngineError, PlanError
from rangebound.release import make_plan
from rangebound.release.engine.duckdb import DuckDB
from rangebound.release.engine.postgres import Postgres
from rangebound.release.engine.spark import Spark
from rangebound.release.plan.source import Source
from rangebound.release.plan.table_schema import check_schema
from rangebound.release.sql import contribution_bound, expression
from rangebound.release.sql.aggregate import compiled
from rangebound.release.sql.contribution_bound import LONGEST_KEY
from rangebound.release.sql.view import view
from tests.release.engine.test_engines import found
from tests.release.plans import SALT
from tests.release.postgres_tables import database
from tests.release.test_one_row import BASE, QUESTIONS, moved

NUMBERS = (
    "c + 1",
    "c * c",
    "c * 1e-300",
    "1 / c",
    "FLOOR_MOD(c, 3)",
    "FLOOR_MOD(3, c)",
    "FLOOR_DIV(c, 7)",
    "round(c)",
    "ceil(-c)",
    "clip(c, 0, 1)",
)
NUMBERS += (
    "bin(c, 0.1)",
    "coalesce(c, 1) * 3",
    "CASE WHEN c > 1 THEN c ELSE c / 0 END",
    "number(c)",
    "number(text(c))",
)
DATES = ("year(c)", "week(c)", "ISODOW(c)", "hour(c)", "c - DATE '2025-01-01'", "year(c + 1e9)", "day(c - 800000)")
DATES += ("YEAR(CAST(CAST(c AS VARCHAR) AS DATE))", "YEAR(CAST(c AS DATE))")
TRUTHS = (
    "c = 1",
    "c = true",
    "missing(c)",
    "STARTS_WITH(CAST(c AS VARCHAR), 'a')",
    "contains(text(c), '1')",
    "ENDS_WITH(CAST(c AS VARCHAR), '1')",
)
MADE = (*NUMBERS, *DATES, *(f"number({each})" for each in TRUTHS))
PER_UNIT = (
    "min(c)",
    "max(c)",
    "COUNT(DISTINCT c)",
    "ARG_MIN(t, c)",
    "ARG_MAX(c, d)",
    "sum(clip(c, 0, 9))",
    "COUNT(*) FILTER (WHERE c IS NULL)",
)
DAY = datetime.date(2025, 1, 1)
KEYS = (
    ["a", "b"],
    [1, 2],
    [True, False],
    [DAY],
    {"weeks": [DAY, datetime.date(2025, 2, 1)], "other": "o", "missing": "m"},
    {"months": [datetime.date(1, 1, 1), datetime.date(2, 12, 31)], "other": "o"},
    {"bins": [0, 1, 2.5], "other": "o", "missing": "m"},
    {"fold": {"x": ["a", "1"], "y": ["b"]}, "other": "o"},
)
OWNED = {"unit": {"column": "u"}}
COUNT = {"name": "n", "kind": "count"}
PERIOD = {"column": "c", "each": "month", "range": [DAY, datetime.date(2025, 3, 1)]}


def one_by_one():
    """Ways to use the column `c`, those of a list in one plan: what a section of it makes of the column, a question."""
    summed, there = {"kind": "sum", "range": [0, 1]}, {"is": "present"}
    yield [(None, "", each) for each in (*QUESTIONS, {"kind": "count", "where": "c"})]
    yield [("columns", each, lambda name: {**summed, "column": name}) for each in MADE]
    yield [
        ("per_unit", each, lambda name: {"kind": "count", "where": [{**there, "column": name}]}) for each in PER_UNIT
    ]


def together(ways):
    """One plan of several such ways."""
    plan = {"query": []}
    for at, (section, made, question) in enumerate(ways):
        if section is not None:
            plan.setdefault(section, {})[f"m{at}"] = made
        plan["query"].append({**(question(f"m{at}") if section else question), "name": f"q{at}"})
    return {**plan, **(OWNED if "per_unit" in plan else {})}


def by_themselves():
    """Plans that use it in ways of which a plan has one."""
    distinct = {"name": "d", "kind": "distinct count", "values": 2}
    yield from ({"keys": {"c": each}, "query": [{**COUNT, "by": ["c"]}]} for each in KEYS)
    yield {**OWNED, "query": [{**COUNT, "by": ["c", "t"]}, {**distinct, "column": "c"}]}
    yield {"unit": {"column": "c"}, "keys": {"t": ["x", "y"]}, "query": [{**COUNT, "by": ["t"]}]}
    yield {"unit": {"column": "c"}, "query": [{**COUNT, "by": ["t"]}, {**distinct, "column": "t"}]}
    yield {"unit": {"column": "u", "rows": 1, "period": PERIOD}, "query": [COUNT]}


def plan_of(data):
    return make_plan({**BASE, "zone": "Europe/Paris", **data})


def serves(data, engine):
    try:
        plan = plan_of(data)
        check_schema(plan, view(plan, engine).schema)
    except PlanError:
        return False
    return True


def served(engine, known={}):  # noqa: B006  (tables of one type serve for the same plans)
    """Plans that together use the column in every way that its type serves for."""
    key = engine.dialect.name, repr(engine.schema())
    if key not in known:
        groups = [[each for each in some if serves(together([each]), engine)] for some in one_by_one()]
        known[key] = [plan_of(together(some)) for some in groups if some]
        known[key] += [plan_of(each) for each in by_themselves() if serves(each, engine)]
    return known[key]


def check(good, bad, hostile):
    """That hostile rows stop no plan, and move no question by more than one each."""
    plans = served(good)
    assert len(plans) > 3
    for plan in plans:
        assert moved(found(plan, good), found(plan, bad)) <= hostile, plan


LONG = 200_000
TEXTS = ["", " ", "9" * 1000, "9" * 1001, "9" * LONG + "x", " " * LONG + "true", "2025-01-01" + " " * LONG]
TEXTS += ["1e999", "1e-999", "0000-01-01", "2023-02-29", "10000-01-01", "2023-01-01T25:00", "infinity", "NaN", "1d"]
TEXTS += ["0x1F", "epoch", "now", "\uff11", "\x01", "'", "\\", "a" * (LONGEST_KEY + 1), "31.01.2025" + "0" * LONG]
GOOD = ["1", "a", "2025-01-01"]


def table(values):
    """Beside the column an owner of each row, a text and a day."""
    count = len(values)
    return pa.table({"c": values, "u": range(count), "t": (["x", "y"] * count)[:count], "d": [DAY] * count})


def in_memory(values):
    return DuckDB(table(values), threads=1)


FORMS = ({"decimal": ",", "thousands": ".", "date_format": "%d.%m.%Y"}, {"thousands": "'", "date_format": "%Y%m%d"})


def in_a_file(values, path, form=0):
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([table(values).column_names, *zip(*table(values).to_pydict().values(), strict=True)])
    return DuckDB(Source(path=str(path), **FORMS[form]), threads=1)


@pytest.mark.claim("answer")
@pytest.mark.parametrize("source", ["arrow", pytest.param("csv", marks=pytest.mark.slow)])
def test_texts_on_duckdb(source, tmp_path):
    made = in_memory if source == "arrow" else lambda values: in_a_file(values, tmp_path / f"{len(values)}.csv")
    with made(GOOD) as good, made([*GOOD, *TEXTS]) as bad:
        check(good, bad, len(TEXTS))


def unguarded(tree):
    """The patterns that are not in a branch of a choice whose first one asks for the length of the same column."""
    for pattern in tree.find_all(exp.RegexpLike):
        node, names = pattern, {each.name for each in pattern.find_all(exp.Column)}
        while node is not None:
            above = node.parent
            first = above.args["ifs"][0] if isinstance(above, exp.Case) else node
            asked = {each.name for each in first.find_all(exp.Column)}
            if first is not node and isinstance(first.this.this, exp.Length) and asked == names:
                break
            node = above
        else:
            yield pattern


@pytest.mark.parametrize("form", [None, *(pytest.param(each, marks=pytest.mark.slow) for each in (0, 1))])
def test_no_pattern_is_compared_before_the_length_is_known(form, tmp_path):
    with in_memory(GOOD) if form is None else in_a_file(GOOD, tmp_path / "t.csv", form) as engine:
        trees = [each.tree for plan in served(engine) for each, _ in compiled(plan, engine, SALT)]
    assert sum(1 for tree in trees for _ in tree.find_all(exp.RegexpLike)) > 30
    assert not [each.sql() for tree in trees for each in unguarded(tree)]


def test_a_private_key_has_room_in_a_result():
    plan = plan_of({**OWNED, "query": [{**COUNT, "by": ["c"]}]})
    with in_memory(["a", "b" * LONGEST_KEY, "c" * (LONGEST_KEY + 1)]) as engine:
        assert {key for (key,) in found(plan, engine)[1]["c",]} == {"a", "b" * LONGEST_KEY}


FAR = ["infinity", "-infinity", "0001-01-01 BC", "4713-01-01 BC"]
POSTGRES = {
    "double precision": (["1", "2", "3"], ["NaN", "Infinity", "-Infinity", "1.7976931348623157e308", "5e-324", "-0"]),
    "real": (["1", "2", "3"], ["NaN", "Infinity", "-Infinity", "3.4028235e38", "1e-45"]),
    "numeric": (["1", "2.5", "3"], ["NaN", "Infinity", "-Infinity", "1e131071", "-1e131071", "1e-16383", "1e309"]),
    "numeric(1000, 900)": (["1", "2.5", "3"], ["NaN", "9" * 100, f"1.{'7' * 900}"]),
    "text": (GOOD, TEXTS),
    "bigint": (["1", "2", "3"], ["9223372036854775807", "-9223372036854775808"]),
    "char(8)": (["1", "a", "b"], ["", " 9 ", "1e999", "infinity"]),
    "uuid": ([f"0000000{at}-0000-0000-0000-000000000000" for at in range(3)], ["f" * 32]),
    "date": (["2025-01-01", "2025-02-01", "2024-02-29"], [*FAR, "5874897-12-31"]),
    "timestamp": (["2025-01-01 01:00", "2025-02-01", "2024-02-29"], [*FAR, "294276-12-31 23:59:59"]),
    "timestamptz": (["2025-01-01 01:00Z", "2025-02-01", "2024-02-29"], [*FAR, "294276-12-31 23:59:59Z"]),
    "boolean": (["true", "false", "true"], [None]),
}
_NUMBER = itertools.count()


def in_postgres(address, kind, values):
    """A table with a column of a type; values are texts, or SQL where they are bytes."""
    name = f"hostile{next(_NUMBER)}"
    with database(address) as base:
        base.execute(f"CREATE TABLE {name} (c {kind}, u bigint, t text, d date)")
        for at, value in enumerate(values):
            made, own = (value.decode(), ()) if isinstance(value, bytes) else ("%s::text", (value,))
            base.execute(f"INSERT INTO {name} VALUES (({made})::{kind}, {at}, '{'xy'[at % 2]}', '2025-01-01')", own)
    return Postgres(address, f"public.{name}")


@pytest.mark.claim("answer")
@pytest.mark.few(2)
@pytest.mark.parametrize("kind", POSTGRES)
def test_every_type_of_postgres(kind, postgres):
    values, hostile = POSTGRES[kind]
    with in_postgres(postgres, kind, values) as good, in_postgres(postgres, kind, [*values, *hostile]) as bad:
        check(good, bad, len(hostile))


HUGE = b"repeat('a', 270000000)"  # for a pattern, PostgreSQL takes four bytes a letter, and has at most 2^30 at once


@pytest.mark.slow
def test_a_text_of_270_million_letters_on_postgres(postgres, monkeypatch):
    year = {"name": "q", "kind": "sum", "column": "m", "range": [0, 9]}
    with in_postgres(postgres, "text", GOOD) as good, in_postgres(postgres, "text", [*GOOD, HUGE]) as bad:
        check(good, bad, 1)
        monkeypatch.setattr(expression, "longer", lambda *_: exp.false())  # the control: a pattern before the length
        with pytest.raises(EngineError):
            found(plan_of({"columns": {"m": "YEAR(CAST(c AS DATE))"}, "query": [year]}), bad)


@pytest.mark.slow
@pytest.mark.parametrize("careful", [True, False])
def test_texts_that_have_no_room_joined_together_on_postgres(careful, postgres, monkeypatch):
    """A unit's name and a value, whose hash is taken together."""
    plan = plan_of({"unit": {"column": "c"}, "query": [{"name": "d", "kind": "distinct count", "column": "t"}]})
    if not careful:  # the control
        monkeypatch.setattr(contribution_bound, "shortened", lambda part: part)
    with in_postgres(postgres, "text", ["a", b"repeat('a', 540000000)"]) as made:
        table = made.source.find(exp.Table).sql("postgres")
    with database(postgres) as base:
        base.execute(f"UPDATE {table} SET t = repeat('b', 540000000) WHERE u = 1")
    with Postgres(postgres, table) as engine, nullcontext() if careful else pytest.raises(EngineError):
        assert found(plan, engine)[0] == {0: {(): (2,)}}


SPARK = {
    "double": ("1 2 3", "'NaN' 'Infinity' '-Infinity' 1.7976931348623157e308D 4.9e-324D -0.0D"),
    "float": ("1 2 3", "'NaN' 'Infinity' 3.4028234e38D"),
    "string": ("'1' 'a' '2025-01-01'", f"concat(repeat('9',{LONG}),'x') concat(space({LONG}),'true') string(X'FF')"),
    "timestamp": ("'2025-01-01T01' " * 3, f"timestamp_micros({2**63 - 1}) timestamp_micros({1 - 2**63})"),
    "timestamp_ntz": ("'2025-01-01T01' " * 3, "'0001-01-01T00' '9999-12-31T23:59:59'"),
    "date": ("'2025-01-01' " * 3, "date_from_unix_date(2147483647) date_from_unix_date(-2147483648)"),
    "decimal(38,0)": ("1 2 3", f"{'9' * 38}BD -{'9' * 38}BD"),
    "decimal(38,38)": ("0 0 0", f"0.{'9' * 38}BD"),
    "bigint": ("1 2 3", f"{2**63 - 1}L (-{2**63 - 1}L-1L)"),
    "boolean": ("true false true", "NULL"),
}
SHORT = [f"string(X'{each.encode().hex()}')" for each in TEXTS if len(each) < LONG]


@pytest.mark.slow
@pytest.mark.parametrize("kind", SPARK)
def test_every_type_of_spark(kind, spark):
    values, hostile = (each.split() for each in SPARK[kind])
    hostile += SHORT if kind == "string" else []

    def frame(some):
        row = "SELECT CAST({} AS {}) AS c, {}L AS u, '{}' AS t, date'2025-01-01' AS d"
        made = [row.format(value, kind, at, "xy"[at % 2]) for at, value in enumerate(some)]
        return Spark(spark.sql(" UNION ALL ".join(made)).localCheckpoint())

    with frame(values) as good, frame([*values, *hostile]) as bad:
        check(good, bad, len(hostile))
