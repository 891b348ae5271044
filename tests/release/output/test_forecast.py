"""What each question will look like, at other epsilons, and in a table of about this many rows."""

import math

import pytest

from rangebound.errors import RangeboundError
from rangebound.release import forecast
from rangebound.release.output.forecast import expected_widths, outlook_cells
from rangebound.release.prepare import prepare
from tests.release.output.asked import asked, released
from tests.thinning import crossed

X = {"column": "x", "range": [0, 10]}
QUERY = [
    {"name": "visits", "kind": "count", "by": ["k"]},
    {"name": "sum", "kind": "sum", **X, "mechanism": "rectify Laplace"},
    {"name": "fixed", "kind": "count", "margin": 40},
    {"name": "mean", "kind": "mean", **X},
    {"name": "median", "kind": "median", **X},
]


def plan(epsilon=1.0, delta=0.0, query=QUERY):
    return asked(*query, epsilon=epsilon, delta=delta, keys={"k": ["a", "b", "c"]} if query is QUERY else {})


@pytest.mark.slow
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_the_outlook_at_another_epsilon_is_that_of_the_plan_with_this_epsilon(delta):
    here = forecast(plan(1.0, delta))
    for epsilon, found in ((0.5, "at_half_epsilon"), (2.0, "at_twice_epsilon")):
        other = prepare(plan(epsilon, delta))
        widths = [each.form.half_width(each.publisher) for each in other.questions]
        assert [getattr(each, found) for each in here] == widths
    assert sum(each.share for each in here) == pytest.approx(1.0, abs=1e-9)
    visits, total, fixed, mean, median = here
    assert visits.at_twice_epsilon < visits.half_width < visits.at_half_epsilon
    assert total.at_twice_epsilon < total.half_width < total.at_half_epsilon
    assert fixed.at_half_epsilon == fixed.half_width == pytest.approx(40.0)
    for each in (mean, median):
        assert each.half_width is None
        assert each.error_at_twice_epsilon < 1.0 < each.error_at_half_epsilon


@pytest.mark.few(1)
@crossed({"number": [3, 6, 7, 11, 13], "delta": [0.0, 1e-6]})
def test_shares_add_up_as_they_are_shown(number, delta):
    asked = [{"name": str(at), "kind": "count", "weight": 1 + at % 3} for at in range(number)]
    found = forecast(plan(delta=delta, query=asked))
    texts = [row[2] for row in outlook_cells(found)]
    assert round(sum(float(each.removesuffix(" %")) for each in texts), 6) == 100.0
    for each, text in zip(found, texts, strict=True):
        assert abs(100.0 * each.share - float(text.removesuffix(" %"))) < 0.1


def test_shares_that_are_rounded_one_by_one_need_not_add_up():
    found = forecast(plan(query=[{"name": str(at), "kind": "count"} for at in range(7)]))
    alone = [float(each.cells()[2].removesuffix(" %")) for each in found]
    assert round(sum(alone), 6) != 100.0  # the control


def test_half_an_epsilon_that_does_not_meet_the_margins_is_said_to_be_refused():
    query = [{"name": "a", "kind": "count", "margin": 5}]
    epsilon = prepare(plan(3.0, query=query)).allocation.questions[0].epsilon
    (found,) = forecast(plan(1.01 * epsilon, query=query))
    assert found.at_half_epsilon is None
    assert found.cells()[5] == "refused"
    assert found.cells()[6] == "5"


KINDS = {
    "count": {"kind": "count"},
    "sum": {"kind": "sum", **X},
    "histogram": {"kind": "histogram", **X, "bins": 5},
    "mean": {"kind": "mean", **X},
    "share": {"kind": "share", "of": [{"column": "x", "is": ">", "value": 5}]},
}


@pytest.mark.parametrize("kind", ["mean", "share"])
def test_a_release_has_intervals_of_that_width(kind):
    rows = 400
    plan = asked(KINDS[kind], epsilon=8.0)
    (made,) = released(plan, {"x": [1.0, 8.0, 5.5, 3.0] * (rows // 4)}).rows()
    published = (made["upper"] - made["lower"]) / 2
    (found,) = expected_widths(plan, rows)
    assert published == pytest.approx(found.half_width, rel=0.05)  # its noise moves the number of rows by a few of 400
    assert published != pytest.approx(expected_widths(plan, rows / 2)[0].half_width, rel=0.05)  # the control


@pytest.mark.parametrize("unit", [{}, {"unit": {"column": "u", "rows": 2}}], ids=["rows", "pairs"])
@pytest.mark.parametrize("kind", ["mean", "share"])
def test_a_sample_that_varies_most_has_both_intervals_of_those_widths(kind, unit):
    rows, plan = 800, asked(KINDS[kind], epsilon=8.0, intervals="both", **unit)
    (cell,) = released(plan, {"x": [0.0, 0.0, 10.0, 10.0] * (rows // 4), "u": [at // 2 for at in range(rows)]}).cells
    (found,), (fewer,) = expected_widths(plan, rows), expected_widths(plan, rows / 2)
    assert (cell.population_upper - cell.population_lower) / 2 == pytest.approx(found.population, rel=0.05)
    assert (cell.upper - cell.lower) / 2 == pytest.approx(found.half_width, rel=0.05)
    assert fewer.population > 1.3 * found.population > 1.3 * found.half_width  # the control, of half as many rows
    assert expected_widths(asked(KINDS[kind]), rows)[0].population is None


def test_a_mean_has_the_closed_form_of_two_clamped_laplace_numbers():
    """Two coordinates with Laplace noise of scale 1 / epsilon hold together with 95 % within ln(40) / epsilon."""
    (found,) = expected_widths(asked(KINDS["mean"], epsilon=0.5), 1000)
    assert found.half_width == pytest.approx(10 * math.log(40) / 0.5 / 1000, rel=1e-5)


def test_other_widths_are_those_of_the_forecast():
    plan = asked(*KINDS.values())
    for one, wide in zip(forecast(plan), expected_widths(plan, 10_000), strict=True):
        assert one.half_width in (wide.half_width, None)
    weighted = asked(KINDS["mean"] | {"weighted_by": {"column": "w", "range": [0, 5]}})
    assert expected_widths(weighted, 100)[0].half_width is None
    assert expected_widths(asked({"kind": "median", **X}), 100)[0].half_width is None


def test_a_median_that_may_be_half_the_rows_away_is_hopeless():
    plan = asked({"kind": "median", **X, "step": 0.1}, epsilon=0.1)
    off = prepare(plan).publishers[0].rank_error
    few, many = expected_widths(plan, 1.9 * off)[0], expected_widths(plan, 2.1 * off)[0]
    assert few.hopeless == f"may be {off:.4g} rows off, and a group has about {1.9 * off:.4g} rows"
    assert (few.half_width, many.hopeless) == (None, "")
    assert f"at most {off:.4g} rows" in forecast(plan)[0].error


@pytest.mark.parametrize("kind", KINDS)
def test_a_hopeless_question_says_so_and_others_do_not(kind):
    plan = asked({**KINDS[kind], "by": ["town"]}, keys={"town": ["a", "b", "c", "d"]})
    few, many = expected_widths(plan, 8)[0], expected_widths(plan, 12_000)[0]
    assert few.hopeless.startswith(f"half-width {few.half_width:.4g}, and ")
    assert (few.rows, many.rows, many.hopeless) == (2.0, 3000.0, "")
    private = asked({**KINDS[kind], "by": ["town"]}, delta=1e-6)
    assert expected_widths(private, 500)[0].rows == 500.0  # groups that are selected privately may have all rows


@pytest.mark.parametrize("rows", [0, -3, math.nan, math.inf, 0.5, "many", 1e16])
def test_rows_that_are_none_are_refused(rows):
    with pytest.raises(RangeboundError, match="rows"):
        expected_widths(asked({"kind": "count"}), rows)
