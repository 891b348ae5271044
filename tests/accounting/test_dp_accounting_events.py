"""Events from and to dp_accounting."""

from fractions import Fraction

import pytest

import rangebound as rb
from rangebound.accounting import ComposedEvent, MechanismEvent, SampledEvent
from rangebound.accounting.dp_accounting_events import from_dp_accounting, to_dp_accounting
from rangebound.accounting.event import steps
from rangebound.accounting.pld import accountant
from rangebound.errors import ArgumentError, ArgumentTypeError
from tests.accounting.mechanisms import free, gaussian, short

dp = pytest.importorskip("dp_accounting")


def test_there_and_back():
    event = ComposedEvent(
        events=(
            MechanismEvent(mechanism=gaussian(2.0), times=3),
            SampledEvent(mechanism=gaussian(1.5), rate=0.01, times=100),
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
    assert steps(from_dp_accounting(both)) == {MechanismEvent(mechanism=gaussian(1.0)): 5}


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
        to_dp_accounting(MechanismEvent(mechanism=short(rb.Laplace(scale=1.0))))
    with pytest.raises(ArgumentTypeError):
        to_dp_accounting("gaussian")
    with pytest.raises(ArgumentTypeError):
        from_dp_accounting(MechanismEvent(mechanism=gaussian(1.0)))
