"""Pairs in ball arithmetic: every number at a wide position covers that of every position inside."""

import math
from dataclasses import replace

import mpmath as mp
import numpy as np
import pytest
from flint import arb

import rangebound as rb
from rangebound.errors import RangeboundError
from rangebound.laws.boundings import Shape
from rangebound.privacy.pairs.divergences import (
    Mapped,
    Truncated,
    TruncatedGaussian,
    family,
    renyi_formula,
    stick_formula,
)
from rangebound.privacy.pairs.truncated import Integrals
from rangebound.values.ball import ball, precision, span, taylor, value_of
from tests.crosscheck.compare import agree
from tests.crosscheck.oracle import oracle
from tests.matrix.cells import ALLOWED, Cell, places

INF = math.inf
BITS = 160
ORDER = 4
CELLS = [cell for cell in ALLOWED if cell.range == "larger" or (cell.support == "line" and cell.range == "smaller")]

# The numbers of a pair, as functions of a family, a position and a distance.
NUMBERS = {"loss": lambda kind, p, d: kind.loss(p, d), "renyi": lambda kind, p, d: kind.renyi(p, d, ball(2.5))}


def positions(lower, upper):
    return [lower, upper, *np.random.default_rng(81).uniform(lower, upper, size=6).tolist()]


@pytest.mark.few(38)
@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("cell", CELLS, ids=str)
def test_the_value_of_a_series_and_a_wide_position_cover_the_number(cell, name):
    """Some numbers have a formula of their own for series, which must agree to all digits."""
    mechanism = cell.mechanism()
    with precision(BITS):
        kind, d = family(mechanism.noise, mechanism.shape), ball(0.75)
        for p in (-1.3, 0.7, 2.1):
            plain, series = NUMBERS[name](kind, ball(p), d), value_of(NUMBERS[name](kind, taylor(ball(p), ORDER), d))
            assert plain.overlaps(series)
            assert not series.is_finite() or plain.rad() + series.rad() < 1e-20
        for lower, upper in ((-1.3, -1.25), (-0.1, 0.15), (0.7, 0.7 + 1e-9), (1.9, 2.1)):
            wide = value_of(NUMBERS[name](kind, span(lower, upper), d))
            for p in positions(lower, upper):
                near = value_of(NUMBERS[name](kind, ball(p), d))
                if wide.is_finite():
                    assert wide.overlaps(near), (lower, upper, p)
                elif not wide.is_nan():
                    assert not near.is_finite()


@pytest.mark.parametrize("noise", [rb.Laplace(scale=0.8), rb.Gaussian(scale=0.8)], ids=["laplace", "gaussian"])
def test_the_supremum_over_positions_of_a_map(noise):
    """`stick_over` finds the best position by its theorem; no position is better."""
    for bounding, support in (
        (rb.RECTIFY, rb.Interval(-1, 2)),
        (rb.QUANTIZE, rb.Grid(step=0.5, within=rb.Interval(-1, 2))),
        (rb.QUANTIZE, rb.Grid(step=0.1, within=rb.Interval(-1, 2))),
    ):
        query = rb.Query(range=rb.Interval(-3, 4), sensitivity=1.0)
        shape = rb.Mechanism(noise=noise, query=query, support=support, bounding=bounding).shape
        with precision(BITS):
            kind = Mapped(noise, shape)
            for start, end in ((-3.0, 3.0), (0.4, 0.5), (2.0, 3.0), (-INF, INF)):
                best, where = kind.stick_over(start, end, ball(1.0), ball(0.6))
                assert start <= where <= end
                attained = kind.stick_over(where, where, ball(1.0), ball(0.6))[0]
                assert abs(attained - best) < 1e-15
                for p in np.linspace(max(start, -6.0), min(end, 6.0), 25).tolist():
                    assert not kind.stick_over(p, p, ball(1.0), ball(0.6))[0] > best


def test_the_kept_mass_is_bounded_from_below():
    for cell in (c for c in CELLS if c.bounding == "truncate" and c.support not in ("grid", "line")):
        mechanism = cell.mechanism()
        with precision(BITS):
            kind = Truncated(mechanism.noise, mechanism.shape)
            for lower, upper in ((-2.0, -1.0), (-0.5, 0.5), (0.0, 2.5)):
                least = kind.least_normaliser(lower, upper)
                assert all(not kind.integrals(ball(p)).mass(kind.spans) < least for p in positions(lower, upper)), cell


def test_a_ball_that_is_too_narrow_would_be_noticed():
    """A control: half the ball of a wide position misses some value."""
    mechanism = Cell("laplace", "truncate", "interval", "larger").mechanism()
    with precision(BITS):
        kind, d = family(mechanism.noise, mechanism.shape), ball(0.75)
        near = [kind.loss(ball(p), d) for p in positions(-0.9, -0.4)]
        wide = kind.loss(span(-0.9, -0.4), d)
        assert all(wide.overlaps(x) for x in near)
        narrow = arb(near[0].mid(), 1e-12)
        assert not all(narrow.overlaps(x) for x in near)


def many_spans(generator, scale):
    ends = np.cumsum(generator.uniform(0.05, 3.0, size=60))
    spans = tuple((float(a), float(b)) for a, b in zip(ends[::2], ends[1::2], strict=True))
    near, whole = (TruncatedGaussian(rb.Gaussian(scale=scale), Shape(spans=spans, normalised=True)) for _ in range(2))
    whole.integrals = lambda p: Integrals(whole.noise, p)
    return near, whole, float(generator.uniform(ends[0] - 1.0, ends[-1] + 1.0))


@pytest.mark.parametrize("seed", range(12))
def test_spans_out_of_reach_are_covered_by_a_ball(seed):
    """Masses and slopes on many spans, coefficient by coefficient, with and without the spans that do not count."""
    generator = np.random.default_rng(seed)
    with precision(128):
        near, whole, place = many_spans(generator, float(generator.uniform(0.05, 1.0)))
        assert near.integrals(ball(place))._reach is not None
        for width in (0.0, 0.01, 0.2):
            p = taylor(span(place, place + width) if width else ball(place), 9)
            for ask in (Integrals.mass, Integrals.slope):
                some, all_of_them = (ask(near.integrals(p), near.spans), ask(whole.integrals(p), whole.spans))
                assert all(some[k].overlaps(all_of_them[k]) for k in range(9) if all_of_them[k].is_finite())


def test_spans_left_out_with_nothing_in_their_place_are_noticed(monkeypatch):
    """The control: nearer spans left out, and no ball for them."""
    monkeypatch.setattr("rangebound.privacy.pairs.truncated._FADED", 1.0)
    with precision(128):
        near, whole, place = many_spans(np.random.default_rng(0), 1.0)
        p = taylor(ball(place), 5)
        exact, covered = whole.integrals(p).mass(whole.spans), near.integrals(p).mass(near.spans)
        assert all(covered[k].overlaps(exact[k]) for k in range(5))
        monkeypatch.setattr(Integrals, "_rest", lambda *_, **__: ball(0.0))
        assert not near.integrals(p).mass(near.spans)[0].overlaps(exact[0])


@pytest.mark.few(10)
@pytest.mark.parametrize("cell", CELLS, ids=str)
def test_single_laws_are_never_understated(cell):
    mechanism = cell.mechanism()
    true = oracle(mechanism)
    p, q = (float(x) for x in places(mechanism, 2, seed=51))
    for epsilon in (-6.0, -0.7, 0.0, 0.1, 1.3, 30.0):
        value, exact = rb.hockey_stick(mechanism.law(p), mechanism.law(q), epsilon), true.stick(p, q, epsilon)
        agree(value, exact, rel=1e-13, floor=1e-60)
        assert mp.mpf(value) >= exact
    for order in (1.5, 9.0, INF):
        value, exact = rb.renyi(mechanism.law(p), mechanism.law(q), order), true.renyi(p, q, order)
        agree(value, exact, rel=1e-14, floor=1e-60)
        assert mp.mpf(value) >= exact
    assert rb.hockey_stick(mechanism.law(p), mechanism.law(p), 0.3) == rb.renyi(*[mechanism.law(p)] * 2, 2.0) == 0.0
    assert rb.hockey_stick(mechanism.law(p), mechanism.law(p), -1.0) == pytest.approx(-math.expm1(-1.0), rel=1e-15)


def test_batches_compare_element_by_element():
    m = Cell("gaussian", "truncate", "interval", "larger").mechanism()
    p, q = np.linspace(-1.0, 1.0, 5), np.array([[0.3], [1.4]])
    sticks = rb.hockey_stick(m.law(p), m.law(q), 0.2)
    renyis = rb.renyi(m.law(p), m.law(q), 3.0)
    losses = rb.renyi(m.law(p), m.law(q), INF)
    assert sticks.shape == renyis.shape == losses.shape == (2, 5)
    for i in range(2):
        for j in range(5):
            pair = m.law(p[j]), m.law(q[i, 0])
            assert sticks[i, j] == pytest.approx(rb.hockey_stick(*pair, 0.2), rel=1e-10, abs=1e-15)
            assert renyis[i, j] == pytest.approx(rb.renyi(*pair, 3.0), rel=1e-10, abs=1e-14)
            assert losses[i, j] == pytest.approx(rb.renyi(*pair, INF), rel=1e-14)


def test_formulas_know_equal_locations_and_far_ones():
    m = Cell("gaussian", "rectify", "interval", "larger").mechanism()
    same = np.array([0.5, 0.5])
    assert stick_formula(m.noise, m.shape, same, same, 0.3).tolist() == [0.0, 0.0]
    assert stick_formula(m.noise, m.shape, same, same, -0.3).tolist() == pytest.approx([-math.expm1(-0.3)] * 2)
    assert renyi_formula(m.noise, m.shape, same, same, 3.0).tolist() == [0.0, 0.0]
    far = stick_formula(m.noise, m.shape, np.array([-40.0]), np.array([40.0]), 1.0)
    assert far[0] == 1.0


def test_fisher_is_infinite_where_an_edge_moves_and_only_there():
    query, limited = rb.Query(range=rb.Interval(0, 1), sensitivity=1.0), rb.TruncatedLaplacian(scale=1.0, limit=2.0)
    free, hidden = (rb.Mechanism(noise=limited, query=query, bounding=each) for each in (rb.UNBOUNDED, rb.TRUNCATE))
    plain, at = rb.Mechanism(noise=rb.Laplace(scale=1.0), query=query), np.array([[0.4], [0.0]])
    assert (free.fisher(at) == INF).all()
    np.testing.assert_allclose(hidden.fisher(at), [[plain.fisher(0.4)], [plain.fisher(0.0)]], rtol=1e-14)


def test_fisher_bounds_the_squared_score_distance():
    """Renyi of order 2 of a small shift h is about F h^2."""
    for cell in (c for c in ALLOWED if c.range == "smaller" and c.noise == "gaussian"):
        m = cell.mechanism()
        at, step = 0.1, 1e-5
        if not any(a <= at < at + step <= b for a, b in m.query.range.spans):
            at = m.query.range.spans[0][0]
        near = rb.renyi(m.law(at), m.law(at + step), 2.0) / step**2
        assert near == pytest.approx(m.fisher(at), rel=1e-3), cell


OTHERS = [{"noise": rb.Laplace(scale=2.0)}, {"support": rb.Interval(0, 5)}, {"bounding": rb.RECTIFY}]


@pytest.mark.parametrize("other", OTHERS, ids=str)
def test_laws_of_different_mechanisms_are_refused(other):
    query = rb.Query(range=rb.Interval(0, 4), sensitivity=1.0)
    first = rb.Mechanism(noise=rb.Laplace(scale=1.0), query=query)
    for compare in (rb.hockey_stick, rb.renyi):
        with pytest.raises(RangeboundError, match="one mechanism"):
            compare(first.law(1.0), replace(first, **other).law(2.0), 2.0)
