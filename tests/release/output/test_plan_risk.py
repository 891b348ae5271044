"""What a plan costs together: in terms of several definitions, each true, and as odds for known parts."""

import math
from dataclasses import replace

import pyarrow as pa
import pytest
from scipy import stats

from rangebound.release import check_certificate, explain
from rangebound.release.budget_split import allocations
from rangebound.release.output.ledger_entry import charges
from rangebound.release.output.plan_facts import plan_facts, plan_risk
from rangebound.release.output.plan_risk import conversions
from rangebound.release.prepare import prepare, prepared
from tests.release.output.asked import asked, released, report

CROSSTAB = {"kind": "crosstab", "by": ["k", "l"]}
TABLE = pa.table({"k": ["a", "b"] * 50, "l": ["x"] * 100})


def plan(number=12, delta=1e-6, keys=(), **fields):
    return asked(*[{"kind": "count", **fields}] * number, delta=delta, keys=dict(keys))


def profile(mu, epsilon):
    return stats.norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * stats.norm.cdf(-mu / 2 - epsilon / mu)


def test_a_gaussian_account_by_scipy():
    found = conversions(prepare(plan()))
    assert found.gaussian
    assert found.rho == pytest.approx(found.mu**2 / 2)
    for epsilon, delta in found.deltas:
        assert delta == pytest.approx(profile(found.mu, epsilon), rel=1e-6)
    assert [epsilon for epsilon, _ in found.deltas] == [0.5, 1.0, 2.0]
    assert found.deltas[1][1] <= 1e-6


def test_plain_sums_have_a_mu_of_their_own_parts():
    """Second route: discrete Laplace noise at epsilon 1/2 is a coin, and two of them lose 1 if both fall so."""
    this = plan(2, delta=0.0)
    found = conversions(prepare(this))
    assert not found.gaussian
    heads = 1 / (1 + math.exp(-0.5))
    assert found.mu == pytest.approx(stats.norm.ppf(heads**2) - stats.norm.ppf((1 - heads) ** 2))
    assert found.mu < 0.9 * math.sqrt(2) * 2 * stats.norm.ppf(heads)  # the root of the sum of their squares
    assert [delta for _, delta in found.deltas] == [pytest.approx(heads**2 * -math.expm1(-0.5)), 0.0, 0.0]
    assert found.deltas[0][1] < profile(found.mu, 0.5)  # a Gaussian of their mu would leak more


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("number", "delta", "more"), [(12, 1e-6, {}), (2, 0.0, {}), (1, 1e-6, CROSSTAB), (1, 0.0, CROSSTAB)]
)
def test_every_place_says_the_same(number, delta, more):
    this = plan(number, delta, keys={"k": ["a", "b"], "l": ["x", "y"]} if more else {}, **more)
    made = released(this, TABLE)
    found = made.facts.conversions
    assert found == conversions(prepare(this))
    assert found == check_certificate(made.certificate, made.to_bytes()).terms
    assert str(found) in report(made)
    assert (str(found) in explain(this)) == found.gaussian
    assert charges(prepare(this))[0].mu == pytest.approx(found.mu)
    assert found.to_dict()["account"] == ("gaussian" if found.gaussian else "sums")
    assert found.gaussian == (number == 12) or more


def test_a_selection_adds_a_delta():
    found = conversions(prepare(plan(by=["k"])))
    assert 0 < found.added_delta < 1e-6
    assert all(delta >= found.added_delta for _, delta in found.deltas)
    assert "but for events of probability" in str(found)


UNUSED = [
    ({"kind": "mean", "column": "x", "range": [0, 9]}, 0.0),
    ({"kind": "median", "column": "x", "range": [0, 9]}, 0.0),
    ({"kind": "count"}, 0.0),
    ({"kind": "sum", "column": "x", "range": [0, 9]}, 1e-6),  # control: noise of limited reach
    ({"kind": "count", "by": ["k"]}, 5e-7),  # and keys that are selected; the count has as much, and does not use it
]


@pytest.mark.parametrize(("question", "used"), UNUSED, ids=lambda each: str(each) if isinstance(each, float) else "")
def test_a_delta_that_no_mechanism_uses_is_not_charged(question, used):
    ready = prepare(asked(question, delta=1e-6))
    gaussian, plain = charges(ready)
    assert float(plain.delta) == pytest.approx(used, rel=1e-6)
    assert bool(gaussian.delta.units) == bool(used)
    assert bool(conversions(ready).added_delta) == bool(used)
    assert plan_risk(ready.plan).posterior(0.5) == (1.0 if used else pytest.approx(1 / (1 + math.exp(-1))))


def test_a_table_of_other_shares_has_none():
    this = plan()
    made = released(this, TABLE)

    other = replace(made, cells=tuple(replace(each, mu=0.5) for each in made.cells))
    assert other.facts is None
    plain = conversions(prepared(this, allocations(this)[0]))  # control: the other account has another mu
    assert plain.mu > 1.05 * made.facts.conversions.mu


def test_explain_and_the_report_have_the_sentence():
    given = asked({"kind": "count"}, unit={"column": "person"})
    sentence = (
        "Of 100 owners of rows, each in the data or not by the toss of a coin, an attacker who knows all the rest"
    )
    assert sentence in explain(given)
    assert report(released(given, {"person": range(50)})).count(sentence) == 2  # above the numbers, and in the plan
    other = asked({"kind": "count"}, unit={"column": "person", "neighbours": "replace", "size": 100})
    assert "one of two candidates by the toss of a coin" in plan_facts(other).odds
