"""Quick answers: no risk is below that of the proof, half-widths are near it."""

import pytest

from rangebound.release import demo, parse_plan
from rangebound.web.explorer.plan_view import plan_view, quick_view, quick_way


@pytest.fixture(scope="module")
def plan():
    return parse_plan(demo.plan())


@pytest.fixture(scope="module")
def known(plan):
    return plan_view(plan)[1]


def at(plan, epsilon):
    return plan.model_copy(update={"budget": plan.budget.model_copy(update={"epsilon": epsilon})})


@pytest.mark.slow
def test_shares_are_exact_and_half_widths_near(plan, known):
    other = at(plan, 2.7)
    quick, (proved, _) = quick_view(other, quick_way(other), known), plan_view(other)
    assert not quick["certified"]
    for one, two in zip(quick["queries"], proved["queries"], strict=True):
        assert one["share"] == two["share"]
        assert (one["half_width"] is None) == (two["half_width"] is None)
        assert one["half_width"] is None or abs(one["half_width"] - two["half_width"]) <= 1.0 + 0.02 * two["half_width"]
    unscaled = {name: width for name, (*_, width) in known.widths.items()}
    widest = proved["queries"][0]
    assert abs(unscaled[widest["query"]] - widest["half_width"]) > 10.0  # the control: what was known is not near


@pytest.mark.slow
def test_what_is_known_of_another_account_is_not_scaled(plan, known):
    other = plan.model_copy(update={"budget": plan.budget.model_copy(update={"delta": 1e-6})})
    way = quick_way(other)
    assert way.mu
    assert not known.gaussian
    found = {each["query"]: each["half_width"] for each in quick_view(other, way, known)["queries"]}
    assert found["visits by clinic"] is None
    assert all(each["half_width"] is None for each in quick_view(plan, quick_way(plan), None)["queries"])


@pytest.mark.slow
def test_the_account_that_was_best_before_is_taken_again():
    text = 'budget = {epsilon = 1.0, delta = 1e-6}\nquery = [{name = "a", kind = "count"}]'
    plan = parse_plan(text)
    _, known = plan_view(plan)
    assert known.choice
    assert not known.gaussian  # one count alone has less error in plain sums
    assert quick_way(plan).mu
    assert not quick_way(plan, known.gaussian).mu
    assert not quick_way(parse_plan(text.replace(", delta = 1e-6", "")), True).mu  # there is no other
