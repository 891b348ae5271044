"""Crosstabs, hierarchies, series and selected keys against plain SQL and pandas, with the noise gone.

The tables are those of `test_oracle.py`: keys that no plan lists, missing keys and owners, days out of range, time
stamps, many rows of one owner; and some rows twice. SQL counts them by CUBE, by joins with the levels and by its own
calendar (weeks from Monday on); pandas counts what is selected.
"""

import datetime
import random

import duckdb
import pandas as pd
import pytest

from rangebound.release.budget_split import allocations
from rangebound.release.noise.partition_selection import WHOLE, PartitionSelection, ThresholdSelection
from rangebound.release.plan.kinds import summed_counts
from rangebound.release.plan.table_schema import check_schema
from rangebound.release.plan.toml import make_plan
from rangebound.release.prepare import answers, prepared
from rangebound.release.sql.aggregate import aggregate
from tests.release.noise.strategies.sums_of_days import periods
from tests.release.plans import SALT, prepared_with
from tests.release.sources import SOURCES, in_arrow, in_spark, table
from tests.release.test_oracle import FIRST, PLACES, TYPES, WHERES, make_rows

DAYS = [FIRST + datetime.timedelta(days=at) for at in range(-3, 45)]  # across two months, weeks cut at both ends
AGES = [*range(0, 101, 5), 7, 150]
KEYS = {"place": PLACES, "ok": [True, False], "age": AGES, "day": DAYS, "seen": DAYS}
ZONES = [
    {"name": "zone", "members": {"west": ["c", "a"], "east": ["b", "nobody is here"]}},
    {"name": "land", "members": {"all of it": ["west", "east"]}},
]
TENS = {f"from {low}": [age for age in AGES if low <= age < low + 50] for low in (0, 50, 100, 150)}
WORKLOADS = {
    "two columns": {"kind": "crosstab", "by": ["place", "ok"]},
    "three columns": {"kind": "crosstab", "by": ["ok", "place", "age"]},
    "cells": {"kind": "crosstab", "by": ["age", "ok"], "margins": False},
    "filtered": {"kind": "crosstab", "by": ["place", "ok"], "where": [WHERES[0][1]]},
    "places": {"kind": "hierarchy", "by": ["place"], "levels": ZONES},
    "ages": {"kind": "hierarchy", "by": ["age"], "levels": [{"name": "decades", "members": TENS}]},
    "days": {"kind": "series", "by": ["day"]},
    "filtered days": {"kind": "series", "by": ["day"], "totals": ["week"], "where": [WHERES[0][1]]},
    "time stamps": {"kind": "series", "by": ["seen"], "totals": ["month", "running"]},
    "days of places": {"kind": "series", "by": ["place", "day"], "totals": ["running", "week"]},
    "both before": {"kind": "series", "by": ["seen", "ok"], "totals": ["month"]},
}
TYPED = [name for name, each in WORKLOADS.items() if "seen" not in each["by"]]
"""Those whose columns serve for keys in every source: a time stamp does as a text alone, as in a CSV file."""
FILTERED = WHERES[0][0]  # the same in SQL
UNITS = {
    "people": {"column": "who", "rows": 60, "groups": 300},  # nobody has more
    "rows": {},
    "replaced": {"column": "who", "rows": 60, "groups": 300, "neighbours": "replace", "size": 12},
}


def messy(seed, count):
    rows = make_rows(seed, count)
    return rows + random.Random(seed).sample(rows, len(rows) // 5)


def plan_of(names, unit):
    queries = [{"name": name, **WORKLOADS[name]} for name in names]
    used = {column for each in queries for column in each["by"]}
    keys = {column: own for column, own in KEYS.items() if column in used}
    return make_plan({"unit": UNITS[unit], "budget": {"epsilon": 1.0}, "keys": keys, "query": queries})


def without_noise(plan, *, gaussian):
    """Publishers in either account with so large a share that the noise is gone."""
    if gaussian:
        return prepared_with(plan, lambda *_: {"mu": 1e7})
    return prepared_with(plan, lambda _, found: {"epsilon": 600.0 * float(found.total)})  # a double for one row


def as_text(column):
    return f"CAST(CAST({column} AS DATE) AS VARCHAR)" if column in ("day", "seen") else f"CAST({column} AS VARCHAR)"


def rows_that_count(base, question, owned):
    """A view of the rows all of whose keys are listed, and that meet the filter: their keys as texts."""
    listed = " AND ".join(
        f"{as_text(column)} IN ({', '.join(repr(text(key)) for key in KEYS[column])})" for column in question["by"]
    )
    conditions = [listed, *(["who IS NOT NULL"] if owned else []), *([FILTERED] if "where" in question else [])]
    columns = ", ".join(f"{as_text(column)} AS {column}" for column in question["by"])
    base.execute(f"CREATE OR REPLACE TEMP VIEW v AS SELECT {columns} FROM t WHERE {' AND '.join(conditions)}")


def text(key):
    return str(key).lower() if isinstance(key, bool) else str(key)


def truths(base, question, owned):
    """Every count above zero, by key and part, by plain SQL."""
    rows_that_count(base, question, owned)
    by = question["by"]
    columns = ", ".join(by)
    if question["kind"] == "crosstab":
        found = base.execute(f"SELECT {columns}, count(*) FROM v GROUP BY CUBE ({columns})").fetchall()
        shown = [row for row in found if question.get("margins", True) or None not in row]
        return {(row[:-1], ""): row[-1] for row in shown}
    if question["kind"] == "hierarchy":
        return in_levels(base, question)
    return in_time(base, question)


def in_levels(base, question):
    (column,) = question["by"]
    found = {((None,), ""): base.execute("SELECT count(*) FROM v").fetchone()[0]}
    found |= {((key,), ""): n for key, n in base.execute(f"SELECT {column}, count(*) FROM v GROUP BY 1").fetchall()}
    source = f"SELECT {column} AS k0 FROM v"
    for at, level in enumerate(question["levels"]):
        pairs = ", ".join(f"({text(key)!r}, {member!r})" for member, keys in level["members"].items() for key in keys)
        source = f"SELECT m{at}.b AS k{at + 1} FROM ({source}) JOIN (VALUES {pairs}) AS m{at}(a, b) ON k{at} = m{at}.a"
        counted = base.execute(f"SELECT k{at + 1}, count(*) FROM ({source}) GROUP BY 1").fetchall()
        found |= {((key,), level["name"]): n for key, n in counted}
    return found


def in_time(base, question):
    by = question["by"]
    day = next(column for column in by if column in ("day", "seen"))
    others = [column for column in by if column != day]
    at = by.index(day)
    first = DAYS[0].isoformat()
    spans = {
        "": f"CAST({day} AS DATE)",
        "week": f"greatest(CAST(date_trunc('week', CAST({day} AS DATE)) AS DATE), DATE '{first}')",
        "month": f"greatest(CAST(date_trunc('month', CAST({day} AS DATE)) AS DATE), DATE '{first}')",
    }
    found = {}
    extra = "".join(f", {column}" for column in others)
    for part in ["", *question.get("totals", ["week", "month", "running"])]:
        if part == "running":
            dates = ", ".join(f"(DATE '{each.isoformat()}')" for each in DAYS)
            source = f"(VALUES {dates}) AS x(d), v WHERE CAST({day} AS DATE) <= d"
            query = f"SELECT d{extra}, count(*) FROM {source} GROUP BY ALL"
        else:
            query = f"SELECT {spans[part]} AS d{extra}, count(*) FROM v GROUP BY ALL"
        for key, *group, n in base.execute(query).fetchall():
            found[(*group[:at], str(key), *group[at:]), part] = n
    return found


def check(plan, rows, engines):
    """Every published number in both accounts and every engine against SQL; how many there were."""
    base = duckdb.connect()
    base.register("given", table(rows, TYPES))
    base.execute("CREATE TABLE t AS FROM given")
    compared, first = 0, None
    for engine in engines:
        check_schema(plan, engine.schema())
        with engine:
            blocks = aggregate(plan, engine, SALT)
        exact = [{index: dict(own) for index, own in block.answers.items()} for block in blocks]
        first = first or exact
        assert exact == first  # to the last bit in every engine
        for gaussian in (False, True):
            ready = without_noise(plan, gaussian=gaussian)
            cells = [cell for block in blocks for cell in answers(ready, block)]
            for index, question in enumerate(plan.query):
                true = truths(base, WORKLOADS[question.name], plan.unit.column is not None)
                own = {(cell.key, cell.part): cell for cell in cells if cell.question == index}
                assert {label for label, n in true.items() if n} <= own.keys()
                for label, cell in own.items():
                    place = (question.name, label, gaussian)
                    assert cell.value == true.get(label, 0), place
                    assert cell.lower <= cell.value <= cell.upper, place
                compared += len(own)
    return compared


@pytest.mark.claim("answer")
@pytest.mark.parametrize(
    "unit", ["people", *(pytest.param(each, marks=pytest.mark.slow) for each in ("rows", "replaced"))]
)
def test_every_number_of_a_workload_is_that_of_plain_sql(unit, tmp_path):
    rows = messy(f"workloads {unit}", 110)
    source = {"people": "arrow", "rows": "csv", "replaced": "duckdb"}[unit]
    names = list(WORKLOADS) if source == "csv" else TYPED
    assert check(plan_of(names, unit), rows, [SOURCES[source](rows, TYPES, tmp_path)]) > 300


def test_empty_and_tiny_tables_are_counted_too():
    for count in (0, 1):
        rows = make_rows("tiny", count)
        assert check(plan_of(["two columns", "places", "days"], "people"), rows, [in_arrow(rows, TYPES)]) > 50


@pytest.mark.slow
def test_spark_counts_the_same_to_the_last_bit(spark):
    rows = messy("spark workloads", 100)
    plan = plan_of(["three columns", "ages", "filtered days", "days of places"], "people")
    assert check(plan, rows, [in_arrow(rows, TYPES), in_spark(rows, TYPES, spark)]) > 300


@pytest.mark.long
def test_many_workloads_are_those_of_plain_sql_on_every_source(spark, tmp_path):
    compared = 0
    for seed, unit in enumerate([*UNITS, *UNITS]):
        rows = messy(f"long {seed}", 300)
        engines = [SOURCES[name](rows, TYPES, tmp_path) for name in ("arrow", "parquet", "pandas", "duckdb")]
        compared += check(plan_of(TYPED, unit), rows, [*engines, in_spark(rows, TYPES, spark)])
    print(f"{compared} numbers compared")
    assert compared > 20_000


def selecting_plan(weight):
    """Counts by keys that are selected: by a threshold on the noisy count, or by a partition selection."""
    queries = [
        {"name": "rows", "kind": "count", "by": ["place", "age"], "weight": weight},
        {"name": "mean", "kind": "mean", "column": "hour", "range": [0, 24], "by": ["place", "age"], "weight": 1.0},
    ]
    budget = {"epsilon": 100.0, "delta": 1e-3}
    return make_plan({"unit": {"column": "who", "rows": 20, "groups": 60}, "budget": budget, "query": queries})


@pytest.mark.parametrize("weight", [1.0, 1e-4])
def test_selected_keys_and_their_counts_are_those_of_pandas(weight):
    rows = messy("selected", 120)  # nobody has as many as the bounds
    one = next(row for row in rows if row["place"] == "a" and row["age"] is not None)
    rows += [{**one, "who": 100 + at, "age": [5, 20, 20, 20][at % 4]} for at in range(1200)]
    plan = selecting_plan(weight)
    ready = prepared(plan, allocations(plan)[-1])
    selection, scale = ready.selections["place", "age"], ready.publishers[0].mechanism.noise.scale
    assert isinstance(selection, ThresholdSelection if weight == 1.0 else PartitionSelection)
    frame = pd.DataFrame(rows, dtype=object).dropna(subset=["who", "place", "age"])
    groups = frame.assign(age=frame["age"].astype(int).astype(str)).groupby(["place", "age"])
    counts, units = groups.size().to_dict(), groups["who"].nunique().to_dict()
    with in_arrow(rows, TYPES) as engine:
        (block,) = aggregate(plan, engine, SALT)
    assert block.units == units
    assert {key: int(own[0]) for key, own in block.answers[0].items()} == counts
    named = {cell.key: cell for cell in answers(ready, block) if cell.question == 0}
    assert named.keys() <= counts.keys()
    assert {("a", "5"), ("a", "20")} <= named.keys()
    for key, count in counts.items():
        if weight == 1.0:
            sure = abs(count - selection.threshold) > 8 * scale + 1
            assert not sure or (key in named) == (count >= selection.threshold), key
        else:
            chance = selection.probabilities[min(units[key], len(selection.probabilities) - 1)]
            assert 0 < chance < WHOLE or (key in named) == (chance == WHOLE), key
        assert key not in named or abs(named[key].value - count) <= 8 * scale + 1


def test_control_weeks_from_sunday_on_are_caught(monkeypatch):
    def ranges(name, days):
        return periods([at for at, day in enumerate(days) if at == 0 or day.weekday() == 6], len(days))

    rows, plan = messy("control", 110), plan_of(["filtered days"], "people")
    assert check(plan, rows, [in_arrow(rows, TYPES)])
    monkeypatch.setattr(summed_counts, "_ranges", ranges)
    with pytest.raises(AssertionError):
        check(plan_of(["filtered days"], "people"), rows, [in_arrow(rows, TYPES)])


def test_control_a_key_that_no_plan_lists_is_caught():
    rows, plan = messy("control", 110), plan_of(["two columns"], "people")
    wrong = [{**row, "place": "a" if row["place"] == "elsewhere" else row["place"]} for row in rows]
    with pytest.raises(AssertionError):
        check(plan, rows, [in_arrow(wrong, TYPES)])
