"""Plans: what a draw needs, from public parameters alone."""

import math
import sys

import pytest

import rangebound as rb
from rangebound.sampling import lattice_of, sampler_for
from rangebound.sampling.draw_plan import DrawFamily, farthest, plan

INF = math.inf


def mechanism(support, answers, bounding=rb.TRUNCATE, noise=None) -> rb.Mechanism:
    query = rb.Query(range=answers, sensitivity=1.0)
    return rb.Mechanism(noise=noise or rb.Gaussian(scale=2.0), query=query, support=support, bounding=bounding)


@pytest.mark.parametrize(
    ("support", "answers", "distance"),
    [
        (rb.Interval(0, 10), rb.Interval(0, 10), 0.0),
        (rb.Interval(0, 10), rb.Interval(2, 3), 0.0),
        (rb.Interval(0, 10), rb.Interval(-4, 11), 2.0),
        (rb.Interval(0, 10), rb.Interval(14, 20), 5.0),
        (rb.Interval(0, INF), rb.Interval(-INF, 5), INF),
        (rb.Interval(0, 10), rb.Interval(-INF, INF), INF),
        (rb.Union((0, 1), (5, 6)), rb.Interval(0, 6), 1.0),
        (rb.Union((0, 1), (5, 6)), rb.Interval(0, 2), 0.5),
        (rb.Union((0, 1), (5, 6)), rb.Union((0, 1), (5, 6)), 0.0),
        (rb.Union((-INF, 1), (5, INF)), rb.Interval(-INF, INF), 1.0),
    ],
    ids=str,
)
def test_how_far_a_location_can_be(support, answers, distance):
    m = mechanism(support, answers)
    assert farthest(m.noise, m.shape, m.query.range) == distance


def test_the_family_follows_noise_and_bounding():
    line, interval = rb.Interval(-INF, INF), rb.Interval(0, 10)
    laplace, limited = rb.Laplace(scale=1.0), rb.TruncatedLaplacian(scale=1.0, limit=20.0)
    cases = [
        (mechanism(interval, interval), DrawFamily.GAUSSIAN),
        (mechanism(interval, interval, rb.RECTIFY), DrawFamily.PLAIN_GAUSSIAN),
        (mechanism(line, interval, rb.UNBOUNDED), DrawFamily.PLAIN_GAUSSIAN),
        (mechanism(interval, interval, noise=laplace), DrawFamily.LAPLACE),
        (mechanism(interval, interval, rb.RECTIFY, laplace), DrawFamily.PLAIN_LAPLACE),
        (mechanism(interval, interval, rb.RECTIFY, limited), DrawFamily.LAPLACE),
    ]
    for m, family in cases:
        assert plan(m.noise, m.shape, m.query.range, lattice_of(1.0)).family is family


def test_margins_do_not_depend_on_the_location_where_answers_are_bounded():
    bounded = mechanism(rb.Interval(0, INF), rb.Interval(0, 1e9))
    free = mechanism(rb.Interval(0, INF), rb.Interval(0, INF))
    for step in (0.01, 1.0):
        near = plan(bounded.noise, bounded.shape, bounded.query.range, lattice_of(step))
        assert near.margin_growth == 0.0
        assert near.margin < 1e-3
    assert plan(free.noise, free.shape, free.query.range, lattice_of(0.01)).margin_growth > 0.0
    assert plan(free.noise, free.shape, free.query.range, lattice_of(1.0)).margin_growth == 0.0


def test_which_formulas_draw_depends_on_public_parameters():
    """Near and far locations of one mechanism take the same way."""
    near = sampler_for(*parts(mechanism(rb.Interval(0, 10), rb.Interval(-8, 18))))
    far = sampler_for(*parts(mechanism(rb.Interval(0, 10), rb.Interval(-8.1, 18))))
    assert near.estimate.func.__name__ == "_rounded"
    assert far.estimate.func.__name__ == "_rounded_tail"
    assert far.compiled is None


def parts(m: rb.Mechanism):
    return m.noise, m.shape, m.query


def test_what_is_published_is_finite_whatever_the_support():
    """A number that does not fit into a double is published as the largest one, never as infinity."""
    line = rb.Interval(-INF, INF)
    m = mechanism(line, line, rb.UNBOUNDED)
    found = plan(m.noise, m.shape, m.query.range, lattice_of(1.0))
    assert found.outputs == (-sys.float_info.max, sys.float_info.max)
