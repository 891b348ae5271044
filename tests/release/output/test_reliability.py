"""Bias, checked by simulation through the whole path from draw to number; unreliable numbers; old tables."""

import datetime
import itertools
import math
from fractions import Fraction
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from rangebound.errors import PlanError
from rangebound.laws.family import Curve
from rangebound.laws.gaussian import Gaussian
from rangebound.laws.laplace import Laplace
from rangebound.mechanisms.discrete_laplace import DiscreteLaplace
from rangebound.release import check_certificate
from rangebound.release.noise.allocation import BudgetShare
from rangebound.release.noise.bias import OVERSHOOTS
from rangebound.release.noise.draw import Cell
from rangebound.release.noise.forms import form_of
from rangebound.release.output.reliability import is_unreliable
from rangebound.release.plan.statistic import Sensitivity
from rangebound.release.plan.unit import Unit
from rangebound.sampling.entropy import secure_bits
from rangebound.values.support import Interval
from tests.release.output.asked import asked, released, report
from tests.release.plans import WAIT

GAPS = {"support": [[0, 4], [9, 11], [20, 40]]}
SUPPORTS = [{}, {"support": [0, 12]}, {"support": [3, 30]}, GAPS]
QUESTIONS = [
    *({"kind": "count", **each} for each in SUPPORTS),
    *({"kind": "count", **each, "unbiased": True} for each in SUPPORTS),
    {"kind": "count", "step": 5},
    {"kind": "count", "step": 5, "unbiased": True},
    {"kind": "count", "signed": True},
    *(
        {"kind": "count", "support": [0, 12], "mechanism": each}
        for each in ("truncate Laplace", "truncate Gaussian", "rectify Laplace", "rectify TruncatedLaplacian")
    ),
    {"kind": "count", **GAPS, "mechanism": "truncate Laplace"},
    *({"kind": "histogram", "column": "x", "range": [0, 1], "bins": 2, **each} for each in SUPPORTS),
    *({"kind": "sum", "column": "x", "range": [0, 1], **each} for each in SUPPORTS),
    {"kind": "sum", "column": "x", "range": [0, 1], "support": [0, 12], "step": 4},
    {"kind": "sum", "column": "x", "range": [0, 1], "support": [0, 12], "step": 4, "unbiased": True},
]
SHARES = [
    BudgetShare(epsilon=0.5, delta=0.0, groups=1, parts=1),
    BudgetShare(epsilon=0.2, delta=1e-3, groups=1, parts=1),
    BudgetShare(epsilon=0.0, delta=0.0, groups=1, parts=1, mu=0.4),
]
CELL = Sensitivity(cell=Fraction(1), groups=1, square=Fraction(1))
UNIT = Unit()
BY = {"kind": "count", "by": ["k"]}
RUNS = 1500
CHANCE = 6.0  # standard errors that a mean may be off by: 2e-9 a case


def publisher_of(question, share):
    """Its publisher, or None where the mechanism that it names cannot have such a share."""
    named = getattr(question, "mechanism", None)
    if share.mu and named and not named.endswith(" Gaussian"):
        return None
    if not share.mu and not share.delta and named and not named.endswith(" Laplace"):
        return None
    return form_of(question, UNIT).publisher(CELL, share, level=0.95, columns=())


@cache
def cases(every=1):
    """Questions with every share that they can have; calibrated when a test asks, not when tests are collected."""
    pairs = list(itertools.product(asked(*QUESTIONS, delta=1e-3).query, SHARES))[::every]
    found = [(question, publisher_of(question, share)) for question, share in pairs]
    return [each for each in found if each[1] is not None]


def truths(question):
    ends = [end for span in question.allowed.spans for end in span if math.isfinite(end)] or [0.0]
    inner = [math.floor((a + b) / 2) for a, b in itertools.pairwise(ends)]
    return sorted({*ends, *inner, *([] if math.isfinite(question.allowed.hull.upper) else [ends[-1] + 7.0])})


def bound(question, publisher, lower, upper):
    return form_of(question, UNIT).bias(publisher, np.array([lower]), np.array([upper]))[0]


@pytest.mark.slow
@pytest.mark.parametrize("every", [20, 7, pytest.param(1, marks=pytest.mark.long)])
def test_no_simulated_bias_is_above_its_bound_but_many_are_above_half_of_it(every):
    above, chosen = 0, cases(every)
    for question, publisher in chosen:
        points = truths(question)
        for truth in points if every == 1 else {points[0], points[-1]}:
            draws = publisher.draw([(Fraction(truth),) * len(question.parts)] * RUNS, secure_bits)
            values = np.array([form_of(question, UNIT).estimate(each[0]).value for each in publisher.read(draws)])
            error, most = abs(values.mean() - truth), bound(question, publisher, truth, truth)
            slack = CHANCE * values.std() / math.sqrt(RUNS)
            assert error <= most + slack, (question, publisher, truth)
            above += error > most / 2 + slack
    assert above > len(chosen) / 4  # the control: half the bound is refuted


@pytest.mark.parametrize("every", [20, pytest.param(1, marks=pytest.mark.slow)])
def test_the_bound_of_an_interval_holds_at_all_answers_inside(every):
    for question, publisher in cases(every):
        points = truths(question)
        for (at, lower), (to, upper) in itertools.combinations_with_replacement(enumerate(points), 2):
            inside = [bound(question, publisher, each, each) for each in points[at : to + 1]]
            gaps = len(question.allowed.spans) > 1
            assert gaps or bound(question, publisher, lower, upper) >= max(inside) - 1e-9


@pytest.mark.parametrize("noise", [Laplace(scale=3.0), Gaussian(scale=3.0)])
def test_two_routes_to_the_overshoot_agree(noise):
    far = np.array([0.0, 0.1, 1.0, 5.0, 17.0])
    assert np.allclose(OVERSHOOTS[noise.curve](noise, far), OVERSHOOTS[Curve.OTHER](noise, far), rtol=1e-9, atol=1e-11)


def test_means_shares_and_variances_are_bounded_by_their_support_and_quantiles_not_at_all():
    queries = [
        {"kind": "mean", "column": "x", "range": [0, 10]},
        {"kind": "share", "of": [{"column": "x", "is": ">", "value": 1}]},
        {"kind": "standard deviation", "column": "x", "range": [0, 10]},
        {"kind": "median", "column": "x", "range": [0, 10], "step": 1.0},
    ]
    rows = released(asked(*queries, epsilon=4.0), {"x": [1.0, 2.0, 3.0]}).rows()
    for row, width in zip(rows, (10.0, 1.0, 5.0), strict=False):
        assert row["upper"] - row["lower"] <= row["bias"] <= width
    assert rows[3]["bias"] is None


@pytest.mark.parametrize(
    ("value", "lower", "upper", "epsilon", "flagged"),
    [
        (10.0, 5.0, 15.0, 1.0, False),
        (10.0, 4.9, 15.0, 1.0, True),
        (-10.0, -15.0, -5.0, 1.0, False),
        (0.0, 0.0, 0.0, 1.0, True),
        (0.0, 0.0, 0.0, 0.0, False),
        (0.0, 0.0, 1.0, 1.0, True),
        (50.0, 50.0, 50.0, 0.0, False),
        (5.0, -math.inf, math.inf, 1.0, True),
    ],
)
def test_a_number_is_unreliable_where_its_interval_is_wider(value, lower, upper, epsilon, flagged):
    cell = Cell(question=0, key=(), part="", value=value, lower=lower, upper=upper, epsilon=epsilon, delta=0.0)
    assert is_unreliable(cell) is flagged


def test_the_flag_is_in_the_table_and_grey_in_the_report():
    plan = asked(BY, keys={"k": ["full", "empty"]})
    found = released(plan, {"k": ["full"] * 500})
    assert [row["unreliable"] for row in found.rows()] == [False, True]
    page = report(found)
    assert page.count("<tr class=unreliable>") == page.count('class="dot unreliable"') == 1
    assert "Numbers in grey are unreliable" in page
    assert "unreliable" in str(found)
    many = released(plan, {"k": ["full", "empty"] * 500})
    assert "grey" not in report(many)
    assert "unreliable" not in str(many).splitlines()[0]
    ends = [datetime.date(2024, 1, 1), datetime.date(2024, 12, 31)]  # dates have no size, and so no flag
    days = released(asked({"kind": "mean", "column": "d", "range": ends}), {"d": ends})
    assert days.rows()[0]["unreliable"] is None


LINE = {"kind": "line", "x": WAIT, "y": {**WAIT, "column": "y"}}
ENDS = [0.0, 100.0] * 200


@pytest.mark.few(4)
@pytest.mark.parametrize(
    ("question", "waits", "noted"),
    [
        ({"kind": "count", "support": [0, 150]}, [5.0] * 400, "'q0' reaches an end of its support, 0 to 150"),
        ({"kind": "count", "support": [0, 150]}, [5.0] * 100, ""),
        ({"kind": "count", "support": [0, 150]}, [], ""),  # no count is below 0
        ({"kind": "count"}, [5.0] * 400, ""),
        ({"kind": "mean", **WAIT, "support": [40, 60]}, [5.0] * 400, "'q0' reaches an end of its support, 40 to 60"),
        ({"kind": "mean", **WAIT, "support": [40, 60]}, [50.0] * 400, ""),
        ({"kind": "mean", **WAIT, "support": [0, 100]}, [0.0] * 400, ""),
        ({**LINE, "slopes": [-0.5, 0.5]}, ENDS, "'q0', slope, reaches an end of its support, -0.5 to 0.5"),
        ({**LINE, "slopes": [0, 9]}, ENDS, ""),
        (LINE, ENDS, ""),
    ],
)
def test_a_number_at_an_end_of_a_support_that_leaves_out_answers_has_a_note(question, waits, noted):
    column = pa.array(waits, pa.float64())
    found = released(asked(question, epsilon=50.0), pa.table({"wait": column, "y": column}))
    words = f"{noted}: a true answer beyond it would look the same"
    assert [words in each for each in found.notes] == ([True] if noted else [])
    assert ("reaches an end of its support" in report(found)) is bool(noted)


def test_numbers_that_are_fitted_to_others_have_no_known_bias():
    for fitted in (True, False):
        plan = asked({"kind": "count"}, BY, keys={"k": ["a", "b"]}, consistent=fitted)
        found = released(plan, {"k": ["a"]})
        assert [row["bias"] is None for row in found.rows()] == [fitted] * 3


@pytest.mark.slow
def test_joint_intervals_are_those_of_a_higher_level():
    queries = [BY, {"kind": "histogram", **WAIT, "bins": 4}]
    plan, other = (asked(*queries, keys={"k": list(range(6))}, joint=each) for each in (True, False))
    level = plan.interval_level
    assert Fraction(level) >= 1 - (1 - Fraction(0.95)) / 10 > Fraction(math.nextafter(level, 0))
    assert other.interval_level == 0.95
    found = released(plan, {"k": [1], "wait": [3.0]})
    check_certificate(found.certificate, found.to_bytes())
    assert "all of them at once" in report(found)


def test_joint_intervals_need_a_public_number_of_them_and_a_level_below_1():
    with pytest.raises(PlanError, match="joint: how many intervals there are must be public"):
        asked(BY, delta=1e-6, joint=True)
    with pytest.raises(PlanError, match="level: is too near to 1"):
        asked(BY, joint=True, level=math.nextafter(1.0, 0.0), keys={"k": [1, 2]})


def test_the_figures_of_the_page_on_bias():
    page = (Path(__file__).parents[3] / "docs" / "bias.md").read_text()
    noise = DiscreteLaplace.calibrated(epsilon=0.1, support=Interval(0, math.inf))
    counts = (0, 5, 10, 20, 50)
    assert f"| true count | {' | '.join(map(str, counts))} |" in page
    assert f"| {' | '.join(f'{noise.error(each).bias:.2f}' for each in counts)} |" in page
    assert f"a standard deviation of {math.sqrt(noise.mse):.1f}" in page
    assert f"the sum of 1,000 empty cells is {1000 * noise.error(0).bias:,.0f} on average" in page
    assert f"a standard error of {math.sqrt(1000 * noise.mse):.0f}" in page
    wide = noise.reach(1 - 0.05 / 1000) / noise.reach(0.95)
    assert f"about {wide:.1f} times as wide" in page
