"""The risk that is shown: before the proof never less than after it."""

import functools
import math

import pytest

from rangebound.privacy.risk.smallest_mu import smallest_mu
from rangebound.privacy.risk.tradeoff_curve import TOLERANCE
from rangebound.release import demo, parse_plan
from rangebound.release.output.ledger_entry import charges
from rangebound.release.output.plan_risk import conversions, plan_risk
from rangebound.release.prepare import prepare
from rangebound.web.explorer.forms import OneNumber
from rangebound.web.explorer.plan_view import bare_risk, percent_up, quick_view, quick_way, risk_numbers

PLANS = {"demo": parse_plan(demo.plan()), "one number": OneNumber().plan()}
BUDGETS = [(epsilon, delta) for epsilon in (0.1, 1.0, 4.0) for delta in (0.0, 1e-12, 1e-6, 3e-3)]


def at(plan, epsilon, delta):
    return plan.model_copy(update={"budget": plan.budget.model_copy(update={"epsilon": epsilon, "delta": delta})})


@functools.cache
def certified(name, budget):
    plan = at(PLANS[name], *budget)
    return risk_numbers(plan, plan_risk(plan, prepare(plan).allocation))


def right_about(found):
    """How many of each person the sentence says."""
    words = found["odds"].replace(",", "")
    return int(words.split("right about at most ")[1].split()[0]) / int(words.split()[1])


def lower_somewhere(one, two):
    """Where the first risk is below the second: the names of the numbers. Miss rates are as exact as the curve is."""
    numbers = {name: (one[name], two[name]) for name in ("advantage", "success", "posterior")}
    numbers |= {f"from {a[0]}": (a[1], b[1]) for a, b in zip(one["reconstruction"], two["reconstruction"], strict=True)}
    numbers |= {f"miss {a[0]}": (b[1] + TOLERANCE, a[1]) for a, b in zip(one["tradeoff"], two["tradeoff"], strict=True)}
    numbers["mu"] = tuple(math.inf if each["mu"] is None else each["mu"] for each in (one, two))
    numbers["odds"] = right_about(one), right_about(two)
    numbers |= {
        f"text of {name}": tuple(float(each["texts"][name].replace("none", "inf").rstrip(" %")) for each in (one, two))
        for name in one["texts"]
    }
    return [name for name, (first, second) in numbers.items() if first < second]


@pytest.mark.few(1)
@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("name", PLANS)
def test_a_quick_risk_is_never_below_the_certified_one(name, budget):
    plan = at(PLANS[name], *budget)
    for gaussian in (None, False, True):
        quick = quick_view(plan, quick_way(plan, gaussian), None)
        assert quick["budget"] == {"epsilon": budget[0], "delta": budget[1]}
        assert lower_somewhere(quick["risk"], certified(name, budget)) == []


@pytest.mark.slow
def test_the_risk_of_the_likely_split_would_be_below():
    """The control: the split that is tried first is not always the one of the release."""
    plan = at(PLANS["demo"], 1.0, 1e-12)
    likely = risk_numbers(plan, plan_risk(plan, quick_way(plan)))
    assert "advantage" in lower_somewhere(likely, certified("demo", (1.0, 1e-12)))


def test_the_bare_risk_is_that_of_randomised_response():
    found = bare_risk(at(PLANS["one number"], 1.0, 0.0))
    assert found["advantage"] == pytest.approx(math.tanh(0.5), rel=1e-12)
    assert found["posterior"] == pytest.approx(1.0 / (1.0 + math.exp(-1.0)), rel=1e-12)


def test_percents_are_rounded_up():
    assert percent_up(0.100001) == "10.01 %"
    assert percent_up(0.0) == "0 %"


UNEQUAL = """
budget = {epsilon = 1.0}
unit = {column = "person", groups = 12}
keys = {k = ["a", "b", "c"], l = ["x", "y"]}
query = [
  {name = "cells", kind = "crosstab", by = ["k", "l"]}, {name = "waits", kind = "median", column = "w", range = [0, 9]}
]
"""


def test_a_plan_has_one_mu():
    """In the explorer, by `plan_risk`, in the conversions of reports and of `verify`, and in the charge."""
    plan = parse_plan(UNEQUAL)
    ready = prepare(plan)
    risk = plan_risk(plan, ready.allocation)
    shown = risk_numbers(plan, risk)["mu"]
    assert shown == risk.gdp() == conversions(ready).mu == ready.loss.mu
    assert charges(ready)[0].mu == pytest.approx(shown, abs=1e-11)
    assert smallest_mu(risk.profile, risk.pure)[0] < shown < 1.2 * smallest_mu(risk.profile, risk.pure)[0]
