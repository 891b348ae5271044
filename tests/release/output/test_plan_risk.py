"""The risk of a plan's whole account: exact for known parts, in the words of explain and of the report."""

import math

import pandas

from rangebound.privacy.gdp import delta_of_mu
from rangebound.release import explain, parse_plan
from rangebound.release import release as release_table
from rangebound.release.output.plan_risk import account_profile, plan_odds, plan_risk
from rangebound.release.output.report import report
from rangebound.release.prepare import prepare

TABLE = pandas.DataFrame({"person": range(50), "amount": range(50)})
COUNT = '\nquery = [{name = "visits", kind = "count"}]'
SUMS = (
    '\nquery = [{name = "visits", kind = "count"}, {name = "spent", kind = "sum", column = "amount", range = [0, 100]}]'
)


def plan(budget, rest=COUNT):
    return parse_plan(f"budget = {{{budget}}}{rest}")


def test_a_gaussian_account_has_the_risk_of_its_mu():
    given = plan("epsilon = 1.0, delta = 1e-6", SUMS)
    allocation = prepare(given).allocation
    found = plan_risk(given, allocation)
    if allocation.mu and math.isfinite(found.mu):
        assert found.advantage() <= delta_of_mu(found.mu, epsilon=0.0) * (1 + 1e-9)
    assert account_profile(prepare(given))(1.0) <= 1e-6
    assert found.advantage() < math.tanh(0.5)


def test_explain_and_the_report_have_the_sentence():
    given = plan("epsilon = 1.0", '\nunit = {column = "person"}' + COUNT)
    sentence = (
        "Of 100 owners of rows, each in the data or not by the toss of a coin, an attacker who knows all the rest"
    )
    assert sentence in explain(given)
    published = release_table(given, TABLE, ledger=None)
    assert report(published).count(sentence) == 2  # above the numbers, and in the plan
    other = plan("epsilon = 1.0", '\nunit = {column = "person", neighbours = "replace", size = 100}' + COUNT)
    assert "one of two candidates by the toss of a coin" in plan_odds(other, prepare(other).allocation)
