"""Empirical bounds: the limits of Clopper and Pearson, what is printed, and that nobody takes one for a guarantee."""

import math

import numpy as np
import pytest
from scipy import stats

import rangebound as rb
from rangebound.audit import EmpiricalBound, lower_bound
from rangebound.ledger.rule import Cost
from tests.thinning import crossed

FOUND = EmpiricalBound(
    epsilon=1.1789,
    delta=0.0,
    confidence=0.999,
    event="value <= 0",
    pair=(0.0, 1.0),
    hits=(300, 100),
    held_out=1000,
    claimed=1.0,
)


@pytest.mark.few(9)
@crossed(
    {
        "delta": [0.0, 0.01],
        "confidence": [0.9, 0.999, 1.0 - 1e-9],
        "hits": [(500, 20), (1000, 1), (3, 0), (1000, 0), (999, 998), (40, 39)],
    }
)
def test_the_limits_are_those_at_which_the_counts_become_too_unlikely(hits, confidence, delta):
    """The second route: the tails of the binomial law at p and q themselves."""
    count, risk = 1000, 0.5 * (1.0 - confidence)

    def root(tail, low, high):
        for _ in range(200):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if tail(middle) else (low, middle)
        return low

    p = root(lambda x: stats.binom.sf(hits[0] - 1, count, x) < risk, 0.0, 1.0)
    q = root(lambda x: stats.binom.cdf(hits[1], count, x) > risk, 0.0, 1.0)
    expected = max(math.log((p - delta) / q), 0.0) if p > delta else 0.0
    assert lower_bound(hits, count, delta=delta, confidence=confidence) == pytest.approx(expected, rel=2e-9, abs=1e-12)
    assert lower_bound(hits, count, delta=delta, confidence=confidence) <= expected


def test_the_bound_holds_as_often_as_it_says():
    """At 90 % at most 10 % of the bounds may lie above the truth; the plain ratio of the counts does in every other."""
    draw, count, p, q = np.random.default_rng(3), 2000, 0.5, 0.5 / math.e
    hits = [(int(draw.binomial(count, p)), int(draw.binomial(count, q))) for _ in range(1000)]
    above = np.mean([lower_bound(each, count, confidence=0.9) > 1.0 for each in hits])
    assert above <= 0.1
    assert np.mean([math.log(a / b) > 1.0 for a, b in hits]) > 0.4


def test_what_is_printed_is_proved_as_well_and_a_claim_is_refuted_only_from_above():
    assert str(FOUND).startswith("this mechanism claims (1, 0); at 99.9 % confidence it leaks at least 1.17 (")
    assert "value <= 0: 300 of 1000 times at 0, 100 at 1" in str(FOUND)
    small = EmpiricalBound(**{**vars(FOUND), "epsilon": 0.012399})
    assert "leaks at least 0.012 (" in str(small)
    none = EmpiricalBound(**{**vars(FOUND), "epsilon": 0.0, "claimed": None, "delta": 0.1})
    assert str(none).startswith("at 99.9 % confidence it leaks at least 0.00 with delta 0.1 (")
    assert FOUND.refutes
    assert not EmpiricalBound(**{**vars(FOUND), "claimed": 1.1789}).refutes
    assert not EmpiricalBound(**{**vars(FOUND), "claimed": None}).refutes
    assert FOUND.to_dict()["refutes"] is True


def test_it_is_no_guarantee_and_cannot_be_spent_and_has_possible_counts():
    with pytest.raises(rb.RangeboundError):
        Cost(epsilon=FOUND)
    assert not isinstance(FOUND, (float, rb.Certificate))
    for hits in ((-1, 0), (0, 11), (11, 0)):
        with pytest.raises(rb.ArgumentError, match="between 0 and the count"):
            lower_bound(hits, 10)
