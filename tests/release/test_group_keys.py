"""Keys by rule against pandas: weeks, months, bins, folds, what is missing and what is not listed, combinations.

Every rule on every engine and source, on a random table with values on edges and beside them, missing and odd ones. The
oracle is `cut`, `to_period`, `map` and `merge` of pandas, which know nothing of our SQL.
"""

import datetime
import math
import random

import numpy as np
import pandas
import pyarrow as pa
import pytest
from sqlglot import exp

from rangebound.errors import PlanError
from rangebound.release.engine.dialect import choice
from rangebound.release.engine.duckdb import DuckDB
from rangebound.release.plan.groupings import public_keys, workloads
from rangebound.release.plan.table_schema import Family, check_schema
from rangebound.release.plan.toml import make_plan
from rangebound.release.sql import measured
from rangebound.release.sql.aggregate import aggregate, statements
from tests.release.plans import SALT
from tests.release.sources import SOURCES, in_arrow, place_of

FIRST, LAST = datetime.date(2024, 12, 25), datetime.date(2025, 2, 10)
BIG = 2**60
TYPES = {
    "who": (pa.int64(), "bigint"),
    "clinic": (pa.string(), "string"),
    "floor": (pa.int32(), "int"),
    "age": (pa.float64(), "double"),
    "big": (pa.int64(), "bigint"),
    "day": (pa.date32(), "date"),
    "seen": (pa.timestamp("us"), "timestamp_ntz"),
    "noted": (pa.string(), "string"),
}


def make_rows(seed, count=400):
    chance = random.Random(seed)
    pick = chance.choice

    def row():
        day = FIRST + datetime.timedelta(days=chance.randint(-9, 60))
        seen = datetime.datetime.combine(day, datetime.time(chance.randint(0, 23), chance.randint(0, 59)))
        edge = float(pick([0, 18, 65, 120]))
        near = [edge, math.nextafter(edge, -math.inf), math.nextafter(edge, math.inf), chance.uniform(-5, 130)]
        return {
            "who": pick([None, *range(30)]),
            "clinic": pick(["a", "a", "b", "c", "d", "unknown", "it's", None]),
            "floor": pick([None, 1, 2, 3, 9]),
            "age": pick([None, math.nan, math.inf, -math.inf, *near]),
            "big": pick([None, 0, -3, BIG - 1, BIG, BIG + 1, BIG + 2**20]),
            "day": pick([None, day]),
            "seen": pick([None, seen, seen]),
            "noted": pick([None, "soon", "2025-02-30", day.isoformat(), f"{seen}"]),
        }

    return [row() for _ in range(count)]


# The oracle: the key of every row, None where it has none.
def filled(keys, values, missing=None, other=None):
    """Keys with those of rows that have no value, and of rows that have another one."""
    there = values.notna()
    keys = keys.astype(object).where(keys.notna(), None)
    return keys.where(keys.notna() | ~there, other).where(keys.notna() | there, missing)


def by_period(values, unit, first, last, **more):
    days = pandas.to_datetime(values).dt.normalize()
    inside = (days >= pandas.Timestamp(first)) & (days <= pandas.Timestamp(last))
    starts = days.dt.to_period("W-SUN" if unit == "weeks" else "M").dt.start_time
    starts = starts.where(starts >= pandas.Timestamp(first), pandas.Timestamp(first))
    return filled(starts.dt.strftime("%Y-%m-%d").where(inside), days, **more)


def by_bins(values, edges, names, **more):
    inside = values.where(~np.isinf(values))
    cut = pandas.cut(inside, [*edges[:-1], math.nextafter(edges[-1], math.inf)], right=False, labels=names)
    return filled(cut.astype(object), inside, **more)


def by_rule(frame, column, rule):
    values, more = frame[column], {name: rule.get(name) for name in ("missing", "other")}
    for unit in {"weeks", "months"} & rule.keys():
        return by_period(values, unit, *rule[unit], **more)
    if "days" in rule:
        inside = values.between(str(rule["days"][0]), f"{rule['days'][1]} 23:59:59")
        return filled(values.dt.strftime("%Y-%m-%d").where(inside), values, **more)
    if "bins" in rule:
        return by_bins(values, rule["bins"], rule.get("names", BINS), **more)
    listed = rule.get("values", {})
    listed = listed["numbers"] if isinstance(listed, dict) and listed else listed
    folded = rule.get("fold") or {str(each): [each] for each in listed if each != more["missing"]}
    return filled(values.map({each: key for key, own in folded.items() for each in own}), values, **more)


def frame_of(rows):
    found = pandas.DataFrame(rows, columns=list(TYPES), dtype=object)
    found["age"] = pandas.to_numeric(found["age"])
    found["seen"] = pandas.to_datetime(found["seen"])
    found["day"] = pandas.to_datetime(found["day"])
    noted = found["noted"].map(lambda each: each if each not in ("soon", "2025-02-30") else None)
    found["noted"] = pandas.to_datetime(noted, format="ISO8601")
    return found


EDGES, AGES, BINS = [0, 18, 65, 120], ["child", "adult", "old"], ["[0, 18)", "[18, 65)", "[65, 120]"]
SPAN = [FIRST, LAST]
BOTH = {"missing": "?", "other": "later"}
RULES = {
    "weeks of days": ("day", {"weeks": SPAN}),
    "months of days": ("day", {"months": SPAN, "missing": "?"}),
    "weeks of times": ("seen", {"weeks": SPAN}),
    "months of times": ("seen", {"months": SPAN, **BOTH}),
    "weeks of texts": ("noted", {"weeks": SPAN, **BOTH}),
    "days of times": ("seen", {"days": SPAN}),
    "one week": ("day", {"weeks": [LAST, LAST]}),
    "named bins": ("age", {"bins": EDGES, "names": AGES}),
    "bins": ("age", {"bins": EDGES, **BOTH}),
    "one bin": ("age", {"bins": [18, 65], "names": ["grown"], "other": "out"}),
    "missing and other": ("clinic", {"values": ["a", "b", "c"], "missing": "unknown", "other": "other"}),
    "missing": ("clinic", {"values": ["a", "b", "c"], "missing": "unknown"}),
    "missing among the listed": ("clinic", {"values": ["a", "unknown"], "missing": "unknown", "other": "unknown"}),
    "whole numbers": ("floor", {"values": {"numbers": [1, 2]}, "missing": "none", "other": "above"}),
    "fold": ("clinic", {"fold": {"north": ["a", "c"], "it's south": ["b", "it's"]}}),
    "fold of numbers": ("floor", {"fold": {"low": [1, 2], "high": [3]}, "other": "roof", "missing": "low"}),
    "bins of days": ("day", {"bins": [FIRST, datetime.date(2025, 1, 1), LAST], "names": ["old", "new"]}),
    "bins of whole numbers": ("big", {"bins": [-3.5, 0.5, BIG, BIG + 2**20], "names": ["small", "large", "huge"]}),
}
BY_HAND = {
    "bins of days": lambda day: (
        None if pandas.isna(day) or not FIRST <= day.date() <= LAST else ("old", "new")[day.year - 2024]
    ),
    "bins of whole numbers": lambda x: None if x is None else "small" if x < 1 else "large" if x < BIG else "huge",
}
"""Bins that pandas would round to doubles."""


def oracle(name, frame):
    column, rule = RULES[name]
    return frame[column].map(BY_HAND[name]) if name in BY_HAND else by_rule(frame, column, rule)


def exact(plan, engine):
    check_schema(plan, engine.schema())
    return {
        (index, key): each[key]
        for block in aggregate(plan, engine, SALT)
        for index, each in block.answers.items()
        for key in each
    }


def counted(plan, engine):
    return {key: int(count) for (index, key), (count,) in exact(plan, engine).items() if index == 0}


def plan_for(column, rule, **more):
    query = [{"name": "n", "kind": "count", "by": [column]}]
    return make_plan({"budget": {"epsilon": 1.0}, "keys": {column: rule}, "query": query, **more})


def check_rules(engine, rows):
    frame = frame_of(rows)
    with engine:
        untyped = engine.schema()["big"] is Family.UNTYPED  # the numbers of a CSV file are compared as doubles
        for name, (column, rule) in RULES.items():
            if column == "big" and untyped:
                continue
            plan = plan_for(column, rule)
            keys = oracle(name, frame)
            expected = {(label,): int((keys == label).sum()) for label in plan.columns((column,))[0]}
            assert set(keys.dropna()) <= {label for (label,) in expected}, name
            assert counted(plan, engine) == expected, name


@pytest.mark.parametrize(
    "source", ["arrow", "postgres", *(pytest.param(each, marks=pytest.mark.slow) for each in ("csv", "spark"))]
)
def test_every_rule_gives_the_keys_that_pandas_gives(source, request):
    rows = make_rows(3 + len(source))
    check_rules(SOURCES[source](rows, TYPES, place_of(source, request)), rows)


def test_control_a_bin_that_has_its_upper_edge_is_caught(monkeypatch):
    rows = make_rows(3)

    def below(this, borders, results):
        found = results[0].copy()
        for border, result in zip(borders, results[1:], strict=True):
            found = choice((exp.GT(this=this.copy(), expression=border.copy()), result.copy()), otherwise=found)
        return found

    monkeypatch.setattr(measured, "among", below)
    with pytest.raises(AssertionError, match="bins"):
        check_rules(in_arrow(rows, TYPES), rows)


@pytest.mark.slow
def test_keys_of_several_columns_follow_their_rules_together():
    """Owners, contribution bounds and a rule in each of two columns: as if the table had the keys in it."""
    rows = make_rows(8)
    frame = frame_of(rows)
    names = {"clinic": "fold", "age": "bins", "seen": "months of times"}
    keyed = frame[["who", "floor"]].assign(**{column: oracle(name, frame) for column, name in names.items()})
    rules = {column: RULES[name][1] for column, name in names.items()}
    kinds = [{"kind": "count"}, {"kind": "count of units"}, {"kind": "mean", "column": "floor", "range": [0, 4]}]
    texts = pa.table({name: pa.array([None if pandas.isna(x) else x for x in keyed[name]]) for name in keyed})
    for by in (["age"], ["clinic", "age"], ["seen", "clinic"], ["age", "seen", "clinic"]):
        query = [{**each, "name": str(at), "by": by} for at, each in enumerate(kinds)]
        data = {"unit": {"column": "who", "rows": 2, "groups": 2}, "budget": {"epsilon": 1.0}, "query": query}
        ruled = make_plan({**data, "keys": {name: rules[name] for name in by}})
        plain = make_plan({**data, "keys": {name: ruled.keys[name].labels for name in by}})
        with in_arrow(rows, TYPES) as engine, DuckDB(texts, threads=1) as other:
            assert exact(ruled, engine) == exact(plain, other)


def test_a_question_by_keys_that_are_selected_has_the_public_keys_of_a_rule_alone():
    rows = make_rows(9)
    query = [{"name": "n", "kind": "count", "by": ["age", "clinic"]}]
    keys = {"age": {"bins": EDGES}, "clinic": {"missing": "nobody knows"}}
    plan = make_plan({"budget": {"epsilon": 1.0, "delta": 1e-6}, "keys": keys, "query": query})
    assert plan.private(("age", "clinic"))
    frame = frame_of(rows)
    age = by_bins(frame["age"], EDGES, BINS)
    clinic = frame["clinic"].where(frame["clinic"].notna(), "nobody knows")
    with in_arrow(rows, TYPES) as engine:
        found = counted(plan, engine)
    whole = pandas.DataFrame({"age": age, "clinic": clinic}).dropna()
    assert found == whole.groupby(["age", "clinic"]).size().to_dict()
    assert ("[0, 18)", "nobody knows") in found


PAIRS = {"columns": ["clinic", "floor"], "keys": [["a", 1], ["b", 2], ["a", 9], ["nobody", 1]]}


@pytest.mark.parametrize("by", [["clinic", "floor"], ["floor", "clinic"], ["floor", "age", "clinic"], ["clinic"]])
def test_listed_combinations_are_counted_as_a_merge_counts_them(by):
    rows = make_rows(10)
    data = {"budget": {"epsilon": 1.0}, "query": [{"name": "n", "kind": "count", "by": by}]}
    data["query"].append({"name": "m", "kind": "count", "by": ["clinic", "floor"]})
    keys = {"age": {"bins": EDGES}} if "age" in by else {}
    plan = make_plan({**data, "keys": keys, "combinations": [PAIRS]})
    frame = frame_of(rows)
    frame["age"] = by_bins(frame["age"], EDGES, BINS)
    frame["floor"] = frame["floor"].map(lambda each: None if each is None else str(each))
    listed = pandas.DataFrame([(a, str(b)) for a, b in PAIRS["keys"]], columns=PAIRS["columns"])
    if by == ["clinic"]:
        listed = listed[["clinic"]].drop_duplicates()
    if "age" in by:
        listed = listed.merge(pandas.Series(plan.columns(("age",))[0], name="age"), how="cross")
    merged = listed.merge(frame[by].dropna().assign(n=1), how="left", on=list(listed)).fillna({"n": 0})
    expected = {tuple(key): int(n) for *key, n in merged.groupby(by)["n"].sum().reset_index().itertuples(index=False)}
    if len(by) == 1:
        expected = {(key[0],): n for key, n in expected.items()}
    with in_arrow(rows, TYPES) as engine:
        found = counted(plan, engine)
    assert found == expected
    assert list(found) == list(public_keys(plan, tuple(by)))
    assert plan.groups(tuple(by)) == len(found)


def test_with_only_listed_keys_a_row_counts_if_all_its_keys_are_listed():
    rows = make_rows(11, 200)
    query = [{"name": "n", "kind": "count"}, {"name": "m", "kind": "count", "by": ["clinic", "floor"]}]
    query.append({"name": "k", "kind": "count", "by": ["age"]})
    data = {"budget": {"epsilon": 1.0}, "only_listed": True, "combinations": [PAIRS], "query": query}
    plan = make_plan({**data, "keys": {"age": {"bins": EDGES, "missing": "?"}}})
    pairs = np.array([[row["clinic"], row["floor"]] in PAIRS["keys"] for row in rows])
    ages = by_bins(frame_of(rows)["age"], EDGES, AGES, missing="?").notna()
    with in_arrow(rows, TYPES) as engine:
        found = exact(plan, engine)
    assert found[0, ()] == ((ages & pairs).sum(),)
    assert sum(count for (index, _), (count,) in found.items() if index == 1) == (ages & pairs).sum()
    assert 0 < (ages & pairs).sum() < len(rows)


def test_a_series_of_days_counts_the_rows_of_a_column_of_times():
    rows = make_rows(12)
    query = [{"name": "n", "kind": "series", "by": ["seen"]}]
    plan = make_plan({"budget": {"epsilon": 1.0}, "keys": {"seen": {"days": SPAN}}, "query": query})
    days = frame_of(rows)["seen"].dt.strftime("%Y-%m-%d").value_counts()
    with in_arrow(rows, TYPES) as engine:
        found = counted(plan, engine)
    assert found == {(day,): int(days.get(day, 0)) for day in plan.columns(("seen",))[0]}
    assert sum(found.values()) > 100


def test_a_column_that_a_rule_cannot_read_is_refused_before_any_row_is_read():
    wrong = [
        ("age", {"weeks": SPAN}, "is of type number, which does not serve for days"),
        ("clinic", {"bins": [0, 1]}, "is of type text, which does not serve for bins"),
        ("floor", {"bins": [FIRST, LAST]}, "is of type integer, which does not serve for bins of days"),
        ("seen", ["2025-01-01"], "is of type timestamp, which does not serve for a grouping key"),
        ("age", {"values": [1], "other": "x"}, "is of type number, which does not serve for a grouping key"),
        ("big", {"bins": [0, 2.0**126]}, "no number between 2^126 and 2^127"),
    ]
    with in_arrow(make_rows(1, 3), TYPES) as engine:
        for column, rule, words in wrong:
            with pytest.raises(PlanError, match=words.replace("^", r"\^")):
                check_schema(plan_for(column, rule), engine.schema())


def test_counts_whose_keys_are_complete_have_no_hidden_value():
    rule = {"values": ["a", "b"], "missing": "none", "other": "other"}
    query = [{"name": name, "kind": "count", "by": by} for name, by in (("x", ["a"]), ("y", ["b"]), ("z", ["a", "b"]))]
    data = {"budget": {"epsilon": 1.0, "delta": 1e-6}, "query": query}
    (complete,) = workloads(make_plan({**data, "keys": {"a": rule, "b": rule}}))
    (open_end,) = workloads(make_plan({**data, "keys": {"a": rule, "b": {**rule, "other": "none"}}}))
    (listed,) = workloads(make_plan({**data, "keys": {"a": rule, "b": ["a", "b"]}}))
    assert (complete.others, open_end.others, listed.others) == (False, False, True)
    pairs = {"columns": ["a", "b"], "keys": [["a", "b"]]}
    assert not workloads(make_plan({**data, "keys": {}, "combinations": [pairs], "query": query[1:]}))


def test_kinds_that_add_up_over_a_product_refuse_listed_combinations():
    for question in ({"kind": "crosstab", "by": ["a", "b"]}, {"kind": "series", "by": ["day", "a", "b"]}):
        with pytest.raises(PlanError, match="are listed as combinations") as caught:
            make_plan(
                {
                    "budget": {"epsilon": 1.0},
                    "keys": {"day": {"days": SPAN}} if "day" in question["by"] else {},
                    "combinations": [{"columns": ["a", "b"], "keys": [["x", "y"]]}],
                    "query": [{"name": "n", **question}],
                }
            )
        assert caught.value.field == "query[0]"


ODD = ["it's", 'a "b"', "back\\slash", "line\nbreak", "", "ünïcode ☃", "$1", "%", " space ", "a\tb", "[x]", "\\E.*"]


@pytest.mark.parametrize("separator", ["", "\x1f"])
@pytest.mark.parametrize("source", ["arrow", pytest.param("spark", marks=pytest.mark.slow)])
def test_long_lists_of_keys_reach_the_engine_as_they_are(source, separator, request):
    """Lists that are handed over as one text: quotes, empty keys at either end, and the separator itself."""
    keys = ["", *(f"{at}{separator}" for at in range(150)), *ODD[:4], *ODD[5:], "last", "\x1e"]
    values = [*keys, *keys[::3], "unlisted", "0", None]
    other = [each[::-1] for each in values[:-1]] + [None]
    rows, text = [{"x": x, "y": y} for x, y in zip(values, other, strict=True)], (pa.string(), "string")
    pairs = list(dict.fromkeys(zip(values[:-3], other[:-3], strict=True)))
    query = [{"name": "n", "kind": "count", "by": ["x"]}, {"name": "m", "kind": "count", "by": ["y", "x"]}]
    rule = {"values": keys, "other": "else", "missing": "none"}
    combined = {"columns": ["x", "y"], "keys": pairs}
    with SOURCES[source](rows, {"x": text, "y": text}, place_of(source, request)) as engine:
        for only in (False, True):
            plan = make_plan(
                {
                    "budget": {"epsilon": 1.0},
                    "only_listed": only,
                    "keys": {"x": rule},
                    "combinations": [combined],
                    "query": query,
                }
            )
            found = exact(plan, engine)
            label = {**{key: key for key in keys}, None: "none"}
            own = [label.get(each, "else") for each in values]
            kept = [not only or pair in pairs for pair in zip(own, other, strict=True)]
            for key in (*keys, "else", "none"):
                assert found[0, (key,)] == (sum(a == key and b for a, b in zip(own, kept, strict=True)),), repr(key)
            for a, b in pairs:
                assert found[1, (b, a)] == (list(zip(own, other, strict=True)).count((a, b)),)


@pytest.mark.slow
def test_a_hundred_thousand_keys_are_written_in_a_few_pieces():
    keys = [f"key {at}" for at in range(100_000)]
    plan = plan_for("x", keys)
    with DuckDB(pa.table({"x": ["key 7", "key 99999", "key 99999"]}), threads=1) as engine:
        (statement,) = statements(plan, engine.schema(), SALT, source=engine.source, dialect=engine.dialect)
        assert sum(1 for _ in statement.tree.walk()) < 1000
        found = counted(plan, engine)
    assert (found["key 7",], found["key 99999",], sum(found.values())) == (1, 2, 3)
