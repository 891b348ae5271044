"""Bias, checked by simulation through the whole path from draw to number; unreliable numbers; old tables."""

import datetime
import itertools
import json
import math
from dataclasses import replace
from fractions import Fraction
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from rangebound.discrete_laplace import DiscreteLaplace
from rangebound.errors import PlanError
from rangebound.noise import Gaussian, Laplace
from rangebound.release import check_certificate, make_plan, release
from rangebound.release.noise.allocation import BudgetShare, Sensitivity
from rangebound.release.noise.noisy_coordinates import _OVERSHOOTS, _quadrature_overshoot
from rangebound.release.output.reliability import biases, is_unreliable
from rangebound.release.output.report import report
from rangebound.release.output.table import Release
from rangebound.release.plan.unit import Unit
from rangebound.release.prepare import prepare
from rangebound.sampling.entropy import secure_bits
from rangebound.support import Interval
from tests.release.plans import WAIT

SUPPORTS = [None, [0, 12], [3, 30], [[0, 4], [9, 11], [20, 40]]]
QUESTIONS = [
    *({"kind": "count", "support": each} for each in SUPPORTS),
    *({"kind": "count", "support": each, "unbiased": True} for each in SUPPORTS),
    {"kind": "count", "step": 5},
    {"kind": "count", "step": 5, "unbiased": True},
    {"kind": "count", "signed": True},
    *(
        {"kind": "count", "support": [0, 12], "mechanism": each}
        for each in ("truncate Laplace", "truncate Gaussian", "rectify Laplace", "rectify TruncatedLaplacian")
    ),
    {"kind": "count", "support": SUPPORTS[3], "mechanism": "truncate Laplace"},
    *({"kind": "histogram", "column": "x", "range": [0, 1], "bins": 2, "support": each} for each in SUPPORTS),
    *({"kind": "sum", "column": "x", "range": [0, 1], "support": each} for each in SUPPORTS),
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
RUNS = 1500
CHANCE = 6.0  # standard errors that a mean may be off by: 2e-9 a case


def question_of(data):
    """A question by its fields, without those that are None."""
    given = {name: value for name, value in data.items() if value is not None}
    return make_plan({"budget": {"epsilon": 1.0, "delta": 1e-3}, "query": [{"name": "n", **given}]}).query[0]


def publisher_of(question, share):
    """Its publisher, or None where the mechanism that it names cannot have such a share."""
    named = getattr(question, "mechanism", None)
    if share.mu and named and not named.endswith(" Gaussian"):
        return None
    if not share.mu and not share.delta and named and not named.endswith(" Laplace"):
        return None
    return question.publisher(UNIT, CELL, share, level=0.95, columns=())


def simulated(question, publisher, truth):
    """Numbers as they are published, at one true answer."""
    coordinates = (Fraction(truth),) * len(question.parts)
    draws = publisher.draw([coordinates] * RUNS, secure_bits)
    readings = publisher.read(draws)
    return np.array([question.estimate(each[0], UNIT).value for each in readings])


@cache
def cases():
    """Every question with every share that it can have; calibrated when a test asks, not when tests are collected."""
    return [
        (question, publisher)
        for question, share in itertools.product(map(question_of, QUESTIONS), SHARES)
        if (publisher := publisher_of(question, share)) is not None
    ]


def truths(question):
    """True answers at the ends of the spans, in the middle of them and of gaps, and far away."""
    ends = [end for span in question.allowed.spans for end in span if math.isfinite(end)] or [0.0]
    inner = [math.floor((a + b) / 2) for a, b in itertools.pairwise(ends)]
    return sorted({*ends, *inner, *([] if math.isfinite(question.allowed.hull.upper) else [ends[-1] + 7.0])})


def bound(question, publisher, lower, upper):
    """The bound over one interval."""
    return question.bias(publisher, UNIT, np.array([lower]), np.array([upper]))[0]


@pytest.mark.parametrize("every", [7, pytest.param(1, marks=pytest.mark.long)])
def test_no_simulated_bias_is_above_its_bound_but_many_are_above_half_of_it(every):
    above, asked = 0, cases()[::every]
    for question, publisher in asked:
        points = truths(question)
        for truth in points if every == 1 else {points[0], points[-1]}:
            values = simulated(question, publisher, truth)
            error, most = abs(values.mean() - truth), bound(question, publisher, truth, truth)
            slack = CHANCE * values.std() / math.sqrt(RUNS)
            assert error <= most + slack, (question, publisher, truth)
            above += error > most / 2 + slack
    assert above > len(asked) / 4  # the control: half the bound is refuted


def test_the_bound_of_an_interval_holds_at_all_answers_inside():
    for question, publisher in cases():
        points = truths(question)
        for (at, lower), (to, upper) in itertools.combinations_with_replacement(enumerate(points), 2):
            inside = [bound(question, publisher, each, each) for each in points[at : to + 1]]
            gaps = len(question.allowed.spans) > 1
            assert gaps or bound(question, publisher, lower, upper) >= max(inside) - 1e-9


@pytest.mark.parametrize("noise", [Laplace(scale=3.0), Gaussian(scale=3.0)])
def test_two_routes_to_the_overshoot_agree(noise):
    far = np.array([0.0, 0.1, 1.0, 5.0, 17.0])
    assert np.allclose(_OVERSHOOTS[noise.curve](noise, far), _quadrature_overshoot(noise, far), rtol=1e-9, atol=1e-11)


def test_means_shares_and_variances_are_bounded_by_their_support_and_quantiles_not_at_all():
    queries = [
        {"kind": "mean", "column": "x", "range": [0, 10]},
        {"kind": "share", "of": [{"column": "x", "is": ">", "value": 1}]},
        {"kind": "standard deviation", "column": "x", "range": [0, 10]},
        {"kind": "median", "column": "x", "range": [0, 10], "step": 1.0},
    ]
    plan = make_plan(
        {"budget": {"epsilon": 4.0}, "query": [{"name": f"q{at}", **each} for at, each in enumerate(queries)]}
    )
    rows = release(plan, pa.table({"x": [1.0, 2.0, 3.0]}), ledger=None).rows()
    for row, width in zip(rows, (10.0, 1.0, 5.0), strict=False):
        assert row["upper"] - row["lower"] <= row["bias"] <= width
    assert rows[3]["bias"] is None


def cell_of(value, lower, upper, epsilon=1.0):
    """A made-up cell."""
    plan = make_plan({"budget": {"epsilon": 1.0}, "query": [{"name": "n", "kind": "count"}]})
    cell = release(plan, pa.table({"x": [1]}), ledger=None).cells[0]
    return replace(cell, value=value, lower=lower, upper=upper, epsilon=epsilon)


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
    assert is_unreliable(cell_of(value, lower, upper, epsilon)) is flagged


def test_the_flag_is_in_every_form_and_grey_in_the_report():
    keys = ["full", "empty"]
    plan = make_plan(
        {"budget": {"epsilon": 1.0}, "keys": {"k": keys}, "query": [{"name": "n", "kind": "count", "by": ["k"]}]}
    )
    found = release(plan, pa.table({"k": ["full"] * 500}), ledger=None)
    flags = [False, True]
    assert [row["unreliable"] for row in found.rows()] == flags
    assert found.to_arrow()["unreliable"].to_pylist() == flags
    assert found.to_pandas()["unreliable"].tolist() == flags
    assert found.to_polars()["unreliable"].to_list() == flags
    header, *lines = (line.split(",") for line in found.to_csv().splitlines())
    assert [line[header.index("unreliable")] for line in lines] == ["False", "True"]
    page = report(found)
    assert page.count("<tr class=unreliable>") == page.count('class="dot unreliable"') == 1
    assert "Numbers in grey are unreliable" in page
    assert "unreliable" in str(found)
    many = release(plan, pa.table({"k": keys * 500}), ledger=None)
    assert "grey" not in report(many)
    assert "unreliable" not in str(many).splitlines()[0]


def test_dates_have_no_size_and_so_no_flag():
    days = [datetime.date(2024, 1, 1), datetime.date(2024, 12, 31)]
    query = {"name": "day", "kind": "mean", "column": "d", "range": days}
    plan = make_plan({"budget": {"epsilon": 1.0}, "query": [query]})
    row = release(plan, pa.table({"d": [datetime.date(2024, 5, 1)]}), ledger=None).rows()[0]
    assert row["unreliable"] is None


def test_tables_that_were_published_before_have_the_new_columns():
    known = json.loads((Path(__file__).parent / "published_tables.json").read_text())
    for each in known:
        found = Release.from_bytes(each["table"].encode())
        rows = found.rows()
        assert len(rows) == len(found.cells)
        assert all(row["unbiased"] is None for row in rows)
        assert found.to_bytes() == each["table"].encode()


def test_numbers_that_are_fitted_to_others_have_no_known_bias():
    queries = [{"name": "n", "kind": "count"}, {"name": "m", "kind": "count", "by": ["k"]}]
    data = {"budget": {"epsilon": 1.0}, "keys": {"k": ["a", "b"]}, "query": queries}
    found = release(make_plan({**data, "consistent": True}), pa.table({"k": ["a"]}), ledger=None)
    assert {row["bias"] for row in found.rows()} == {None}
    assert None not in biases(make_plan(data), release(make_plan(data), pa.table({"k": ["a"]}), ledger=None).cells)


def _holds(found):
    return found.lower <= 0.0 <= found.upper


def _all_hold(plan, runs):
    """How often all intervals of a table without rows hold at once."""
    ready, question = prepare(plan), plan.query[0]
    publisher = ready.publishers[0]
    nothing = [question.coordinates({}, plan.unit)]
    numbers = 20
    draws = publisher.draw(nothing * numbers * runs, secure_bits)
    readings = publisher.read(draws)
    good = [_holds(question.estimate(each[0], plan.unit)) for each in readings]
    return sum(all(good[at : at + numbers]) for at in range(0, len(good), numbers)) / runs


@pytest.mark.parametrize("kind", [{"kind": "sum", "column": "x", "range": [-1, 1]}, {"kind": "count", "signed": True}])
def test_joint_intervals_hold_all_at_once(kind):
    runs = 300
    query = {"name": "n", "by": ["k"], **kind}
    data = {"budget": {"epsilon": 0.1}, "keys": {"k": list(range(20))}, "query": [query]}
    joint, each = (_all_hold(make_plan({**data, **more}), runs) for more in ({"joint": True}, {}))
    least = 0.95 - 5.5 * math.sqrt(0.95 * 0.05 / runs)
    assert joint > least
    assert each < least - 0.2  # the control: 0.95^20 = 0.36


def test_joint_intervals_are_those_of_a_higher_level():
    queries = [{"name": "n", "kind": "count", "by": ["k"]}, {"name": "h", "kind": "histogram", **WAIT, "bins": 4}]
    data = {"budget": {"epsilon": 1.0}, "keys": {"k": list(range(6))}, "query": queries}
    plan = make_plan({**data, "joint": True})
    assert (
        Fraction(plan.interval_level)
        >= 1 - (1 - Fraction(0.95)) / 10
        > Fraction(math.nextafter(plan.interval_level, 0))
    )
    assert make_plan(data).interval_level == make_plan({**data, "joint": False}).interval_level == 0.95
    found = release(plan, pa.table({"k": [1], "wait": [3.0]}), ledger=None)
    check_certificate(found.certificate, found.to_bytes())
    assert "all of them at once" in report(found)


def test_joint_intervals_need_a_public_number_of_them_and_a_level_below_1():
    query = {"name": "n", "kind": "count", "by": ["k"]}
    budget = {"epsilon": 1.0, "delta": 1e-6}
    with pytest.raises(PlanError, match="joint: how many intervals there are must be public"):
        make_plan({"budget": budget, "joint": True, "query": [query]})
    near = math.nextafter(1.0, 0.0)
    with pytest.raises(PlanError, match="level: is too near to 1"):
        make_plan({"budget": budget, "joint": True, "level": near, "keys": {"k": [1, 2]}, "query": [query]})


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
