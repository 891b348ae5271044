"""A summary is the plan that a person would write, with the answers of pandas; what it finds first is paid for."""

import datetime
import re
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rangebound.errors import ArgumentError
from rangebound.release import forecast, make_plan, parse_plan, release
from rangebound.release.plan.source import Source
from rangebound.release.plan.table_schema import Family
from rangebound.release.summary import MOST_COLUMNS, Described, Role, roles_of

SOURCE = {"path": "people.parquet"}
KNOWN = Described(
    source=Source(**SOURCE),
    schema={"who": Family.TEXT, "age": Family.NUMBER, "town": Family.TEXT, "born": Family.DATE},
    roles={"age": Role.NUMBER, "town": Role.CATEGORY, "born": Role.DAY},
    unit="who",
    epsilon=90.0,
    delta=1e-6,
    account="people",
    ledger="people.ledger",
    ranges={"age": (0.0, 100.0), "born": (datetime.date(1950, 1, 1), datetime.date(1970, 1, 1))},
    keys={"town": ("Bern", "Basel")},
)
EACH_ROW = replace(KNOWN, unit=None)
SEVERAL = replace(KNOWN, rows=2)
WRITTEN = """
title = "T"
consistent = true
source = {path = "people.parquet"}
unit = {column = "who"}
budget = {epsilon = 90.0, delta = 1e-6, account = "people", ledger = "people.ledger"}

[per_unit]
age = "MIN(age)"
town = "ARG_MIN(town, DATE '2000-01-01')"

[keys]
age = {bins = [0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100], missing = "missing", other = "outside"}
town = {values = ["Bern", "Basel"], missing = "missing", other = "other"}

[[query]]
name = "units"
kind = "count"

[[query]]
name = "age"
kind = "count"
by = ["age"]

[[query]]
name = "age mean"
kind = "mean"
column = "age"
range = [0, 100]

[[query]]
name = "age spread"
kind = "standard deviation"
column = "age"
range = [0, 100]

[[query]]
name = "age quartiles"
kind = "quantiles"
column = "age"
range = [0, 100]
levels = [0.25, 0.5, 0.75]

[[query]]
name = "town"
kind = "count"
by = ["town"]

[[query]]
name = "age by town"
kind = "count"
by = ["age", "town"]
"""


def made_up(people=3_000):
    chance = np.random.default_rng(1)
    age = chance.integers(0, 110, people).astype(float)
    age[::10] = np.nan
    town = chance.choice(["Bern", "Basel", "Chur", None], people, p=[0.5, 0.3, 0.1, 0.1])
    born = np.datetime64("1950-01-01") + chance.integers(0, 7305, people)
    return pd.DataFrame(
        {"who": [f"p{at}" for at in range(people)], "age": age, "town": town, "born": born.astype("M8[D]")}
    )


def arrow(frame):
    return pa.table(
        {
            **{name: pa.array(frame[name], from_pandas=True) for name in frame},
            "born": pa.array(frame["born"]).cast("date32"),
        }
    )


def numbers(made, query, column):
    return {row[column]: row["value"] for row in made.rows() if row["query"] == query}


def test_the_plan_is_the_one_that_a_person_would_write():
    asked = replace(KNOWN, roles={name: KNOWN.roles[name] for name in ("age", "town")})
    assert make_plan(asked.plan(error=1000.0) | {"title": "T"}) == parse_plan(WRITTEN)
    assert make_plan(asked.plan() | {"title": "T"}) != parse_plan(WRITTEN)  # control: no two-way table


@pytest.mark.claim("answer")
@pytest.mark.parametrize(
    "known",
    [KNOWN, SEVERAL, pytest.param(EACH_ROW, marks=pytest.mark.slow)],
    ids=["one row per unit", "several rows", "each row"],
)
def test_the_answers_are_those_of_pandas(known):
    frame = made_up()
    made = release(known.plan(), arrow(frame), ledger=None)
    values = {row["query"]: row["value"] for row in made.rows()}
    inside = frame["age"].clip(0, 100)
    assert values["rows" if known is not KNOWN else "units"] == pytest.approx(len(frame), abs=2)
    assert values["age mean"] == pytest.approx(inside.mean(), abs=0.5)
    assert values["age spread"] == pytest.approx(inside.std(ddof=0), abs=1.5)
    quartiles = [row["value"] for row in made.rows() if row["query"] == "age quartiles"]
    assert quartiles == pytest.approx(list(inside.quantile([0.25, 0.5, 0.75])), abs=2)
    towns = frame["town"].fillna("missing").replace("Chur", "other").value_counts()
    assert numbers(made, "town", "town") == pytest.approx(towns.to_dict(), abs=3)
    if known is SEVERAL:
        bins = np.histogram(inside.dropna(), np.linspace(0, 100, 11))[0]
        assert list(numbers(made, "age", "part").values()) == pytest.approx(list(bins), abs=4)
        assert values["age missing"] == pytest.approx(frame["age"].isna().sum(), abs=4)
        assert values["units"] == pytest.approx(len(frame), abs=4)
    else:
        ages = numbers(made, "age", "age")
        assert ages["missing"] == pytest.approx(frame["age"].isna().sum(), abs=3)
        assert ages["outside"] == pytest.approx((frame["age"] > 100).sum(), abs=3)
        assert ages["[10, 20)"] == pytest.approx(frame["age"].between(10, 20, inclusive="left").sum(), abs=3)


def sums(made):
    """The total of each table of counts, and of the two-way table by its first column."""
    found = {}
    for row in made.rows():
        if row["kind"] == "count":
            found[row["query"]] = found.get(row["query"], 0) + row["value"]
    return found


@pytest.mark.claim("answer")
@pytest.mark.parametrize("delta", [0.0, 1e-6], ids=["plain sums", "Gaussian account"])
def test_counts_add_up(delta):
    known = replace(KNOWN, epsilon=0.5, delta=delta, roles={"age": Role.NUMBER, "town": Role.CATEGORY})
    asked = known._asking((("age", "town"),))
    counts = asked | {"query": [each for each in asked["query"] if each["kind"] == "count"]}
    rows = arrow(made_up(200))
    made = release(counts, rows, ledger=None)
    assert set(sums(made)) == {"units", "age", "town", "age by town"}
    assert len(set(sums(made).values())) == 1
    both, ages = [row for row in made.rows() if row["query"] == "age by town"], numbers(made, "age", "age")
    assert {age: sum(row["value"] for row in both if row["age"] == age) for age in ages} == ages
    apart = [each | {"weight": 1.0} for each in counts["query"]]
    other = release(counts | {"query": apart, "consistent": False}, rows, ledger=None)
    assert len(set(sums(other).values())) > 1  # control


@pytest.mark.slow
def test_two_way_tables_come_while_every_count_is_within_the_error():
    keys = {name: tuple("abcdef"[:many]) for name, many in (("big", 6), ("sex", 2), ("town", 4))}
    known = replace(EACH_ROW, epsilon=1.0, delta=0.0, roles=dict.fromkeys(keys, Role.CATEGORY), keys=keys)

    def tables(asked):
        return [each["name"] for each in asked["query"] if len(each.get("by", ())) == 2]

    def widest(asked):
        return max(each.half_width for each in forecast(make_plan(asked)))

    assert tables(known.plan(1e6)) == ["sex by town", "big by sex", "big by town"]
    assert tables(known.plan(0.1)) == []
    for many, first in ((1, [("sex", "town")]), (2, [("sex", "town"), ("big", "sex")])):
        error = widest(known._asking(first))
        assert tables(known.plan(error)) == tables(known.plan(1e6))[:many]
        assert tables(known.plan(0.999 * error)) == tables(known.plan(1e6))[: many - 1]  # control


@pytest.mark.claim("answer")
@pytest.mark.parametrize(
    "known", [KNOWN, pytest.param(EACH_ROW, marks=pytest.mark.slow)], ids=["one row per unit", "each row"]
)
def test_ranges_and_keys_are_found_and_the_few_are_not(known):
    unknown = replace(known, ranges={}, keys={}, delta=1e-5)
    assert unknown.unknown == ("age", "town", "born")
    found = unknown.learnt(release(unknown.first(0.5), arrow(made_up()), ledger=None), 0.5)
    assert found.unknown == ()
    lower, upper = found.ranges["age"]
    assert 0 <= lower <= 5
    assert 90 <= upper <= 120
    assert found.keys["town"][:2] == ("Bern", "Basel")
    assert found.ranges["born"][0].year in (1950, 1951)
    assert "'age', 'town', 'born' were found privately before, for epsilon 45, delta 5e-06." in found.plan()["title"]
    few = unknown.learnt(release(unknown.first(0.001), arrow(made_up(40)), ledger=None), 0.001)
    assert few.unknown == ("age", "town", "born")
    names = [each["name"] for each in few.plan()["query"]]
    assert names == ["units" if known is KNOWN else "rows", "age missing", "town missing", "born missing"]


@pytest.mark.claim("answer")
def test_keys_that_are_named_like_the_groups_of_others_have_counts_of_their_own():
    town = pa.table({"town": ["other"] * 40 + ["missing"] * 30 + ["Bern"] * 20 + [None] * 10})
    known = replace(EACH_ROW, roles={"town": Role.CATEGORY}, keys={"town": ("other", "missing")})
    found = numbers(release(known.plan(), town, ledger=None), "town", "town")
    assert found == pytest.approx({"other": 40, "missing": 30, "other_": 20, "missing_": 10}, abs=2)


def test_a_sample_has_intervals_for_the_population_and_the_page_says_what_counts():
    known = replace(KNOWN, sample=True, roles={"age": Role.NUMBER})
    made = release(known.plan(), arrow(made_up(300)), ledger=None)
    (mean,) = (row for row in made.rows() if row["kind"] == "mean")
    assert mean["population_lower"] < mean["lower"] < mean["upper"] < mean["population_upper"]
    assert "Of each 'who' the least value of each column counts." in made.plan.title
    assert "least value" not in SEVERAL.plan()["title"] + EACH_ROW.plan()["title"]  # control


def test_many_long_names_can_be_asked():
    roles = {f"{'long' * 40}{at}": Role.NUMBER for at in range(MOST_COLUMNS)}
    asked = replace(KNOWN, schema=dict.fromkeys(roles, Family.NUMBER), roles=roles, ranges={})
    assert len(make_plan(asked.first(0.1)).query) == len(make_plan(asked.plan()).query) == MOST_COLUMNS + 1


NONE = release({"budget": {"epsilon": 9}, "query": [{"name": "n", "kind": "count"}]}, arrow(made_up(1)), ledger=None)
"""A release that found nothing."""


@given(epsilon=st.floats(0.01, 10), delta=st.floats(1e-12, 1e-3), share=st.floats(0.001, 0.9))
def test_both_plans_spend_exactly_what_was_given(epsilon, delta, share):
    epsilon, delta = float(f"{epsilon:.6g}"), float(f"{delta:.6g}")
    asked = replace(KNOWN, epsilon=epsilon, delta=delta, ranges={}, keys={})
    first, second = asked.first(share)["budget"], asked.learnt(NONE, share).plan()["budget"]
    for name, total in (("epsilon", epsilon), ("delta", delta)):
        assert Decimal(repr(first[name])) + Decimal(repr(second[name])) == Decimal(repr(total))


def test_columns_must_be_declared_or_typed_and_few():
    schema = {"who": Family.UNTYPED, "age": Family.UNTYPED}
    with pytest.raises(ArgumentError, match=r"columns 'age' have no types.*--numeric age,cost"):
        roles_of(schema, {}, "who")
    assert roles_of(schema, {"age": Role.NUMBER}, "who") == {"age": Role.NUMBER}
    wide = {f"c{at}": Family.NUMBER for at in range(1000)}
    with pytest.raises(
        ArgumentError,
        match=re.escape(f"1000 of them would share one budget, so that all is noise; name at most {MOST_COLUMNS}"),
    ):
        roles_of(wide, {}, None)
    with pytest.raises(ArgumentError, match="needs a delta"):
        replace(KNOWN, keys={}, delta=0.0).first(0.1)
