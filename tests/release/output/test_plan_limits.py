"""How far the numbers of a plan are above the proved limit: valid for every mechanism at hand, and quick."""

import math
from fractions import Fraction

import pytest

import rangebound as rb
from rangebound.release import explain, forecast
from rangebound.release.output.forecast import COLUMNS
from rangebound.release.output.plan_risk import LimitedMean, _proved, limit_problem, plan_limits
from rangebound.release.plan.kinds.facts import OneCoordinate
from rangebound.release.prepare import prepare
from rangebound.values.support import Interval
from tests.release.output.asked import asked
from tests.thinning import crossed

X = {"column": "x", "range": [0, 10]}
COUNT = {"kind": "count"}


def limits(*questions, **more):
    return plan_limits(prepare(asked(*questions, **more)))


def limit_of(upper, sensitivity, epsilon, *, whole):
    coordinate = OneCoordinate(range=Interval(0, upper), whole=whole, support=Interval(0, upper))
    problem, step = limit_problem(coordinate, Fraction(sensitivity), epsilon)
    return _proved(problem) * float(step)


@pytest.mark.few(2)
@crossed(
    {
        "upper, sensitivity": [(10, 1), (200, 1), (100, 20), (math.inf, 1), (math.inf, 7)],
        "epsilon": [0.01, 0.1, 0.5, 1.0, 3.0, 8.0],
    }
)
def test_no_mechanism_is_below_the_limit_for_whole_numbers(upper, sensitivity, epsilon):
    least = limit_of(upper, sensitivity, epsilon, whole=True)
    support = Interval(0, min(upper, 90_000))
    noise = rb.DiscreteLaplace.calibrated(sensitivity=sensitivity, epsilon=epsilon, support=support)
    assert 0.0 < least <= noise.worst_error().mae * (1 + 1e-12)


@pytest.mark.few(1)
@crossed({"upper": [4, 30], "epsilon": [0.1, 1.0, 4.0]})
def test_no_mechanism_is_below_the_limit_for_real_numbers(upper, epsilon):
    least = limit_of(upper, 1, epsilon, whole=False)
    query = rb.Query(range=Interval(0, upper), sensitivity=1.0)
    best = min(each.error.mae for each in rb.choose(query=query, epsilon=epsilon))
    assert 0.0 < least <= best
    assert 0.95 <= least / rb.limit(query=query, epsilon=epsilon).value <= 1.001


@pytest.mark.few(2)
@pytest.mark.parametrize("epsilon", [0.5, 0.01, 1.0, 3.0])
def test_it_is_within_4_percent_of_geometric_noise_over_wide_ranges(epsilon):
    """Geometric noise is optimal for whole numbers that a unit moves by one, so no true limit is above it."""
    geometric = 1.0 / math.sinh(epsilon)
    assert 0.96 * geometric < limit_of(math.inf, 1, epsilon, whole=True) <= geometric


def test_control_the_limit_for_real_numbers_is_no_limit_for_whole_ones():
    noise = rb.DiscreteLaplace.calibrated(sensitivity=1, epsilon=2.0, support=Interval(0, 10))
    assert limit_of(10, 1, 2.0, whole=False) > noise.worst_error().mae


@pytest.mark.few(4)
@pytest.mark.parametrize(
    ("question", "more", "words"),
    [
        (COUNT, {}, None),
        ({"kind": "sum", **X, "support": [0, 100]}, {}, None),
        ({"kind": "mean", **X}, {}, ""),
        ({"kind": "median", **X}, {}, "from one end of its range to the other"),
        ({**COUNT, "step": 10}, {}, "rounded to a step"),
        ({"kind": "share", "of": "x > 3"}, {}, ""),
        ({"kind": "histogram", **X}, {}, ""),
        (COUNT, {"delta": 1e-6, "epsilon": 0.5}, "pure privacy"),
        (COUNT, {"epsilon": 50.0}, "above epsilon 10"),
        (COUNT, {"unit": {"neighbours": "replace", "size": 9}}, "public"),
    ],
)
def test_every_question_has_a_limit_or_a_reason(question, more, words):
    (found,) = limits(question, **more)
    assert (found.above is None) == bool(found.reason) == (words is not None)
    assert words is None or words in found.reason


def test_shares_and_means_of_a_public_number_of_rows_have_one():
    unit = {"neighbours": "replace", "size": 40}
    found = limits({"kind": "share", "of": "x > 3"}, {"kind": "mean", **X, "missing": 0.0}, unit=unit)
    assert all(0.0 <= each.above < 1.0 for each in found)


def test_few_proofs_are_made_for_one_plan():
    found = limits(*({"kind": "count", "weight": float(at + 1)} for at in range(6)), epsilon=20.0)
    assert [each.above is None for each in found] == [False] * 4 + [True] * 2
    assert "others of this plan" in found[-1].reason


def test_explain_and_forecast_say_it():
    made = asked(COUNT, {"kind": "median", **X})
    text = explain(made)
    assert "  limit: at most " in text
    assert "  no limit: a single unit can move a quantile" in text
    one, two = forecast(made)
    assert one.to_dict()["above_limit"] == one.above_limit > 0.0
    assert (two.above_limit, bool(two.no_limit)) == (None, True)
    assert [each.cells()[COLUMNS.index("above limit")][:1] for each in (one, two)] == ["+", ""]


def test_a_part_above_is_rounded_up():
    assert LimitedMean(error=1.0004, limit=1.0).words().startswith("limit: at most 0.1 % above")
    assert LimitedMean(error=1.2501, limit=1.0).words().startswith("limit: at most 26 % above")
    assert LimitedMean(error=1.0, limit=1.0).above == 0.0
