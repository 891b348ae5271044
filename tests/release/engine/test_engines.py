"""What every engine must meet: the exact numbers of a reference in Python, whatever is in a table, and of each other.

A new engine is one more line of `ENGINES`, which says how it comes by a table.
"""

import contextlib
import dataclasses
import datetime
import random
from collections.abc import Callable, Sequence
from functools import partial

import duckdb
import pyarrow as pa
import pytest
from sqlglot import exp

from rangebound.errors import EngineError, PlanError
from rangebound.release.engine.duckdb import DuckDB, public_table
from rangebound.release.engine.interface import Place, Unrunnable
from rangebound.release.engine.postgres import POSTGRES
from rangebound.release.engine.spark import SPARK, Spark
from rangebound.release.plan.kinds import kind
from rangebound.release.plan.kinds.ranks import Bounds
from rangebound.release.plan.table_schema import Family, check_schema
from rangebound.release.plan.toml import make_plan
from rangebound.release.sql.aggregate import aggregate, check_statements, statements
from rangebound.release.sql.view import view
from tests.release import reference, row_oracle, sqlite_tables
from tests.release.plans import KINDS, OTHER_SALT, SALT, plan_data, written_once
from tests.release.postgres_tables import made, on_postgres
from tests.release.sql import test_joined, test_local_time, test_made_column, test_unit_rows

NASTY = ["a", "c'\\", "d`; DROP TABLE x; --", 'e"', "é\u0301\n", "\u202e", ""]
COLUMNS = {
    "person": pa.int64(),
    "name": pa.string(),
    "clinic; --": pa.string(),
    "ward": pa.int16(),
    "open": pa.bool_(),
    "day": pa.date32(),
    "wait": pa.float64(),
    "age": pa.int8(),
    "score": pa.string(),
    "seen": pa.timestamp("us"),
}


def make_rows(count, seed=1):
    pick = random.Random(seed).choice
    uniform = random.Random(seed + 1).uniform
    odd = [None, float("nan"), float("inf"), float("-inf"), -5.0, 1e300, 0.0, -0.0, 100.0]
    texts = ["7", " 7", "7.5", "1e1", "0x1F", "12d", "nan", "inf", "1_0", "7\n", "", None, "-3", "+4.25", "٣", "1" * 40]
    return [
        {
            "person": pick([None, *range(-4, 12), 2**62 + 5, -(2**62)]),
            "name": pick([None, "ann", "Ann", "an n", "é", "e\u0301", "", "'", "\\"]),
            "clinic; --": pick([*NASTY, "other", None]),
            "ward": pick([1, 2, 3, -300, None]),
            "open": pick([True, False, None]),
            "day": pick([None, datetime.date(1, 1, 1), datetime.date(9999, 12, 31), datetime.date(2024, 2, 29)]),
            "wait": pick([*odd, uniform(0, 100), uniform(0, 100), uniform(0, 100)]),
            "age": pick([None, 10, 18, 59, 60, 127, -128]),
            "score": pick([*texts, "2024-02-29", "2023-02-29", "0000-00-00"]),
            "seen": pick([None, datetime.datetime(2024, 2, 29, 23, 59, 59), datetime.datetime(1969, 12, 31, 12)]),
        }
        for _ in range(count)
    ]


def arrow(rows):
    return pa.table({name: pa.array([row[name] for row in rows], kind) for name, kind in COLUMNS.items()})


def found(plan, engine, salt=SALT):
    """The aggregates in the form of the reference."""
    blocks = aggregate(plan, engine, salt)
    answers = {index: dict(each) for block in blocks for index, each in block.answers.items()}
    units = {block.block.by: dict(block.units) for block in blocks if block.block.keys is None}
    return answers, units


UNIT = {"column": "person", "rows": 2, "groups": 2}
CLINICS = {"clinic; --": NASTY}
CONDITIONS = [
    {"column": "age", "is": ">", "value": 300},
    {"column": "age", "is": "!=", "value": 18},
    {"column": "wait", "is": "missing"},
    {"column": "wait", "is": "present"},
    {"column": "wait", "is": "<=", "value": 0.0},
    {"column": "clinic; --", "is": "in", "value": [NASTY[1], NASTY[2], "' OR 1=1 --"]},
    {"column": "clinic; --", "is": "not in", "value": [NASTY[4]]},
    {"column": "clinic; --", "is": "==", "value": ""},
    {"column": "open", "is": "==", "value": True},
    {"column": "ward", "is": "==", "value": "-300"},
    {"column": "day", "is": "<", "value": datetime.date(2024, 3, 1)},
    {"column": "day", "is": "missing"},
    {"column": "seen", "is": ">=", "value": datetime.date(2024, 2, 29)},
    {"column": "score", "is": "==", "value": datetime.date(2024, 2, 29)},
]
CONVERSIONS = [
    {"kind": "mean", "column": "day", "range": [datetime.date(2024, 1, 1), datetime.date(2024, 12, 31)]},
    {"kind": "mean", "column": "seen", "range": [datetime.date(1969, 1, 1), datetime.date(2024, 12, 31)]},
    {"kind": "mean", "column": "score", "range": [datetime.date(2020, 1, 1), datetime.date(2024, 12, 31)]},
    {"kind": "mean", "column": "open", "range": [0, 1]},
    {"kind": "variance", "column": "age", "range": [-1e6, 2e6], "missing": 1e9},
]
SELECTED = [
    {"kind": "top k", "column": "clinic; --", "k": 2, "where": [{"column": "age", "is": ">=", "value": 18}]},
    {"kind": "top k", "column": "name", "k": 1},
    {"kind": "mode", "column": "day"},
    {"kind": "mode", "column": "wait", "range": [0, 100], "bins": 4},
    {"kind": "bounds", "column": "wait", "where": [{"column": "age", "is": ">=", "value": 18}]},
    {"kind": "bounds", "column": "seen", "dates": True},
]
SELECTABLE = {
    **CLINICS,
    "name": ["ann", "Ann", "\u00e9", "'"],
    "day": [datetime.date(2024, 2, 29), datetime.date(1, 1, 1)],
}
PLANS = {
    "people, no groups": plan_data([], unit=UNIT),
    "people, public keys": plan_data(["clinic; --"], unit=UNIT, keys=CLINICS),
    "people, private keys": plan_data(["ward", "open"], KINDS[:4], unit=UNIT),
    "rows, public keys": plan_data(
        ["ward"], [each for each in KINDS if "units" not in each["kind"]], keys={"ward": [3, 1, 99]}
    ),
    "names, many keys": plan_data(
        ["day", "ward"],
        KINDS[:4],
        unit={**UNIT, "column": "name"},
        keys={"day": [datetime.date(2024, 2, 29), datetime.date(1, 1, 1)], "ward": list(range(1, 90))},
    ),
    "people, ranked keys that are selected": plan_data(["open"], SELECTED[:2], unit=UNIT),
    "conditions": plan_data([], [{"kind": "count", "where": [each]} for each in CONDITIONS], unit={**UNIT, "rows": 50}),
    "conversions": plan_data([], CONVERSIONS),
    "people, selected keys": plan_data(["ward"], SELECTED, unit=UNIT, keys={"ward": [3, 1, 99], **SELECTABLE}),
    "rows, selected keys": plan_data([], SELECTED, keys=SELECTABLE),
    "selected keys in private groups": plan_data(["open"], SELECTED, unit=UNIT, keys=SELECTABLE),
}


SPRING = [datetime.date(2024, 2, 23) + datetime.timedelta(days=at) for at in range(14)]  # two months, three weeks
BOUNDS = [
    {"rows": 1, "period": {"column": "day", "each": "day", "range": SPRING[::13]}},
    {"groups": 3},
    {"rows": 3, "groups": 1},
    {"period": {"column": "day", "each": "week", "range": [SPRING[2], SPRING[12]]}},
    {"groups": 3, "period": {"column": "day", "each": "month", "range": [SPRING[0], SPRING[-1]]}},
    {"period": {"column": "seen", "each": "month", "range": [datetime.date(1969, 12, 1), datetime.date(2024, 12, 31)]}},
    {"period": {"column": "score", "each": "week", "range": [datetime.date(2020, 1, 1), SPRING[-1]]}},
    {},
]
"""Contribution bounds of single questions, which turn about with the kinds."""


def bounded(shift, kinds=KINDS):
    """All kinds by public keys, each with bounds of its own; a count of units has no rows."""
    asked = [{**each, **BOUNDS[(at + shift) % len(BOUNDS)]} for at, each in enumerate(kinds)]
    asked = [
        {name: value for name, value in each.items() if "units" not in each["kind"] or name != "rows"} for each in asked
    ]
    return make_plan(plan_data(["ward"], asked, unit=UNIT, keys={"ward": [1, 2, 3, -300]}))


def with_spring(count, seed=1):
    """Rows of few people, most of them on days of two months."""
    chance, rows = random.Random(f"spring {seed}"), make_rows(count, seed)
    return [{**row, "person": chance.randrange(6), "day": chance.choice([*SPRING, row["day"]])} for row in rows]


X, Y = {"column": "wait", "range": [-20, 100]}, {"column": "age", "range": [1, 60]}
W, HIGH = {"weighted_by": Y}, [{"column": "wait", "is": ">", "value": 50}]
EVERY = [
    {"kind": "count"},
    *({"kind": each, **X} for each in ("sum", "mean", "variance", "standard deviation")),
    *({"kind": each, **X, "step": 40.0} for each in ("median", "minimum", "maximum", "central range")),
    {"kind": "quantiles", **X, "step": 40.0, "levels": [0.25]},
    {"kind": "histogram", **X, "bins": 3},
    {"kind": "share", "of": HIGH},
    {"kind": "bounds", "column": "wait"},
    {"kind": "ratio", "numerator": X, "denominator": Y},
    *({"kind": each, "x": X, "y": Y} for each in ("correlation", "line")),
    {"kind": "mean", **X, **W},
    {"kind": "distinct count", "column": "name", "where": HIGH},
    {"kind": "mode", "column": "ward"},
    {"kind": "top k", "column": "name", "k": 2},
    {"kind": "crosstab", "by": ["ward", "open"]},
    {"kind": "hierarchy", "by": ["ward"], "levels": [{"name": "wing", "members": {"one": [1], "two": [2, 3]}}]},
    {"kind": "series", "by": ["day"]},
]
"""A question of every kind that a plan can ask about rows."""
EDGES = property(lambda self: (-5.0, 0.0, 50.0))  # each of hundreds takes long to plan
EDGED = "rows, selected keys"  # the plan that has all of them


def every_kind():
    """Plans of all kinds, those that a report of what was cut makes among them, and with squares of units."""
    keys = {"ward": [1, 2, 3], "open": [True, False], "day": {"days": SPRING[:2]}}
    cut = plan_data([], [{"kind": "count of units"}, EVERY[1]], unit=UNIT, report_clipping=True)
    squared = plan_data(["ward"], [EVERY[2], {"kind": "share", "of": HIGH}], unit=UNIT, keys={"ward": [1, 2, 3]})
    plans = [make_plan(each) for each in (plan_data([], EVERY, keys=keys), cut, {**squared, "intervals": "both"})]
    assert {each.kind for plan in plans for each in plan.query} == kind.KINDS.keys(), "add the kind to EVERY"
    return plans


QUICK = ["people, private keys", "conversions"]
TABLES = [make_rows(200), [], make_rows(1), [dict.fromkeys(dict(make_rows(1)[0])) for _ in range(5)]]


TYPES = {
    pa.int8(): "tinyint",
    pa.int16(): "smallint",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.float64(): "double",
    pa.string(): "string",
    pa.large_string(): "string",
    pa.bool_(): "boolean",
    pa.date32(): "date",
    pa.timestamp("us"): "timestamp_ntz",
    pa.timestamp("us", "UTC"): "timestamp",
}


def frame(session, table):
    schema = ", ".join(f"`{each.name}` {TYPES[each.type]}" for each in table.schema)
    rows = list(zip(*(column.to_pylist() for column in table.columns), strict=True))
    return session.createDataFrame(rows, schema)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Tried:
    """An engine as the contract tries it: what makes it of an Arrow table, and how much is tried.

    `place` is the fixture that says where it has its tables; `private` brings along one that is joined: its name, and
    what the engine is given by that name. What is `slow` is tried by default as far as a test says.
    """

    made: Callable
    place: str | None = None
    private: Callable = lambda _, table: ("visits", {"visits": table})
    tables: Callable = lambda name: TABLES[: 1 if name == EDGED else 4]
    once: Callable = contextlib.nullcontext
    kinds: Sequence = tuple(KINDS)
    expressions: int = 15
    zones: Sequence = tuple(test_local_time.ZONES[:2])
    slow: bool = False


ENGINES = {
    "duckdb": Tried(made=lambda _, table: DuckDB(table, threads=1), once=written_once),
    "postgres": Tried(
        made=on_postgres,
        place="postgres",
        private=lambda address, table: (made(address, table), {}),
        tables=lambda name: TABLES[:: 3 if name in QUICK else 4],
    ),
    "spark": Tried(
        made=lambda session, table: Spark(frame(session, table)),
        place="spark",
        private=lambda session, table: ("visits", {"visits": frame(session, table)}),
        tables=lambda _: TABLES[:1],
        kinds=KINDS[3:5],  # whatever a statement has takes long to plan
        expressions=5,
        zones=["Asia/Kolkata"],
        slow=True,
    ),
    "sqlite": Tried(  # an example, and no part of the package
        made=lambda _, table: sqlite_tables.on_sqlite(table),
        private=lambda _, table: (sqlite_tables.made(table), {}),
        slow=True,
    ),
}
OTHERS = [each for each in ENGINES if each != "duckdb"]
"""The engines that are compared with DuckDB, which meets the same by the tests of its own."""


@pytest.fixture
def tried(engine, request):
    """An engine of the contract, with the place of its tables."""
    found = ENGINES[engine]
    place = found.place and request.getfixturevalue(found.place)
    return dataclasses.replace(found, made=partial(found.made, place), private=partial(found.private, place))


def engines(names=tuple(ENGINES), *, default=False):
    """A test of each engine; by `default` of slow ones too."""
    slow = {each: [pytest.mark.slow] * (ENGINES[each].slow and not default) for each in names}
    return pytest.mark.parametrize("engine", [pytest.param(each, marks=slow[each]) for each in names])


def cases(values, default):
    """Each engine with each value, and which of these are tried by default."""
    return [
        pytest.param(engine, each, marks=[] if default(tried, each) else pytest.mark.slow)
        for engine, tried in ENGINES.items()
        for each in values
    ]


@pytest.mark.claim("answer")
@pytest.mark.parametrize(("engine", "name"), cases(PLANS, lambda tried, name: not tried.slow or name in QUICK))
def test_it_finds_what_the_reference_finds(tried, name, monkeypatch):
    plan = make_plan(PLANS[name])
    if name != EDGED:
        monkeypatch.setattr(Bounds, "edges", EDGES)
    with tried.once():
        for rows in tried.tables(name):
            with tried.made(arrow(rows)) as engine:
                check_schema(plan, engine.schema())
                assert found(plan, engine) == reference.aggregates(plan, rows, SALT)


@pytest.mark.claim("answer")
@pytest.mark.parametrize(("engine", "shift"), cases(range(len(BOUNDS)), lambda tried, at: not tried.slow and at == 0))
def test_questions_have_contribution_bounds_of_their_own(tried, shift):
    plan, rows = bounded(shift, tried.kinds), with_spring(300)
    with tried.made(arrow(rows)) as engine:
        check_schema(plan, engine.schema())
        assert found(plan, engine) == reference.aggregates(plan, rows, SALT)


@pytest.mark.claim("answer")
@engines()
def test_every_function_has_the_values_of_another_evaluator(tried):
    """One statement with many expressions."""
    rows = row_oracle.rows(random.Random(3), 40)
    with tried.made(test_made_column.table(rows)) as engine:
        test_made_column.check(engine, test_made_column.every_function(tried.expressions), rows)


@pytest.mark.claim("answer")
@engines(OTHERS)
def test_local_times_are_those_of_pandas(tried):
    numbers = [each for zone in tried.zones for each in test_local_time.instants(zone, 40)]
    with tried.made(test_local_time.table(numbers)) as engine:
        for zone in tried.zones:
            assert test_local_time.local(engine, zone) == test_local_time.expected(numbers, zone)


@pytest.mark.claim("answer")
@engines(default=True)
def test_statements_are_rehearsed_without_rows_and_a_failure_is_said_without_data(tried):
    with tried.made(pa.table({"x": ["a secret", "b"]})) as engine:
        assert engine.schema() == {"x": Family.TEXT}
        rows = _chosen(engine.source).subquery("t")
        cast = engine.written(exp.select(exp.cast(exp.column("x"), "INT")).from_(rows.copy()))
        count = engine.written(exp.select(exp.Count(this=exp.Star())).from_(rows))
        wrong = engine.written(exp.select(exp.Anonymous(this="no_such_function", expressions=[])))
        for _ in range(2):  # nothing is left of a failure
            engine.rehearse(count)
            engine.rehearse(cast)  # which any row would stop
            with pytest.raises(Unrunnable):
                engine.rehearse(wrong)
            with pytest.raises(EngineError) as error:
                engine.run(cast)
            assert "secret" not in str(error.value)
            assert error.value.__suppress_context__
            assert engine.run(count) == [(2,)]


@pytest.mark.claim("answer")
@engines(default=True)
def test_a_column_with_the_name_of_the_table_is_rehearsed(tried):
    with tried.made(pa.table({"x": [1]})) as engine:
        name = next(engine.source.find_all(exp.Table)).name
        rows = _chosen(engine.source).subquery("t")
        same = exp.select(exp.alias_(exp.column("x"), name, quoted=True)).from_(rows).subquery("source")
        statement = exp.select(exp.column(name, table="source", quoted=True)).from_(same)
        engine.rehearse(engine.written(statement))
        assert engine.run(statement) == [(1,)]


@pytest.mark.claim("answer")
@engines(OTHERS, default=True)
def test_every_kind_of_question_finds_what_duckdb_finds(tried, monkeypatch):
    monkeypatch.setattr(Bounds, "edges", EDGES)
    table = arrow(with_spring(200))
    with tried.made(table) as engine, DuckDB(table, threads=1) as other:
        assert engine.schema() == other.schema()
        for plan in every_kind():
            check_schema(plan, view(plan, engine).schema)
            assert found(plan, engine) == found(plan, other)


@pytest.mark.claim("answer")
@engines(OTHERS)
def test_a_plan_with_made_columns_finds_what_duckdb_finds(tried):
    plan = test_made_column.plan_with_columns()
    table = test_made_column.table(row_oracle.rows(random.Random(8), 60))
    with tried.made(table) as engine, DuckDB(table) as other:
        check_schema(plan, view(plan, engine).schema)
        expected, _ = found(plan, other)
        assert found(plan, engine)[0] == expected
        assert any(any(values) for each in expected.values() for values in each.values())


@pytest.mark.claim("answer")
@engines(OTHERS)
def test_the_row_of_each_unit_is_the_same_to_the_last_bit(tried):
    data = pa.Table.from_pandas(test_unit_rows.some_rows(random.Random(9), 120), preserve_index=False)
    with tried.made(data) as engine, DuckDB(data) as other:
        expected = test_unit_rows.seen(test_unit_rows.plan_with(), other)
        assert test_unit_rows.seen(test_unit_rows.plan_with(), engine) == expected


@pytest.mark.claim("answer")
@engines(OTHERS)
def test_public_and_private_tables_are_joined(tried):
    own, visits = (
        pa.Table.from_pandas(each, preserve_index=False)
        for each in (test_joined.private_rows(random.Random(12), 60), test_joined.visit_rows(random.Random(13), 60))
    )
    regions = pa.Table.from_pandas(test_joined.REGION_ROWS, preserve_index=False)
    private = {**test_joined.VISITS, "on": {"person": "who", "day": "day"}, "own_rows": 1}
    names, (there, given) = ["person", "region", "x", "place", "price", "z"], tried.private(visits)
    with tried.made(own) as engine, DuckDB(own) as other:
        other.give({"regions": regions, "visits": visits})
        engine.give({"regions": regions, "twice": pa.table({"region": ["a", "a"], "size": [1, 2]}), **given})
        plan = test_joined.plan_with(test_joined.REGIONS, {**private, "table": there})
        expected = test_joined.rows_of(test_joined.plan_with(test_joined.REGIONS, private), other, *names)
        assert test_joined.rows_of(plan, engine, *names) == expected
        twice = {"table": "twice", "public": True, "on": ["region"], "columns": ["size"]}
        with pytest.raises(PlanError, match="the key 'a' is in more than one row"):
            view(test_joined.plan_with(twice), engine)


def _chosen(source):
    return source if isinstance(source, exp.Select) else exp.select("x").from_(source.copy())


ODD = [
    "${env:HOME}",
    "${spark.master}",
    "local[2]",
    "${spark.note}",
    "\\",
    "\\\\",
    "'",
    "\\'",
    "\x1f",
    "é",
    "\\u0041",
    "A",
]


@pytest.mark.claim("answer")
class TestSpark:
    @pytest.mark.long
    def test_every_kind_has_contribution_bounds_of_its_own(self, spark):
        plan, rows = bounded(2), with_spring(300)
        with Spark(frame(spark, arrow(rows))) as engine:
            assert found(plan, engine) == reference.aggregates(plan, rows, SALT)

    @pytest.mark.slow  # that no sum is held in 64 bits is asked below
    @pytest.mark.parametrize(("kind", "bits"), [(pa.int64(), 63), (pa.int8(), 7), (pa.int16(), 15), (pa.int32(), 31)])
    def test_owners_values_and_keys_may_be_whole_numbers_of_any_width(self, spark, kind, bits):
        least, most = -(2**bits), 2**bits - 1
        whole = [1, 2, 7, most, most - 1, least, least, 0, None]
        table = pa.table({"person": pa.array([*whole[1:], 2], kind), "value": pa.array(whole, kind)})
        about = {"column": "value", "range": [0, 100]}
        asked = [{"kind": each, **about} for each in ("sum", "variance", "histogram")]
        asked += [{"kind": "count", "where": [{"column": "value", "is": "<=", "value": 2 ** (bits - 1)}]}]
        keys = {"value": [1, most, least]}
        with Spark(frame(spark, table)) as engine, DuckDB(table) as other:
            for unit, by in (({}, ["value"]), ({"column": "person", "rows": 2}, [])):
                plan = make_plan(plan_data(by, asked, unit=unit, keys=keys if by else {}))
                expected = found(plan, other)
                assert found(plan, engine) == expected
            assert sum(expected[0][0][()]) != 0

    @pytest.mark.parametrize("escaped", [pytest.param("false", marks=pytest.mark.slow), "true"])
    def test_a_text_of_a_plan_is_that_text_to_spark_whatever_the_settings(self, spark, escaped):
        kinds = [{"kind": "count", "by": ["k"]}]
        kinds += [{"kind": "count", "where": [{"column": "k", "is": "in", "value": [each]}]} for each in ODD]
        plan = make_plan(plan_data([], kinds, keys={"k": ODD}))
        with DuckDB(pa.table({"k": ODD})) as engine:
            expected = found(plan, engine)
        settings = {"spark.note": "x') OR ('1'='1", "spark.sql.parser.escapedStringLiterals": escaped}
        for name, value in settings.items():
            spark.conf.set(name, value)
        try:
            substituted = spark.sql("SELECT '${spark.master}'").collect()[0][0]
            assert found(plan, Spark(spark.createDataFrame([(each,) for each in ODD], "k string"))) == expected
        finally:
            for name in settings:
                spark.conf.unset(name)
        assert substituted == "local[2]"  # control: Spark does so by itself
        assert all(sums == dict.fromkeys(sums, (1,)) for sums in expected[0].values())

    def test_settings_that_change_what_statements_mean_are_refused_before_the_charge(self, spark):
        plan = make_plan(plan_data([], [{"kind": "count", "where": [{"column": "[a]", "is": "==", "value": 1}]}]))
        frame = spark.createDataFrame([(1, 2)], "`[a]` int, a int")
        frame.createOrReplaceTempView("names")
        pattern, empty = "quotedRegexColumnNames", "spark.sql.legacy.createEmptyCollectionUsingStringType"
        with Spark(frame) as engine:
            try:
                spark.conf.set(empty, "true")
                check_statements(plan, engine)  # what has no rows has its own columns
                assert spark.sql("SELECT array()").dtypes[0][1] == "array<string>"  # control: by itself it is of texts
                spark.conf.set(f"spark.sql.parser.{pattern}", "true")
                for call in (lambda: check_statements(plan, engine), lambda: Spark(frame)):
                    with pytest.raises(EngineError, match=rf"{pattern}: with 'true' our statements mean something"):
                        call()
                assert spark.sql("SELECT `[a]` FROM names").columns == ["a"]  # control: another column
            finally:
                spark.conf.unset(empty)
                spark.conf.unset(f"spark.sql.parser.{pattern}")
                spark.catalog.dropTempView("names")
            assert found(plan, engine)[0][0][()] == (1,)

    def test_columns_that_spark_would_take_for_others_are_refused(self, spark):
        frame = spark.createDataFrame([("a", "A")], "`${spark.master}` string, k string")
        engine = Spark(frame.selectExpr("*", "k COLLATE UTF8_LCASE AS folded"))
        assert engine.schema() == {"${spark.master}": Family.OTHER, "k": Family.TEXT, "folded": Family.OTHER}
        with pytest.raises(EngineError, match="which Spark replaces"):
            found(make_plan(plan_data(["${spark.master}"], KINDS[:1])), engine)

    def test_spark_says_nothing_about_the_data_where_it_fails(self, spark):
        from pyspark.logger import PySparkLogger

        frame = spark.createDataFrame([("a secret",)], "k string").selectExpr("CAST(k AS INT) AS k")
        logger, said = PySparkLogger.getLogger("SQLQueryContextLogger"), []
        logger.addFilter(lambda record: said.append(record.getMessage()))
        try:
            with pytest.raises(EngineError, match="its own logs say why"):
                found(make_plan(plan_data(["k"], KINDS[:1])), Spark(frame))
            assert said == []
            with pytest.raises(Exception, match="secret"):
                frame.collect()
            assert "secret" in said[0]  # control: by itself it tells
        finally:
            logger.filters.clear()


# Of DuckDB alone, which stands for all engines.
def test_keys_are_selected_among_the_groups_that_count_in_a_period():
    asked = [{**each, **BOUNDS[3], "rows": 1 + at} for at, each in enumerate(KINDS[2:8])]
    asked += [{**KINDS[1], **BOUNDS[3]}, {**KINDS[0], **BOUNDS[3]}]
    plan, rows = make_plan(plan_data(["ward", "open"], asked, unit=UNIT)), with_spring(300)
    with DuckDB(arrow(rows)) as engine:
        assert found(plan, engine) == reference.aggregates(plan, rows, SALT)


def test_control_another_period_or_bound_gives_other_numbers():
    rows, kinds = with_spring(300), KINDS[:1]
    with DuckDB(arrow(rows)) as engine:
        plans = [
            make_plan(plan_data(["ward"], [{**kinds[0], **each}], unit=UNIT, keys={"ward": [1, 2, 3]}))
            for each in BOUNDS
        ]
        numbers = [tuple(found(plan, engine)[0][0].values()) for plan in plans]
    assert len(set(numbers)) == len(BOUNDS)


@pytest.mark.slow
def test_control_another_salt_or_another_row_gives_other_numbers():
    plan, rows = make_plan(PLANS["people, public keys"]), make_rows(400)
    expected = reference.aggregates(plan, rows, SALT)
    with DuckDB(arrow(rows)) as engine:
        assert found(plan, engine, OTHER_SALT) != expected
    with DuckDB(arrow(rows[1:])) as engine:
        assert found(plan, engine) != expected


@pytest.mark.slow
@pytest.mark.parametrize("name", ["people, public keys", "people, private keys"])
def test_order_of_rows_and_number_of_threads_change_nothing(name):
    plan, rows = make_plan(PLANS[name]), make_rows(3000)
    with DuckDB(arrow(rows), threads=1) as engine:
        expected = found(plan, engine)
    shuffled = random.Random(5).sample(rows, len(rows))
    with DuckDB(arrow(shuffled), threads=4) as engine:
        assert found(plan, engine) == expected


@pytest.mark.slow
def test_the_sorting_route_finds_what_the_bits_find(monkeypatch):
    plan, rows = make_plan(PLANS["people, public keys"]), make_rows(1000)
    with DuckDB(arrow(rows)) as engine:
        expected = found(plan, engine)
        monkeypatch.setattr("rangebound.release.sql.contribution_bound._MASKED", 0)
        assert found(plan, engine) == expected


# Of Spark alone.
@pytest.mark.parametrize("value", [10**38, -(10**38), 10**38 - 1])
def test_public_whole_numbers_for_which_an_engine_has_no_type_are_refused(value, tmp_path):
    with duckdb.connect(str(tmp_path / "t.db")) as base:
        base.execute("CREATE TABLE t AS SELECT 'a' AS k, CAST(? AS HUGEINT) AS n", [str(value)])
    place = Place(field="join[0]", path=str(tmp_path / "t.db"), table="t", public=True)
    assert str(value) in public_table(place, None, POSTGRES, "the database").source.sql()
    refused = pytest.raises(PlanError, match=r"join\[0\]: the public column 'n' has a whole number beyond 1e\+38, for")
    with refused if abs(value) == 10**38 else contextlib.nullcontext():
        public_table(place, None, SPARK, "Spark")


@pytest.mark.parametrize("unit", [{}, {"column": "person", "rows": 1_000_000}], ids=["rows", "people"])
def test_no_sum_over_rows_is_held_in_64_bits(unit):
    kinds = [each for each in KINDS if unit or "units" not in each["kind"]]
    plan = make_plan(plan_data([], kinds, unit=unit))
    schema = {"person": Family.INTEGER, "wait": Family.NUMBER, "age": Family.INTEGER}
    found = statements(plan, schema, SALT, source=exp.to_table("t"), dialect=SPARK)
    sums = [tree.this.sql("spark") for each in found for tree in each.tree.find_all(exp.Sum)]
    assert len(sums) >= 5
    assert all(text.endswith("AS DECIMAL(28, 0))") for text in sums), sums
