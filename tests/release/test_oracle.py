"""Every answer against an oracle that somebody else wrote: NumPy, pandas and SQLite, with the noise gone.

For every kind, engine and source: random tables whose values lie on the edges of bins, are tied, missing, not a number,
infinite or beyond 2^53; with and without owners, contribution bounds, filters and groups. The oracles know nothing of
our fixed point, our SQL or our coordinates. An epsilon so large that the noise is gone leaves the rounding: of values
to 2^-30 of their range, and of true answers to 2^-20 of what one unit can change.
"""

import bisect
import datetime
import decimal
import math
import operator
import random
import re
import sqlite3
from dataclasses import replace
from fractions import Fraction

import duckdb
import numpy as np
import pandas
import pyarrow as pa
import pytest
from sqlglot import exp
from statsmodels.datasets import modechoice

from rangebound.errors import PlanError
from rangebound.release.engine.duckdb import DuckDB
from rangebound.release.engine.spark import Spark
from rangebound.release.plan.kinds.facts import FormName
from rangebound.release.plan.kinds.kind import Kind
from rangebound.release.plan.measure import ONE
from rangebound.release.plan.source import Source
from rangebound.release.plan.table_schema import check_schema
from rangebound.release.plan.toml import make_plan
from rangebound.release.prepare import answers
from rangebound.release.sql import expression, measured
from rangebound.release.sql.aggregate import aggregate
from tests.release.plans import SALT, prepared_with
from tests.release.sources import SOURCES, in_arrow, place_of

BIG = 2**60
TYPES = {
    "who": (pa.int64(), "bigint"),
    "place": (pa.string(), "string"),
    "age": (pa.int32(), "int"),
    "hour": (pa.float64(), "double"),
    "part": (pa.float64(), "double"),
    "single": (pa.float32(), "float"),
    "big": (pa.int64(), "bigint"),
    "money": (pa.decimal128(12, 2), "decimal(12,2)"),
    "fine": (pa.decimal128(38, 18), "decimal(38,18)"),
    "ok": (pa.bool_(), "boolean"),
    "day": (pa.date32(), "date"),
    "seen": (pa.timestamp("us"), "timestamp_ntz"),
}
PLACES = ["a", "b", "c", "nobody is here"]
FIRST, LAST = datetime.date(2024, 2, 1), datetime.date(2024, 3, 31)


def make_rows(seed, count):
    """A random table: whole values, values on edges and one double off them, ties, and all that counts as missing."""
    chance = random.Random(seed)
    pick = chance.choice
    odd = [None, math.nan, math.inf, -math.inf, -1e300, 1e300, -0.0]

    def near(value):
        return pick([value, value, value, math.nextafter(value, -math.inf), math.nextafter(value, math.inf)])

    def row():
        day = FIRST + datetime.timedelta(days=chance.randint(-9, 70))
        return {
            "who": pick([None, *range(1, 9), -3, 2**62]),
            "place": pick(["a", "a", "b", "c", "elsewhere", None]),
            "age": pick([None, -40, 200, *range(0, 101, 5), chance.randint(0, 100)]),
            "hour": pick([*odd, near(float(chance.randint(0, 24))), near(float(chance.randint(0, 24))), 24.5]),
            "part": pick(
                [*odd, near(chance.randint(-10, 10) / 10), near(chance.randint(-10, 10) / 10), chance.random()]
            ),
            "single": pick([None, math.nan, float(np.float32(chance.randint(0, 10) / 10))]),
            "big": pick([None, BIG + chance.randint(-300, 300), BIG + 2**22 * chance.randint(-1, 9), 0, 2**63 - 1]),
            "money": pick([None, decimal.Decimal(chance.randint(-50, 1050)) / 10, decimal.Decimal("99999999.99")]),
            "fine": pick([None, decimal.Decimal(chance.randint(0, 10)) / 10, decimal.Decimal("0.123456789012345678")]),
            "ok": pick([None, True, False]),
            "day": pick([None, day, FIRST, LAST]),
            "seen": pick([None, datetime.datetime.combine(day, datetime.time(23, 59, 59, 999999))]),
        }

    return [row() for _ in range(count)]


# Every column with its range, the edges of its bins in plain sight, and the step of its grid.
TENTHS = [-1.0, -0.9, -0.8, -0.7, -0.6, -0.5, -0.4, -0.3, -0.2, -0.1, 0.0]
COLUMNS = {
    "age": {"range": [0, 100], "edges": list(range(0, 101, 5)), "step": 2.0},
    "hour": {"range": [0, 24], "edges": list(range(25)), "step": 0.5},
    "part": {"range": [-1.0, 0.0], "edges": TENTHS, "step": 0.1},
    "single": {"range": [0, 1], "edges": [0.0, 0.25, 0.5, 0.75, 1.0], "step": 0.01},
    "big": {"range": [BIG, BIG + 2**25], "edges": [BIG + 2**22 * at for at in range(9)], "step": 2.0**15},
    "money": {"range": [0, 100], "edges": [each / 10 for each in range(0, 1001, 125)], "step": 0.1},
    "fine": {"range": [0, 1], "edges": [each / 10 for each in range(11)], "step": 0.05},
    "ok": {"range": [0, 1], "edges": [0.0, 0.5, 1.0], "step": 1.0},
    "day": {"range": [FIRST, LAST], "edges": [19754, 19764, 19774, 19784, 19794, 19804, 19813], "step": 1.0},
    "seen": {"range": [FIRST, LAST], "edges": [19754, 19764, 19774, 19784, 19794, 19804, 19813], "step": 7.0},
}
WHERES = [
    ("age >= 20", {"column": "age", "is": ">=", "value": 20}),
    ("part < 0.3", {"column": "part", "is": "<", "value": 0.3}),
    ("part <= -0.7", {"column": "part", "is": "<=", "value": -0.7}),
    (f"big >= {BIG + 256}", {"column": "big", "is": ">=", "value": BIG + 256}),
    (f"big <> {BIG}", {"column": "big", "is": "!=", "value": BIG}),
    (f"big in ({BIG}, {BIG + 2**23})", {"column": "big", "is": "in", "value": [BIG, BIG + 2**23]}),
    ("money > 12.5", {"column": "money", "is": ">", "value": 12.5}),
    ("fine <= 0.3", {"column": "fine", "is": "<=", "value": 0.3}),
    ("ok = 1", {"column": "ok", "is": "==", "value": True}),
    ("ok <> 1", {"column": "ok", "is": "!=", "value": True}),
    ("day < '2024-02-29'", {"column": "day", "is": "<", "value": datetime.date(2024, 2, 29)}),
    ("date(seen) = '2024-02-29'", {"column": "seen", "is": "==", "value": datetime.date(2024, 2, 29)}),
    ("place in ('a', 'c')", {"column": "place", "is": "in", "value": ["a", "c"]}),
    ("place is not null", {"column": "place", "is": "present"}),
]
LEVELS = (0.1, 0.25, 0.5, 0.9)


def questions(column, missing):
    facts = COLUMNS[column]
    about = {"column": column, "range": facts["range"], **({} if missing is None else {"missing": missing})}
    rank = {**about, "step": facts["step"], "interval_share": 0.0}
    return [
        {"kind": "sum", **about},
        {"kind": "mean", **about},
        {"kind": "variance", **about},
        {"kind": "standard deviation", **about},
        {"kind": "quantiles", **rank, "levels": list(LEVELS)},
        {"kind": "median", **rank},
        {"kind": "minimum", **rank},
        {"kind": "maximum", **rank},
        {"kind": "central range", **rank, "share": 0.75},
        {"kind": "histogram", **about, "bins": len(facts["edges"]) - 1},
    ]


UNITS = {
    "rows": {},
    "people": {"column": "who", "rows": 200, "groups": 4},
    "people of two rows": {"column": "who", "rows": 2, "groups": 4},
    "replaced": {"column": "who", "rows": 3, "groups": 4, "neighbours": "replace", "size": 10},
    "public size": {"neighbours": "replace", "size": 0},
}


def make(unit, by, where, count, columns, missing, chance, part):
    """A plan with every kind that asks about rows, and a part of those about columns; some with a filter too."""
    unit = {**UNITS[unit], **({"size": max(count, 1)} if "size" in UNITS[unit] else {})}
    kinds = [{"kind": "count"}, *([{"kind": "count of units"}] if "column" in unit else [])]
    kinds += [{"kind": "share", "of": [condition]} for _, condition in WHERES[::3]]
    kinds += [each for column in columns for each in questions(column, missing) if chance.random() < part]
    if where is not None:
        kinds = [{**each, "where": [where]} if at % 2 else each for at, each in enumerate(kinds)]
    queries = [{**each, "name": str(at), "by": by} for at, each in enumerate(kinds)]
    keys = {"keys": {"place": PLACES}} if by else {}
    return make_plan({"unit": unit, "budget": {"epsilon": 1.0}, "query": queries, **keys})


def published(plan, engine):
    """What is published for every question and key, with so large an epsilon that the noise is gone."""
    check_schema(plan, engine.schema())
    # The e^epsilon of a number with one coordinate, such as a count or a sum, must be a double.
    ready = prepared_with(plan, lambda each, _: {"epsilon": 500.0 if each.form is FormName.SCALAR else 1e9})
    result, exact = {}, {}
    for block in aggregate(plan, engine, SALT):
        for cell in answers(ready, block):
            result.setdefault((cell.question, cell.key), []).append(cell.value)
        for index, each in block.answers.items():
            exact.update({(index, key): each[key] for key in block.keys})
    return result, exact


class Oracle:
    def __init__(self, rows, unit):
        self.unit = unit
        self.frame = frame = pandas.DataFrame(rows, columns=list(TYPES), dtype=object)
        for name in ("age", "hour", "part", "single", "money", "fine", "ok"):
            numbers = pandas.to_numeric(frame[name].map(lambda each: None if each is None else float(each)))
            frame[name] = numbers.replace([math.inf, -math.inf], math.nan)
        for name in ("day", "seen"):
            frame[name] = (pandas.to_datetime(frame[name]).dt.floor("D") - pandas.Timestamp(0)).dt.days
        self.base = sqlite3.connect(":memory:")
        self.base.execute(f"CREATE TABLE t (at INTEGER, {', '.join(TYPES)})")
        holes = ", ".join("?" * (len(TYPES) + 1))
        self.base.executemany(
            f"INSERT INTO t VALUES ({holes})", [(at, *map(plain, row.values())) for at, row in enumerate(rows)]
        )

    def met(self, words):
        chosen = {at for (at,) in self.base.execute(f"SELECT at FROM t WHERE {words}")}
        return np.array([at in chosen for at in range(len(self.frame))], dtype=bool)

    def rows(self, key, words, column=None, missing=None):
        """The rows that count, each with its weight: those of an owner of too many are averaged."""
        frame = self.frame
        kept = np.ones(len(frame), dtype=bool)
        if self.unit.column is not None:
            kept &= frame["who"].notna().to_numpy()
        if key:
            kept &= (frame["place"] == key[0]).to_numpy()
        if words:
            kept &= self.met(words)
        if column is not None:
            values = frame[column] if missing is None else frame[column].fillna(missing)
            kept &= values.notna().to_numpy()
            frame = frame.assign(value=values)
        frame = frame[kept]
        if self.unit.column is None:
            return frame.assign(weight=1.0)
        sizes = frame.groupby("who")["who"].transform("size").astype(float)
        return frame.assign(weight=np.minimum(sizes, self.unit.rows) / sizes if len(frame) else 1.0)


def plain(value):
    """A value for SQLite; infinities are missing."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, decimal.Decimal):
        return float(value)
    return (
        value.isoformat(" ")
        if isinstance(value, datetime.datetime)
        else str(value)
        if isinstance(value, datetime.date)
        else value
    )


def in_sql(conditions):
    """Conditions of a plan as the SQL that stands beside them above."""

    def same(data, each):
        value = data.get("value")
        value = tuple(value) if isinstance(value, list) else value
        return (data["column"], data["is"], value) == (each.column, each.comparison.value, each.value)

    return " AND ".join(next(words for words, data in WHERES if same(data, each)) for each in conditions)


def check(plan, engine, rows):
    """Compare every number with the oracle; the number of comparisons."""
    found, exact = published(plan, engine)
    oracle, compared = Oracle(rows, plan.unit), 0
    for (index, key), numbers in found.items():
        question = plan.query[index]
        words = in_sql(question.where)
        place = (question.kind, getattr(question, "column", ""), key, words)
        column, missing = getattr(question, "column", None), getattr(question, "missing", None)
        frame = oracle.rows(key, words, column, missing)
        weight = frame["weight"].to_numpy(dtype=float)
        total = weight.sum()
        if question.kind == "count":
            assert float(exact[index, key][0]) == pytest.approx(total, abs=1e-9), place
            assert numbers == [pytest.approx(total, abs=60 * plan.unit.rows / 500.0)], place
        elif question.kind == "count of units":
            assert numbers == [frame["who"].nunique()], place
        elif question.kind == "share":
            if total:
                true = np.average(oracle.met(in_sql(question.of))[frame.index], weights=weight)
                assert numbers == [pytest.approx(true, abs=1e-5)], place
        else:
            values = frame["value"].tolist()
            check_column(question, plan.unit, numbers, exact[index, key], values, weight, place)
        compared += len(numbers)
    return compared


def check_column(question, unit, numbers, coordinates, values, weight, place):
    lower, upper = question.bounds.lower, question.bounds.upper
    width, total = upper - lower, weight.sum()
    inside = [
        min(max(each, int(lower) if isinstance(each, int) else lower), int(upper) if isinstance(each, int) else upper)
        for each in values
    ]
    clipped = np.array([float(each) - lower for each in inside])  # from the lower end, so that large ones lose nothing
    small = width * (2.0**-28 + unit.rows * 2.0**-16 / max(total, 1.0)) + abs(lower) * 2.0**-52
    kind = question.kind
    if kind == "sum":
        true = float((clipped * weight).sum()) + lower * total
        assert float(coordinates[0]) == pytest.approx(true, abs=width * 2.0**-28 * (total + 1) + abs(true) * 1e-12), (
            place
        )
        scale = unit.rows * max(abs(lower), abs(upper), width) / 500.0
        assert numbers == [pytest.approx(true, abs=60 * scale)], place  # 60 scales of Laplace noise: a chance of e^-60
    elif kind == "histogram":
        edges = COLUMNS[question.column]["edges"]
        if isinstance(edges[0], int):  # Python compares whole numbers of any size exactly, NumPy only doubles
            true = np.zeros(len(edges) - 1)
            for each, part in zip(inside, weight, strict=True):
                true[min(bisect.bisect_right(edges, each), len(edges) - 1) - 1] += part
        if not isinstance(edges[0], int) or abs(edges[0]) < 2**53:
            counted, _ = np.histogram(np.array(inside, dtype=float), bins=np.array(edges, dtype=float), weights=weight)
            if isinstance(edges[0], int):
                assert counted == pytest.approx(true)
            true = counted
        assert np.abs(np.array(numbers) - true).max() <= 0.5 + 1e-6, place
        if unit.rows >= 200 or unit.column is None:
            assert numbers == true.tolist(), place
    elif not total:
        assert all(lower <= each <= upper for each in numbers) or kind in ("variance", "standard deviation"), place
    elif kind == "mean":
        assert numbers == [pytest.approx(np.average(clipped, weights=weight) + lower, abs=small)], place
    elif kind in ("variance", "standard deviation"):
        mean = np.average(clipped, weights=weight)
        true = max(
            np.average((clipped - mean) ** 2, weights=weight),
            question.natural.lower ** (1 if kind == "variance" else 2),
        )
        assert [each ** (1 if kind == "variance" else 2) for each in numbers] == [
            pytest.approx(true, abs=4 * small * width, rel=1e-9)
        ], place
    else:
        half = float(question.exact_step) / 2 * (1 + 1e-9) + abs(lower) * 2.0**-52
        order = np.argsort(clipped, kind="stable")
        sums = np.cumsum(weight[order])
        for level, number in zip(question.asked, numbers, strict=True):
            least = np.quantile(clipped, level, method="inverted_cdf", weights=weight) + lower
            beyond = np.searchsorted(sums, level * total * (1 + 1e-9) + 1e-9, side="right")
            most = clipped[order][min(beyond, len(order) - 1)] + lower
            least = min(least, clipped[order][np.searchsorted(sums, level * total * (1 - 1e-9) - 1e-9)] + lower)
            last = question.points[-1]
            assert min(least, last) - half <= number <= min(most, last) + half, (place, level, least, most)


def sweep(source, seeds, counts, there, *, columns=2, part=0.4):
    """Random tables with all units, with and without groups and filters; the number of numbers compared.

    Of the kinds that ask about a column a random `part` is asked, and of those that ask about rows all.
    """
    compared, names = 0, list(COLUMNS)
    for at, seed in enumerate(seeds):
        for place, unit in enumerate(UNITS):
            chance = random.Random(f"{seed} {unit}")
            # A size that is stated must be true, and there is no size of 0.
            count = max(counts[(at + place) % len(counts)], 1 if unit == "public size" else 0)
            rows = make_rows(f"{seed} {unit}", count)
            asked = [names[(columns * (len(UNITS) * at + place) + each) % len(names)] for each in range(columns)]
            missing = None if {"day", "seen"} & set(asked) else chance.choice([None, None, 0.5])
            _, where = chance.choice([("", None), *WHERES])
            plan = make(unit, chance.choice([[], ["place"]]), where, count, asked, missing, chance, part)
            with SOURCES[source](rows, TYPES, there) as engine:
                compared += check(plan, engine, nearest(rows) if source == "csv" else rows)
    return compared


def nearest(rows):
    """The rows as a CSV file holds them: every number is the nearest double."""
    return [{**row, "big": None if row["big"] is None else float(row["big"])} for row in rows]


SPARK = pytest.param("spark", marks=pytest.mark.slow)


@pytest.mark.claim("answer")
@pytest.mark.parametrize(
    "source", [pytest.param(source, marks=[pytest.mark.slow] * (source != "arrow")) for source in SOURCES]
)
def test_every_answer_is_that_of_the_oracle(source, request):
    first = 2 * list(SOURCES).index(source)  # other tables for every source
    assert sweep(source, range(first, first + 1), [120, 1, 40, 0, 80], place_of(source, request)) > 100


@pytest.mark.long
@pytest.mark.parametrize(
    ("source", "plans", "least"),
    [*((source, 40, 20_000) for source in list(SOURCES)[:5]), ("postgres", 20, 10_000), ("spark", 5, 1000)],
)
def test_two_hundred_plans_are_answered_as_by_the_oracle(source, plans, least, request):
    there = place_of(source, request)
    compared = sweep(source, range(100, 100 + plans), [300, 1, 40, 0, 90], there, columns=3, part=0.7)
    print(f"{source}: {compared} numbers compared")
    assert compared > least


@pytest.mark.few(4)
@pytest.mark.parametrize(("words", "condition"), WHERES, ids=[words for words, _ in WHERES])
def test_conditions_choose_the_rows_that_sqlite_chooses(words, condition, tmp_path):
    rows = make_rows(words, 300)
    plan = make_plan({"budget": {"epsilon": 1.0}, "query": [{"name": "n", "kind": "count", "where": [condition]}]})
    true = int(Oracle(rows, plan.unit).met(words).sum())
    assert 0 < true < 300
    for source in ("arrow", "csv"):
        if source == "csv":
            true = int(Oracle(nearest(rows), plan.unit).met(words).sum())
        with SOURCES[source](rows, TYPES, tmp_path) as engine:
            check_schema(plan, engine.schema())
            (found,) = aggregate(plan, engine, SALT)
            assert found.answers[0][()] == (true,), source


def counted_in_bins(data, question):
    plan = make_plan({"budget": {"epsilon": 1.0}, "query": [{"name": "n", "kind": "histogram", **question}]})
    with data if hasattr(data, "dialect") else DuckDB(data, threads=1) as engine:
        (found,) = aggregate(plan, engine, SALT)
        return [int(each) for each in found.answers[0][()]]


HOURS = {"column": "hour", "range": [0, 24], "bins": 24}


@pytest.mark.parametrize(
    ("lower", "upper", "bins"), [(0.0, 0.7, 7), (-0.3, 0.3, 6), (0.1, 1.3, 12), (-1e-3, 1e-3, 1000)]
)
def test_an_edge_and_the_doubles_beside_it_are_told_apart(lower, upper, bins):
    edges = [
        float(decimal.Decimal(repr(lower)) + (decimal.Decimal(repr(upper)) - decimal.Decimal(repr(lower))) * at / bins)
        for at in range(bins + 1)
    ]
    values = [near for edge in edges for near in (math.nextafter(edge, -9), edge, math.nextafter(edge, 9))]
    true = [3] * bins
    true[0] += 1  # below the range
    true[-1] += 2  # the upper end and what is above
    found = counted_in_bins(pa.table({"x": values}), {"column": "x", "range": [lower, upper], "bins": bins})
    assert found == true == np.histogram(np.clip(values, lower, upper), bins=edges)[0].tolist()


@pytest.mark.parametrize("kind", [pa.float64(), pa.int64(), pa.decimal128(22, 3), SPARK], ids=str)
def test_bins_of_unequal_width_are_those_of_numpy(kind, request):
    edges = [0, 18, 19, 65, 120]
    values = [*range(-3, 130), 18, 18, 65, 120, 120]
    if kind in (pa.float64(), "spark"):
        values += [near for edge in edges for near in (math.nextafter(edge, -9), math.nextafter(edge, 999))]
    true = np.histogram(np.clip(values, 0, 120), bins=edges)[0].tolist()
    for question in ({"bins": edges}, {"bins": edges, "range": [0, 120], "bin_names": list("abcd")}):
        if kind == "spark":
            rows = [(float(each),) for each in values]
            data = Spark(request.getfixturevalue("spark").createDataFrame(rows, "x double"))
        else:
            data = pa.table({"x": pa.array(values).cast(kind)})
        assert counted_in_bins(data, {"column": "x", **question}) == true


def test_unequal_bins_of_whole_numbers_and_of_days_are_decided_on_the_value():
    big = 2**60
    values = [0, 1, big - 1, big, big + 1, big + 2**20, big + 2**20 + 1, None]
    question = {"column": "x", "bins": [-1.5, 0.5, big, big + 2**20]}
    assert counted_in_bins(pa.table({"x": values}), question) == [1, 2, 4]
    days = [datetime.date(2025, 1, day) for day in range(1, 32)]
    question = {"column": "x", "bins": [days[0], days[6], days[30]]}
    assert counted_in_bins(pa.table({"x": days}), question) == [6, 25]
    many = [float(at * at) for at in range(1001)]
    found = counted_in_bins(pa.table({"x": [each + 0.25 for each in many]}), {"column": "x", "bins": many})
    assert found == [*[1] * 999, 2]


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ({"bins": [0, 1]}, "bins=[0, 1]: must have three edges or more"),
        ({"bins": [5]}, "bins=[5]: must be a list of 2 to 1001 edges"),
        ({"bins": [2, 1, 0]}, "bins=[2, 1, 0]: the edges must rise"),
        ({"bins": [0, 1, 2], "range": [0, 3]}, "range: must be from the first to the last edge"),
        ({"bins": [0, 1, 2], "bin_names": ["a"]}, "bin_names: must be 2, one for each bin"),
        ({"bins": 2, "range": [0, 1], "bin_names": ["a", "a"]}, "bin_names: two bins have the same name"),
        ({"bins": 1, "range": [0, 1]}, "bins=1: must be greater than or equal to 2"),
        ({"bins": "3", "range": [0, 1]}, "bins='3': must be a whole number, without quotation marks"),
        ({"bins": [0, "a", 3]}, "bins[1]='a': must be a number"),
    ],
)
def test_wrong_bins_are_refused_with_their_field(question, words):
    with pytest.raises(PlanError, match=re.escape(words)):
        counted_in_bins(pa.table({"x": [1]}), {"column": "x", **question})


def test_bins_of_days_are_named_by_the_days_that_they_have():
    days = [datetime.date(2025, 1, 1) + datetime.timedelta(days=at) for at in range(31)]
    question = {"column": "day", "range": [days[0], days[-1]], "bins": 7}
    plan = make_plan({"budget": {"epsilon": 1.0}, "query": [{"name": "n", "kind": "histogram", **question}]})
    found = counted_in_bins(pa.table({"day": days}), question)
    for at, (name, count) in enumerate(zip(plan.query[0].parts, found, strict=True)):
        first, last = map(datetime.date.fromisoformat, name.split(" to "))
        assert count == sum(first <= day < last or (at == 6 and day == last) for day in days)
    with pytest.raises(PlanError, match="bins: must be at most 30, so that each has a day"):
        make_plan(
            plan.model_dump(by_alias=True, exclude_none=True)
            | {"query": [{**question, "name": "n", "kind": "histogram", "bins": 31}]}
        )


def test_whole_numbers_beyond_the_doubles_are_counted_as_whole_numbers():
    values = [BIG + 2**22 * at + off for at in range(9) for off in (-1, 0, 1)]
    question = {"column": "x", "range": [BIG, BIG + 2**25], "bins": 8}
    assert float(values[0]) == float(values[2])  # control: as doubles they are all the same
    for kind in (pa.int64(), pa.uint64()):
        assert counted_in_bins(pa.table({"x": pa.array(values, kind)}), question) == [4, 3, 3, 3, 3, 3, 3, 5]
    with pytest.raises(PlanError, match="a double holds exactly"):
        counted_in_bins(pa.table({"x": values}), {**question, "range": [0, BIG + 1]})


SIGNS = {"==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
LARGE = [2.0**53, 2.0**53 + 2, 2.0**60, 2.0**63, 2.0**64, -(2.0**53), -(2.0**53) - 2, -(2.0**63), 1e30, 2.0**115, 1e40]
SMALL = [0.0, 0.5, -0.5, 7.0, 2.0**52 + 0.5, 2.0**53 - 1]
MIXED = [[each, 0.5, 7.0] for each in LARGE] + [
    [2.0**53, 2.0**115, 1e30, 1e40, -0.5],
    [2.0**52 + 0.5, -(2.0**63)],
    SMALL,
]
WHOLE_NUMBERS = [at + off for at in map(int, LARGE + SMALL) if abs(at) <= 2**63 for off in (-2, -1, 0, 1, 2)]
WHOLE_NUMBERS = [None, *(each for each in WHOLE_NUMBERS if -(2**63) <= each < 2**63)]


WHOLE = {"int64": WHOLE_NUMBERS, "spark": WHOLE_NUMBERS}
WHOLE["uint64"] = [None if each is None or each < 0 else each + 2**63 for each in WHOLE_NUMBERS]
WHOLE["hugeint"] = [None if each is None else each * 2**62 + 1 for each in WHOLE_NUMBERS]
SLOW = [pytest.param(kind, marks=pytest.mark.slow) for kind in ("uint64", "hugeint", "spark")]
TYPED = pytest.mark.parametrize("kind", ["int64", *SLOW])


@pytest.fixture
def whole_numbers(kind, request, tmp_path):
    """The whole numbers in every engine, and in every type that has this many."""
    values = WHOLE[kind]
    if kind == "spark":
        return Spark(request.getfixturevalue("spark").createDataFrame([(each,) for each in values], "x bigint"))
    if kind != "hugeint":
        return DuckDB(pa.table({"x": pa.array(values, kind)}), threads=1)
    path = str(tmp_path / "huge.duckdb")
    with duckdb.connect(path) as made:
        made.execute("CREATE TABLE t (x HUGEINT)")
        made.executemany("INSERT INTO t VALUES (CAST(? AS HUGEINT))", [[each and str(each)] for each in values])
    return DuckDB(Source(path=path, table="t"))


def exact_counts(data, queries):
    plan = make_plan({"budget": {"epsilon": 1.0}, "query": queries})
    with data if hasattr(data, "dialect") else DuckDB(data, threads=1) as engine:
        check_schema(plan, engine.schema())
        found = {index: each[()] for block in aggregate(plan, engine, SALT) for index, each in block.answers.items()}
    return [found[index] for index in range(len(plan.query))]


@pytest.mark.claim("answer")
@TYPED
def test_conditions_on_whole_numbers_are_decided_as_python_decides_them(kind, whole_numbers):
    conditions = [(sign, each) for sign in SIGNS for each in LARGE + SMALL]
    conditions += [(sign, each) for sign in ("in", "not in") for each in MIXED]
    queries = [
        {"name": f"{at}", "kind": "count", "where": [{"column": "x", "is": sign, "value": value}]}
        for at, (sign, value) in enumerate(conditions)
    ]
    there = [each for each in WHOLE[kind] if each is not None]
    for (sign, value), (count,) in zip(conditions, exact_counts(whole_numbers, queries), strict=True):
        if isinstance(value, list):
            true = sum((each in set(map(Fraction, value))) == (sign == "in") for each in there)
        else:
            true = sum(SIGNS[sign](each, Fraction(value)) for each in there)
        assert count == true, (sign, value)


@TYPED
def test_values_outside_a_range_of_whole_numbers_are_counted_as_python_counts_them(kind, whole_numbers):
    ranges = [(-(2.0**53), 2.0**53), (0.5, 2.0**60), (-(2.0**63), 0.5), (2.0**53, 2.0**54)]
    ranges += [(-(2.0**53) - 2, 1e40), (0, 9)]
    queries = [{"name": f"{at}", "kind": "mean", "column": "x", "range": each} for at, each in enumerate(ranges)]
    plan = make_plan({"budget": {"epsilon": 1.0}, "query": queries, "report_clipping": True})
    with whole_numbers as engine:
        (block,) = aggregate(plan, engine, SALT)
    for at, (lower, upper) in enumerate(ranges):
        out = [not Fraction(lower) <= each <= Fraction(upper) for each in WHOLE[kind] if each is not None]
        assert block.answers[len(ranges) + at][()] == (out.count(False), out.count(True)), (lower, upper)


@pytest.mark.parametrize("lower", [-(2**54), -(2**53) - 2**14, 0])
def test_an_edge_at_the_first_whole_number_that_has_no_double_is_exact(lower):
    edge = -(2**53) if lower else 2**53
    values = [edge + off for off in (-1, 0, 1)]
    found = counted_in_bins(pa.table({"x": values}), {"column": "x", "range": [lower, 2 * edge - lower], "bins": 2})
    assert found == [1, 2]


@pytest.mark.parametrize("value", [2.0**126, -(2.0**127), 1e38])
def test_a_number_that_not_every_engine_can_compare_with_whole_numbers_is_refused(value):
    for condition in ({"is": "<", "value": value}, {"is": "in", "value": [1.0, value]}):
        query = {"name": "n", "kind": "count", "where": [{"column": "x", **condition}]}
        with pytest.raises(PlanError, match=r"where.*between 2\^126 and 2\^127"):
            exact_counts(pa.table({"x": [1, 2]}), [query])
        exact_counts(pa.table({"x": [1.0, 2.0]}), [query])  # doubles are compared as they are
    question = {"name": "n", "kind": "mean", "column": "x", "range": sorted([0.0, value])}
    with pytest.raises(PlanError, match=r"range.*between 2\^126 and 2\^127"):
        exact_counts(pa.table({"x": [1, 2]}), [question])


def test_a_type_of_128_bits_without_a_sign_is_a_name_and_no_number(tmp_path):
    path = str(tmp_path / "ids.duckdb")
    ids = [2**128 - 1, 2**127, 5, None]
    with duckdb.connect(path) as made:
        made.execute("CREATE TABLE t (x UHUGEINT)")
        made.executemany("INSERT INTO t VALUES (CAST(? AS UHUGEINT))", [[each and str(each)] for each in ids])
    source = Source(path=path, table="t")
    with pytest.raises(PlanError, match="does not serve for numbers"):
        exact_counts(DuckDB(source), [{"name": "n", "kind": "mean", "column": "x", "range": [0, 1]}])
    query = {"name": "n", "kind": "count", "where": [{"column": "x", "is": "<", "value": -(2.0**53)}]}
    with pytest.raises(PlanError, match="does not serve"):  # one large id would stop it
        exact_counts(DuckDB(source), [query])
    named = {"column": "x", "is": "in", "value": [str(2**128 - 1), "5"]}
    assert exact_counts(DuckDB(source), [{**query, "where": [named]}]) == [(2,)]


NUMERALS = ["1.0", "2", " 2.00 ", "03", "3e0", "+1", "1.5", "-0", "x", "", "1e300", "-1e999", "nan", "9" * 400, "1 2"]
SPELLED = {
    "whole": ([*NUMERALS, "9007199254740993"], {1: 2, 2: 2, 3: 2, 0: 1}),
    "long": (["9007199254740993", "9007199254740992.0", "9007199254740992", "7.0"], {9007199254740993: 1, 7: 1}),
    "day": (
        ["2025-01-31", "2025-01-31 10:00", "2025-01-31T10:00:59", "2025-1-31", "2025-02-30", "x"],
        {datetime.date(2025, 1, 31): 3},
    ),
    "truth": (["true", "TRUE", " False", "no", "1", "maybe", "2"], {True: 3, False: 2}),
    "text": (["1.0", "1", "01", "x"], {"1": 1, "x": 1}),
}
"""Texts, and how many of them are each key."""


@pytest.mark.few(5)
@pytest.mark.parametrize("name", SPELLED)
@pytest.mark.parametrize("source", ["csv", "arrow", SPARK])
def test_keys_are_what_the_plan_means_however_a_text_spells_them(name, source, request):
    texts, meant = SPELLED[name]
    query = [{"name": "n", "kind": "count", "by": ["k"]}]
    plan = make_plan({"budget": {"epsilon": 1.0}, "keys": {"k": list(meant)}, "query": query})
    rows, types = [{"k": each} for each in texts], {"k": (pa.string(), "string")}
    with SOURCES[source](rows, types, place_of(source, request)) as engine:
        (block,) = aggregate(plan, engine, SALT)
    assert [int(block.answers[0][key][0]) for key in block.keys] == list(meant.values())


def test_whole_numbers_that_pandas_wrote_as_floats_are_counted_as_pandas_counts_them(tmp_path):
    trips = modechoice.load_pandas().data  # mode is 1.0 to 4.0
    trips.to_csv(tmp_path / "trips.csv", index=False)
    queries = [
        {"name": "n", "kind": "count", "by": ["mode"]},
        {"name": "cost", "kind": "sum", "column": "invc", "range": [0, 200], "by": ["mode"]},
        {"name": "taken", "kind": "share", "of": [{"column": "choice", "is": "==", "value": 1}], "by": ["mode"]},
    ]
    unit = {"column": "individual", "groups": 4}
    plan = make_plan({"unit": unit, "budget": {"epsilon": 1.0}, "keys": {"mode": [1, 2, 3, 4]}, "query": queries})
    with DuckDB(Source(path=str(tmp_path / "trips.csv"))) as engine:
        (block,) = aggregate(plan, engine, SALT)
    for key, group in trips.groupby("mode"):
        count, cost, taken = (block.answers[index][f"{key:g}",] for index in range(3))
        assert count == (len(group),)
        assert float(cost[0]) == pytest.approx(group["invc"].sum(), abs=1e-4)
        assert taken == ((group["choice"] != 1).sum(), (group["choice"] == 1).sum())


def test_floats_of_a_csv_file_keep_all_their_digits(tmp_path):
    chance = random.Random(3)
    values = [chance.random() for _ in range(500)]
    assert sum(len(repr(each)) > 17 for each in values) > 300
    (tmp_path / "t.csv").write_text("x\n" + "".join(f"{each!r}\n" for each in values))
    found = counted_in_bins(DuckDB(Source(path=str(tmp_path / "t.csv"))), {"column": "x", "range": [0, 1], "bins": 10})
    assert found == np.histogram(values, bins=10, range=(0, 1))[0].tolist()


def test_a_grid_has_tidy_points_and_every_value_its_nearest_one():
    question = {"name": "q", "kind": "quantiles", "column": "x", "range": [0, 0.7], "step": 0.1, "levels": [0.5]}
    plan = make_plan({"budget": {"epsilon": 1.0}, "query": [question]})
    assert plan.query[0].points == (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7)
    values = [-1.0, 0.04, 0.05, 0.15, math.nextafter(0.25, 0), 0.25, 0.65, 0.7, 9.0]
    with DuckDB(pa.table({"x": values}), threads=1) as engine:
        (found,) = aggregate(plan, engine, SALT)
    assert [int(each) for each in found.answers[0][()]] == [2, 1, 2, 1, 0, 0, 0, 3]


# Controls: rules that are wrong, which the oracle must catch.
def _by_fixed_point(places, x, number, dialect):
    """The rule of version 0.1: by a value rounded to 2^-30 of its range."""
    bins = len(places.borders) + 1
    at = exp.Mul(this=measured.fixed_point(places.values, x), expression=expression.integer(bins))
    at = exp.IntDiv(this=exp.Paren(this=at), expression=expression.integer(ONE))
    return exp.Least(this=at, expressions=[expression.integer(bins - 1)])


def test_control_bins_by_rounded_values_are_caught(monkeypatch, tmp_path):
    hours = pa.table({"hour": [hour for hour in range(24) for _ in range(10)]})
    assert counted_in_bins(hours, HOURS) == [10] * 24
    monkeypatch.setattr("rangebound.release.sql.aggregate.place", _by_fixed_point)
    wrong = counted_in_bins(hours, HOURS)
    assert sum(each != 10 for each in wrong) == 16
    assert wrong[8] == 0
    rows = make_rows("control", 150)
    plan = make("rows", [], None, 150, ["hour"], None, random.Random(1), 1.0)
    with pytest.raises(AssertionError, match="histogram"), in_arrow(rows, TYPES) as engine:
        check(plan, engine, rows)


def test_control_missing_values_in_the_middle_are_caught(monkeypatch):
    rows = make_rows("control", 150)
    plan = make("people of two rows", [], None, 150, ["age"], None, random.Random(1), 1.0)
    with in_arrow(rows, TYPES) as engine:
        check(plan, engine, rows)
    own = Kind.column_values.fget
    middle = property(lambda self: replace(own(self), filler=self.bounds.lower + self.bounds.width / 2))
    monkeypatch.setattr(Kind, "column_values", middle)
    with pytest.raises(AssertionError, match="age"), in_arrow(rows, TYPES) as engine:
        check(plan, engine, rows)
