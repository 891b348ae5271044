"""Contribution bounds of the unit and of single questions: what is refused, what counts, and what is said about it."""

import datetime
import random

import pandas as pd
import pytest

from rangebound.errors import PlanError
from rangebound.release.gaps import left_out, suggest
from rangebound.release.output.agreement import obstacles
from rangebound.release.plan.groupings import blocks
from rangebound.release.plan.table_schema import Family
from rangebound.release.plan.toml import make_plan
from rangebound.release.plan.unit import Period

YEAR = [datetime.date(2025, 1, 1), datetime.date(2025, 12, 31)]
DAILY = {"column": "day", "each": "day", "range": YEAR}
UNIT = {"column": "person", "rows": 2, "groups": 3}


def plan(*queries, unit=UNIT, **parts):
    asked = [{"name": f"q{at}", "kind": "count", **each} for at, each in enumerate(queries)]
    return make_plan({"unit": unit, "budget": {"epsilon": 1.0, "delta": 1e-6}, "query": asked, **parts})


NAMED = {"day": str, "week": lambda day: day.isocalendar()[:2], "month": lambda day: day.isoformat()[:7]}


@pytest.mark.parametrize("each", NAMED)
def test_periods_are_those_of_the_calendar(each):
    chance = random.Random(each)
    for _ in range(300):
        first = datetime.date(1, 1, 1) + datetime.timedelta(days=chance.randrange(3_600_000))
        days = [first + datetime.timedelta(days=at) for at in range(chance.randrange(1, 400))]
        period = Period(column="day", each=each, range=(days[0], days[-1]))
        assert period.number == len(set(map(NAMED[each], days)))


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
    for each, rule, most in (
        ("day", days, 2),
        ("month", days, 2),
        ("week", {"weeks": YEAR}, 2),
        ("month", {"months": YEAR}, 2),
        ("day", {"weeks": YEAR}, 730),
        ("month", {"weeks": YEAR}, 24),
        ("week", {"weeks": YEAR, "other": "2025-01-01"}, 106),
        ("day", ["2025-01-01", "2025-01-02"], 730),  # a text may stand for any day
    ):
        made = plan({"by": ["day"], "period": {**DAILY, "each": each}}, keys={"day": rule})
        assert made.unit_of(made.query[0]).most_rows == most


def test_questions_by_the_same_keys_that_are_selected_have_the_same_bounds():
    with pytest.raises(PlanError, match=r"query\[1\]\.groups: must be that of query 'q0'"):
        plan({"by": ["a"]}, {"by": ["a"], "groups": 2})
    with pytest.raises(PlanError, match=r"query\[1\]\.period: must be that of query 'q0'"):
        plan({"by": ["a"], "period": DAILY}, {"by": ["a"]})


def test_what_is_cut_is_asked_with_the_bounds_of_each_question():
    made = plan({"rows": 1}, {"rows": 2}, {}, {"rows": 2, "period": DAILY}, report_clipping=True)
    cuts = [each for each in made.query if each.made]
    assert [each.about for each in cuts] == [("q0",), ("q1", "q2"), ("q3",)]  # 2 is the bound of the unit
    assert [made.unit_of(each).most_rows for each in cuts] == [1, 2, 730]
    assert [each.looked_at(made.unit_of(each), 1) for each in cuts] == [10, 20, 7300]


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
