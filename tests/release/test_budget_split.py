"""A margin says which share of the account its question gets, and a plan that cannot pay for its margins is refused."""

import math
from dataclasses import replace
from fractions import Fraction

import pyarrow as pa
import pytest
from scipy import optimize, stats

from rangebound.errors import PlanError
from rangebound.ledger.book import Ledger
from rangebound.release import check_certificate, explain, make_plan, release, solve
from rangebound.release.budget_split import allocations
from rangebound.release.noise.allocation import is_within
from rangebound.release.noise.forms import form_of
from rangebound.release.prepare import prepare, prepared

X = {"column": "x", "range": [0, 10]}
COUNT = {"name": "visits", "kind": "count", "margin": 25.0}
SUM = {"name": "sum", "kind": "sum", **X, "margin": 100.0}
HISTOGRAM = {"name": "bins", "kind": "histogram", **X, "margin": 30.0}
MEAN = {"name": "mean", "kind": "mean", **X}


def plan(*query, epsilon=1.0, delta=0.0, **more):
    return make_plan({"budget": {"epsilon": epsilon, "delta": delta}, **more, "query": list(query)})


def half_widths(ready):
    return [each.form.half_width(each.publisher) for each in ready.questions]


def test_one_count_in_a_gaussian_account_has_the_closed_form():
    """Second route: margin = z sigma + 1, mu = 1 / sigma, by scipy; the step of a count is 1."""
    ready = prepare(plan({**COUNT, "mechanism": "rectify Gaussian"}, delta=1e-6))
    sigma = (25.0 - 1.0) / stats.norm.ppf(0.975)
    assert ready.allocation.questions[0].mu == pytest.approx(1.0 / sigma, rel=1e-8)
    assert ready.publishers[0].mechanism.noise.scale == pytest.approx(sigma, rel=1e-8)


def test_one_count_in_plain_sums_has_the_closed_form():
    """Second route: P(|X| > 25) = 2 r^26 / (1 + r) = 0.05 for discrete Laplace noise with r = e^-epsilon."""
    epsilon = optimize.brentq(lambda e: 2 * math.exp(-26 * e) / (1 + math.exp(-e)) - 0.05, 0.01, 1.0)
    share = prepare(plan(COUNT)).allocation.questions[0]
    assert share.epsilon == pytest.approx(epsilon, rel=1e-8)


def test_a_margin_is_met_by_a_share_that_is_not_larger_than_it_must_be():
    for delta in (0.0, 1e-6):
        for way in allocations(plan(SUM, HISTOGRAM, MEAN, delta=delta)):
            for index, question in enumerate(plan(SUM, HISTOGRAM).query):
                share, found = way.questions[index], way.sensitivities[index]
                for times, met in ((1.0, True), (1 - 1e-8, False)):  # control: a smaller one is too small
                    size = {"mu": share.mu * times} if share.mu else {"epsilon": share.epsilon * times}
                    less = type(share)(**(vars(share) | size))
                    form = form_of(question, plan(MEAN).unit)
                    publisher = form.publisher(found, less, level=0.95, columns=())
                    assert (form.half_width(publisher) <= question.margin) is met


def test_what_margins_leave_goes_to_the_others_by_weight_or_by_the_objective():
    for delta in (0.0, 1e-6):
        for more in ({}, {"weight": 3.0}):
            asked = plan(COUNT, {**MEAN, **more}, {**MEAN, "name": "other"}, delta=delta)
            for way in allocations(asked):
                fixed, one, other = way.questions.values()
                parts = [Fraction(each.mu) ** 2 if way.mu else Fraction(each.epsilon) for each in (fixed, one, other)]
                assert float(parts[1] / parts[2]) == pytest.approx(more.get("weight", 1.0))
                whole = Fraction(way.mu) ** 2 if way.mu else Fraction(1)
                assert sum(parts) <= whole
                assert float(sum(parts) / whole) == pytest.approx(1.0)
                assert is_within(prepared(asked, way).loss, way.mu, 1.0, delta)


def test_of_a_public_number_of_rows_a_mean_may_have_a_margin_and_the_number_has_it_for_nothing():
    ready = prepare(plan(COUNT, {**MEAN, "missing": 0}, unit={"neighbours": "replace", "size": 50}))
    assert half_widths(ready)[0] == ready.allocation.questions[0].epsilon == 0.0
    assert ready.allocation.questions[1].epsilon == 1.0
    ready = prepare(plan({**MEAN, "missing": 0, "margin": 0.1}, unit={"neighbours": "replace", "size": 1000}))
    assert half_widths(ready)[0] == pytest.approx(0.1, rel=1e-8)
    made = release(ready.plan, pa.table({"x": [5.0] * 1000}), ledger=None).rows()[0]
    assert made["upper"] - made["lower"] <= 0.2 * (1 + 1e-9)


ROUNDED = [
    {**COUNT, "unbiased": True, "step": 10.0, "margin": 6.0},
    {**SUM, "signed": True, "step": 4.0},
    {**HISTOGRAM, "unbiased": True, "bins": 3, "margin": 0.5},
]
STEPS = [
    ([{**COUNT, "by": ["k"], "margin": 40.5}, {**SUM, "step": 4.0, "margin": 50}, MEAN], {"level": 0.8, "delta": 1e-6}),
    ([{**SUM, "step": 0.5, "margin": 333}, {**HISTOGRAM, "margin": 0.4, "bins": 4}], {"level": 0.99}),
    ([{**COUNT, "by": ["k"], "margin": 9}, {**HISTOGRAM, "margin": 12, "bins": 4}, MEAN], {"level": 0.95}),
    (ROUNDED, {"joint": True}),
    (ROUNDED, {"joint": True, "delta": 1e-6}),
]


@pytest.mark.few(3)
@pytest.mark.parametrize(("query", "parts"), STEPS)
def test_published_intervals_are_as_narrow_as_the_margins(query, parts):
    """On real draws, with steps, groups and whole numbers, rounded as they are read."""
    keys = {"keys": {"k": ["a", "b"]}} if any("by" in each for each in query) else {}
    asked = plan(*query, epsilon=90.0, **parts, **keys)
    made = release(asked, pa.table({"x": [float(at % 10) for at in range(500)], "k": ["a", "b"] * 250}), ledger=None)
    margins = {each.name: each.margin for each in asked.query}
    widths = [(row["upper"] - row["lower"], margins[row["query"]]) for row in made.rows() if margins[row["query"]]]
    assert all(width <= 2 * margin * (1 + 1e-9) for width, margin in widths)
    assert any(width > 1.5 * margin for width, margin in widths)  # control: not much narrower
    assert check_certificate(made.certificate, made.to_bytes()).numbers == len(made.rows())


def test_margins_beyond_the_budget_are_refused_before_the_charge_and_the_error_says_what_would_do(tmp_path):
    data = {"budget": {"epsilon": 0.1, "delta": 1e-6, "account": "people"}, "query": [COUNT, SUM]}
    words = r"budget\.epsilon=0\.1: is less than what the margins need \('visits', 'sum'\); epsilon 0\.417 would do, "
    with Ledger.create(tmp_path / "l.ledger") as book:
        book.open_account("people", epsilon=2, delta="1e-5")
        with pytest.raises(PlanError, match=words + r"0\.317 more; rangebound plan solve") as caught:
            release(make_plan(data), pa.table({"x": [1.0]}), ledger=book, request="one")
        assert str(book.account("people").spent) == "epsilon 0"
    assert caught.value.field == "budget.epsilon"
    assert explain(make_plan(data | {"budget": {"epsilon": 0.417, "delta": 1e-6}}))


def test_where_all_have_margins_the_account_that_costs_less_is_taken_and_the_rest_is_mentioned():
    asked = plan(COUNT, delta=1e-6)
    ready, (pure, gaussian) = prepare(asked), allocations(asked)
    assert ready.allocation.mu == gaussian.mu > 0.0
    assert pure.questions[0].square > gaussian.questions[0].square
    assert "The margins need 12 % of it, and nothing uses the rest; rangebound plan solve" in explain(asked)
    assert "nothing uses the rest" not in explain(plan(COUNT, MEAN))  # control


def test_a_cut_has_its_part_of_what_the_margins_leave():
    asked = plan(COUNT, MEAN, report_clipping=True, unit={"column": "who"})
    count, mean, *cuts = prepare(asked).allocation.questions.values()
    rest = 1.0 - count.epsilon
    assert sum(each.epsilon for each in cuts) == pytest.approx(0.05 * rest)
    assert "5 % of what the margins leave goes into how much is cut" in explain(asked)
    assert mean.epsilon == pytest.approx(0.95 * rest)


DAYS = [f"2025-01-{day:02}" for day in range(1, 16)]
WORKLOADS = [
    {"name": "cells", "kind": "crosstab", "by": ["k", "l"]},
    {"name": "cells", "kind": "crosstab", "by": ["k", "l"], "margins": False},
    {"name": "tree", "kind": "hierarchy", "by": ["k"], "levels": [{"name": "m", "members": {"x": ["a", "b"]}}]},
    {"name": "days", "kind": "series", "by": ["d"], "totals": ["running"]},
]


def workload_plan(question, margin, delta, **more):
    keys = {"k": ["a", "b"], "l": ["c", "d", "e"], "d": DAYS}
    unit = {"column": "person", "rows": 2, "groups": 3}
    asked = {**question, **({"margin": margin} if margin else {})}
    return plan(asked, keys={name: keys[name] for name in question["by"]}, unit=unit, delta=delta, **more)


@pytest.mark.few(4)
@pytest.mark.parametrize("question", WORKLOADS, ids=lambda each: f"{each['kind']}{'' if each.get('margins', 1) else 0}")
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_strategies_get_the_share_that_their_margin_needs_and_no_more(question, delta):
    """Every unbiased answer has an interval within the margin; at a share that is smaller by 1 % one has not."""
    asked = workload_plan(question, 60.0, delta, epsilon=90.0)
    ready = prepare(asked)
    (publisher,), share = ready.publishers, ready.allocation.questions[0]
    assert publisher.radii.max() <= 60.0
    less = replace(share, mu=0.99 * share.mu, epsilon=0.99 * share.epsilon)
    other = ready.questions[0].form.publisher(
        ready.allocation.sensitivities[0], less, level=0.95, columns=asked.columns(asked.query[0].by)
    )
    assert other.radii.max() > 60.0
    found = solve(asked)
    assert found.questions[0].half_width <= 60.0
    assert found.epsilon < 90.0
    prepare(workload_plan(question, 60.0, delta, epsilon=found.epsilon))
    with pytest.raises(PlanError, match="less than what the margins need"):
        prepare(workload_plan(question, 60.0, delta, epsilon=0.98 * found.epsilon))
