"""Plans: what a draw needs, from public parameters alone."""

import math

import pytest

import rangebound as rb
from rangebound.sampling import lattice_of, sampler_for
from rangebound.sampling.draw_plan import farthest, plan

INF = math.inf


def mechanism(support, answers, bounding=rb.TRUNCATE, noise=None) -> rb.Mechanism:
    query = rb.Query(range=answers, sensitivity=1.0)
    return rb.Mechanism(noise=noise or rb.Gaussian(scale=2.0), query=query, support=support, bounding=bounding)


@pytest.mark.parametrize(
    ("support", "answers", "distance"),
    [
        (rb.Interval(0, 10), rb.Interval(0, 10), 0.0),
        (rb.Interval(0, 10), rb.Interval(-4, 11), 2.0),
        (rb.Interval(0, 10), rb.Interval(14, 20), 5.0),
        (rb.Interval(0, INF), rb.Interval(-INF, 5), INF),
        (rb.Union((0, 1), (5, 6)), rb.Interval(0, 6), 1.0),
        (rb.Union((0, 1), (5, 6)), rb.Union((0, 1), (5, 6)), 0.0),
        (rb.Union((-INF, 1), (5, INF)), rb.Interval(-INF, INF), 1.0),
    ],
    ids=str,
)
def test_how_far_a_location_can_be(support, answers, distance):
    m = mechanism(support, answers)
    assert farthest(m.noise, m.shape, m.query.range) == distance


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
    both = (mechanism(rb.Interval(0, 10), rb.Interval(low, 18)) for low in (-8, -8.1))
    near, far = (sampler_for(m.noise, m.shape, m.query) for m in both)
    assert near.estimate.func.__name__ == "_rounded"
    assert far.estimate.func.__name__ == "_rounded_tail"
    assert far.compiled is None
