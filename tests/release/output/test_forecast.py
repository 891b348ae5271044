"""What each question will look like, and what another epsilon would change."""

import pytest

from rangebound.release import forecast
from rangebound.release.output.forecast import outlook_cells
from rangebound.release.prepare import prepare
from tests.release.output.asked import asked
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
        pairs = zip(other.forms, other.publishers, strict=True)
        widths = [each.half_width(own) for each, own in pairs]
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
