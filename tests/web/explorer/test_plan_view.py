"""What the page shows equals `--dry-run` and the calls of Python, to the last bit; quick answers are near it."""

import functools
import json
import math

import numpy as np
import pytest
from scipy import stats

import rangebound as rb
from rangebound.cli.app import run
from rangebound.errors import ArgumentError
from rangebound.privacy.tradeoff_curve import TOLERANCE, smallest_mu
from rangebound.release import demo, parse_plan, read_plan
from rangebound.release.output.ledger_entry import charges
from rangebound.release.output.plan_facts import plan_risk
from rangebound.release.output.plan_risk import conversions, plan_limits
from rangebound.release.plan.kinds.facts import OneCoordinate
from rangebound.release.prepare import prepare
from rangebound.web.explorer.plan_view import (
    cell_laws,
    percent_up,
    plan_view,
    quick_view,
    quick_way,
    risk_numbers,
    typical_answers,
)
from rangebound.web.explorer.question_forms import OneNumber

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
    plan = at(PLANS["one number"], 1.0, 0.0)
    found = quick_view(plan, quick_way(plan), None)["risk"]
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


@pytest.fixture(scope="session")
def shown(demo_folder):
    plan = read_plan(demo_folder / "plan.toml")
    return plan, plan_view(plan)[0]


@pytest.mark.claim("page")
def test_the_view_has_the_dry_run(shown, demo_folder, capsys):
    _, view = shown
    assert run(["release", str(demo_folder / "plan.toml"), "--dry-run", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    view = json.loads(json.dumps(view))
    assert said.pop("dry_run")
    assert {name: view[name] for name in said} == said
    assert run(["release", str(demo_folder / "plan.toml"), "--dry-run"]) == 0
    printed = capsys.readouterr().out
    for texts in view["cells"]:
        assert texts["half-width"] in printed
        assert texts["share"] in printed


def test_the_risk_is_that_of_the_call(shown):
    plan, view = shown
    risk, found = plan_risk(plan, prepare(plan).allocation), view["risk"]
    assert found["advantage"] == risk.advantage()
    assert found["mu"] == risk.gdp()
    assert found["posterior"] == risk.posterior(0.5)
    assert found["success"] == risk.success(0.5)
    assert found["reconstruction"] == [[0.01, risk.reconstruction(0.01)], [0.1, risk.reconstruction(0.1)]]
    assert all(miss == risk.tradeoff(rate) for rate, miss in found["tradeoff"][::5])
    assert found["odds"] in view["explained"]
    other = at(plan, 2.0, 0.0)
    assert found["advantage"] != plan_risk(other, prepare(other).allocation).advantage()  # the control


@pytest.mark.slow
def test_the_law_is_of_the_question_that_was_asked(shown):
    plan, view = shown
    assert view["law"]["query"] == "visits by clinic"
    named, _ = plan_view(plan, question="patients", answers=[1.0, 2.0, 3.0])
    assert named["law"]["query"] == "patients"
    assert [each["answer"] for each in named["law"]["cells"]] == [1.0, 2.0, 3.0]
    with pytest.raises(ArgumentError, match="question"):
        plan_view(plan, question="odd")


@pytest.fixture(scope="session")
def plan():
    return parse_plan(demo.plan())


@pytest.fixture(scope="session")
def known(plan):
    return plan_view(plan)[1]


@pytest.mark.slow
def test_shares_are_exact_and_half_widths_near(plan, known):
    other = at(plan, 2.7, 0.0)
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
    other = at(plan, plan.budget.epsilon, 1e-6)
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


COUNT = """
unit = {column = "person", rows = 1}
budget = {epsilon = 0.5}
query = [{name = "visits", kind = "count", support = [[0, 100]]}]
"""
SUM = """
unit = {column = "person", rows = 1}
budget = {epsilon = 1.0}
query = [{name = "money", kind = "sum", column = "paid", range = [0, 10], support = [[0, 500]], mechanism = MECHANISM}]
"""


def laws(text, answers=None, index=0):
    ready = prepare(parse_plan(text))
    return cell_laws(ready, index, plan_limits(ready)[index], answers)


def test_a_count_has_the_clamped_geometric_law():
    found = laws(COUNT, [2, 30, 50])
    rate = math.exp(-0.5)
    small = found["cells"][0]
    assert small["spikes"][0] == pytest.approx([0.0, rate**2 / (1 + rate)], rel=1e-12)  # P(noise <= -2)
    drawn = dict(small["bars"])
    assert drawn[2.0] == pytest.approx(stats.dlaplace(0.5).pmf(0), rel=1e-12)
    assert drawn[5.0] == pytest.approx(stats.dlaplace(0.5).pmf(3), rel=1e-12)
    assert drawn[5.0] != pytest.approx(stats.dlaplace(0.6).pmf(3), rel=1e-3)  # the control
    m = rb.DiscreteLaplace.calibrated(sensitivity=1, epsilon=0.5, support=rb.Interval(0, 100))
    for cell in found["cells"]:
        error = m.error(cell["answer"])
        assert (cell["bias"], cell["mae"]) == (error.bias, error.mae)
        assert cell["common"] == m.law(cell["answer"]).quantile([0.025, 0.975]).tolist()


@pytest.mark.slow
def test_three_boundings_are_those_of_calibrate():
    found = laws(COUNT, [2, 30, 50])
    query = rb.Query(range=rb.Interval(0, 100), sensitivity=1.0)
    wanted = {"truncated": rb.TRUNCATE, "clamped": rb.RECTIFY, "unbiased": rb.UNBOUNDED}
    assert [each["bounding"] for each in found["boundings"]] == list(wanted)
    for each in found["boundings"]:
        m = rb.calibrate(noise=rb.Laplace, query=query, bounding=wanted[each["bounding"]], epsilon=0.5)
        assert each["scale"] == m.noise.scale
        assert each["bias"] == m.error(np.array([2.0, 30.0, 50.0])).bias.tolist()
        assert each["mae"] == m.error(np.array([2.0, 30.0, 50.0])).mae.tolist()
        assert each["worst_mae"] == m.worst_error().mae
        assert each["worst_mae"] > found["limit"]
    truncated, clamped, unbiased = found["boundings"]
    assert clamped["bias"][0] == pytest.approx(math.exp(-2.0 * 0.5) / (2.0 * 0.5), rel=1e-9)  # scale/2 e^(-x/scale)
    assert clamped["spike"][0] == pytest.approx(math.exp(-1.0) / 2.0, rel=1e-9)
    assert truncated["spike"] == [0.0, 0.0, 0.0]
    assert unbiased["bias"] == [0.0, 0.0, 0.0]


def test_the_limit_is_that_of_the_dry_run_and_below_all():
    found, limits = laws(COUNT), plan_limits(prepare(parse_plan(COUNT)))[0]
    assert (found["limit"], found["worst_mae"]) == (limits.limit, limits.error)
    assert 0.0 < found["limit"] <= found["worst_mae"]


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["truncate Laplace", "rectify Laplace"])
def test_a_curve_and_its_spikes_have_all_the_probability(mechanism):
    found = laws(SUM.replace("MECHANISM", repr(mechanism)), [5.0, 100.0, 250.0])
    for cell in found["cells"]:
        xs, ys = np.array(cell["curve"]).T
        total = np.trapezoid(ys, xs) + sum(mass for _, mass in cell["spikes"])
        assert total == pytest.approx(0.998, abs=0.003)
        assert cell["mean"] == cell["answer"] + cell["bias"]
    assert bool(found["cells"][0]["spikes"]) == mechanism.startswith("rectify")


@pytest.mark.slow
@pytest.mark.parametrize("text", [COUNT, SUM.replace("MECHANISM", '"rectify Laplace"')], ids=["bars", "curve"])
def test_spikes_bars_and_strips_share_one_scale(text):
    for cell in laws(text, [0.0, 2.0, 50.0])["cells"]:
        drawn = [mass for _, mass in (*cell["bars"], *cell["spikes"])]
        drawn += [density * cell["strip"] for _, density in cell["curve"]]
        assert cell["tallest"] == max(drawn)
        if cell["curve"]:  # the strips and the spikes are all there is
            strips = sum(density for _, density in cell["curve"][:-1]) * (cell["strip"] / 2.0)
            assert strips + sum(mass for _, mass in cell["spikes"]) == pytest.approx(0.998, abs=0.02)
    assert laws(text, [0.0, 2.0, 50.0])["cells"][0]["tallest"] == pytest.approx(0.5, abs=0.13)  # the spike at 0


@pytest.mark.slow
def test_an_optimal_table_has_bars():
    found = laws(SUM.replace("MECHANISM", '"optimal"').replace("500", "50"), [5.0, 20.0, 25.0])
    for cell in found["cells"]:
        assert sum(mass for _, mass in cell["bars"]) == pytest.approx(1.0, abs=0.003)


@pytest.mark.slow
def test_a_gaussian_account_compares_its_own_noise():
    several = ", ".join(f'{{name = "{at}", kind = "count", support = [[0, 100]]}}' for at in range(12))
    ready = prepare(parse_plan(f"budget = {{epsilon = 0.5, delta = 1e-6}}\nquery = [{several}]"))
    found = cell_laws(ready, 0, plan_limits(ready)[0], [2, 30, 50])
    assert ready.allocation.mu
    assert {each["scale"] for each in found["boundings"]} == {ready.publishers[0].mechanism.noise.scale}
    assert found["cells"][0]["bias"] > 0.0


@pytest.mark.slow
def test_a_question_of_many_coordinates_or_noise_that_is_too_wide_for_a_picture_says_so():
    text = 'budget = {epsilon = 1.0}\nquery = [{name = "a", kind = "mean", column = "age", range = [0, 100]}]'
    found = laws(text)
    assert set(found) == {"query", "reason"}
    assert found["reason"]
    assert "too wide" in laws(COUNT.replace("0.5", "0.00001").replace("support = [[0, 100]]", "step = 1"))["reason"]


@pytest.mark.parametrize("answers", [[1, 2], [1, 2, 101], [-1, 2, 3], [0.5, 1, 2], [1, 2, math.inf]])
def test_cells_that_no_true_answer_can_be_are_refused(answers):
    with pytest.raises(ArgumentError, match="answers"):
        laws(COUNT, answers)


@pytest.mark.parametrize(
    ("within", "whole", "expected"),
    [
        (rb.Interval(0, 100), True, (3.0, 25.0, 50.0)),
        (rb.Interval(0, math.inf), False, (12.0, 120.0, 1200.0)),
        (rb.Interval(-math.inf, 0), True, (-3.0, -30.0, -300.0)),
        (rb.Interval(-math.inf, math.inf), True, (3.0, 30.0, 300.0)),
    ],
)
def test_typical_cells_lie_in_the_range(within, whole, expected):
    found = typical_answers(OneCoordinate(range=within, whole=whole, support=within), 4.0)
    assert found == expected
    assert all(within.lower <= each <= within.upper for each in found)
