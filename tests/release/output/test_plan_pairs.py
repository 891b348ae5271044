"""What a plan surely leaks: below what it may leak, near it, and for real tables by counting draws."""

import math
from fractions import Fraction

import numpy as np
import pytest

from rangebound.accounting import MechanismEvent
from rangebound.release import parse_plan, plan_risk
from rangebound.release.output.plan_risk import attained
from rangebound.release.prepare import prepare
from rangebound.sampling.entropy import secure_bits

COUNT = '{name = "visits", kind = "count"}'
SUM = '{name = "spent", kind = "sum", column = "amount", range = [0, 100]}'

SUMS = [SUM.replace("spent", f"s{i}").replace("amount", f"a{i}") for i in range(9)]


def plan(queries, budget="epsilon = 1.0", rest=""):
    return parse_plan(f"{rest}\nbudget = {{{budget}}}\nquery = [{', '.join(queries)}]")


def parts(given):
    events = attained(prepare(given)).event.events
    return [each.mechanism for each in events if isinstance(each, MechanismEvent)]


def test_a_count_is_enclosed_to_the_last_bits():
    found = plan_risk(plan([COUNT])).enclosed
    assert found.advantage().lower <= math.tanh(0.5) <= found.advantage().upper
    risks = (found.advantage(), found.tradeoff(0.01), found.posterior(0.5), found.gdp())
    assert max(each.width for each in risks) < 1e-6


def test_two_pure_numbers_have_the_risk_of_one_of_them():
    """Two coins of epsilon 1/2: the total variation distance tanh(1/4), which a Gaussian of their mu put at 0.341."""
    found = plan_risk(plan([COUNT, SUM])).enclosed.advantage()
    assert found.lower <= math.tanh(0.25) <= found.upper
    assert found.width < 1e-9


@pytest.mark.parametrize(
    ("queries", "budget", "widest"),
    [
        ([SUM], "epsilon = 1.0", 0.07),
        ([COUNT, SUM], "epsilon = 1.0, delta = 1e-6", 0.01),
        pytest.param([COUNT, *SUMS], "epsilon = 1.0, delta = 1e-6", 1e-4, marks=pytest.mark.slow),
    ],
)
def test_several_numbers_are_enclosed(queries, budget, widest):
    found = plan_risk(plan(queries, budget)).enclosed
    assert 0.0 < found.advantage().lower <= found.advantage().upper
    assert found.advantage().width < widest
    curve = found.tradeoff(0.05, tolerance=1e-6)
    assert curve.lower <= curve.upper < 0.95


LEFT_OUT = {
    "a condition": ([COUNT[:-1] + ', where = [{column = "age", is = ">", value = 3}]}'], ""),
    "private keys": ([COUNT[:-1] + ', by = ["town"]}'], ""),
    "a bounded support": ([COUNT[:-1] + ", support = [0, 50]}"], ""),
    "a mean": (['{name = "age", kind = "mean", column = "age", range = [0, 100]}'], ""),
    "replaced units": ([SUM], 'unit = {column = "person", neighbours = "replace", size = 50}'),
}


@pytest.mark.few(4)
@pytest.mark.parametrize("name", LEFT_OUT)
def test_numbers_without_known_neighbours_are_left_out(name):
    queries, rest = LEFT_OUT[name]
    given = plan(queries, "epsilon = 1.0, delta = 1e-6", rest)
    assert parts(given) == []
    assert plan_risk(given).enclosed.advantage().lower == 0.0
    more = [COUNT.replace("visits", "all"), *queries]
    assert len(parts(plan(more, "epsilon = 1.0, delta = 1e-6"))) >= 1  # control: the count is there


DEBT = SUM.replace("spent", "debt").replace("[0, 100]", "[-200, 5]")
TOWNS = 'keys = {town = ["a", "b"], sex = ["f", "m"]}\n'
AMOUNTS, PEOPLE = (f"keys = {{{column} = [1, 2, 3]}}\n" for column in ("amount", "person"))


def by(question, column):
    return f'{question[:-1]}, by = ["{column}"]}}'


@pytest.mark.parametrize(
    ("queries", "rest", "many"),
    [
        ([SUM, DEBT], "", 1),  # another range of the same column
        ([SUM, DEBT.replace("amount", "debt")], "", 2),
        ([by(COUNT, "town"), by(COUNT.replace("visits", "other"), "sex")], TOWNS, 1),  # another grouping
        ([by(SUM, "amount")], AMOUNTS, 0),  # rows of the group 3 have the value 3: none of them moves the sum by 100
        ([by(COUNT, "amount"), SUM], AMOUNTS, 1),
        ([by(COUNT, "amount"), SUM.replace("amount", "paid")], AMOUNTS, 2),
        ([by(COUNT, "person")], PEOPLE + 'unit = {column = "person"}\n', 0),  # no other unit is in the group
        ([by(COUNT, "person")], PEOPLE + 'unit = {column = "owner"}\n', 1),
    ],
)
def test_what_need_not_be_attained_beside_the_others_is_left_out(queries, rest, many):
    assert len(parts(plan(queries, rest=rest))) == many


def test_counts_that_are_rounded_are_those_of_whole_numbers():
    given = plan([COUNT] + [COUNT.replace("visits", f"n{i}") for i in range(30)], "epsilon = 1.0, delta = 1e-6")
    found = parts(given)
    assert len(found) == 31
    assert all(each.shape.points for each in found)  # a rounded law, not the continuous one


@pytest.mark.parametrize(("queries", "column"), [([COUNT], "visits"), ([SUM], "spent")])
def test_draws_are_told_apart_by_no_less(queries, column):
    """Draws of 20 rows and of one row more: the best threshold gains what is said to be attained."""
    given = plan(queries, "epsilon = 3.0")
    said = plan_risk(given).enclosed.advantage().lower
    runs, one = 4000, 100 if column == "spent" else 1
    truths = [[(Fraction(one * size),)] * runs for size in (20, 21)]
    publisher = prepare(given).publishers[0]
    drawn = [np.array(publisher.draw(each, secure_bits), dtype=float).reshape(-1) for each in truths]
    middle = 20.5 if column == "visits" else 2050.0
    gain = float((drawn[1] > middle).mean() - (drawn[0] > middle).mean())
    slack = 7.0 * math.sqrt(0.5 / runs)
    assert said - slack <= gain <= plan_risk(given).advantage() + slack
    assert gain > 0.5 * said  # control: a bound of twice as much would be seen to be wrong
