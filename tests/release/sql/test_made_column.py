import datetime
import math
import random

import pyarrow as pa
import pytest
from sqlglot import exp

from rangebound.errors import PlanError
from rangebound.release.engine.duckdb import DuckDB
from rangebound.release.plan.columns import MadeColumn
from rangebound.release.plan.expressions.former import read_former
from rangebound.release.plan.expressions.functions import FUNCTIONS
from rangebound.release.plan.expressions.nodes import ValueType
from rangebound.release.plan.expressions.reading import read
from rangebound.release.plan.expressions.typed import Known, typed
from rangebound.release.plan.table_schema import Family, check_schema
from rangebound.release.plan.toml import make_plan
from rangebound.release.sql.made_column import COMPILED, made_columns
from rangebound.release.sql.relation import aliased
from rangebound.release.sql.view import view
from tests.release import row_oracle
from tests.release.postgres_tables import on_postgres
from tests.release.sql.test_joined import as_python, rows_of
from tests.thinning import some

LETTERS = {"n": pa.float64(), "i": pa.int64(), "t": pa.string(), "b": pa.bool_(), "d": pa.date32()}
TYPES = {name: LETTERS[name[0]] for name in row_oracle.VALUES}
LONG = pytest.mark.long
PARTS = ("year", "quarter", "month", "week", "day", "weekday")


def made(texts, known=None, clipped=None):
    """Columns of expressions as version 0.2 wrote them, which Python itself reads too, after their way through SQL."""
    return [
        MadeColumn(
            name=f"made {at}", value=typed(read(str(read_former(text))), known or {}), field="columns", clipped=clipped
        )
        for at, text in enumerate(texts)
    ]


def table(rows):
    columns = {"at": pa.array(range(len(rows)), pa.int64())}
    return pa.table(columns | {name: pa.array([row[name] for row in rows], kind) for name, kind in TYPES.items()})


def computed(engine, columns):
    """The values of made columns, row by row, and their families."""
    layers, schema = made_columns(engine.schema(), columns, engine.dialect)
    found = engine.source
    for layer in layers:
        named = [exp.alias_(tree, name, quoted=True) for name, tree in layer.items()]
        found = engine.dialect.apart(exp.select(exp.Star(), *named).from_(aliased(found)))
    names = [exp.column(exp.to_identifier(each.name, quoted=True)) for each in columns]
    statement = exp.select(exp.column("at"), *names).from_(aliased(found))
    families = [schema[each.name] for each in columns]
    ordered = sorted(engine.run(statement), key=lambda row: row[0])
    return [tuple(map(as_python, row[1:], families)) for row in ordered], families


def same(found, expected, family):
    if expected is None or found is None:
        return found is expected or (family is Family.INTEGER and found is None and abs(expected) >= 2.0**53)
    if family in (Family.NUMBER, Family.INTEGER):
        return (float(found) == expected and float(found).hex() == (expected + 0.0).hex()) or found == expected == 0.0
    return type(found) is type(expected) and found == expected


def check(engine, texts, rows):
    columns = made(texts)
    values, families = computed(engine, columns)
    for at, row in enumerate(rows):
        given = row_oracle.seen(row)
        for text, column, found, family in zip(texts, columns, values[at], families, strict=True):
            expected = row_oracle.evaluate(text, given)
            assert same(found, expected, family), (text, row, found, expected)
            if expected is not None and column.value.type is not ValueType.TEXT:
                lower, upper = column.value.range
                days = (expected - row_oracle.EPOCH).days if column.value.type is ValueType.DATE else expected
                assert lower <= days <= upper, (text, column.value.range, expected)
            if family is Family.INTEGER and expected is not None:
                assert float(expected).is_integer(), text


def some_texts(seed, count, depth):
    draw = random.Random(seed)
    return [row_oracle.expression(draw.choice("nnbbtd"), draw.randint(1, depth), draw) for _ in range(count)]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [*some(range(6, 12), of=2), *(pytest.param(x, marks=LONG) for x in range(1000, 1040))])
def test_random_expressions_have_the_values_of_another_evaluator(seed):
    rows = row_oracle.rows(random.Random(seed), 60)
    with DuckDB(table(rows)) as engine:
        check(engine, some_texts(seed, 45, 5), rows)


def every_function(expressions):
    """This many of the fuzzer's expressions, and each function once more."""
    texts = [f"{name}(date({column}))" for name in PARTS for column in ("d1", "d2")]
    texts += [
        f"{name}(number({column}))" for name in ("floor", "ceil", "round", "abs") for column in ("n1", "n2", "i1")
    ]
    texts += [f"(number(n1) {sign} number(n2))" for sign in ("+", "-", "*", "/", "//", "%", "<", "==", "!=")]
    texts += [f"{name}(text(t1), text(t2))" for name in ("starts", "ends", "contains")]
    texts += ["bin(number(n1), 2)", "bin(number(i1), 0, 18, 65)", "clip(number(n1), -1, 1)", "date(text(t2)) + 1"]
    texts += ["min(number(n1), number(n2))", "max(date(d1), date(d2))", "text(date(d1))", "number(t1)", "missing(t1)"]
    texts += ["coalesce(number(n1), 0)", "case((b1 == true), 1, 0)", "text(t1) in ['a', 'é']", "i1 not in [1, 7]"]
    missing = [name for name in FUNCTIONS if name.isidentifier() and not any(f"{name}(" in each for each in texts)]
    assert set(missing) <= {"hour", "in", "not", "and", "or"}, missing
    return [*texts, *some_texts(5, expressions, 4)]


@pytest.mark.slow
def test_a_deep_expression_takes_no_longer_in_postgres_than_its_size(postgres):
    """PostgreSQL would copy every step to all places that read it: 2^25 times at the lowest."""
    deep = "x"
    for _ in range(25):
        deep = f"1 / (1 + {deep})"
    data = column_of(1.0, -1.0)
    with on_postgres(postgres, data, timeout=60.0) as engine, DuckDB(data) as other:
        assert computed(engine, made([deep])) == computed(other, made([deep]))


def test_control_a_wrong_evaluator_is_found(monkeypatch):
    rows = row_oracle.rows(random.Random(0), 30)
    texts = ["round(number(n2))", "number(n1) // 2", "week(date(d2))", "number(t2)"]
    with DuckDB(table(rows)) as engine:
        check(engine, texts, rows)
        wrong = {"round": lambda x: None if x is None else float(round(x)), "number": lambda x: x}
        for name, other in wrong.items():
            with monkeypatch.context() as changed:
                changed.setitem(row_oracle.FUNCTIONS, name, other)
                with pytest.raises((AssertionError, TypeError)):
                    check(engine, texts, rows)


def test_every_function_of_the_language_is_computed_and_no_other():
    assert COMPILED.keys() == FUNCTIONS.keys()


def values(text, table_, known=None, clipped=None):
    with DuckDB(table_) as engine:
        found, families = computed(engine, made([text], known, clipped))
    return [row[0] for row in found], families[0]


def column_of(*given, kind=None):
    return pa.table({"at": list(range(len(given))), "x": pa.array(given, kind)})


def test_a_range_of_the_table_clips_where_it_is_computed_with_and_not_where_it_is_compared():
    known = {"x": Known(type=ValueType.NUMBER, range=(0.0, 10.0), clipped=(0.0, 10.0))}
    data = column_of(-5.0, 3.0, 50.0, math.nan, None)
    assert values("x + 0", data, known)[0] == [0.0, 3.0, 10.0, None, None]
    assert values("x > 20", data, known)[0] == [False, False, True, None, None]
    assert values("x * 2", data, known, clipped=(1.0, 15.0))[0] == [1.0, 6.0, 15.0, None, None]


def test_the_hour_of_a_timestamp_and_of_a_text_that_spells_one():
    times = [datetime.datetime(2025, 1, 31, 23, 59, 59, 999999), datetime.datetime(1, 1, 1), None]
    assert values("hour(x)", column_of(*times, kind=pa.timestamp("us")))[0] == [23, 0, None]
    written = ["2025-01-31 07:30", "2025-01-31T24:00", "2025-01-31", "2025-02-30 10:00", "7", None]
    assert values("hour(x)", column_of(*written))[0] == [7, None, None, None, None, None]


def test_whole_numbers_are_a_column_of_integers_and_can_be_keys():
    assert values("x // 10 * 10", column_of(47.0, -3.0, 1e300)) == ([40, -10, None], Family.INTEGER)
    assert values("x + 1", column_of(1, 2)) == ([2, 3], Family.INTEGER)
    assert values("x + 1", column_of(1.0, 2.0)) == ([2.0, 3.0], Family.NUMBER)
    assert values("x / 2", column_of(1, 2))[1] is Family.NUMBER
    assert values("round(x) % 2", column_of(1.2, 2.0)) == ([1, 0], Family.INTEGER)


@pytest.mark.parametrize("deep", ["x", "1"])
def test_a_deep_expression_stays_a_small_statement(deep):
    whole = (5**0.5 - 1) / 2 if deep == "1" else None
    for _ in range(25):
        deep = f"1 / (1 + {deep})"
    with DuckDB(column_of(1.0, -1.0)) as engine:
        layers, _ = made_columns(engine.schema(), made([deep]), engine.dialect)
        assert sum(len(tree.sql()) for layer in layers for tree in layer.values()) < 20_000
        assert computed(engine, made([deep]))[0] == [(pytest.approx((5**0.5 - 1) / 2),), (pytest.approx(whole),)]


def test_steps_do_not_hide_a_column_of_the_table():
    data = pa.table({"at": [0], "x": [4.0], "rangebound step 0": [7.0]})
    assert values('1 / (x + 1) + column("rangebound step 0")', data)[0] == [7.2]


LATER = "CAST(d2 AS DATE) + i1 > CAST(d1 AS DATE)"


def plan_with_columns():
    """Hidden columns whose texts differ in their case alone, and a text that Spark would replace."""
    columns = {
        "n2": {"range": [-5, 20]},
        "each": {"value": "n1 / n2", "range": [-3, 3]},
        "kind": "CASE WHEN each > 0 THEN 'up' WHEN each <= 0 THEN 'down' ELSE 'none' END",
        "month": "month(d1)",
    }
    keys = {"kind": ["up", "down", "none"], "month": {"numbers": [1, 12]}}
    query = [{"name": "each", "kind": "mean", "column": "each", "by": ["kind"]}]
    for letter in "aA":
        where = f"{LATER} OR t1 = '{letter}' OR t2 = '${{x}}'"
        query.append({"name": letter, "kind": "count", "by": ["month"], "where": where})
    query.append({"name": "share", "kind": "share", "of": "STARTS_WITH(t1, 'a') AND n2 * 2 > 3"})
    data = {"budget": {"epsilon": 1.0}, "unit": {"column": "at"}, "columns": columns}
    return make_plan({**data, "keys": keys, "query": query})


def test_no_step_has_the_name_of_a_column_that_is_made_later():
    made = {"b'\"; --": "(x + 1) / (x - 2)", "rangebound step 0": "x * 3", "Rangebound Step 1": "x * 5"}
    plan = make_plan({"budget": {"epsilon": 1.0}, "columns": made, "query": [{"name": "n", "kind": "count"}]})
    with DuckDB(pa.table({"x": [4.0]})) as engine:
        assert rows_of(plan, engine, *made) == [(2.5, 12.0, 20.0)]


@pytest.mark.parametrize(
    "question",
    [
        {"kind": "sum", "column": "= x", "range": [0, 1]},
        {"kind": "distinct count", "column": "= x"},
        {"kind": "count", "by": ["= x"]},
        {"kind": "count", "where": '"= x" + 1 > 2'},
        {"kind": "count", "weighted_by": {"column": "= x", "range": [0, 1]}},
    ],
)
def test_a_column_with_a_name_like_that_of_an_expression_is_refused(question):
    """It would be taken for the column that an expression makes, and the statement would fail behind the charge."""
    plan = make_plan({"budget": {"epsilon": 1.0, "delta": 1e-6}, "query": [{"name": "q", **question}]})
    with DuckDB(pa.table({"= x": [1, 2], "x": [True, False]})) as engine, pytest.raises(PlanError, match="rename it"):
        check_schema(plan, view(plan, engine).schema)
