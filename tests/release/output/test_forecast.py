"""What each question will look like, and what another epsilon would change."""

import datetime
import sys

import pytest

from rangebound.release import forecast, make_plan
from rangebound.release.noise.strategies import marginal_design, series_design, tree_design
from rangebound.release.output.forecast import outlook_cells
from rangebound.release.prepare import prepare
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
    keys = {"k": ["a", "b", "c"]} if query is QUERY else {}
    return make_plan({"budget": {"epsilon": epsilon, "delta": delta}, "keys": keys, "query": query})


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_the_outlook_at_another_epsilon_is_that_of_the_plan_with_this_epsilon(delta):
    here, half, twice = (forecast(plan(epsilon, delta)) for epsilon in (1.0, 0.5, 2.0))
    assert [each.at_half_epsilon for each in here] == [each.half_width for each in half]
    assert [each.at_twice_epsilon for each in here] == [each.half_width for each in twice]
    visits, total, fixed, mean, median = here
    assert visits.at_twice_epsilon < visits.half_width < visits.at_half_epsilon
    assert total.at_twice_epsilon < total.half_width < total.at_half_epsilon
    assert fixed.at_half_epsilon == fixed.half_width == pytest.approx(40.0)
    for each in (mean, median):
        assert each.half_width is None
        assert each.error_at_twice_epsilon < 1.0 < each.error_at_half_epsilon


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_the_shares_add_up_to_the_account(delta):
    assert sum(each.share for each in forecast(plan(delta=delta))) == pytest.approx(1.0, abs=1e-9)


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


def test_a_row_can_be_read():
    mean = forecast(plan())[3].cells()
    assert mean[:5] == ("mean", "mean", "20.8 %", "by the data", "")
    assert mean[5].startswith("error x ")
    assert mean[-1].startswith("about ")
    assert ";" not in forecast(plan())[4].cells()[-1]


LEVEL = {"name": "l", "members": {"x": ["a", "b"], "y": ["c"]}}


@pytest.mark.parametrize(
    ("kind", "module", "search"),
    [
        ({"kind": "series", "by": ["day"]}, series_design, "optimal_gram"),
        ({"kind": "hierarchy", "by": ["k"], "levels": [LEVEL]}, tree_design, "_best_spending"),
        ({"kind": "crosstab", "by": ["k", "day"]}, marginal_design, "_program"),
    ],
)
def test_the_best_strategy_is_found_once_for_all_epsilons(monkeypatch, kind, module, search):
    """Only its scale depends on the budget: what half and twice epsilon would do needs no second search."""
    days = [datetime.date(2025, 1, at) for at in range(1, 18)]
    plan = make_plan(
        {
            "unit": {"column": "person", "groups": 3},
            "budget": {"epsilon": 0.7, "delta": 1e-3},
            "keys": {name: days if name == "day" else ["a", "b", "c"] for name in kind["by"]},
            "query": [{"name": "t", **kind}],
        }
    )
    usual, searched = getattr(module, search), []

    def counted(*given):
        searched.append(given)
        return usual(*given)

    for name, one in sys.modules.items():  # another test may have asked for the same
        for each in list(vars(one).values()) if name.startswith("rangebound.release.noise") else ():
            if hasattr(each, "cache_clear"):
                each.cache_clear()
    monkeypatch.setattr(module, search, counted)
    (one,) = forecast(plan)
    assert one.error_at_half_epsilon > 1.0 > one.error_at_twice_epsilon
    accounts = 2 if module is tree_design else 1  # the search in plain sums, which is as short
    assert len(searched) == accounts
