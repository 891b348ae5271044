"""Contribution bounds of the unit and of single questions: what is refused, what counts, and what is said about it."""

import datetime
import json
import random

import pandas as pd
import pytest

from rangebound.errors import PlanError
from rangebound.release import check_certificate, explain, parse_plan, release
from rangebound.release.engine.duckdb import DuckDB
from rangebound.release.output.consistency import obstacles
from rangebound.release.output.scope import scope
from rangebound.release.output.table import plan_from_json, plan_json
from rangebound.release.plan.groupings import blocks
from rangebound.release.plan.kinds.kind import KINDS
from rangebound.release.plan.table_schema import Family, check_schema
from rangebound.release.plan.toml import make_plan
from rangebound.release.plan.unit import Period
from rangebound.release.sql.aggregate import aggregate
from rangebound.release.suggest import left_out, suggest
from tests.release.plans import SALT

YEAR = [datetime.date(2025, 1, 1), datetime.date(2025, 12, 31)]
DAILY = {"column": "day", "each": "day", "range": YEAR}
UNIT = {"column": "person", "rows": 2, "groups": 3}


def plan(*queries, unit=UNIT, **parts):
    asked = [{"name": f"q{at}", "kind": "count", **each} for at, each in enumerate(queries)]
    return make_plan({"unit": unit, "budget": {"epsilon": 1.0, "delta": 1e-6}, "query": asked, **parts})


def place(each, day):
    """The name of a day's period, as the calendar has it."""
    return {"day": day.isoformat(), "week": str(day.isocalendar()[:2]), "month": day.isoformat()[:7]}[each]


@pytest.mark.parametrize("each", ["day", "week", "month"])
def test_periods_are_those_of_the_calendar(each):
    chance = random.Random(each)
    for _ in range(300):
        first = datetime.date(1, 1, 1) + datetime.timedelta(days=chance.randrange(3_600_000))
        days = [first + datetime.timedelta(days=at) for at in range(chance.randrange(1, 400))]
        period = Period(column="day", each=each, range=(days[0], days[-1]))
        assert period.number == len({place(each, day) for day in days})


def test_a_question_has_the_bounds_of_the_unit_but_for_its_own():
    made = plan({}, {"by": ["clinic"], "groups": 9}, {"rows": 5}, {"period": DAILY}, keys={"clinic": ["a", "b"]})
    found = [made.unit_of(each) for each in made.query]
    assert [(each.rows, each.groups, each.most_rows) for each in found] == [
        (2, 3, 2),
        (2, 9, 2),
        (5, 3, 5),
        (2, 3, 730),
    ]
    assert [each.questions for each in blocks(made)] == [(0, 2), (1,), (3,)]
    assert made.query[3].sensitivity(found[3], 1).total == 730


def test_where_a_group_is_one_day_it_has_one_period():
    days = {"days": [datetime.date(2025, 1, 1), datetime.date(2025, 1, 31)]}
    made = plan(
        {"by": ["day"], "period": DAILY}, {"by": ["day"], "period": {**DAILY, "each": "month"}}, keys={"day": days}
    )
    assert [made.unit_of(each).most_rows for each in made.query] == [2, 2]
    for each, rule, most in (
        ("week", {"weeks": YEAR}, 2),
        ("month", {"months": YEAR}, 2),
        ("day", {"weeks": YEAR}, 730),
        ("month", {"weeks": YEAR}, 24),
        ("week", {"weeks": YEAR, "other": "2025-01-01"}, 106),
    ):
        made = plan({"by": ["day"], "period": {**DAILY, "each": each}}, keys={"day": rule})
        assert made.unit_of(made.query[0]).most_rows == most
    texts = plan({"by": ["day"], "period": DAILY}, keys={"day": ["2025-01-01", "2025-01-02"]})
    assert texts.unit_of(texts.query[0]).most_rows == 730  # a text may stand for any day


def test_questions_that_differ_in_rows_alone_share_a_scan():
    made = plan(
        {"by": ["clinic"], "rows": 1},
        {"by": ["clinic"], "rows": 9},
        {"by": ["clinic"], "groups": 2},
        {"by": ["clinic"], "groups": 7},
        keys={"clinic": ["a", "b"]},
    )
    assert [each.questions for each in blocks(made)] == [(0, 1, 2, 3)]  # of two groups all count


@pytest.mark.parametrize(
    ("queries", "parts", "words"),
    [
        ([{"rows": 2}], {"unit": {}}, r"query\[0\]\.rows: is not needed where the unit is the row"),
        ([{"groups": 2, "by": ["a"]}], {"unit": {}}, r"query\[0\]\.groups: is not needed"),
        ([{"period": DAILY}], {"unit": {}}, r"query\[0\]\.period: is not needed"),
        ([{}], {"unit": {"period": DAILY}}, "where the unit is the row"),
        ([{"groups": 2}], {}, r"query\[0\]\.groups: the query has no groups"),
        ([{"kind": "count of units", "rows": 2}], {}, "a unit counts once"),
        ([{"kind": "distinct count", "column": "drug", "rows": 2}], {}, "`values` says how many"),
        ([{"kind": "mode", "column": "drug", "rows": 2}], {"keys": {"drug": ["a", "b"]}}, "a unit counts once"),
        ([{"rows": 0}], {}, r"query\[0\]\.rows"),
        ([{"rows": 3000, "period": DAILY}], {}, "rows times the number of periods must be at most 1000000"),
        ([{"period": {**DAILY, "each": "year"}}], {}, r"period\.each"),
        ([{"period": {**DAILY, "range": YEAR[::-1]}}], {}, "the first day must not be after the last"),
        ([{"period": {**DAILY, "range": [0, 5]}}], {}, r"period\.range"),
        ([{"period": {"column": "day", "each": "day"}}], {}, r"period\.range"),
        ([{"by": ["a"]}, {"by": ["a"], "groups": 2}], {}, r"query\[1\]\.groups: must be that of query 'q0'"),
        ([{"by": ["a"], "period": DAILY}, {"by": ["a"]}], {}, r"query\[1\]\.period: must be that of query 'q0'"),
    ],
)
def test_bounds_that_cannot_be_are_refused_with_the_reason(queries, parts, words):
    with pytest.raises(PlanError, match=words):
        plan(*queries, **parts)


def test_a_period_needs_a_column_of_dates():
    schema = {"person": Family.INTEGER, "day": Family.INTEGER, "at": Family.TIMESTAMP}
    for made, field in (
        (plan({"period": DAILY}), "query[0].period.column"),
        (plan({}, unit={**UNIT, "period": DAILY}), "unit.period.column"),
    ):
        with pytest.raises(PlanError) as caught:
            check_schema(made, schema)
        assert caught.value.field == field
    check_schema(plan({"period": {**DAILY, "column": "at"}}), schema)


def test_bounds_are_written_and_read_again():
    made = plan(
        {"rows": 7},
        {"period": DAILY},
        {"by": ["clinic"], "groups": 2},
        unit={**UNIT, "period": DAILY},
        report_clipping=True,
    )
    assert plan_from_json(json.loads(plan_json(made))) == made
    assert parse_plan(made.to_toml()) == made


def table(seed=1, rows=500):
    chance = random.Random(seed)
    days = [YEAR[0] + datetime.timedelta(days=at) for at in range(0, 365, 3)]
    return pd.DataFrame(
        {
            "person": [chance.choice([None, *range(12)]) for _ in range(rows)],
            "clinic": [chance.choice(["a", "b", "c", None, "z"]) for _ in range(rows)],
            "day": pd.to_datetime([chance.choice([None, *days]) for _ in range(rows)]),
            "wait": [chance.choice([None, -5.0, 0.0, 100.0, chance.uniform(0, 100)]) for _ in range(rows)],
        }
    ).astype({"person": "Int64"})


def exact(made, frame):
    with DuckDB(frame) as engine:
        found = aggregate(made, engine, SALT)
    return {
        made.query[index].name: {key: own[key] for key in own} for each in found for index, own in each.answers.items()
    }


@pytest.mark.parametrize("each", ["day", "week", "month"])
@pytest.mark.parametrize("rows", [1, 3])
def test_what_counts_is_what_pandas_counts(each, rows):
    """Every person may be in all groups, so that none is chosen; of its rows in each period so many count."""
    period = {"column": "day", "each": each, "range": [datetime.date(2025, 2, 5), datetime.date(2025, 11, 20)]}
    asked = {"by": ["clinic"], "groups": 3, "rows": rows, "period": period}
    units = {name: bound for name, bound in asked.items() if name != "rows"} | {"kind": "count of units"}
    sums = {**asked, "kind": "sum", "column": "wait", "range": [0, 100]}
    made, frame = plan(asked, sums, units, keys={"clinic": ["a", "b", "c"]}), table()
    found = exact(made, frame)
    kept = frame[frame["person"].notna() & frame["day"].between("2025-02-05", "2025-11-20")]
    kept = kept.assign(when=[place(each, day.date()) for day in kept["day"]], value=kept["wait"].clip(0, 100))
    for clinic in "abc":
        own = kept[kept["clinic"] == clinic]
        assert found["q0"][clinic,] == (own.groupby(["person", "when"]).size().clip(upper=rows).sum(),)
        assert found["q2"][clinic,] == (own["person"].nunique(),)
        parts = own[own["value"].notna()].groupby(["person", "when"])["value"].agg(["mean", "size"])
        true = (parts["mean"] * parts["size"].clip(upper=rows)).sum()
        assert float(found["q1"][clinic,][0]) == pytest.approx(true, abs=1e-4)


def test_one_person_in_all_months_adds_one_to_each():
    frame = pd.DataFrame({"person": [1] * 24, "month": list(range(1, 13)) * 2})
    asked = {"by": ["month"], "rows": 1, "groups": 12}
    found = exact(plan(asked, {"by": ["month"]}, keys={"month": {"numbers": [1, 12]}}), frame)
    assert [count for (count,) in found["q0"].values()] == [1] * 12
    assert sum(count for (count,) in found["q1"].values()) == 2 * 3


def test_a_whole_release_has_a_certificate_that_makes_its_numbers_again():
    bounds = [{"rows": 4}, {"period": {**DAILY, "each": "month"}}, {"by": ["clinic"], "groups": 1}]
    asked = [*bounds, {"kind": "mean", "column": "wait", "range": [0, 100], "rows": 9}]
    made = release(plan(*asked, report_clipping=True), table(), ledger=None)
    assert check_certificate(made.certificate, made.to_bytes()).numbers == len(made.cells)
    rows = {row["query"]: row["scope"] for row in made.rows()}
    assert rows["q0"].startswith("rows per 'person' cut at 4")
    assert "rows per 'person' and month cut at 2" in rows["q1"]
    assert "rows outside 2025-01-01 to 2025-12-31 in 'day' left out" in rows["q1: rows dropped"]


def test_what_is_cut_is_asked_with_the_bounds_of_each_question():
    made = plan({"rows": 1}, {"rows": 2}, {}, {"rows": 2, "period": DAILY}, report_clipping=True)
    cuts = [each for each in made.query if each.made]
    assert [each.about for each in cuts] == [("q0",), ("q1", "q2"), ("q3",)]  # 2 is the bound of the unit
    assert [made.unit_of(each).most_rows for each in cuts] == [1, 2, 730]
    assert [each.looked_at(made.unit_of(each), 1) for each in cuts] == [10, 20, 7300]


def test_a_plan_in_words_names_the_bounds():
    text = explain(plan({}, {"rows": 5}, unit={**UNIT, "period": {**DAILY, "each": "week"}}))
    assert "2 rows in each of them and each week of 'day' from 2025-01-01 to 2025-12-31 count" in text
    assert "for queries without bounds of their own" in text
    assert "rows per 'person' and week cut at 5" in text
    assert scope(plan({}), 0) == "rows per 'person' cut at 2, rows without 'person' left out"


def test_counts_and_shares_with_different_bounds_do_not_agree():
    keys = {"clinic": ["a", "b"]}
    found = obstacles(plan({"rows": 1}, {"rows": 2, "by": ["clinic"]}, consistent=True, keys=keys))
    assert found == (
        "counts 'q1' are not fitted to 'q0': they have different bounds on the rows and groups of an owner",
    )
    share = {"kind": "share", "of": [{"column": "wait", "is": ">", "value": 2}], "partition": "p"}
    assert obstacles(plan({**share, "rows": 1}, {**share, "rows": 2}, consistent=True))
    assert not obstacles(plan({**share, "rows": 2}, share, consistent=True))


def test_a_suggestion_is_for_questions_without_bounds_of_their_own():
    data = {"unit": {"column": "person"}, "budget": {"epsilon": 50.0, "delta": 1e-6}}
    schema = {"person": Family.INTEGER, "clinic": Family.TEXT}

    def gaps(*queries):
        asked = [{"name": f"q{at}", "kind": "count", **each} for at, each in enumerate(queries)]
        return left_out({**data, "query": asked}, schema)

    found = gaps({"rows": 3}, {"by": ["clinic"], "groups": 2})
    assert (found.rows, found.groups) == (True, False)
    assert [each.name for each in found.counting] == ["q1"]
    with pytest.raises(PlanError, match="leaves nothing out"):
        gaps({"rows": 3}, {"by": ["clinic"], "groups": 2, "rows": 1})


def test_suggested_rows_are_those_in_each_period():
    """2,000 people with two rows on each of ten days."""
    days = [YEAR[0] + datetime.timedelta(days=at) for at in range(10)] * 2
    frame = pd.DataFrame({"person": [at for at in range(2000) for _ in days], "day": pd.to_datetime(days * 2000)})
    asked = [{"name": "visits", "kind": "count"}]
    budget = {"epsilon": 50.0}
    daily = suggest(
        {"unit": {"column": "person", "period": DAILY}, "budget": budget, "query": asked}, frame, ledger=None, share=1.0
    )
    whole = suggest({"unit": {"column": "person"}, "budget": budget, "query": asked}, frame, ledger=None, share=1.0)
    assert (daily.rows, whole.rows) == (2, 20)


def test_every_kind_takes_bounds_of_its_own():
    assert all({"rows", "groups", "period"} <= kind.model_fields.keys() for kind in KINDS.values())


def test_after_one_row_a_unit_there_is_nothing_to_bound():
    step = {"visits": {"value": "count()", "range": [0, 50]}}
    plan({}, unit={"column": "person"}, per_unit=step)
    with pytest.raises(PlanError, match=r"unit\.period: every unit has one row"):
        plan({}, unit={"column": "person", "period": DAILY}, per_unit=step)
    with pytest.raises(PlanError, match=r"query\[0\]\.rows: is not needed"):
        plan({"rows": 2}, unit={"column": "person"}, per_unit=step)
