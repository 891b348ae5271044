"""A plan in words: dates are dates, many spans are counted, one of a thing is one."""

import datetime
import json

import pytest

from rangebound.errors import PlanError
from rangebound.release import explain, forecast
from rangebound.release.output.explain import dry_run
from tests.release.output.asked import asked

FIRST, LAST = datetime.date(2025, 1, 6), datetime.date(2025, 3, 28)


def plan(kind, **fields):
    return asked({"kind": kind, "column": "day", "range": [FIRST, LAST], **fields}, unit={"column": "who"})


def week(number):
    monday = FIRST + datetime.timedelta(days=7 * number)
    return [monday, monday + datetime.timedelta(days=4)]


def test_dates_are_said_as_dates_and_many_spans_by_their_ends():
    assert "published in [2025-01-06, 2025-03-28], " in explain(plan("median"))
    two = explain(plan("median", support=[week(0), week(1)]))
    assert "published in [2025-01-06, 2025-01-10] or [2025-01-13, 2025-01-17], " in two
    many = explain(plan("median", support=[week(number) for number in range(12)]))
    assert "published in 12 spans from 2025-01-06 to 2025-03-28, " in many
    assert "published in [0.0395508, 40.5], " in explain(plan("standard deviation"))  # of days
    assert "at most 1 group and 1 row in each of them count" in many


def test_a_support_that_sticks_out_is_refused_in_dates():
    with pytest.raises(PlanError, match=r"must lie within \[2025-01-06, 2025-03-28\]"):
        plan("median", support=[datetime.date(2024, 1, 1), LAST])


def test_a_dry_run_says_what_explain_and_forecast_say():
    plan = asked({"kind": "count"}, epsilon=0.5)
    found = dry_run(plan)
    assert found["explained"] == explain(plan)
    assert found["queries"] == [each.to_dict() for each in forecast(plan)]
    assert found["privacy"]["epsilon"] >= 0
    assert json.loads(json.dumps(found)) == found
