"""Widths in a table of about so many rows: as a release has them, and what is hopeless says so."""

import math

import pyarrow as pa
import pytest

from rangebound.errors import RangeboundError
from rangebound.release import forecast, make_plan, release
from rangebound.release.output.expected_width import expected_widths
from rangebound.release.prepare import prepare

X = {"column": "x", "range": [0, 10]}
KINDS = {
    "count": {"kind": "count"},
    "sum": {"kind": "sum", **X},
    "histogram": {"kind": "histogram", **X, "bins": 5},
    "mean": {"kind": "mean", **X},
    "share": {"kind": "share", "of": [{"column": "x", "is": ">", "value": 5}]},
}


def plan(query, epsilon=1.0, **more):
    return make_plan({"budget": {"epsilon": epsilon}, **more, "query": query})


@pytest.mark.parametrize("kind", ["mean", "share"])
def test_a_release_has_intervals_of_that_width(kind):
    rows = 400
    asked = plan([{"name": kind, **KINDS[kind]}], epsilon=8.0)
    (made,) = release(asked, pa.table({"x": [1.0, 8.0, 5.5, 3.0] * (rows // 4)}), ledger=None).rows()
    published = (made["upper"] - made["lower"]) / 2
    (found,) = expected_widths(asked, rows)
    assert published == pytest.approx(found.half_width, rel=0.05)  # its noise moves the number of rows by a few of 400
    assert published != pytest.approx(expected_widths(asked, rows / 2)[0].half_width, rel=0.05)  # the control


def test_a_mean_has_the_closed_form_of_two_clamped_laplace_numbers():
    """Two coordinates with Laplace noise of scale 1 / epsilon hold together with 95 % within ln(40) / epsilon."""
    (found,) = expected_widths(plan([{"name": "mean", **KINDS["mean"]}], epsilon=0.5), 1000)
    assert found.half_width == pytest.approx(10 * math.log(40) / 0.5 / 1000, rel=1e-5)


def test_other_widths_are_those_of_the_forecast():
    asked = plan([{"name": name, **each} for name, each in KINDS.items()])
    for one, wide in zip(forecast(asked), expected_widths(asked, 10_000), strict=True):
        assert one.half_width in (wide.half_width, None)
    weighted = plan([{"name": "mean", **KINDS["mean"], "weighted_by": {"column": "w", "range": [0, 5]}}])
    assert expected_widths(weighted, 100)[0].half_width is None
    assert expected_widths(plan([{"name": "median", "kind": "median", **X}]), 100)[0].half_width is None


def test_a_median_that_may_be_half_the_rows_away_is_hopeless():
    asked = plan([{"name": "median", "kind": "median", **X, "step": 0.1}], epsilon=0.1)
    off = prepare(asked).publishers[0].rank_error
    few, many = expected_widths(asked, 1.9 * off)[0], expected_widths(asked, 2.1 * off)[0]
    assert few.hopeless == f"may be {off:.4g} rows off, and a group has about {1.9 * off:.4g} rows"
    assert (few.half_width, many.hopeless) == (None, "")
    assert f"at most {off:.4g} rows" in forecast(asked)[0].error


@pytest.mark.parametrize("kind", KINDS)
def test_a_hopeless_question_says_so_and_others_do_not(kind):
    asked = plan([{"name": kind, **KINDS[kind], "by": ["town"]}], keys={"town": ["a", "b", "c", "d"]})
    few, many = expected_widths(asked, 8)[0], expected_widths(asked, 12_000)[0]
    assert few.hopeless.startswith(f"half-width {few.half_width:.4g}, and ")
    assert (few.rows, many.rows, many.hopeless) == (2.0, 3000.0, "")


def test_groups_that_are_selected_privately_may_have_all_rows():
    query = [{"name": "count", "kind": "count", "by": ["town"]}]
    asked = make_plan({"budget": {"epsilon": 1.0, "delta": 1e-6}, "query": query})
    assert expected_widths(asked, 500)[0].rows == 500.0


@pytest.mark.parametrize("rows", [0, -3, math.nan, math.inf, 0.5, "many", 1e16])
def test_rows_that_are_none_are_refused(rows):
    with pytest.raises(RangeboundError, match="rows"):
        expected_widths(plan([{"name": "count", "kind": "count"}]), rows)
