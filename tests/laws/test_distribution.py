"""Laws at the ends and in gaps; tests/crosscheck/test_laws.py compares every number with mpmath."""

from __future__ import annotations

import math

import pytest

import rangebound as rb

INF = math.inf


def mechanism(bounding: rb.Law = rb.TRUNCATE, support: object = None) -> rb.Mechanism:
    query = rb.Query(range=rb.Interval(-5, 5), sensitivity=1.0)
    support = support or rb.Interval(0, 3)
    return rb.Mechanism(noise=rb.Laplace(scale=1.0), query=query, support=support, bounding=bounding)


def test_a_gap_has_no_mass_and_its_quantile_is_the_end_before_it() -> None:
    law = mechanism(support=rb.Union((0, 1), (2, 3))).law(1.5)
    assert float(law.quantile(0.5)) == 1.0
    assert 2.0 <= float(law.quantile(0.5 + 1e-9)) < 2.0 + 1e-8
    assert float(law.cdf(1.7)) == pytest.approx(0.5, rel=1e-15)


def test_quantiles_at_the_ends_of_the_law() -> None:
    assert mechanism().law(1.0).quantile([0.0, 1.0]).tolist() == [0.0, 3.0]
    half = mechanism(support=rb.Interval(0, INF)).law(1.0)
    assert half.quantile([0.0, 1.0]).tolist() == [0.0, INF]
    line = mechanism(rb.UNBOUNDED, rb.Interval(-INF, INF)).law(1.0)
    assert line.quantile([0.0, 0.5, 1.0]).tolist() == [-INF, 1.0, INF]
