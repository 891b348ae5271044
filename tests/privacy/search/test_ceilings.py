"""Bounds that hold without a search: Gaussian laws on an interval, parts of a support, endless grids."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

import rangebound as rb
from rangebound.ball import ball, down, precision, up
from rangebound.law.shape import UNBOUNDED_SHAPE, Shape
from rangebound.privacy.pairs.divergences import renyi_formula
from rangebound.privacy.pairs.exact import family, stick
from rangebound.privacy.search.delta_objective import Delta
from rangebound.privacy.search.renyi_objective import Renyi
from rangebound.privacy.worst import worst_renyi
from tests.matrix.deadline import deadline

INF = math.inf
LINE = rb.Interval(-INF, INF)


def truncated(*spans: tuple[float, float]) -> Shape:
    return Shape(spans=spans, normalised=True)


@pytest.mark.parametrize("seed", range(2))
def test_a_gaussian_law_on_an_interval_gives_away_no_more_than_the_unbounded_one(seed: int) -> None:
    generator = np.random.default_rng([163, seed])
    with precision(256):
        for _ in range(300):
            noise = rb.Gaussian(scale=float(10.0 ** generator.uniform(-1.5, 1.5)))
            lower = float(generator.normal())
            upper = float(generator.choice([lower + 10.0 ** generator.uniform(-2.0, 1.0), INF]))
            p, d = ball(float(3.0 * generator.normal())), ball(float(10.0 ** generator.uniform(-3.0, 0.5)))
            epsilon, order = (
                ball(float(generator.choice([0.0, 0.1, 1.0, 4.0]))),
                ball(float(generator.uniform(1.1, 9.0))),
            )
            free = family(noise, UNBOUNDED_SHAPE)
            for shape in (truncated((lower, upper)), truncated((-upper, -lower))):
                kind = family(noise, shape)
                assert not stick(kind, p, d, epsilon) > stick(free, p, d, epsilon)
                assert not kind.renyi(p, d, order) > free.renyi(p, d, order)


def test_with_a_gap_it_may_give_away_more() -> None:
    """The control: R without (-1, 1), scale 1, the pair (-.5, .5)."""
    with precision(128):
        gap, free = (
            family(rb.Gaussian(scale=1.0), shape) for shape in (truncated((-INF, -1), (1, INF)), UNBOUNDED_SHAPE)
        )
        assert stick(gap, ball(-0.5), ball(1.0), ball(0.5)) > stick(free, ball(-0.5), ball(1.0), ball(0.5))
        assert gap.renyi(ball(-0.5), ball(1.0), ball(2.0)) > free.renyi(ball(-0.5), ball(1.0), ball(2.0))


def random_shape(generator: np.random.Generator, width: float, lower: float) -> Any:
    points = rb.Grid(step=width / int(generator.integers(2, 9)), within=rb.Interval(lower, lower + width))
    return [
        rb.Union((lower, lower + width), (lower + 1.3 * width, lower + 2.0 * width)),
        rb.Union((lower, lower + 0.1 * width), (lower + 0.3 * width, lower + width), (lower + 1.1 * width, INF)),
        rb.Union((-INF, lower), (lower + 0.3 * width, lower + width)),
        points,
    ][generator.integers(4)]


@pytest.mark.parametrize("seed", range(3))
def test_the_part_that_matters_bounds_every_position_of_a_cell(seed: int) -> None:
    generator = np.random.default_rng([164, seed])
    sharp = 0
    with precision(128):
        for _ in range(150):
            width, lower = float(10.0 ** generator.uniform(-0.5, 1.0)), float(2.0 * generator.normal())
            noise = rb.Gaussian(scale=float(width * 10.0 ** generator.uniform(-2.5, 0.3)))
            query = rb.Query(range=LINE, sensitivity=1.0)
            shape = rb.Mechanism(noise=noise, query=query, support=random_shape(generator, width, lower)).shape
            start = float(generator.uniform(lower - width, lower + 3.0 * width))
            end = start + float(width * 10.0 ** generator.uniform(-4.0, 0.0))
            d = ball(float(noise.scale * 10.0 ** generator.uniform(-2.0, 1.0)))
            for objective in (Delta(noise, shape, float(generator.choice([0.0, 0.3, 2.0]))), Renyi(noise, shape, 3.0)):
                top = up(objective.ceiling(start, end, d))
                found = max(
                    down(objective.value(ball(float(p)), d)) for p in [start, end, *generator.uniform(start, end, 6)]
                )
                assert found <= top, (noise, shape, start, end, d)
                sharp += found > 0.999 * top > 0.0
    assert sharp > 10  # else the bounds may be true because they say nothing


ROUNDED = [
    rb.Laplace(scale=0.8),
    rb.Gaussian(scale=0.8),
    rb.TruncatedLaplacian(scale=0.8, limit=24.0),
    rb.TruncatedLaplacian(scale=0.8, limit=40.0),
]


@pytest.mark.parametrize("noise", ROUNDED, ids=str)
@pytest.mark.parametrize("order", [12.0])
def test_the_endless_grid_bounds_every_position(noise: Any, order: float) -> None:
    m = rb.Mechanism(
        noise=noise,
        query=rb.Query(range=rb.Interval(0, 10), sensitivity=1.0),
        support=rb.Grid(step=0.5, within=rb.Interval(0, 10)),
        bounding=rb.QUANTIZE,
    )
    p = np.linspace(0.0, 9.0, 2401)
    values = renyi_formula(m.noise, m.shape, p, p + 1.0, order)
    with precision(128):
        objective = Renyi(m.noise, m.shape, order)
        for start in (0.0, 2.0, 6.5, 8.0):
            inside = values[(p >= start) & (p <= start + 1.0)]
            assert inside.max() <= up(objective.ceiling(start, start + 1.0, ball(1.0))) * (1.0 + 1e-12)
    assert values.max() * (1.0 - 1e-12) <= m.rdp(order) <= values.max() * (1.0 + 1e-4)


@pytest.mark.parametrize(("scale", "order"), [(0.2, 1.5), (1.0, 4.0), (5.0, 64.0)])
def test_cuts_that_are_no_multiples_of_the_step_do_not_leave_the_search_open(scale: float, order: float) -> None:
    """A step of 0.1 is no double, and the endless grid was not used: open after 7 s."""
    m = rb.Mechanism(
        noise=rb.Laplace(scale=scale),
        query=rb.Query(range=rb.Interval(0, 50), sensitivity=0.1),
        support=rb.Grid(step=0.1, within=rb.Interval(0, 50)),
        bounding=rb.QUANTIZE,
    )
    found = worst_renyi(m.setting, order)
    p = np.linspace(20.0, 20.2, 401)
    values = renyi_formula(m.noise, m.shape, p, p + 0.1, order)
    assert found.closed
    assert values.max() * (1.0 - 1e-9) <= found.upper <= values.max() * (1.0 + 1e-4)


def test_cuts_off_their_places_are_paid_for() -> None:
    """Cuts moved by up to 4e-7 of a step: the ceiling holds; the control without the price is undercut."""
    noise, order, d = rb.Laplace(scale=0.6), 3.0, 0.5
    dice = np.random.default_rng(4)
    regular = 0.5 * np.arange(21)
    undercut = 0
    for _ in range(20):
        cuts = (regular + dice.choice([-2e-7, 2e-7], 21)).tolist()
        cells = ((-math.inf, cuts[0]), *itertools.pairwise(cuts), (cuts[-1], math.inf))
        shape = Shape(points=tuple(range(22)), cells=cells)
        p = np.linspace(4.0, 5.5, 601)
        for width in (3e-3, 1e-5, 1e-7):
            p = np.linspace(-width, width, 601) + p[renyi_formula(noise, shape, p, p + d, order).argmax()]
        value = renyi_formula(noise, shape, p, p + d, order).max()
        with precision(128):
            objective = Renyi(noise, shape, order)
            assert value <= up(objective.ceiling(4.0, 6.0, ball(d))) <= value + 1e-4
            plain = Shape(points=shape.points, cells=((-math.inf, 0.0), *itertools.pairwise(regular), (10.0, math.inf)))
            undercut += value > up(Renyi(noise, plain, order).ceiling(4.0, 6.0, ball(d)))
    assert undercut > 0


def far(noise: Any, sensitivity: float, answers: Any, support: Any, bounding: Any = rb.TRUNCATE) -> rb.Mechanism:
    query = rb.Query(range=answers, sensitivity=sensitivity)
    return rb.Mechanism(noise=noise, query=query, support=support, bounding=bounding)


NARROW, THREE = rb.Union((1, 2), (2.5, 2.6)), rb.Union((-2, -1), (0, 0.75), (1.5, 3))
POINTS = rb.Grid(step=0.5, within=rb.Interval(-1, 2))
# What took seconds to minutes, or was not sharp; each takes some tenths of a second.
ONCE_SLOW = [
    (far(rb.Gaussian(scale=15.0), 0.04, rb.Interval(0, INF), NARROW), 0.0, 4.0, 1200.0),
    (far(rb.Gaussian(scale=3.0), 0.3, rb.Interval(4, 50), THREE), 0.1, 4.0, 50.0),
    (far(rb.Gaussian(scale=0.8), 1.0, LINE, THREE), 1.0, 4.0, 12.0),
    (far(rb.Gaussian(scale=1.0), 0.3, LINE, rb.Interval(0, 1)), 0.1, 4.0, 30.0),
    (far(rb.Gaussian(scale=0.8), 1.0, LINE, POINTS, rb.QUANTIZE), 1.0, 20.0, 30.0),
]


@pytest.mark.parametrize(("m", "epsilon", "order", "reach"), ONCE_SLOW, ids=lambda x: str(x)[:40])
def test_what_was_slow_is_fast_and_sharp(m: rb.Mechanism, epsilon: float, order: float, reach: float) -> None:
    with deadline(m, 10.0):
        delta, rdp = m.delta(epsilon), m.rdp(order)
    hull, d = m.query.range.hull, m.query.sensitivity
    low, high = max(hull.lower, -reach), min(hull.upper - d, reach)
    with precision(256):
        for found, make in ((delta, lambda s: Delta(m.noise, s, epsilon)), (rdp, lambda s: Renyi(m.noise, s, order))):
            best = max(
                scanned(make(m.shape), low, high, d),
                scanned(make(m.shape.mirrored()), -high - d, -low - d, d),
            )
            assert best <= found <= best * (1.0 + 1e-6)


def scanned(objective: Any, low: float, high: float, d: float) -> float:
    """The largest value on a grid of positions that closes in on it."""
    best = 0.0
    for _ in range(5):
        places = np.linspace(low, high, 121)
        values = [down(objective.value(ball(float(x)), ball(d))) for x in places]
        top, step = int(np.argmax(values)), places[1] - places[0]
        low, high, best = max(low, places[top] - step), min(high, places[top] + step), max(best, values[top])
    return best


def test_a_gaussian_grid_is_calibrated_sharply_where_the_noise_is_a_hair_against_the_step() -> None:
    """At the start of the search the likely worst places were lost to rounding; 3.5 times too much noise came out."""
    grid = rb.Grid(step=0.25, within=rb.Interval(0, 3))
    query = rb.Query(range=rb.Interval(0, 3), sensitivity=3e-6)
    with deadline("calibrate", 10.0):
        m = rb.calibrate(noise=rb.Gaussian, query=query, support=grid, epsilon=1.0, delta=1e-6)
    two = rb.Grid(step=0.25, within=rb.Interval(0, 0.25))  # two points are all that one answer sees
    same = rb.Query(range=rb.Interval(0, 0.25), sensitivity=3e-6)
    assert m.noise.scale == pytest.approx(
        rb.calibrate(noise=rb.Gaussian, query=same, support=two, epsilon=1.0, delta=1e-6).noise.scale, rel=1e-8
    )
    less = rb.Mechanism(noise=rb.Gaussian(scale=m.noise.scale * (1.0 - 1e-8)), query=query, support=grid)
    assert m.delta(1.0) <= 1e-6 < less.delta(1.0)
