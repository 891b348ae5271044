"""The answers to a SELECT against those of DuckDB itself, which runs the same text on the raw table: noise is gone.

Random queries of the subset on a table with missing values, ties, empty groups and owners of many rows. The oracle
knows nothing of plans. Ranges hold all values, and contribution bounds all rows, so that nothing is cut.
"""

import dataclasses
import datetime
import itertools
import math
import random

import duckdb
import pyarrow as pa
import pytest

from rangebound.release.asked_in_sql import Answer
from rangebound.release.engine.duckdb import DuckDB
from rangebound.release.output.table import Release
from rangebound.release.plan.asking.aggregates import Aggregates, Question
from rangebound.release.plan.asking.translation import translate
from rangebound.release.plan.table_schema import check_schema
from rangebound.release.prepare import answers
from rangebound.release.sql.aggregate import aggregate
from rangebound.release.sql.view import view
from tests.release.plans import SALT, prepared_with
from tests.thinning import crossed

FIRST = datetime.date(2024, 11, 1)
LAST = datetime.date(2025, 3, 1)
RANGES = {
    "wait": {"range": [0, 60]},
    "cost": {"range": [-50, 100]},
    "age": {"range": [0, 100]},
    "day": {"range": [FIRST, LAST]},
    "high": {"range": [1, 9]},
}
KEYS = {"clinic": ["a", "b", "nobody is here"], "wing": ["n", "s"], "ill": [True, False], "band": ["child", "adult"]}
BASE = {"budget": {"epsilon": 1.0}, "columns": RANGES, "keys": KEYS}
OWNED = {**BASE, "unit": {"column": "person", "rows": 60, "groups": 10}}


def make_table(seed, count=240):
    chance = random.Random(seed)
    pick = chance.choice

    def column(make, kind, missing=0.15):
        return pa.array([None if chance.random() < missing else make() for _ in range(count)], kind)

    return pa.table(
        {
            "person": column(lambda: chance.randint(1, 25), pa.int64(), 0.0),
            "clinic": column(lambda: pick("ab"), pa.string()),
            "wing": column(lambda: pick("nns"), pa.string(), 0.0),
            "age": column(lambda: pick([0, 17, 18, 65, chance.randint(0, 100)]), pa.int32()),
            "wait": column(lambda: pick([0.0, 60.0, chance.randint(0, 120) / 2]), pa.float64()),
            "cost": column(lambda: pick([0.0, -50.0, chance.randint(-50, 100) * 1.0]), pa.float64()),
            "day": column(lambda: FIRST + datetime.timedelta(days=chance.randint(0, 120)), pa.date32()),
            "ill": column(lambda: pick([True, False]), pa.bool_()),
            "high": column(lambda: chance.randint(1, 9), pa.int32()),
        }
    )


CONDITIONS = [
    "age >= 18",
    "age <> 18",
    "wait < cost",
    "clinic = 'a'",
    "clinic <> 'a'",
    "clinic IN ('a', 'c')",
    "clinic NOT IN ('a', 'c')",
    "age BETWEEN 17 AND 65",
    "cost IS NULL",
    "cost IS NOT NULL",
    "ill",
    "NOT ill",
    "day >= DATE '2025-01-01'",
    "day < '2025-01-15'",
    "EXTRACT(MONTH FROM day) = 12",
    "COALESCE(age, 20) > 19",
    "clinic LIKE 'a%'",
    "clinic NOT LIKE 'a%'",
    "wait / 2 > age - 10",
    "CASE WHEN ill THEN age > 50 ELSE wait > 30 END",
]
NUMBERS = [
    "wait",
    "cost",
    "age",
    "wait / 60",
    "wait + cost",
    "age * 2 - 10",
    "ABS(cost)",
    "COALESCE(wait, 10)",
    "CASE WHEN ill THEN wait ELSE cost END",
    "CASE WHEN age > 40 THEN wait END",
    "FLOOR(wait / 7)",
    "NULLIF(cost, 0)",
    "NULLIF(cost, wait)",
    "-wait",
    "EXTRACT(DAY FROM day)",
    "day - DATE '2024-10-01'",
]


def condition(chance, depth=2):
    if depth and chance.random() < 0.4:
        one, other = condition(chance, depth - 1), condition(chance, depth - 1)
        return chance.choice([f"({one} AND {other})", f"({one} OR {other})", f"NOT ({one})"])
    return chance.choice(CONDITIONS)


def aggregate_text(chance, *, owned):
    """An aggregate, and how its answers are compared: exactly, nearly, or as a rank."""
    number, where = chance.choice(NUMBERS), condition(chance, 1)
    exact = [
        "COUNT(*)",
        f"COUNT({number})",
        f"COUNT(*) FILTER (WHERE {where})",
        f"COUNT(CASE WHEN {where} THEN 1 END)",
        f"SUM(CASE WHEN {where} THEN 1 ELSE 0 END)",
    ]
    near = [
        f"AVG({number})",
        f"AVG({number}) FILTER (WHERE {where})",
        f"AVG(CASE WHEN {where} THEN 1 ELSE 0 END)",
        f"1.0 * COUNT(*) FILTER (WHERE {where}) / COUNT(*)",
        f"VAR_POP({number})",
        f"STDDEV_POP({number})",
    ]
    if owned:
        return chance.choice([("COUNT(DISTINCT person)", "exact"), (chance.choice(near), "near")])
    sums = [f"SUM({number})", f"SUM({number}) FILTER (WHERE {where})"]
    kinds = [(exact, "exact"), (near, "near"), (near, "near"), (sums, "sum")]
    texts, how = chance.choice(kinds)
    return chance.choice(texts), how


def random_query(chance):
    """A text, its base, and for each column of its rows how it is compared."""
    owned = chance.random() < 0.2
    group = chance.choice(["", "", "clinic", "wing", "ill", "band", "clinic, wing"])
    asked = [aggregate_text(chance, owned=owned) for _ in range(chance.randint(1, 3))]
    by = [each.strip() for each in group.split(",") if group]
    band = "CASE WHEN age < 18 THEN 'child' WHEN age >= 18 THEN 'adult' END AS band"
    shown = [band if each == "band" else each for each in by]
    columns = [*shown, *(f"{text} AS c{at}" for at, (text, _) in enumerate(asked))]
    where = f" WHERE {condition(chance)}" if chance.random() < 0.5 else ""
    grouped = f" GROUP BY {', '.join(by)}" if by else ""
    return (
        f"SELECT {', '.join(columns)} FROM visits{where}{grouped}",
        OWNED if owned else BASE,
        [how for _, how in asked],
    )


def answered(text, base, table):
    """Our rows, with so large an epsilon that the noise is gone."""
    engine = DuckDB(table, threads=1)
    asked = translate(text, base, columns=engine.schema())
    plan = asked.plan
    check_schema(plan, view(plan, engine).schema)
    whole = ("count", "count of units", "sum", "distinct count")
    ready = prepared_with(plan, lambda each, _: {"epsilon": 500.0 if each.kind in whole else 1e9})
    cells = [
        exact_sum(plan.query[cell.question], cell, block)
        for block in aggregate(plan, engine, SALT)
        for cell in answers(ready, block)
    ]
    release = Release(plan=plan, cells=tuple(cells), mechanisms=("",) * len(plan.query))
    return asked, Answer(asked=asked, release=release)


def exact_sum(question, cell, block):
    """A sum before the noise: that of the largest epsilon is not gone where a row may add 200."""
    if question.kind != "sum":
        return cell
    return dataclasses.replace(cell, value=float(block.answers[cell.question][cell.key][0]))


def oracle(text, table):
    """The rows of DuckDB, without groups of a missing key."""
    with duckdb.connect() as connection:
        connection.register("visits", table)
        found = connection.execute(text)
        names = [each[0] for each in found.description]
        return [dict(zip(names, row, strict=True)) for row in found.fetchall()]


def plain_key(value):
    return {True: "true", False: "false"}.get(value, value) if isinstance(value, bool) else value


def number_of(value):
    return float((value - FIRST).days) if isinstance(value, datetime.date) else float(value)


def compare(text, base, hows, table):
    """Assert that our rows are DuckDB's; gives the number of numbers that were compared."""
    asked, found = answered(text, base, table)
    wanted = oracle(text, table)
    groups = [name for name, _ in asked.columns[: len(asked.columns) - len(hows)]]
    ours = {tuple(row[name] for name in groups): row for row in found.rows()}
    keyed = {tuple(plain_key(row[name]) for name in groups): row for row in wanted}
    keyed = {key: row for key, row in keyed.items() if None not in key}
    assert set(keyed) <= set(ours)
    compared = 0
    for key, row in ours.items():
        for at, how in enumerate(hows):
            value, true = row[f"c{at}"], keyed.get(key, {}).get(f"c{at}")
            if true is None:  # no rows, or none with a value: a count or sum is 0, anything else could be all
                assert value == 0 or how == "near" or (how == "sum" and abs(value) < 1e-3), (text, key, value)
                continue
            compared += 1
            (question,) = (asked.plan.query[each.question] for name, each in asked.columns if name == f"c{at}")
            check_value(text, how, value, number_of(true), question, asked.plan.unit.rows)
    return compared


def check_value(text, how, value, true, question, rows):
    name = question.name
    if how == "exact":
        assert value == true, (text, name, value, true)
    elif how == "sum":
        assert math.isclose(value, true, rel_tol=1e-6, abs_tol=1e-4), (text, name, value, true)
    elif how == "near":
        width = question.bounds if getattr(question, "range", None) else None
        size = 1.0 if width is None else (1.0 + width.width) ** (2 if question.kind == "variance" else 1)
        rough = rows * 2.0**-19  # of what a unit can change
        rough = rough**0.5 if question.kind == "standard deviation" else rough  # the root of a small variance
        assert math.isclose(value, true, abs_tol=rough * size), (text, name, value, true)


LONG, MANY = pytest.mark.long, [(20, 200), (21, 800)]


@pytest.mark.claim("answer")
@pytest.mark.parametrize(
    ("seed", "number"),
    [(20, 8), pytest.param(20, 25, marks=pytest.mark.slow), *(pytest.param(*each, marks=LONG) for each in MANY)],
)
def test_random_queries_are_answered_as_duckdb_does(seed, number):
    chance = random.Random(seed)
    tables = [make_table(each) for each in range(3 if seed == 20 else 20)]
    compared = sum(compare(*random_query(chance), chance.choice(tables)) for _ in range(number))
    assert compared > 1.5 * number


@pytest.mark.few(2)
@crossed({"number": ["wait", "ABS(cost)"], "level": [0.01, 0.25, 0.5, 0.99]})
def test_quantiles_lie_between_the_values_beside_their_rank(number, level):
    table = make_table(7)
    text = {0.01: f"MIN({number})", 0.99: f"MAX({number})"}.get(level, f"QUANTILE_CONT({number}, {level})")
    asked, found = answered(f"SELECT wing, {text} AS q, COUNT({number}) AS n FROM visits GROUP BY wing", BASE, table)
    step = float(asked.plan.query[0].exact_step)
    for row in found.rows():
        n = row["n"]
        ends = [min(max(level + side * 1.5 / n, 0.0), 1.0) for side in (-1, 1)]
        ranks = ", ".join(f"QUANTILE_DISC({number}, {each})" for each in ends)
        ((low, high),) = [
            tuple(each.values()) for each in oracle(f"SELECT {ranks} FROM visits WHERE wing = '{row['wing']}'", table)
        ]
        assert float(low) - step <= row["q"] <= float(high) + step, (text, row, low, high)


CHOSEN = [
    "SELECT wing, COUNT(*) AS c0 FROM visits GROUP BY wing ORDER BY c0 DESC LIMIT 1",
    "SELECT wing, ill, COUNT(*) AS c0 FROM visits WHERE ill OR NOT ill GROUP BY 1, 2 HAVING c0 > 30 ORDER BY 3, 1",
    "SELECT clinic, COUNT(*) AS c0, COUNT(*) + 1 AS c1 FROM visits WHERE clinic <> '' GROUP BY clinic ORDER BY 1 DESC",
    "SELECT wing, ROUND(AVG(wait), 1) AS c0 FROM visits GROUP BY wing ORDER BY wing",
    "SELECT wing, COUNT(*) AS c0 FROM visits GROUP BY wing HAVING c0 BETWEEN 1 AND 1000 AND NOT wing = 's' ORDER BY 1",
    "SELECT wing, COUNT(wait) * 100.0 / COUNT(age) AS c0 FROM visits GROUP BY wing ORDER BY ABS(c0 - 100), wing",
    "SELECT ill, COUNT(*) AS c0 FROM visits WHERE ill IS NOT NULL GROUP BY ill HAVING ill",
    "SELECT ill, COUNT(*) AS c0 FROM visits WHERE ill IS NOT NULL GROUP BY ill HAVING NOT ill AND c0 > 1",
    "SELECT ill, COUNT(*) AS c0 FROM visits WHERE ill IS NOT NULL GROUP BY ill HAVING ill = TRUE OR ill IN (TRUE)",
]


SEEDS = pytest.mark.parametrize(
    "seeds", [range(1), pytest.param(range(1, 4), marks=pytest.mark.slow)], ids=["0", "more"]
)


def rows_of_both(text, base, seed):
    """The plan of a query, and the values of our rows and of DuckDB's."""
    table = make_table(seed)
    asked, found = answered(text, base, table)
    return asked.plan, *([list(row.values()) for row in rows] for rows in (found.rows(), oracle(text, table)))


def assert_near(text, ours, wanted, **tolerance):
    assert len(ours) == len(wanted), text
    for mine, true in zip(itertools.chain(*ours), itertools.chain(*wanted), strict=True):
        same = mine == plain_key(true) if isinstance(mine, str) else math.isclose(mine, float(true), **tolerance)
        assert same, (text, ours, wanted)


@pytest.mark.few(5)
@SEEDS
@pytest.mark.parametrize("text", CHOSEN)
def test_rows_are_chosen_and_ordered_as_duckdb_does(text, seeds):
    for seed in seeds:
        _, rows, wanted = rows_of_both(text, BASE, seed)
        assert_near(text, [row for row in rows if row[0] != "nobody is here"], wanted, abs_tol=1e-3)


def test_a_value_stays_where_what_it_is_compared_with_is_missing():
    numbers = ["NULLIF(cost, wait)", "NULLIF(wait, NULLIF(cost, age))"]
    texts = [f"COUNT({each})" for each in (*numbers, "NULLIF(COALESCE(clinic, 'b'), CASE WHEN ill THEN 'a' END)")]
    for text in (*texts, *(f"SUM({each})" for each in numbers)):
        assert compare(f"SELECT {text} AS c0 FROM visits", BASE, ["sum" if "SUM" in text else "exact"], make_table(0))


@pytest.mark.parametrize("day", ["< '2025-01-31'", "= '2025-01-31'", "IN (DATE '2025-01-31')", "< DATE '2025-01-31'"])
def test_a_note_says_that_a_time_beside_a_date_counts_as_its_day(day):
    text = "SELECT COUNT(*) AS c0 FROM visits WHERE "
    assert any("counts as its day" in each for each in translate(f"{text}day {day}", BASE).notes)
    assert not any("counts as its day" in each for each in translate(f"{text}clinic = 'a'", BASE).notes)


def test_control_a_translation_that_counts_rows_without_a_value_is_caught(monkeypatch):
    monkeypatch.setattr(Aggregates, "_present", lambda self, node: Question(fields={"kind": "count"}))
    with pytest.raises(AssertionError):
        compare("SELECT COUNT(wait) AS c0 FROM visits", BASE, ["exact"], make_table(1))


STEPS = [
    ("COUNT(*) AS x", "AVG(LEAST(GREATEST(x, 0), 60)) AS c0"),
    ("LEAST(GREATEST(COUNT(*), 0), 60) AS x", "AVG(x) AS c0"),
    ("SUM(cost) AS x", "AVG(LEAST(GREATEST(x, -2000), 5000)) AS c0"),
    ("MAX(wait) AS x, COUNT(*) AS n", "AVG(x) AS c0, AVG(LEAST(GREATEST(n, 0), 60)) AS c1"),
    ("BOOL_OR(age > 90) AS x", "COUNT(*) FILTER (WHERE x) AS c0"),
    ("COUNT(*) FILTER (WHERE ill) AS x", "COUNT(*) FILTER (WHERE x >= 2) AS c0"),
    ("COUNT(wait) AS x", "SUM(CASE WHEN x > 5 THEN 1 ELSE 0 END) AS c0"),
]


@pytest.mark.few(3)
@SEEDS
@pytest.mark.parametrize(("inner", "outer"), STEPS)
def test_one_row_a_unit_first(inner, outer, seeds):
    text = f"WITH p AS (SELECT person, {inner} FROM visits GROUP BY person) SELECT {outer} FROM p"
    for seed in seeds:
        plan, mine, true = rows_of_both(text, {**OWNED, "unit": {"column": "person"}}, seed)
        assert "per_unit" in plan.to_toml()
        assert_near(text, mine, true, abs_tol=0.05)


AGGREGATES = {
    "COUNT(DISTINCT clinic)": "distinct count",
    "SUM(wait) / SUM(age)": "sum",
    "SUM(wait) / SUM(LEAST(GREATEST(age + 1, 1), 101))": "sum",
    "SUM(wait) / SUM(high)": "ratio",
    "CORR(wait, age)": "correlation",
    "REGR_SLOPE(wait, age)": "line",
    "REGR_INTERCEPT(wait, age)": "line",
}


@pytest.mark.few(4)
@SEEDS
@pytest.mark.parametrize("text", AGGREGATES)
def test_further_aggregates_are_duckdb_s(text, seeds):
    for seed in seeds:
        where = "WHERE wait IS NOT NULL AND age IS NOT NULL AND high IS NOT NULL"
        whole = f"SELECT wing, {text} AS c0 FROM visits {where} GROUP BY wing ORDER BY wing"
        plan, mine, true = rows_of_both(whole, BASE, seed)
        assert plan.query[0].kind == AGGREGATES[text]
        assert len(mine) == 2
        assert_near(text, mine, true, rel_tol=1e-3, abs_tol=2e-3)


@SEEDS
def test_a_mode_is_duckdb_s(seeds):
    base = {**BASE, "keys": {**KEYS, "age": [0, 17, 18, 65]}}
    for seed in seeds:
        for column in ("clinic", "age"):
            text = (
                f"SELECT wing, MODE({column}) AS m FROM visits WHERE clinic IN ('a', 'b') GROUP BY wing ORDER BY wing"
            )
            mine = [row["m"] for row in answered(text, base, make_table(seed))[1].rows()]
            counts = f"SELECT wing, {column} AS k, COUNT(*) AS n FROM visits WHERE clinic IN ('a', 'b') GROUP BY 1, 2"
            rows = [row for row in oracle(counts, make_table(seed)) if str(row["k"]) in map(str, base["keys"][column])]
            for wing, found in zip("ns", mine, strict=True):
                most = max(row["n"] for row in rows if row["wing"] == wing)
                assert found in {str(row["k"]) for row in rows if (row["wing"], row["n"]) == (wing, most)}
