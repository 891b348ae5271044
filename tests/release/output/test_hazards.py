"""Warnings about plans that are valid and protect less than they seem to."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rangebound.ledger.book import Ledger
from rangebound.ledger.period import BudgetPeriod
from rangebound.release import make_plan, release
from rangebound.release.output.dry_run import dry_run
from rangebound.release.output.hazards import hazards, is_odd, stated_ranges
from rangebound.release.output.report import report

UNIT = {"column": "person", "rows": 3}


def plan(unit=UNIT, budget=None, **others):
    query = others.pop("query", [{"name": "visits", "kind": "count"}])
    return make_plan({"unit": unit, "budget": budget or {"epsilon": 1.0}, "query": query, **others})


def mean(lower, upper):
    return [{"name": "age", "kind": "mean", "column": "age", "range": [lower, upper]}]


def said(*arguments, **named):
    return " ".join(hazards(*arguments, **named))


def test_a_careful_plan_has_no_warning():
    assert hazards(plan(query=mean(0, 120))) == ()


def test_a_single_row_as_unit():
    assert "the unit is a single row" in said(plan(unit={}))


def test_epsilon_above_ten_and_not_at_ten():
    assert hazards(plan(budget={"epsilon": 10.0})) == ()
    assert "epsilon 10.1 is above 10" in said(plan(budget={"epsilon": 10.1}))


def test_delta_above_one_over_the_number_of_units_where_that_is_public():
    unit = {**UNIT, "neighbours": "replace", "size": 1000}
    assert hazards(plan(unit=unit, budget={"epsilon": 1.0, "delta": 1e-3})) == ()
    assert "delta 0.002 is above 1 / 1000" in said(plan(unit=unit, budget={"epsilon": 1.0, "delta": 2e-3}))
    assert hazards(plan(budget={"epsilon": 1.0, "delta": 2e-3})) == ()


@pytest.mark.parametrize("ends", [(17.38, 93), (0, 4127), (0.0, 0.12345), (-31.27, 0), (1e-9, 123456.0)])
def test_a_range_that_looks_taken_from_the_data(ends):
    assert "the range of 'age'" in said(plan(query=mean(*ends)))


@pytest.mark.parametrize(
    "ends",
    [(0, 120), (0, 86400), (0, 1440), (0, 99.99), (0.0, 0.125), (1900, 2025), (0, 65535), (-273, 1e6), (-40, 19999)],
)
def test_a_range_that_people_choose(ends):
    assert hazards(plan(query=mean(*ends))) == ()


@given(st.integers(1, 999), st.integers(-6, 12))
def test_three_digits_and_zeros_are_never_odd(digits, power):
    assert not is_odd(float(f"{digits}e{power}"))


def test_most_minima_and_maxima_of_measured_numbers_are_odd():
    """The control: ends that are read off data are found, but for those that happen to be round."""
    import numpy

    drawn = numpy.random.default_rng(1).lognormal(3, 1, size=(500, 200)).round(2)
    assert numpy.mean([is_odd(float(each)) for each in drawn.max(axis=1)]) > 0.85


def test_ranges_of_columns_and_of_two_columns_are_looked_at_and_made_ones_are_not():
    made = {"age": {"range": [0, 117.46]}, "log_age": "age * 1.2345"}
    query = [{"name": "x", "kind": "mean", "column": "log_age"}]
    found = hazards(plan(columns=made, query=query))
    assert len(found) == 1
    assert "'age'" in found[0]
    ends = {"x": {"column": "a", "range": [0, 1]}, "y": {"column": "b", "range": [0, 3.14159]}}
    two = plan(query=[{"name": "c", "kind": "correlation", **ends}])
    assert stated_ranges(two) == {"a": (0.0, 1.0), "b": (0.0, 3.14159)}


def test_a_budget_that_begins_anew(tmp_path):
    with Ledger.create(tmp_path / "l.ledger") as ledger:
        ledger.open_account("for good", epsilon=1)
        ledger.open_account("by month", epsilon=1, period=BudgetPeriod.MONTH)
        assert hazards(plan(), account=ledger.account("for good")) == ()
        found = hazards(plan(), account=ledger.account("by month"))
        assert dry_run(plan(), account=ledger.account("by month"))["warnings"] == list(found)
    assert len(found) == 1
    assert "begins anew with each month" in found[0]


def test_the_report_shows_warnings_with_names_as_texts():
    pyarrow = pytest.importorskip("pyarrow")
    name = "<script>x</script>"
    query = [{"name": "x", "kind": "mean", "column": name, "range": [0, 71.93]}]
    page = report(release(plan(unit={}, query=query), pyarrow.table({name: [1.0, 2.0]}), ledger=None))
    assert "Warning: the unit is a single row" in page
    assert "Warning: the range of &#x27;&lt;script&gt;x&lt;/script&gt;&#x27;, [0, 71.93], looks taken" in page
    assert name not in page
    careful = plan(query=[{"name": "visits", "kind": "count"}])
    assert "Warning" not in report(release(careful, pyarrow.table({"person": [1, 2]}), ledger=None))
