"""The tilted form of Gaussian laws: its moments, its series, and the plain form it must agree with."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from flint import arb_series

import rangebound as rb
from rangebound.ball import Ball, ball, down, precision, span, taylor, up, value_of
from rangebound.privacy.pairs.exact import family, stick
from rangebound.privacy.pairs.exponential_family import Tilted
from rangebound.privacy.pairs.integrals import Integrals, Plain
from tests.privacy.windows.test_enclosures import ORDER, covers

INF = math.inf


def number(x: Ball) -> Any:
    return mp.mpf(x.mid().str(60, radius=False))


PLACES = (-2000.0, -3.0, 0.1, 2.5, 40.0)
MOMENTS = [
    (lower, upper, place)
    for lower, upper in [(0.25, 3.0), (-2.0, -1.999), (-INF, -1.0), (0.5, INF)]
    for place in PLACES
    # Inside an endless span the plain form is used.
    if not (upper == INF and place > 3.0) and not (lower == -INF and place < -3.0)
]


@pytest.mark.parametrize(("lower", "upper", "place"), MOMENTS)
def test_moments_are_those_of_quadrature(lower: float, upper: float, place: float) -> None:
    from_below = upper == INF or lower == 0.25
    centre, scale = (lower if from_below else upper), 0.75
    with precision(128), mp.workdps(60):
        view = Tilted(ball(scale), ball(centre), from_below=from_below)
        theta = (mp.mpf(place) - centre) / scale
        low, high = ((mp.mpf(x) - centre) / scale for x in (lower, upper))
        peak = min(max(theta, low), high)
        cuts = sorted({low, high, peak, *(x for x in (peak - 1 / (1 + abs(theta)), peak + 1 / (1 + abs(theta))))})
        cuts = [x for x in cuts if low <= x <= high]
        for power in (0, 1, 2):
            got = view.mass(
                (ball(lower) if lower > -INF else None, ball(upper) if upper < INF else None), ball(place), power
            )
            want = mp.quad(lambda y: y**power * mp.exp(-y * y / 2 + y * theta), cuts)  # noqa: B023
            assert abs(number(got) / want - 1) < 1e-12 if want else got.contains(0)
            assert got.rel_accuracy_bits() > 80


@pytest.mark.parametrize("place", [-30.0, -1.0, 1.0, 9.0, 60.0])
def test_a_moving_end_gives_the_series_of_the_whole(place: float) -> None:
    """The tilted mass up to t(p), times the factor left out, is the plain mass up to t(p), in every coefficient."""
    noise = rb.Gaussian(scale=2.0)
    with precision(1024):
        kind = family(noise, rb.Mechanism(noise=noise, query=rb.Query(range=rb.Interval(0, 5), sensitivity=1.0)).shape)
        p = taylor(ball(place), ORDER)
        event = ball(0.0), arb_series([1.5, 0.3, -0.1, 0.02, 0.005], prec=ORDER + 1)
        for centre, from_below in ((0.0, True), (5.0, False)):
            view = Tilted(ball(2.0), ball(centre), from_below=from_below)
            shared = (-(p - centre) * (p - centre) / 8).exp() / (2 * ball(math.pi).pi()).sqrt()
            plain = Plain(kind.noise)
            for got, want in (
                (view.mass(event, p) * shared, plain.mass(event, p)),
                (Integrals(view, p).slope([event]) - (p - centre) / 4, Integrals(plain, p).slope([event])),
            ):
                assert all(got[k].overlaps(want[k]) for k in range(ORDER + 1))
                assert all(got[k].rel_accuracy_bits() > 200 for k in range(ORDER + 1))


class Cell:
    """A random Gaussian mechanism with a cell of positions far from its support, or wide against it."""

    def __init__(self, generator: np.random.Generator) -> None:
        width, lower = float(10.0 ** generator.uniform(-0.5, 1.0)), float(2.0 * generator.normal())
        self.noise = rb.Gaussian(scale=float(10.0 ** generator.uniform(-2.0, 2.0)))
        support = [
            rb.Interval(lower, lower + width),
            rb.Interval(lower, INF),
            rb.Interval(-INF, lower),
            rb.Union((lower, lower + width), (lower + 1.3 * width, lower + 2.0 * width)),
            rb.Union((-INF, lower), (lower + 0.3 * width, lower + width)),
            rb.Grid(step=width / int(generator.integers(2, 9)), within=rb.Interval(lower, lower + width)),
        ][generator.integers(6)]
        rounded = isinstance(support, rb.Grid) and generator.uniform() < 0.7
        query = rb.Query(range=rb.Interval(-INF, INF), sensitivity=width)
        bounding = rb.QUANTIZE if rounded else rb.TRUNCATE
        self.mechanism = rb.Mechanism(noise=self.noise, query=query, support=support, bounding=bounding)
        self.start = lower + float(generator.uniform(-1.0, 1.0) * width * 10.0 ** generator.uniform(0.0, 4.0))
        self.end = self.start + float(max(abs(self.start), width) * 10.0 ** generator.uniform(-4.0, 0.0))
        self.d = ball(float(width * 10.0 ** generator.uniform(-3.0, 0.3)))
        self.epsilon = ball(float(generator.choice([0.0, 0.05, 0.5, 2.0])))

    def inside(self) -> Iterator[Ball]:
        for share in (0.0, 0.3, 0.5, 0.77, 1.0):
            yield ball(min(max(self.start + share * (self.end - self.start), self.start), self.end))


@pytest.mark.parametrize("seed", range(3))
def test_series_about_a_wide_cell_cover_every_position(seed: int) -> None:
    """Values at single positions come from the plain form, so this compares the two as well."""
    generator = np.random.default_rng([162, seed])
    with precision(128):
        for cell in (Cell(generator) for _ in range(150)):
            kind = family(cell.noise, cell.mechanism.shape)
            what = (cell.mechanism, cell.start, cell.end, float(cell.d.mid()), float(cell.epsilon.mid()))
            around = taylor(span(cell.start, cell.end), ORDER)
            wide = kind.renyi(around, cell.d, ball(3.0))
            for p in cell.inside():
                assert not kind.renyi(p, cell.d, ball(3.0)) > up(value_of(wide)) * (1 + 1e-12) + 1e-25, what
                assert covers(wide, kind.renyi(taylor(p, ORDER), cell.d, ball(3.0))), what
            if not cell.mechanism.shape.normalised:
                continue
            branches = kind.sticks(around, cell.d, cell.epsilon)
            top = max(0.0, *(up(value_of(each)) for each in branches.values()))
            for p in cell.inside():
                assert down(stick(kind, p, cell.d, cell.epsilon)) <= top * (1 + 1e-12) + 1e-25, what


@pytest.mark.parametrize("place", [-9.0, -2.0, 0.5, 3.0, 21.0])
@pytest.mark.parametrize("bounding", [rb.TRUNCATE, rb.QUANTIZE])
def test_series_at_a_position_agree_with_differences_of_values(bounding: Any, place: float) -> None:
    """The second route: central differences of values, which are computed in the plain form."""
    support: Any = (
        rb.Grid(step=0.5, within=rb.Interval(-1, 2)) if bounding is rb.QUANTIZE else rb.Union((-1, 0), (0.5, 2))
    )
    query = rb.Query(range=rb.Interval(-INF, INF), sensitivity=1.0)
    m = rb.Mechanism(noise=rb.Gaussian(scale=0.8), query=query, support=support, bounding=bounding)
    with precision(512):
        kind, d, order, h = family(m.noise, m.shape), ball(1.0), ball(4.0), ball(2.0**-60)
        series = kind.renyi(taylor(ball(place), ORDER), d, order)
        before, here, after = (kind.renyi(ball(place) + k * h, d, order) for k in (-1, 0, 1))
        assert series[0].overlaps(here)
        assert abs((after - before) / (2 * h) - series[1]) < 1e-25
        assert abs((after - 2 * here + before) / (2 * h * h) - series[2]) < 1e-25


def test_a_cell_that_is_too_narrow_is_caught() -> None:
    """A control: the series about a narrow cell does not cover what lies beyond it."""
    m = rb.Mechanism(
        noise=rb.Gaussian(scale=15.0),
        query=rb.Query(range=rb.Interval(0, INF), sensitivity=0.04),
        support=rb.Union((1, 2), (2.5, 2.6)),
    )
    with precision(128):
        kind, d = family(m.noise, m.shape), ball(0.04)
        wide = kind.renyi(taylor(span(400.0, 401.0), ORDER), d, ball(3.0))
        assert covers(wide, kind.renyi(taylor(ball(400.5), ORDER), d, ball(3.0)))
        assert not covers(wide, kind.renyi(taylor(ball(300.0), ORDER), d, ball(3.0)))
