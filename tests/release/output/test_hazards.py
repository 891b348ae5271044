"""Warnings about plans that are valid and protect less than they seem to."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rangebound.ledger.book import Ledger
from rangebound.ledger.replay import BudgetPeriod
from rangebound.release.output.explain import dry_run
from rangebound.release.output.plan_facts import hazards, is_odd, stated_ranges
from tests.release.output.asked import asked, released, report

UNIT = {"column": "person", "rows": 3}


def plan(question=None, unit=UNIT, **others):
    return asked(question or {"kind": "count"}, unit=unit, **others)


def mean(lower, upper):
    return {"kind": "mean", "column": "age", "range": [lower, upper]}


UNITS = {**UNIT, "neighbours": "replace", "size": 1000}


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"unit": {}}, "the unit is a single row"),
        ({"epsilon": 10.0}, None),
        ({"epsilon": 10.1}, "epsilon 10.1 is above 10"),
        ({"unit": UNITS, "delta": 1e-3}, None),
        ({"unit": UNITS, "delta": 2e-3}, "delta 0.002 is above 1 / 1000"),
        ({"delta": 2e-3}, None),  # the number of units is not public
        *(
            ({"question": mean(*ends)}, "the range of 'age'")
            for ends in [(17.38, 93), (0, 4127), (0.0, 0.12345), (-31.27, 0), (1e-9, 123456.0)]
        ),
        *(
            ({"question": mean(*ends)}, None)
            for ends in [(0, 120), (0, 86400), (0, 1440), (0, 99.99), (0.0, 0.125), (1900, 2025), (0, 65535)]
        ),
        *(({"question": mean(*ends)}, None) for ends in [(-273, 1e6), (-40, 19999)]),
    ],
    ids=str,
)
def test_what_is_dangerous_has_its_warning_and_what_people_choose_has_none(parts, words):
    found = hazards(plan(**parts))
    assert found == () if words is None else words in " ".join(found)


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
    found = hazards(plan({"kind": "mean", "column": "log_age"}, columns=made))
    assert len(found) == 1
    assert "'age'" in found[0]
    ends = {"x": {"column": "a", "range": [0, 1]}, "y": {"column": "b", "range": [0, 3.14159]}}
    assert stated_ranges(plan({"kind": "correlation", **ends})) == {"a": (0.0, 1.0), "b": (0.0, 3.14159)}


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
    name = "<script>x</script>"
    asks = plan({"kind": "mean", "column": name, "range": [0, 71.93]}, unit={})
    page = report(released(asks, {name: [1.0, 2.0]}))
    assert "Warning: the unit is a single row" in page
    assert "Warning: the range of &#x27;&lt;script&gt;x&lt;/script&gt;&#x27;, [0, 71.93], looks taken" in page
    assert name not in page
    assert "Warning" not in report(released(plan(), {"person": [1, 2]}))
