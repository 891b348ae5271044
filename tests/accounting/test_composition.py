"""Plain sums, groups and disjoint parts."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

import rangebound as rb
from rangebound.accounting import Batch, Release, Sampled
from rangebound.accounting.composition import Guarantee, for_group, group_event, in_parallel, in_sequence
from rangebound.accounting.per_instance import PerInstance
from rangebound.accounting.pld import accountant
from rangebound.errors import ArgumentError, ArgumentTypeError

LINE = rb.Query(range=rb.Interval(0, 100), sensitivity=0.1)


def test_sums_are_exact_and_rounded_up_once():
    total = in_sequence([Guarantee(epsilon=0.1, delta=1e-7)] * 10)
    assert Fraction(total.epsilon) >= 10 * Fraction(0.1)
    assert total.epsilon == math.nextafter(1.0, 2.0)  # ten times the double 0.1 is above 1
    assert Fraction(total.delta) >= 10 * Fraction(1e-7)
    assert in_sequence([]) == Guarantee(epsilon=0.0)
    assert in_sequence([Guarantee(epsilon=1e308)] * 9).epsilon == math.inf
    assert in_sequence([Guarantee(epsilon=1.0, delta=0.6)] * 2).delta == 1.0


def test_control_a_float_sum_is_too_small():
    numbers = [1.0] + [1e-16] * 1000
    assert sum(numbers) < in_sequence([Guarantee(epsilon=x) for x in numbers]).epsilon


def test_disjoint_parts():
    parts = [Guarantee(epsilon=0.5, delta=1e-5), Guarantee(epsilon=2.0, delta=1e-9)]
    assert in_parallel(parts) == Guarantee(epsilon=2.0, delta=1e-5)
    assert in_parallel([]) == Guarantee(epsilon=0.0)


@pytest.mark.parametrize("size", [1, 2, 5])
def test_the_exact_group_is_within_the_general_bound(size):
    m = rb.calibrate(noise=rb.Gaussian, query=LINE, bounding=rb.UNBOUNDED, epsilon=0.5, delta=1e-6)
    group = for_group(Guarantee(epsilon=0.5, delta=1e-6), size)
    seen = group_event(Release(mechanism=m), size)
    assert accountant.delta(seen, group.epsilon).upper <= group.delta
    assert Fraction(seen.mechanism.query.sensitivity) >= size * Fraction(0.1)
    assert group_event(Batch(events=(Release(mechanism=m, times=3),)), size).events[0].times == 3


def test_groups():
    assert for_group(Guarantee(epsilon=1.0), 4) == Guarantee(epsilon=4.0)
    assert for_group(Guarantee(epsilon=0.0, delta=0.01), 4).delta == pytest.approx(0.04)
    assert for_group(Guarantee(epsilon=1.0, delta=1e-3), 2).delta >= 1e-3 * (1.0 + math.e) * (1.0 - 1e-15)
    assert for_group(Guarantee(epsilon=50.0, delta=1e-3), 2).delta == 1.0
    assert for_group(Guarantee(epsilon=math.inf), 2) == Guarantee(epsilon=math.inf)
    with pytest.raises(ArgumentError, match="sampled"):
        group_event(Sampled(mechanism=rb.Mechanism(noise=rb.Laplace(scale=1.0), query=LINE), rate=0.5), 2)


@pytest.mark.parametrize("bad", [-1.0, math.nan, "1", None, True, [1.0]])
def test_bad_guarantees(bad):
    with pytest.raises((ArgumentError, ArgumentTypeError)):
        Guarantee(epsilon=bad)
    with pytest.raises((ArgumentError, ArgumentTypeError)):
        Guarantee(epsilon=1.0, delta=bad)
    with pytest.raises((ArgumentError, ArgumentTypeError)):
        in_sequence([bad])
    with pytest.raises((ArgumentError, ArgumentTypeError)):
        for_group(Guarantee(epsilon=1.0), bad)


def test_a_per_instance_number_is_no_guarantee():
    leak = PerInstance(0.1, notion="epsilon of one record")
    with pytest.raises(ArgumentTypeError, match="per-instance"):
        Guarantee(epsilon=leak)
    with pytest.raises(ArgumentTypeError, match="Guarantee"):
        in_sequence([leak])
