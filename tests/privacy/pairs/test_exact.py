"""Pairs in ball arithmetic: every number at a wide position covers that of every position inside."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from flint import arb

import rangebound as rb
from rangebound.ball import ball, precision, span, taylor, value_of
from rangebound.law import Shape
from rangebound.privacy.pairs.exact import Mapped, Truncated, TruncatedGaussian, TruncatedGrid, family, stick
from rangebound.privacy.pairs.integrals import Integrals
from tests.crosscheck.compare import agree
from tests.crosscheck.oracle import oracle
from tests.matrix.cells import ALLOWED, Cell

INF = math.inf
BITS = 160
ORDER = 4
CELLS = [cell for cell in ALLOWED if cell.range == "larger" or (cell.support == "line" and cell.range == "smaller")]

# The numbers of a pair, as functions of a family, a position and a distance.
NUMBERS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "loss": lambda kind, p, d: kind.loss(p, d),
    "renyi": lambda kind, p, d: kind.renyi(p, d, ball(2.5)),
}


def positions(lower: float, upper: float) -> list[float]:
    """Random positions of a cell, and its ends."""
    return [lower, upper, *np.random.default_rng(81).uniform(lower, upper, size=6).tolist()]


def test_each_mechanism_has_its_family() -> None:
    kinds = {"truncate": Truncated, "rectify": Mapped, "quantize": Mapped, "unbounded": Mapped}
    for cell in CELLS:
        mechanism = cell.mechanism()
        kind = family(mechanism.noise, mechanism.shape)
        expected = TruncatedGrid if cell.bounding == "truncate" and cell.support == "grid" else kinds[cell.bounding]
        expected = Mapped if cell.support == "line" else expected
        assert isinstance(kind, expected)


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("cell", CELLS, ids=str)
def test_the_value_of_a_series_is_the_number_at_its_position(cell: Cell, name: str) -> None:
    """Some numbers have a formula of their own for series, which must agree to all digits."""
    mechanism = cell.mechanism()
    with precision(BITS):
        kind, d = family(mechanism.noise, mechanism.shape), ball(0.75)
        for p in (-1.3, 0.7, 2.1):
            plain, series = NUMBERS[name](kind, ball(p), d), value_of(NUMBERS[name](kind, taylor(ball(p), ORDER), d))
            assert plain.overlaps(series)
            assert not series.is_finite() or plain.rad() + series.rad() < 1e-20


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("cell", CELLS, ids=str)
def test_a_wide_position_covers_every_position_inside(cell: Cell, name: str) -> None:
    mechanism = cell.mechanism()
    with precision(BITS):
        kind, d = family(mechanism.noise, mechanism.shape), ball(0.75)
        for lower, upper in ((-1.3, -1.25), (-0.1, 0.15), (0.7, 0.7 + 1e-9), (1.9, 2.1)):
            wide = value_of(NUMBERS[name](kind, span(lower, upper), d))
            for p in positions(lower, upper):
                near = value_of(NUMBERS[name](kind, ball(p), d))
                if wide.is_finite():
                    assert wide.overlaps(near), (lower, upper, p)
                elif not wide.is_nan():
                    assert not near.is_finite()


@pytest.mark.parametrize("cell", [c for c in CELLS if c.bounding == "truncate" and c.support != "line"], ids=str)
def test_every_branch_of_the_hockey_stick_covers_its_positions(cell: Cell) -> None:
    """The largest of the branches about a wide position is at least the value at every position inside."""
    mechanism = cell.mechanism()
    with precision(BITS):
        kind, d, epsilon = family(mechanism.noise, mechanism.shape), ball(0.75), ball(0.4)
        for lower, upper in ((-1.3, -1.28), (0.1, 0.11), (1.9, 1.91)):
            wide = kind.sticks(taylor(span(lower, upper), ORDER), d, epsilon)
            tops = [value_of(branch) for branch in wide.values()]
            if any(top.is_nan() for top in tops):
                continue  # nothing is claimed
            for p in positions(lower, upper):
                here = stick(kind, ball(p), d, epsilon)
                assert here <= 0 or any(not here > top for top in tops), (lower, upper, p)


@pytest.mark.parametrize("cell", CELLS, ids=str)
def test_at_a_point_balls_are_as_sharp_as_the_truth(cell: Cell) -> None:
    mechanism = cell.mechanism()
    true = oracle(mechanism)
    p, d = 0.3, 0.75
    with precision(BITS):
        kind = family(mechanism.noise, mechanism.shape)
        agree(float(stick(kind, ball(p), ball(d), ball(0.4)).mid()), true.stick(p, p + d, 0.4), rel=1e-14, floor=1e-30)
        renyi = kind.renyi(ball(p), ball(d), ball(2.5))
        exact = true.renyi(p, p + d, 2.5)
        if renyi.is_finite():
            agree(float(renyi.mid()), exact, rel=1e-14, floor=1e-30)
        else:
            assert exact == INF


@pytest.mark.parametrize("noise", [rb.Laplace(scale=0.8), rb.Gaussian(scale=0.8)], ids=["laplace", "gaussian"])
def test_the_supremum_over_positions_of_a_map(noise: object) -> None:
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


def test_the_kept_mass_is_bounded_from_below() -> None:
    for cell in (c for c in CELLS if c.bounding == "truncate" and c.support not in ("grid", "line")):
        mechanism = cell.mechanism()
        with precision(BITS):
            kind = Truncated(mechanism.noise, mechanism.shape)
            for lower, upper in ((-2.0, -1.0), (-0.5, 0.5), (0.0, 2.5)):
                least = kind.least_normaliser(lower, upper)
                assert all(not kind.normaliser(ball(p)) < least for p in positions(lower, upper)), cell


def test_a_ball_that_is_too_narrow_would_be_noticed() -> None:
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
    whole._plain._spans = ()
    return near, whole, float(generator.uniform(ends[0] - 1.0, ends[-1] + 1.0))


@pytest.mark.parametrize("seed", range(12))
def test_spans_out_of_reach_are_covered_by_a_ball(seed):
    """Masses and slopes on many spans, coefficient by coefficient, with and without the spans that do not count."""
    generator = np.random.default_rng(seed)
    with precision(128):
        near, whole, place = many_spans(generator, float(generator.uniform(0.05, 1.0)))
        assert near._plain.reach(ball(place)) is not None
        for width in (0.0, 0.01, 0.2):
            p = taylor(span(place, place + width) if width else ball(place), 9)
            for ask in (Integrals.mass, Integrals.slope):
                some, all_of_them = (
                    ask(Integrals(near._plain, p), near.spans),
                    ask(Integrals(whole._plain, p), whole.spans),
                )
                assert all(some[k].overlaps(all_of_them[k]) for k in range(9) if all_of_them[k].is_finite())


def test_spans_left_out_with_nothing_in_their_place_are_noticed(monkeypatch):
    """The control: nearer spans left out, and no ball for them."""
    monkeypatch.setattr("rangebound.privacy.pairs.integrals._FADED", 1.0)
    with precision(128):
        near, whole, place = many_spans(np.random.default_rng(0), 1.0)
        p = taylor(ball(place), 5)
        exact, covered = Integrals(whole._plain, p).mass(whole.spans), Integrals(near._plain, p).mass(near.spans)
        assert all(covered[k].overlaps(exact[k]) for k in range(5))
        monkeypatch.setattr(near._plain, "rest", lambda *_, **__: ball(0.0))
        assert not Integrals(near._plain, p).mass(near.spans)[0].overlaps(exact[0])
