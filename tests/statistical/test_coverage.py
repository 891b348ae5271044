"""Confidence intervals cover the true answer as often as they say, wherever it is, and are not needlessly wide."""

import math

import numpy as np
import pytest

import rangebound as rb
from tests.sampling.sources import name

INF = math.inf
DRAWS = 20_000
LEVEL = 0.9
# Five standard deviations, and half a percent for neighbours that disagree: in fact more than seven together.
SLACK = 5 * math.sqrt(LEVEL * (1 - LEVEL) / DRAWS) + 0.005


def cases():
    interval, line = rb.Interval(0, 20), rb.Interval(-INF, INF)
    grid = rb.Grid(step=1, within=interval)
    for noise in (rb.Laplace(scale=2.0), rb.Gaussian(scale=2.0), rb.TruncatedLaplacian(scale=2.0, limit=12.0)):
        for support, bounding, step in (
            (interval, rb.TRUNCATE, None),
            (interval, rb.TRUNCATE, 1.0),
            (interval, rb.RECTIFY, None),
            (grid, rb.QUANTIZE, None),
            (line, rb.UNBOUNDED, None),
            (rb.Union((0, 8), (12, 20)), rb.TRUNCATE, 0.5),
        ):
            query = rb.Query(range=interval, sensitivity=1.0)
            yield rb.Mechanism(noise=noise, query=query, support=support, bounding=bounding), step


def covered(m, step, answer, shrink=1.0):
    """The share of draws whose interval holds the answer; `shrink` narrows the intervals about their middle."""
    published = m.release(np.full(DRAWS, answer), step=step)
    some, back = np.unique(published, return_inverse=True)
    if len(some) > 400:  # intervals are monotone in the number, so between two neighbours that agree all agree
        some = np.quantile(published, np.linspace(0, 1, 400), method="nearest")
        back = np.clip(np.searchsorted(some, published), 0, 399)
    lower, upper = m.confidence_interval(some, LEVEL, step=step)
    assert (lower >= 0).all()
    assert (upper <= 20).all()
    middle, half = 0.5 * (lower + upper), 0.5 * shrink * (upper - lower)
    return float(((middle - half <= answer) & (answer <= middle + half))[back].mean())


@pytest.mark.few(1)
@pytest.mark.parametrize(("m", "step"), list(cases()), ids=name)
def test_intervals_cover_every_answer(m, step):
    for answer in (0.0, 0.3, 5.0, 10.0, 19.9, 20.0):
        assert covered(m, step, answer) >= LEVEL - SLACK


def test_narrower_intervals_do_not_cover():
    """The control: 20 % narrower fails in the middle of the range."""
    m = rb.Mechanism(noise=rb.Gaussian(scale=2.0), query=rb.Query(range=rb.Interval(0, 20), sensitivity=1.0))
    assert covered(m, None, 10.0) >= LEVEL - SLACK
    assert covered(m, None, 10.0, shrink=0.8) < LEVEL - 0.03


def test_intervals_are_not_wider_than_the_noise_asks():
    query = rb.Query(range=rb.Interval(-INF, INF), sensitivity=1.0)
    m = rb.Mechanism(noise=rb.Gaussian(scale=1.0), query=query, bounding=rb.UNBOUNDED)
    lower, upper = m.confidence_interval(3.0, 0.95)
    assert upper - lower == pytest.approx(2 * 1.959964, abs=1e-5)
    assert 0.5 * (lower + upper) == pytest.approx(3.0, abs=1e-6)


def test_a_higher_level_is_wider_and_arrays_keep_their_shape():
    m = rb.Mechanism(noise=rb.Laplace(scale=1.0), query=rb.Query(range=rb.Interval(0, 20), sensitivity=1.0))
    published = np.array([[0.5, 3.0], [10.0, 19.0]])
    narrow, wide = m.confidence_interval(published, 0.5), m.confidence_interval(published, 0.99)
    assert narrow[0].shape == published.shape
    assert (wide[0] <= narrow[0]).all()
    assert (wide[1] >= narrow[1]).all()
    assert m.confidence_interval(3.0)[0] == pytest.approx(m.confidence_interval(published)[0][0, 1], abs=1e-6)


def test_ends_are_inside_a_union_of_answers_and_infinite_where_nothing_is_known():
    query = rb.Query(range=rb.Union((0, 5), (8, 20)), sensitivity=1.0)
    lower, upper = rb.Mechanism(noise=rb.Laplace(scale=1.0), query=query).confidence_interval(9.0, 0.9)
    assert any(a <= lower <= b for a, b in query.range.spans)
    assert any(a <= upper <= b for a, b in query.range.spans)
    line = rb.Query(range=rb.Interval(-INF, INF), sensitivity=1.0)
    m = rb.Mechanism(noise=rb.Gaussian(scale=1.0), query=line, support=rb.Interval(0, 10), bounding=rb.RECTIFY)
    assert m.confidence_interval(10.0)[1] == INF
    assert m.confidence_interval(0.0)[0] == -INF


@pytest.mark.parametrize(
    ("support", "published", "ways"),
    [
        (rb.Union((0, 8), (12, 20)), 9.0, "8.0 and 12.0"),
        (rb.Union((0, 8), (12, 20)), [1.0, 11.5], "8.0 and 12.0"),
        (rb.Union((0, 8), (12, 20)), 20.5, "are 20.0$"),
        (rb.Union((-INF, 8), (12, INF)), math.nextafter(12.0, 0.0), "8.0 and 12.0"),
        (rb.Interval(0, 20), -0.5, "are 0.0$"),
        (rb.Grid(step=0.1, within=rb.Interval(0, 20)), 0.25, "0.2 and 0.30000000000000004"),
    ],
)
def test_numbers_that_are_never_published_are_refused_with_the_nearest_that_are(support, published, ways):
    query = rb.Query(range=rb.Interval(0, 20), sensitivity=1.0)
    m = rb.Mechanism(noise=rb.Laplace(scale=1.0), query=query, support=support)
    with pytest.raises(rb.ArgumentError, match=ways):
        m.confidence_interval(published)


def test_ends_of_spans_and_rounded_points_are_published():
    """The control of the refusals: what may be published, also written with fewer digits than the point has."""
    query = rb.Query(range=rb.Interval(0, 20), sensitivity=1.0)
    union = rb.Mechanism(noise=rb.Laplace(scale=1.0), query=query, support=rb.Union((0, 8), (12, 20)))
    assert np.isfinite(union.confidence_interval([0.0, 8.0, 12.0, 20.0])).all()
    points = rb.Grid(step=0.1, within=rb.Interval(0, 20))
    grid = rb.Mechanism(noise=rb.Laplace(scale=1.0), query=query, support=points, bounding=rb.QUANTIZE)
    assert grid.confidence_interval(0.3) == grid.confidence_interval(0.30000000000000004)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("published", each) for each in (math.nan, INF, -1.0, 21.0, "3", None, True, [1.0, math.nan])),
        *(("level", each) for each in (-0.1, 1.0, 2.0, math.nan, "0.9", None, True)),
    ],
)
def test_bad_numbers_are_refused(name, value):
    m = rb.Mechanism(noise=rb.Laplace(scale=1.0), query=rb.Query(range=rb.Interval(0, 20), sensitivity=1.0))
    with pytest.raises(rb.RangeboundError, match=f"{name}="):
        m.confidence_interval(**{"published": 3.0, name: value})
