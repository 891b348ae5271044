"""Bounds that hold without a search: Gaussian laws on an interval, parts of a support, endless grids."""

import itertools
import math
from dataclasses import replace

import mpmath as mp
import numpy as np
import pytest

import rangebound as rb
from rangebound.laws.boundings import UNBOUNDED_SHAPE, Shape
from rangebound.privacy.objectives import Delta, Renyi
from rangebound.privacy.pairs.divergences import family, renyi_formula, stick
from rangebound.privacy.worst import worst_renyi
from rangebound.values.ball import ball, down, precision, up
from tests.matrix.deadline import deadline

INF = math.inf
LINE = rb.Interval(-INF, INF)


def made(noise, sensitivity, answers, support, bounding=rb.TRUNCATE):
    query = rb.Query(range=answers, sensitivity=sensitivity)
    return rb.Mechanism(noise=noise, query=query, support=support, bounding=bounding)


def truncated(*spans):
    return Shape(spans=spans, normalised=True)


@pytest.mark.few(1)
@pytest.mark.parametrize("seed", range(2))
def test_a_gaussian_law_on_an_interval_gives_away_no_more_than_the_unbounded_one(seed):
    generator = np.random.default_rng([163, seed])
    with precision(256):
        for _ in range(300):
            noise = rb.Gaussian(scale=float(10.0 ** generator.uniform(-1.5, 1.5)))
            lower = float(generator.normal())
            upper = float(generator.choice([lower + 10.0 ** generator.uniform(-2.0, 1.0), INF]))
            p, d = ball(float(3.0 * generator.normal())), ball(float(10.0 ** generator.uniform(-3.0, 0.5)))
            epsilon = ball(float(generator.choice([0.0, 0.1, 1.0, 4.0])))
            order = ball(float(generator.uniform(1.1, 9.0)))
            free = family(noise, UNBOUNDED_SHAPE)
            for shape in (truncated((lower, upper)), truncated((-upper, -lower))):
                kind = family(noise, shape)
                assert not stick(kind, p, d, epsilon) > stick(free, p, d, epsilon)
                assert not kind.renyi(p, d, order) > free.renyi(p, d, order)


def test_with_a_gap_it_may_give_away_more():
    """The control: R without (-1, 1), scale 1, the pair (-.5, .5)."""
    with precision(128):
        shapes = truncated((-INF, -1), (1, INF)), UNBOUNDED_SHAPE
        gap, free = (family(rb.Gaussian(scale=1.0), shape) for shape in shapes)
        assert stick(gap, ball(-0.5), ball(1.0), ball(0.5)) > stick(free, ball(-0.5), ball(1.0), ball(0.5))
        assert gap.renyi(ball(-0.5), ball(1.0), ball(2.0)) > free.renyi(ball(-0.5), ball(1.0), ball(2.0))


def random_shape(generator, width, lower):
    points = rb.Grid(step=width / int(generator.integers(2, 9)), within=rb.Interval(lower, lower + width))
    return [
        rb.Union((lower, lower + width), (lower + 1.3 * width, lower + 2.0 * width)),
        rb.Union((lower, lower + 0.1 * width), (lower + 0.3 * width, lower + width), (lower + 1.1 * width, INF)),
        rb.Union((-INF, lower), (lower + 0.3 * width, lower + width)),
        points,
    ][generator.integers(4)]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_the_part_that_matters_bounds_every_position_of_a_cell(seed):
    generator = np.random.default_rng([164, seed])
    sharp = 0
    with precision(128):
        for _ in range(150):
            width, lower = float(10.0 ** generator.uniform(-0.5, 1.0)), float(2.0 * generator.normal())
            noise = rb.Gaussian(scale=float(width * 10.0 ** generator.uniform(-2.5, 0.3)))
            shape = made(noise, 1.0, LINE, random_shape(generator, width, lower)).shape
            start = float(generator.uniform(lower - width, lower + 3.0 * width))
            end = start + float(width * 10.0 ** generator.uniform(-4.0, 0.0))
            d = ball(float(noise.scale * 10.0 ** generator.uniform(-2.0, 1.0)))
            for objective in (Delta(noise, shape, float(generator.choice([0.0, 0.3, 2.0]))), Renyi(noise, shape, 3.0)):
                top = up(objective.ceiling(start, end, d))
                places = [start, end, *generator.uniform(start, end, 6).tolist()]
                found = max(down(objective.value(ball(p), d)) for p in places)
                assert found <= top, (noise, shape, start, end, d)
                sharp += found > 0.999 * top > 0.0
    assert sharp > 10  # else the bounds may be true because they say nothing


LIMITED = [rb.TruncatedLaplacian(scale=0.8, limit=limit) for limit in (24.0, 40.0)]


@pytest.mark.parametrize("noise", [rb.Laplace(scale=0.8), rb.Gaussian(scale=0.8), *LIMITED], ids=str)
def test_the_endless_grid_bounds_every_position(noise):
    ends, order = rb.Interval(0, 10), 12.0
    m = made(noise, 1.0, ends, rb.Grid(step=0.5, within=ends), rb.QUANTIZE)
    p = np.linspace(0.0, 9.0, 2401)
    values = renyi_formula(m.noise, m.shape, p, p + 1.0, order)
    with precision(128):
        objective = Renyi(m.noise, m.shape, order)
        for start in (0.0, 2.0, 6.5, 8.0):
            inside = values[(p >= start) & (p <= start + 1.0)]
            assert inside.max() <= up(objective.ceiling(start, start + 1.0, ball(1.0))) * (1.0 + 1e-12)
    assert values.max() * (1.0 - 1e-12) <= m.rdp(order) <= values.max() * (1.0 + 1e-4)


NARROW, THREE = rb.Union((1, 2), (2.5, 2.6)), rb.Union((-2, -1), (0, 0.75), (1.5, 3))
POINTS = rb.Grid(step=0.5, within=rb.Interval(-1, 2))
# What took seconds to minutes, or was not sharp; each takes some tenths of a second.
ONCE_SLOW = [
    (made(rb.Gaussian(scale=0.8), 1.0, LINE, POINTS, rb.QUANTIZE), 1.0, 20.0, 30.0),
    (made(rb.Gaussian(scale=15.0), 0.04, rb.Interval(0, INF), NARROW), 0.0, 4.0, 1200.0),
    (made(rb.Gaussian(scale=3.0), 0.3, rb.Interval(4, 50), THREE), 0.1, 4.0, 50.0),
    (made(rb.Gaussian(scale=0.8), 1.0, LINE, THREE), 1.0, 4.0, 12.0),
    (made(rb.Gaussian(scale=1.0), 0.3, LINE, rb.Interval(0, 1)), 0.1, 4.0, 30.0),
]


@pytest.mark.slow
@pytest.mark.parametrize(("m", "epsilon", "order", "reach"), ONCE_SLOW, ids=lambda x: str(x)[:40])
def test_what_was_slow_is_fast_and_sharp(m, epsilon, order, reach):
    with deadline(m, 10.0):
        delta, rdp = m.delta(epsilon), m.rdp(order)
    hull, d = m.query.range.hull, m.query.sensitivity
    low, high = max(hull.lower, -reach), min(hull.upper - d, reach)
    with precision(256):
        for found, make in ((delta, lambda s: Delta(m.noise, s, epsilon)), (rdp, lambda s: Renyi(m.noise, s, order))):
            best = max(scanned(make(m.shape), low, high, d), scanned(make(m.shape.mirrored()), -high - d, -low - d, d))
            assert best <= found <= best * (1.0 + 1e-6)


def scanned(objective, low, high, d):
    best = 0.0
    for _ in range(5):
        places = np.linspace(low, high, 121)
        values = [down(objective.value(ball(float(x)), ball(d))) for x in places]
        top, step = int(np.argmax(values)), places[1] - places[0]
        low, high, best = max(low, places[top] - step), min(high, places[top] + step), max(best, values[top])
    return best


@pytest.mark.slow
def test_a_gaussian_grid_is_calibrated_sharply_where_the_noise_is_a_hair_against_the_step():
    """At the start of the search the likely worst places were lost to rounding; 3.5 times too much noise came out."""

    def calibrated(ends):
        query, grid = rb.Query(range=ends, sensitivity=3e-6), rb.Grid(step=0.25, within=ends)
        return rb.calibrate(noise=rb.Gaussian, query=query, support=grid, epsilon=1.0, delta=1e-6)

    with deadline("calibrate", 10.0):
        m = calibrated(rb.Interval(0, 3))
    two = calibrated(rb.Interval(0, 0.25))  # two points are all that one answer sees
    assert m.noise.scale == pytest.approx(two.noise.scale, rel=1e-8)
    less = replace(m, noise=rb.Gaussian(scale=m.noise.scale * (1.0 - 1e-8)))
    assert m.delta(1.0) <= 1e-6 < less.delta(1.0)


def divergence(cuts, scale, order, p, d):
    """The Renyi divergence after rounding to the cells between cuts, the outermost endless, in mpmath."""
    with mp.workdps(60):

        def mass(low, high, at):
            low, high = (mp.mpf(low) - at) / scale, (mp.mpf(high) - at) / scale
            return mp.ncdf(high) - mp.ncdf(low) if high < 0 else mp.ncdf(-low) - mp.ncdf(-high)

        total = mp.mpf(0)
        for low, high in itertools.pairwise([-mp.inf, *cuts, mp.inf]):
            total += mass(low, high, mp.mpf(p)) ** order * mass(low, high, mp.mpf(p) + d) ** (1 - order)
        return float(mp.log(total) / (order - 1))


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("scale", "answers", "sensitivity", "grid", "order"),
    [
        (0.4, rb.Interval(0, 100), 0.1, rb.Grid(step=0.1, within=rb.Interval(0, 50)), 8),
        (10.0, rb.Interval(-100, 100), 0.5, rb.Grid(step=0.5, within=rb.Interval(-100, 100)), 16),
        (5.0, rb.Interval(-INF, INF), 1.0, rb.Grid(step=1, within=rb.Interval(-50, 50)), 2),
    ],
)
def test_a_long_grid_needs_no_search(scale, answers, sensitivity, grid, order):
    """These took from 4 to more than 40 seconds."""
    m = made(rb.Gaussian(scale=scale), sensitivity, answers, grid, rb.QUANTIZE)
    with deadline(m, 3.0):
        found = worst_renyi(m.setting, order)
    assert found.closed
    p, q = found.pair
    cuts = [high for _, high in m.shape.cells[:-1] if abs(high - p) < (12.0 + order) * scale]
    assert math.isclose(divergence(cuts, scale, order, p, q - p), found.lower, rel_tol=1e-9)
