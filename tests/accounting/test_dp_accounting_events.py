"""Events from and to dp_accounting."""

from __future__ import annotations

import math
import sys
from fractions import Fraction

import pytest

import rangebound as rb
from rangebound.accounting import ComposedEvent, MechanismEvent, SampledEvent
from rangebound.accounting.dp_accounting_events import from_dp_accounting, to_dp_accounting
from rangebound.accounting.event import steps
from rangebound.accounting.pld import accountant
from rangebound.errors import ArgumentError, ArgumentTypeError, MissingExtra

dp = pytest.importorskip("dp_accounting")
LINE = rb.Query(range=rb.Interval(-math.inf, math.inf), sensitivity=1.0)


def free(noise: object, query: rb.Query = LINE) -> rb.Mechanism:
    return rb.Mechanism(noise=noise, query=query, bounding=rb.UNBOUNDED)


def test_there_and_back():
    event = ComposedEvent(
        events=(
            MechanismEvent(mechanism=free(rb.Gaussian(scale=2.0)), times=3),
            SampledEvent(mechanism=free(rb.Gaussian(scale=1.5)), rate=0.01, times=100),
            MechanismEvent(mechanism=free(rb.Laplace(scale=0.5))),
        ),
        times=2,
    )
    peer = to_dp_accounting(event)
    assert isinstance(peer, dp.SelfComposedDpEvent)
    assert peer.count == 2
    assert steps(from_dp_accounting(peer)) == steps(event)


def test_the_multiplier_is_scale_over_sensitivity_and_never_too_large():
    query = rb.Query(range=rb.Interval(0, 10), sensitivity=0.3)
    peer = to_dp_accounting(MechanismEvent(mechanism=free(rb.Gaussian(scale=0.7), query)))
    assert peer.noise_multiplier == pytest.approx(7 / 3)
    assert Fraction(peer.noise_multiplier) <= Fraction(0.7) / Fraction(0.3)
    ours = accountant.epsilon(from_dp_accounting(peer), 1e-6).upper
    assert ours >= free(rb.Gaussian(scale=0.7), query).epsilon(1e-6) * (1.0 - 1e-9)


def test_every_kind_that_has_a_counterpart():
    assert from_dp_accounting(dp.NoOpDpEvent()) == ComposedEvent(events=())
    assert from_dp_accounting(dp.LaplaceDpEvent(3.0)).mechanism.noise == rb.Laplace(scale=3.0)
    both = dp.ComposedDpEvent([dp.GaussianDpEvent(1.0), dp.SelfComposedDpEvent(dp.GaussianDpEvent(1.0), 4)])
    assert steps(from_dp_accounting(both)) == {MechanismEvent(mechanism=free(rb.Gaussian(scale=1.0))): 5}


def test_the_accountants_agree_on_a_converted_event():
    event = dp.SelfComposedDpEvent(dp.PoissonSampledDpEvent(0.1, dp.GaussianDpEvent(2.0)), 20)
    peer = dp.pld.PLDAccountant(value_discretization_interval=1e-3)
    peer.compose(event)
    assert accountant.epsilon(from_dp_accounting(event), 1e-6).upper == pytest.approx(peer.get_epsilon(1e-6), rel=2e-3)


@pytest.mark.parametrize(
    "event",
    [
        dp.NonPrivateDpEvent(),
        dp.ZCDpEvent(1.0),
        dp.PoissonSampledDpEvent(0.1, dp.SelfComposedDpEvent(dp.GaussianDpEvent(1.0), 2)),
        dp.GaussianDpEvent(0.0),
    ],
)
def test_others_are_refused(event):
    with pytest.raises(ArgumentError):
        from_dp_accounting(event)


def test_bounded_mechanisms_have_no_event_there():
    with pytest.raises(ArgumentError, match="unbounded"):
        to_dp_accounting(
            MechanismEvent(mechanism=rb.Mechanism(noise=rb.Laplace(scale=1.0), query=LINE, bounding=rb.TRUNCATE))
        )
    with pytest.raises(ArgumentTypeError):
        to_dp_accounting("gaussian")
    with pytest.raises(ArgumentTypeError):
        from_dp_accounting(MechanismEvent(mechanism=free(rb.Gaussian(scale=1.0))))


def test_without_dp_accounting_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    with pytest.raises(MissingExtra, match="dp-accounting"):
        to_dp_accounting(MechanismEvent(mechanism=free(rb.Gaussian(scale=1.0))))
