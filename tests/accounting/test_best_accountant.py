"""The best of the three accountants."""

from __future__ import annotations

import pytest

import rangebound as rb
from rangebound.accounting import MechanismEvent, best_accountant, renyi
from rangebound.accounting.pld import accountant

SHORT = rb.Query(range=rb.Interval(0, 10), sensitivity=1.0)


@pytest.mark.parametrize("bounding", [rb.TRUNCATE, rb.UNBOUNDED])
def test_it_is_the_smaller_upper_end(bounding):
    event = MechanismEvent(
        mechanism=rb.Mechanism(noise=rb.Laplace(scale=4.0), query=SHORT, bounding=bounding), times=100
    )
    by_loss, by_renyi = accountant.epsilon(event, 1e-6), renyi.epsilon(event, 1e-6)
    found = best_accountant.epsilon(event, 1e-6)
    every = best_accountant.every_epsilon(event, 1e-6)
    assert (every.pld, every.renyi) == (by_loss, by_renyi)
    assert found.upper == every.best.upper == min(by_loss.upper, by_renyi, every.adaptive)
    assert (found.upper < min(by_loss.upper, by_renyi)) == (bounding is rb.TRUNCATE)
    assert found.lower == min(by_loss.lower, found.upper)
    assert by_loss.lower <= by_renyi  # both are true, so a pair cannot leak more than the other proves
    at = best_accountant.delta(event, found.upper)
    assert at.lower <= at.upper <= 1e-6 * (1.0 + 1e-6)


def test_truncated_noise_is_where_the_renyi_accountant_is_below_the_privacy_loss():
    event = MechanismEvent(mechanism=rb.Mechanism(noise=rb.Laplace(scale=1.0), query=SHORT), times=1000)
    assert renyi.epsilon(event, 1e-6) < accountant.epsilon(event, 1e-6).upper
